"""What calls of language models cost: before they are sent, and when they are settled."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest

import rampmeter
import rampmeter.anthropic
import rampmeter.openai
from conftest import Starts
from limits import limit, resource
from rampmeter._model.estimate import estimate, labels_of
from rampmeter._model.meter import MAX_USAGE, Meter
from rampmeter._model.prompts import MAX_PROMPTS, Prompts
from servers import Upstream, binary, until
from test_proxy import Holds
from test_proxy import proxy as proxy  # a fixture

CHAT = "/v1/chat/completions"
TOOL = {
    "name": "weather",
    "description": "d",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def request(path: str, body: dict[str, Any], method: str = "POST") -> httpx.Request:
    return httpx.Request(method, f"http://host{path}", json=body)


def content(part: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": part}], "max_tokens": 5}


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (CHAT, {"max_tokens": 100}, (0, 100)),
        (CHAT, {"max_completion_tokens": 7, "n": 3}, (0, 21)),
        (CHAT, {"model": "m"}, (1, 1024)),
        ("/v1/completions", {"prompt": ["four", "more"], "n": 2, "best_of": 3, "max_tokens": 10}, (2, 60)),
        ("/v1/embeddings", {"input": [[1, 2, 3], [4, 5]]}, (5, 0)),
        ("/v1/embeddings", {"input": ["four", "more"]}, (2, 0)),
        ("/v1/batches", {"input_file_id": "f"}, (0, 0)),
        ("/v1/audio/speech", {"model": "tts", "input": "some text"}, (0, 0)),
        ("/v1/moderations", {"input": "some text"}, (0, 0)),
        ("/v1/messages/count_tokens", {"messages": [], "max_tokens": 5}, (0, 0)),
        ("/v1/messages/batches", {"requests": [{"params": {"max_tokens": 9}}]}, (0, 0)),
        ("/v1/threads/t/runs", {"assistant_id": "a", "max_completion_tokens": 50}, (1, 50)),
    ],
)
def test_a_request_may_take_the_most_that_it_allows(path: str, body: dict[str, Any], expected: tuple[int, int]) -> None:
    assert estimate(request(path, body)) == expected
    assert estimate(request(path, body, "GET")) == (0, 0)


DATA = "QUJD" * 50_000


@pytest.mark.parametrize(
    ("part", "least", "most"),
    [
        ("漢" * 40_000, 40_000, 60_000),
        ('{"id":123,"name":"foo"},' * 1000, 6000, 12_000),
        ("Describe the river, the mountain and the town beside them. " * 1000, 13_000, 16_000),
        ([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}], 1600, 1630),
        ([{"type": "image_url", "image_url": {"url": "https://a.example/picture"}}], 1600, 1630),
        ([{"type": "image", "source": {"type": "base64", "data": f"iVBORw0KGgo{DATA}"}}], 1600, 1630),
        ([{"type": "document", "source": {"data": f"JVBERi0{DATA}"}}], 6000, 6030),
        ([{"type": "document", "source": {"type": "text", "data": "text of a document " * 475}}], 2250, 2400),
        ([{"type": "tool_use", "input": {"query": "words of arguments " * 100}}], 475, 520),
    ],
)
def test_contents_take_tokens_by_script_kind_and_size(part: object, least: int, most: int) -> None:
    assert least <= estimate(request(CHAT, content(part)))[0] <= most


def test_tools_are_text_and_a_tokenizer_counts_texts_alone() -> None:
    body = {"messages": [], "tools": [TOOL] * 50, "max_tokens": 5}
    assert 1200 <= estimate(request("/v1/messages", body))[0] <= 2400
    counted = estimate(request(CHAT, content(["some words", [1, 2, 3]])), lambda model, text: len(text.split()))
    assert counted == (10, 5)


def test_what_the_vendor_keeps_of_a_prompt_is_not_estimated_again() -> None:
    def ask(system: str, message: str) -> httpx.Request:
        messages = [{"role": "user", "content": message}]
        return request("/v1/messages", {"model": "m", "system": system * 4000, "messages": messages})

    prompts = Prompts()
    prompts.note(ask("word", "Count."), 9000)
    kept = [prompts.kept(ask(*parts)) for parts in (("word", "Count."), ("word", "Sing."), ("text", "Count."))]
    assert kept == [9000, 4001, 0], "a conversation, its instructions, and others"
    for number in range(MAX_PROMPTS):
        prompts.note(ask("word", f"{number}"), 1)
    assert prompts.kept(ask("text", "Count.")) == 0 and len(prompts._kept) == MAX_PROMPTS


def test_calls_without_a_model_share_a_label() -> None:
    assert labels_of(request(CHAT, {"model": "m"})) == {"model": "m"}
    assert labels_of(request("/v1/models", {}, "GET")) == {"model": "none"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"usage": {"input_tokens": 5, "cache_creation_input_tokens": 20_000, "output_tokens": 7}}, (20_005, 7)),
        ({"usage": {"input_tokens": 5, "cache_read_input_tokens": 20_000, "output_tokens": 7}}, (5, 7)),
        ({"usage": {"prompt_tokens": 5, "total_tokens": 5}}, (5, 0)),
        ({"data": [{"b64_json": "A" * 5_000_000}], "usage": {"input_tokens": 70, "output_tokens": 4100}}, (70, 4100)),
        ({"text": '{"usage": {"input_tokens": 9}}', "usage": {"input_tokens": 5, "output_tokens": 7}}, (5, 7)),
        ({"choices": []}, (70, 900)),
    ],
)
@pytest.mark.parametrize("before", ["", "\n\n  "])
def test_an_answer_of_any_length_says_what_it_took(
    answer: dict[str, Any], expected: tuple[int, int], before: str
) -> None:
    data = (before + json.dumps(answer, indent=1)).encode()
    for step in (len(data), 65_536, 1009):
        meter = Meter(70, 900, "")
        for start in range(0, len(data), step):
            meter.feed(data[start : start + step])
            assert len(meter._rest) <= MAX_USAGE
        assert meter.used(is_whole=True) == expected


DELTA = {"choices": [{"delta": {"content": "word"}}]}
BEGUN = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
OF_ANTHROPIC = {"type": "content_block_delta", "delta": {"text": "word"}}
ENDED = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20}}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([DELTA, DELTA], (70, 2)),
        ([DELTA, DELTA, {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}], (5, 1)),
        ([BEGUN, OF_ANTHROPIC, OF_ANTHROPIC], (5, 3)),
        ([BEGUN, *[OF_ANTHROPIC] * 30, ENDED], (5, 20)),
        ([{**DELTA, "usage": None}, DELTA], (70, 2)),
        ([], (70, 0)),
    ],
)
def test_a_stream_that_is_left_is_settled_by_its_usage_and_what_came_after(
    events: list[dict[str, Any]], expected: tuple[int, int]
) -> None:
    """A package closes the stream at the last event that it wants, which is behind the usage."""
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    for step in (1000, 7):
        meter = Meter(70, 900, "")
        for start in range(0, len(data), step):
            meter.feed(data[start : start + step])
        assert meter.used(is_whole=False) == expected


LARGE = [limit(unit, 1_000_000, "8760h", unit=unit) for unit in ("tokens", "input-tokens", "output-tokens")]
ALLOWED = [f"{unit}=1000000/8760h" for unit in ("requests", "tokens", "input-tokens", "output-tokens")]


def spend(claude: anthropic.Anthropic, client: openai.OpenAI) -> int:
    """Makes calls with cached prompts, tools, token arrays and long answers, and some that take no tokens."""
    system: Any = [{"type": "text", "text": "words of a book " * 5000, "cache_control": {"type": "ephemeral"}}]
    tools: Any = [TOOL] * 20
    messages: list[Any] = [{"role": "user", "content": "Count."}]
    for _ in range(5):
        claude.messages.create(model="m", system=system, tools=tools, messages=messages, max_tokens=60)
        with claude.messages.stream(model="m", system=system, messages=messages, max_tokens=60) as events:
            assert events.get_final_text()
    claude.messages.count_tokens(model="m", messages=messages)
    functions: Any = [{"type": "function", "function": {"name": "f", "description": "words " * 200}}] * 10
    for model in ("m", "large"):
        client.chat.completions.create(model=model, messages=messages, tools=functions, max_tokens=50)
    client.embeddings.create(model="m", input=[list(range(2000))])
    client.models.list()
    client.files.create(file=b"a file", purpose="batch")
    client.batches.create(input_file_id="f", endpoint="/v1/chat/completions", completion_window="24h")
    client.moderations.create(input="some text")
    client.audio.speech.create(model="tts", voice="v", input="some text")
    return 19


@pytest.mark.parametrize("is_proxied", [False, True])
def test_calls_are_settled_with_what_the_vendor_counts(
    is_proxied: bool,
    scheduler: Starts,
    upstream: Callable[..., Upstream],
    vendor: Callable[[Upstream], str],
    proxy: Holds,
) -> None:
    running = scheduler(resource(*LARGE, limit("requests", 1000, "1s"), more='start = "full"\nlearn_costs = []'))
    api = upstream(*ALLOWED, more=("--dialect", "sentinel-hub"))
    url, hub = vendor(api), rampmeter.connect(running.url).resource("api")
    anthropic_url, openai_url, clients = (
        url,
        url,
        [rampmeter.anthropic.http_client(hub), rampmeter.openai.http_client(hub)],
    )
    if is_proxied:
        anthropic_url = proxy(url, "api", 'tokens = { input = "input-tokens", output = "output-tokens" }')
        openai_url = proxy(url, "api", 'tokens = { total = "tokens" }')
        clients = [None, None]
    claude = anthropic.Anthropic(base_url=anthropic_url, api_key="key", http_client=clients[0], max_retries=0)
    client = openai.OpenAI(base_url=f"{openai_url}/v1", api_key="key", http_client=clients[1], max_retries=0)
    with claude, client:
        calls = spend(claude, client)
    hub.client.flush()
    until("all are settled", lambda: running.metric("rampmeter_settled_total") >= calls or None)
    levels = running.levels()
    for unit in ("tokens", "input-tokens", "output-tokens"):
        assert 1_000_000 - levels[unit] == pytest.approx(api.spent(unit), rel=0.01), unit
    assert (api.stats()["ok"], api.stats()["rate_limited"]) == (calls, 0)


def test_each_call_passes_with_the_preset(
    scheduler: Starts, upstream: Callable[..., Upstream], vendor: Callable[[Upstream], str], preset: str
) -> None:
    """Calls that name no model share limits of their own, and take a request each."""
    running = scheduler(preset)
    hub = rampmeter.connect(running.url).resource("openai", max_wait=5)
    url = vendor(upstream("requests=1000/1s", more=("--dialect", "sentinel-hub")))
    transport = rampmeter.openai.http_client(hub)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", http_client=transport, max_retries=0) as client:
        client.models.list()
        client.files.create(file=b"a file", purpose="batch")
        client.batches.create(input_file_id="f", endpoint="/v1/chat/completions", completion_window="24h")
        client.moderations.create(input="some text")
    assert hub.client.stats().granted == 4


@pytest.fixture
def preset() -> str:
    """The limits that `rampmeter init openai` writes."""
    return subprocess.run([binary(), "init", "openai"], check=True, capture_output=True, text=True).stdout
