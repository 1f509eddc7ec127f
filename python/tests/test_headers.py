"""The headers and the codes that leave the process."""

from __future__ import annotations

from rampmeter.bounds import MAX_HEADER_NAME, MAX_HEADERS
from rampmeter.outcome import MAX_ERROR_BODY, Outcome, code_of_body, of_limits, outcome_of, speaks_of_limits
from servers import ROOT


def test_the_headers_that_speak_of_limits_are_those_of_the_protocol() -> None:
    table = (ROOT / "protocol" / "tests" / "headers.txt").read_text().split("\n")
    rows = [line.split(" ") for line in table if line]
    assert len(rows) > 40
    for passes, name in rows:
        assert speaks_of_limits(name) == (passes == "yes"), name


def test_headers_are_bounded() -> None:
    """Reaches `MAX_HEADER_NAME` and `MAX_HEADERS`."""
    long = "quota" + "x" * (MAX_HEADER_NAME - 5)
    assert speaks_of_limits(long) and not speaks_of_limits(long + "x")
    assert len(of_limits((f"x-quota-{number}", "1") for number in range(100))) == MAX_HEADERS


CODES = {
    '{"error": {"code": "insufficient_quota", "type": "insufficient_quota"}}': "insufficient_quota",
    '{"error": {"type": "tokens", "code": "rate_limit_exceeded"}}': "rate_limit_exceeded",
    '{"type": "error", "error": {"type": "rate_limit_error"}}': "rate_limit_error",
    '{"error": {"code": 403, "errors": [{"reason": "dailyLimitExceeded"}], "status": "X"}}': "dailyLimitExceeded",
    '{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}': "RESOURCE_EXHAUSTED",
    '{"data": null, "errors": [{"type": "RATE_LIMITED", "message": "wait"}]}': "RATE_LIMITED",
    '{"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]}': "THROTTLED",
    '{"__type": "a.b#ThrottlingException", "message": "Rate exceeded"}': "a.b#ThrottlingException",
    '{"ok": false, "error": "ratelimited"}': "ratelimited",
    '{"object": "error", "status": 429, "code": "rate_limited"}': "rate_limited",
    '{"error": {"status": 403, "code": "ACCESS_FORBIDDEN"}}': "ACCESS_FORBIDDEN",
    '{"error": "Something went wrong"}': None,
    '{"errors": []}': None,
    '{"error": null}': None,
    '{"ok": true}': None,
    '["error"]': None,
    '"error"': None,
    "{error}": None,
}


def test_the_code_of_an_error_is_found_in_its_body() -> None:
    for body, code in CODES.items():
        assert code_of_body(body.encode()) == code, body
    padded = '{"error": "ratelimited", "a": "%s"}'
    assert code_of_body((padded % "x").encode()) == "ratelimited"
    assert code_of_body((padded % ("x" * MAX_ERROR_BODY)).encode()) is None


def test_a_response_whose_body_was_read_tells_its_code() -> None:
    class Response:
        status_code, headers, _content = 200, {"Retry-After": "7"}, b'{"errors": [{"type": "RATE_LIMITED"}]}'

    told = {"status": 200, "headers": {"retry-after": "7"}, "code": "RATE_LIMITED"}
    assert outcome_of(Response()).response() == told


def test_delays_in_milliseconds_are_passed_on() -> None:
    """OpenAI and Azure have them beside whole seconds."""
    told = Outcome(429, {"retry-after-ms": "120", "Retry-After": "1", "x-request-id": "7"}).response()
    assert told == {"status": 429, "headers": {"retry-after-ms": "120", "retry-after": "1"}}
