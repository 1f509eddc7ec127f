"""Budgets in money: a call reserves the most that it may cost, and pays what its answer says."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import rampmeter
import rampmeter.anthropic
import rampmeter.openai
from api import Quiet
from conftest import Starts
from rampmeter import InvalidArgument
from rampmeter._model.estimate import body_of, demand, model_of
from rampmeter._model.meter import Meter
from rampmeter._model.prices import Demand, Kinds, ModelPrice, Prices, _models, _names
from servers import Scheduler, until
from test_models import CHAT, DATA, TOOL, content, request

CLAUDE: dict[str, Any] = {
    **{"input": 3, "cached": 0.3, "kept": 3.75, "kept_hour": 6, "output": 15, "most": 64_000},
    "above": {"input_tokens": 200_000, "input": 6, "cached": 0.6, "kept": 7.5, "kept_hour": 12, "output": 22.5},
}
CHEAP = {"input": 0.15, "output": 0.6, "most": 16_384}


def price(fields: dict[str, Any]) -> ModelPrice:
    return _models(json.dumps({"date": "2026-01-01", "models": {"m": fields}}))["m"]


def own(folder: Path, text: str) -> Path:
    file = folder / "prices.json"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("gpt-4o", "gpt-4o"),
        ("GPT-4o-2024-11-20", "gpt-4o"),
        ("openai/gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
        ("gpt-4o-unheard-of", None),
        ("gpt", None),
        ("", None),
        ("." * 1_000_000, None),
    ],
)
def test_a_model_is_found_by_its_name_without_vendor_date_and_version(model: str, listed: str | None) -> None:
    prices = Prices.listed()
    assert prices.of(model) == (None if listed is None else prices._models[listed])
    assert listed is None or next(name for name in _names(model.lower()) if name in prices._models) == listed


@pytest.mark.parametrize(
    ("fields", "tokens", "micros"),
    [
        (CLAUDE, Kinds(1000, 0, 0, 0, 100), 4500),
        (CLAUDE, Kinds(10, 1000, 100, 10, 0), 30 + 300 + 375 + 60),
        (CLAUDE, Kinds(200_000, 0, 0, 0, 0), 600_000),
        (CLAUDE, Kinds(200_000, 1, 0, 0, 1), 1_200_024),
        (CHEAP, Kinds(1, 0, 0, 0, 0), 1),
        (CHEAP, Kinds(20, 20, 0, 0, 0), 6),
        (CHEAP, Kinds(1_000_001, 0, 0, 0, 0), 150_001),
        (CHEAP, Kinds(0, 0, 0, 0, 0), 0),
        (CHEAP, Kinds(2**64, 0, 0, 0, 2**64), 1_000_000_000_000_000),
    ],
)
def test_tokens_cost_what_their_kind_does_rounded_up_once(fields: dict[str, Any], tokens: Kinds, micros: int) -> None:
    assert price(fields).paid(tokens) == micros / 1_000_000


def test_the_most_bounds_what_a_call_can_cost() -> None:
    for seed in range(500):
        dice = random.Random(seed)
        read = [dice.randrange(300_000) for _ in range(4)]
        output, answers, sets_bound = dice.randrange(1_000_000), dice.randrange(1, 9), dice.random() < 0.5
        bound = output if sets_bound else CLAUDE["most"]
        tokens = Kinds(read[0], read[1], read[2], read[3], min(output, bound) * answers)
        most = price(CLAUDE).most(Demand(sum(read), output if sets_bound else None, answers))
        assert price(CLAUDE).paid(tokens) <= most, f"seed {seed}"


def test_own_prices_replace_those_of_the_list(tmp_path: Path) -> None:
    cheap = '{"input":1,"output":0.1000000000000001,"most":3}'
    models = f'{{"gpt-4o":{cheap},"Mine":{cheap}}}'
    prices = Prices.listed().replaced_by(own(tmp_path, f'{{"date":"2026-01-01","models":{models}}}'))
    assert prices.of("Mine") == prices.of("gpt-4o")
    assert prices.of("gpt-4o") == ModelPrice(Kinds(1_000_000, 1_000_000, 1_000_000, 1_000_000, 100_000), 3, None)
    assert prices.of("gpt-4o-mini") == Prices.listed().of("gpt-4o-mini") != None  # noqa: E711


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"models":{}}', "`date`"),
        ('{"date":"","models":{"m":{"input":-1,"output":1,"most":1}}}', "m: .*not -1"),
        ('{"date":"","models":{"m":{"input":0.0000001,"output":1,"most":1}}}', "m: .*6 decimals"),
        ('{"date":"","models":{"m":{"input":NaN,"output":1,"most":1}}}', "m: "),
        ('{"date":"","models":{"m":{"input":1,"output":1}}}', "m: .*most"),
        ('{"date":"","models":{"m":{"input":1,"output":1,"most":true}}}', "m: .*True"),
        ('{"date":"","models":{"m":5}}', "m: "),
        ('{"date":"","models":{},"model":{}}', "no field model"),
        ("[]", "no object"),
        ("{", "line 1"),
        (None, "No such file"),
    ],
)
def test_faults_of_own_prices_are_told(text: str | None, told: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.json" if text is None else own(tmp_path, text)
    hub = rampmeter.connect("http://127.0.0.1:1").resource("api")
    with pytest.raises(InvalidArgument, match=f"prices.json.*{told}.*--list"):
        rampmeter.openai.http_client(hub, money="usd", prices=file)


def test_a_unit_of_money_is_a_name_and_prices_need_one() -> None:
    hub = rampmeter.connect("http://127.0.0.1:1").resource("api")
    wrong: list[tuple[dict[str, Any], str]] = [({"money": "$"}, "no name"), ({"prices": "p.json"}, 'money="usd"')]
    for options, told in wrong:
        for make in (rampmeter.openai.http_client, rampmeter.anthropic.async_http_client):
            with pytest.raises(InvalidArgument, match=told):
                make(hub, **options)


PICTURE = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}]


@pytest.mark.parametrize(
    ("path", "body", "beside", "output", "answers"),
    [
        (CHAT, {"max_tokens": 100}, 0, 100, 1),
        (CHAT, {"model": "m"}, 0, None, 1),
        (CHAT, {"max_tokens": -1, "n": 3}, 0, None, 3),
        (CHAT, {"messages": "漢字"}, 0, None, 1),
        (CHAT, {"tools": [TOOL]}, 1024, None, 1),
        (CHAT, {"tools": []}, 0, None, 1),
        (CHAT, content(PICTURE), 1600 - len(DATA) - len("data:image/png;base64,"), 5, 1),
        ("/v1/completions", {"prompt": ["four", "more"], "n": 2, "best_of": 3, "max_tokens": 10}, 0, 10, 6),
        ("/v1/embeddings", {"input": "some text"}, 0, 0, 1),
    ],
)
def test_a_request_may_take_a_token_for_each_byte(
    path: str, body: dict[str, Any], beside: int, output: int | None, answers: int
) -> None:
    asked = request(path, body)
    assert demand(asked, body_of(asked)) == Demand(len(asked.content) + beside, output, answers)


@pytest.mark.parametrize(
    ("path", "body", "model"),
    [
        (CHAT, {"model": "m"}, "m"),
        ("/openai/deployments/mine/chat/completions", {}, "mine"),
        ("/model/amazon.nova-pro-v1%3A0/converse", {}, "amazon.nova-pro-v1"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", {}, "gemini-2.5-pro"),
        (CHAT, {}, None),
    ],
)
def test_the_body_or_the_path_names_the_model(path: str, body: dict[str, Any], model: str | None) -> None:
    assert model_of(request(path, body), body) == model


OF_ANTHROPIC = {"input_tokens": 5, "output_tokens": 7, "cache_creation_input_tokens": 60, "cache_read_input_tokens": 9}
BEGUN = {"type": "message_start", "message": {"usage": {**OF_ANTHROPIC, "output_tokens": 1}}}
WORD = {"type": "content_block_delta", "delta": {"text": "word"}}
ENDED = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20}}
QUOTED = [{"type": "tool_use", "input": {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}}]
OF_OPENAI = {"prompt_tokens": 40, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 10}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"usage": OF_OPENAI}, Kinds(30, 10, 0, 0, 7)),
        ({"usage": {"prompt_tokens": 40}}, None),
        ({"usage": {"completion_tokens": 7}}, None),
        ({"usage": {"prompt_tokens": -40, "completion_tokens": 7}}, None),
        ({"usage": OF_ANTHROPIC}, Kinds(5, 9, 60, 0, 7)),
        (
            {"usage": {**OF_ANTHROPIC, "cache_creation": {"ephemeral_1h_input_tokens": 20}}},
            Kinds(5, 9, 40, 20, 7),
        ),
        (
            {"usage": {"input_tokens": 40, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 10}}},
            Kinds(30, 10, 0, 0, 7),
        ),
        (
            {"usageMetadata": {"promptTokenCount": 40, "cachedContentTokenCount": 10, "thoughtsTokenCount": 7}},
            Kinds(30, 10, 0, 0, 7),
        ),
        ({"content": QUOTED, "usage": OF_ANTHROPIC}, Kinds(5, 9, 60, 0, 7)),
        ({"choices": []}, None),
        ([BEGUN, WORD, ENDED, {"type": "message_stop"}], Kinds(5, 9, 60, 0, 20)),
        ([BEGUN, WORD], None),
        ([{"choices": [{"delta": {"content": "word"}}]}, {"choices": [], "usage": OF_OPENAI}], Kinds(30, 10, 0, 0, 7)),
        ([{"choices": [{"delta": {}}], "x_groq": {"usage": OF_OPENAI}}], Kinds(30, 10, 0, 0, 7)),
        (
            [{"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 7}}}],
            Kinds(5, 0, 0, 0, 7),
        ),
        ([{"choices": [{"delta": {"content": "word"}}], "usage": None}], None),
    ],
)
def test_an_answer_tells_what_is_paid_or_the_most_stays(answer: Any, expected: Kinds | None) -> None:
    text = json.dumps(answer) if isinstance(answer, dict) else sse(*answer)
    for step in (len(text), 7):
        meter = Meter(70, 900, "")
        for start in range(0, len(text), step):
            meter.feed(text.encode()[start : start + step])
        assert meter.paid(is_whole=True, has_output=True) == expected
        is_over = text.endswith("[DONE]\n\n") or (expected and ('"message_stop"' in text or ".completed" in text))
        assert meter.paid(is_whole=False, has_output=True) == (expected if is_over else None)


def test_embeddings_have_no_output() -> None:
    meter = Meter(70, 0, "")
    meter.feed(b'{"usage":{"prompt_tokens":40,"total_tokens":40}}')
    assert meter.paid(is_whole=True, has_output=False) == Kinds(40, 0, 0, 0, 0)


def sse(*events: Any) -> str:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


class Vendor:
    """A vendor whose next answers a test decides."""

    def __init__(self) -> None:
        self.status, self.kind, self.text, self.is_cut, self.calls = 200, "application/json", "{}", False, 0
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                vendor.calls += 1
                self.send_response(vendor.status)
                self.send_header("content-type", vendor.kind)
                self.send_header("content-length", str(len(vendor.text) + vendor.is_cut))
                self.end_headers()
                self.wfile.write(vendor.text.encode())
                self.close_connection = vendor.is_cut

            do_GET = do_POST  # noqa: N815

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answers(self, answer: Any, status: int = 200, is_cut: bool = False) -> None:
        """Has it answer with JSON, or with a stream if it is a list."""
        is_stream = isinstance(answer, list)
        self.kind = "text/event-stream" if is_stream else "application/json"
        self.text = sse(*answer) if is_stream else json.dumps(answer)
        self.status, self.is_cut = status, is_cut


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    vendor = Vendor()
    thread = threading.Thread(target=vendor.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield vendor
    vendor.server.shutdown()
    vendor.server.server_close()
    thread.join(5)


def budget(capacity: float) -> str:
    """A budget in dollars, and no other limit."""
    limit = f'name = "budget"\nunit = "usd"\nalgorithm = "quota"\nresets = "never"\ncapacity = {capacity}\n'
    plenty = "".join(
        f'[[resource.limit]]\nname = "{unit}"\nunit = "{unit}"\ncapacity = 1000000000\nperiod = "1s"\n'
        for unit in ("requests", "tokens", "input-tokens", "output-tokens")
    )
    return f'[[resource]]\nname = "api"\nstart = "full"\nlearn_costs = []\n[[resource.limit]]\n{limit}{plenty}'


def spent(running: Scheduler, hub: rampmeter.Resource, capacity: float, settled: int) -> int:
    """Millionths of a dollar, once so many calls are settled."""
    hub.client.flush()
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= settled or None)
    return round((capacity - running.levels()["budget"]) * 1_000_000)


def ask(model: str, most: int | None, **more: Any) -> bytes:
    messages = [{"role": "user", "content": "a" * 50}]
    bound = {} if most is None else {"max_tokens": most}
    return json.dumps({"model": model, "messages": messages, **bound, **more}).encode()


# gpt-4o takes 2.50 for a million tokens of input, 1.25 from its cache, and 10.00 of output.
PAID = 30 * 25 // 10 + 13 + 7 * 10
BODY = ask("gpt-4o-2024-08-06", 100)
MOST = -(-len(BODY) * 25 // 10) + 100 * 10
LAST = {"choices": [], "usage": OF_OPENAI}
"""The last event of a stream with its usage."""
ANSWERS: list[tuple[Any, dict[str, Any], int]] = [
    ({"usage": OF_OPENAI}, {}, PAID),
    ([{"choices": []}, LAST, "[DONE]"], {}, PAID),
    ({"choices": []}, {}, MOST),
    ([{"choices": []}], {}, MOST),
    ({"usage": {"prompt_tokens": 40}}, {}, MOST),
    ({"error": {}}, {"status": 400}, -(-len(BODY) * 25 // 10)),
    ({"error": {}}, {"status": 404}, 0),
    ({"error": {}}, {"status": 429}, 0),
    ({"error": {}, "usage": OF_OPENAI}, {"status": 500}, MOST),
    ({"usage": OF_OPENAI}, {"is_cut": True}, MOST),
    ([LAST], {"is_cut": True}, MOST),
]


def test_a_call_pays_what_its_answer_says_and_the_most_if_that_is_uncertain(scheduler: Starts, vendor: Vendor) -> None:
    running = scheduler(budget(1))
    hub = rampmeter.connect(running.url).resource("api", max_wait=5)
    expected, settled = 0, 0
    url = f"{vendor.url}/v1/chat/completions"

    async def in_a_task(client: Any) -> None:
        async with client:
            await client.post(url, content=BODY)

    for answer, how, cost in ANSWERS:
        vendor.answers(answer, **how)
        for kind in ("threads", "tasks"):
            try:
                if kind == "threads":
                    with rampmeter.openai.http_client(hub, money="usd", repeats=0) as client:
                        client.post(url, content=BODY)
                else:
                    asyncio.run(in_a_task(rampmeter.openai.async_http_client(hub, money="usd", repeats=0)))
            except Exception as error:  # of httpx or httpx2
                assert type(error).__name__ == "RemoteProtocolError" and how.get("is_cut"), answer
            expected, settled = expected + cost, settled + 1
            assert spent(running, hub, 1, settled) == expected, f"{answer} {how} {kind}"


def test_calls_of_the_packages_pay_for_each_kind_of_token(scheduler: Starts, vendor: Vendor) -> None:
    """Claude Sonnet 4.5 takes 3.00, from its cache 0.30, into it 3.75, for an hour 6.00, and 15.00 of output."""
    running = scheduler(budget(1))
    hub = rampmeter.connect(running.url).resource("api", max_wait=5)
    messages: Any = [{"role": "user", "content": "Count."}]
    frame: Any = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    hour = {**OF_ANTHROPIC, "cache_creation": {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 40}}
    cost = 5 * 3 + 40 * 3.75 + 20 * 6 + 9 * 0.3
    transport = rampmeter.anthropic.http_client(hub, money="usd")
    model: Any = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    with anthropic.Anthropic(base_url=vendor.url, api_key="key", http_client=transport, max_retries=0) as claude:
        vendor.answers({**frame, "usage": hour})
        claude.messages.create(model=model, messages=messages, max_tokens=60)
        expected = -int(-(cost + 7 * 15) // 1)
        assert spent(running, hub, 1, 1) == expected
        start = {"type": "message_start", "message": {**frame, "usage": {**hour, "output_tokens": 1}}}
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word"}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        vendor.answers([start, block, delta, ENDED, {"type": "message_stop"}])
        vendor.text = "".join(
            f"event: {json.loads(line[5:])['type']}\n{line}\n\n" for line in vendor.text.split("\n\n") if line
        )
        with claude.messages.create(model=model, messages=messages, max_tokens=60, stream=True) as events:
            assert [event.type for event in events][-1] == "message_stop"
        expected += -int(-(cost + 20 * 15) // 1)
        assert spent(running, hub, 1, 2) == expected
    transport = rampmeter.openai.http_client(hub, money="usd")
    with openai.OpenAI(base_url=f"{vendor.url}/v1", api_key="key", http_client=transport, max_retries=0) as client:
        vendor.answers([{"choices": [{"index": 0, "delta": {"content": "word"}}]}, LAST, "[DONE]"])
        # The package leaves the stream at its last event.
        assert len(list(client.chat.completions.create(model="gpt-4o", messages=messages, stream=True))) == 2
        expected += PAID
        assert spent(running, hub, 1, 3) == expected
        vendor.answers({"object": "list", "data": [], "usage": {"prompt_tokens": 100, "total_tokens": 100}})
        client.embeddings.with_raw_response.create(model="text-embedding-3-small", input="some text")
        expected += 2  # 0.02 for a million
        assert spent(running, hub, 1, 4) == expected
        word = {"choices": [{"index": 0, "delta": {"content": "word"}}]}
        vendor.answers([word, word, {"choices": [], "padding": "A" * 300_000}, LAST, "[DONE]"])
        with client.chat.completions.create(model="gpt-4o", messages=messages, max_tokens=100, stream=True) as chunks:
            next(chunks)
    assert spent(running, hub, 1, 5) - expected > 1000, "nobody knows what a stream costs that is left early"


def test_a_call_without_a_price_is_refused(scheduler: Starts, vendor: Vendor, tmp_path: Path) -> None:
    """A budget that some calls pass by holds nothing."""
    prices = own(tmp_path, '{"date":"2026-01-01","models":{"own":{"input":1,"output":1,"most":10}}}')
    running = scheduler(budget(1))
    hub = rampmeter.connect(running.url).resource("api", max_wait=5)
    with rampmeter.openai.http_client(hub, money="usd", prices=prices, base_url=vendor.url) as client:
        for method, path, body, status, told in [
            ("POST", CHAT, ask("unheard-of", 5), 400, "no price of `unheard-of`; add it to the file of `prices`"),
            ("POST", CHAT, ask("gpt-4o", 5).replace(b"model", b"no"), 400, "names no model"),
            ("POST", CHAT, b"no JSON", 400, "no JSON"),
            ("POST", "/v1/audio/speech", ask("gpt-4o", 5), 200, ""),
            ("POST", "/v1/batches", b'{"input_file_id":"f"}', 400, "`/v1/batches` are not known"),
            ("POST", "/v1/messages/count_tokens", ask("unheard-of", 5), 200, ""),
            ("GET", "/v1/models", b"", 200, ""),
            ("POST", CHAT, ask("own", 5), 200, ""),
            ("POST", CHAT, ask("own", None), 200, ""),
        ]:
            calls = vendor.calls
            answer = client.request(method, path, content=body)
            assert answer.status_code == status and told in answer.text, (path, body, answer.text)
            assert vendor.calls == calls + (status == 200), "nothing was sent"
        assert isinstance(client.post(CHAT, json={}).extensions["rampmeter"], InvalidArgument)
    messages: Any = [{"role": "user", "content": "Count."}]
    url, transport = vendor.url, rampmeter.openai.http_client(hub, money="usd")
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="key", http_client=transport) as model,
        pytest.raises(openai.BadRequestError, match=r"unheard-of.*prices"),
    ):
        model.chat.completions.create(model="unheard-of", messages=messages)
    transport = rampmeter.anthropic.http_client(hub, money="usd")
    with (
        anthropic.Anthropic(base_url=url, api_key="key", http_client=transport) as claude,
        pytest.raises(anthropic.BadRequestError, match=r"unheard-of.*prices"),
    ):
        claude.messages.create(model="unheard-of", messages=messages, max_tokens=5)


def test_a_budget_is_never_exceeded(scheduler: Starts, vendor: Vendor) -> None:
    """Eight threads call as often as they may. Each call reserves about eight times what it costs."""
    capacity = 0.02
    running = scheduler(budget(capacity))
    hub = rampmeter.connect(running.url).resource("api", max_wait=30)
    vendor.answers({"usage": OF_OPENAI})
    with rampmeter.openai.http_client(hub, money="usd", base_url=vendor.url) as client, ThreadPoolExecutor(8) as pool:

        def call_on(_: int) -> str:
            while (answer := client.post(CHAT, content=BODY)).status_code == 200:
                pass
            return str(answer.text)

        told = list(pool.map(call_on, range(8)))
    paid = spent(running, hub, capacity, vendor.calls)
    assert paid == vendor.calls * PAID
    assert capacity * 1_000_000 - MOST <= paid <= capacity * 1_000_000, "what is left fits no other call"
    assert all("quota" in text for text in told), told
