"""Spans of permits: a program with OpenTelemetry, and a scheduler whose spans go to a collector."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import rampmeter
from conftest import Starts
from limits import limit, resource
from servers import Nats, until

LIMITS = resource(limit("few", 3, "1s"), limit("area", 1000, "1s", "pu"), more='classes = [{ name = "urgent" }]')
NAMED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Span:
    """A span as a collector gets it."""

    def __init__(self, told: Any) -> None:
        self.name, self.kind = told.name, told.kind
        self.trace, self.id, self.parent = told.trace_id.hex(), told.span_id.hex(), told.parent_span_id.hex()
        self.links = [link.span_id.hex() for link in told.links]


@contextmanager
def collecting() -> Iterator[tuple[str, list[Span]]]:
    """A collector, and the spans that it has got."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                spans.extend(Span(told) for scope in part.scope_spans for told in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans of this process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def call(hub: rampmeter.Resource) -> None:
    with hub.permit({"requests": 1, "pu": 2}, class_="urgent") as permit:
        permit.settle(200)


def in_threads(hub: rampmeter.Resource) -> None:
    """Six calls at once, in the context of the caller."""
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(copy_context().run, call, hub) for _ in range(6)]:
            done.result()
    hub.client.close()


def in_tasks(hub: rampmeter.Resource) -> None:
    async def call() -> None:
        async with hub.permit({"requests": 1, "pu": 2}, class_="urgent") as permit:
            permit.settle(200)

    async def main() -> None:
        await asyncio.gather(*(call() for _ in range(6)))

    asyncio.run(main())


@pytest.mark.parametrize("calls", [in_threads, in_tasks])
@pytest.mark.parametrize("over", ["http", "nats"])
def test_permits_and_settles_are_in_the_trace_of_their_caller(
    over: str, calls: Any, scheduler: Starts, nats: Nats, recorded: InMemorySpanExporter
) -> None:
    with collecting() as (collector, spans):
        running = scheduler(LIMITS, http=f'[telemetry]\notlp = "{collector}"\nsample = 0.0')
        hub = rampmeter.connect(running.url if over == "http" else nats.url).resource("api", max_wait=60)
        with trace.get_tracer("tests").start_as_current_span("work") as work:
            calls(hub)
        until("all spans", lambda: True if len(spans) == 12 else None)
    here, root = recorded.get_finished_spans(), work.get_span_context()
    permits = [span for span in here if span.name == "permit api"]
    assert len(permits) == 6 and {span.kind for span in permits} == {trace.SpanKind.CLIENT}
    assert {span.parent.span_id for span in permits if span.parent} == {root.span_id}
    for span in permits:
        told = dict(span.attributes or {})
        wait: Any = told.pop("rampmeter.wait")
        assert told.pop("rampmeter.limit", "few") == "few" and wait >= 0
        assert told == {
            "rampmeter.resource": "api",
            "rampmeter.mode": "wait",
            "rampmeter.class": "urgent",
            "rampmeter.cost.estimate.requests": 1.0,
            "rampmeter.cost.estimate.pu": 2.0,
            "rampmeter.result": "acquired",
        }
    assert {span.trace for span in spans} == {f"{root.trace_id:032x}"}
    theirs = {span.id: span for span in spans if span.name == "permit api"}
    assert sorted(span.parent for span in theirs.values()) == sorted(
        f"{span.context.span_id:016x}" for span in permits if span.context
    )
    settles = [span for span in spans if span.name == "settle api"]
    assert {span.parent for span in settles} == {f"{root.span_id:016x}"}
    assert sorted(link for span in settles for link in span.links) == sorted(theirs)


def test_a_span_can_be_named_and_tells_of_refusals(scheduler: Starts, recorded: InMemorySpanExporter) -> None:
    with collecting() as (collector, spans):
        running = scheduler(LIMITS, http=f'[telemetry]\notlp = "{collector}"\nsample = 0.0')
        hub = rampmeter.connect(running.url).resource("api")
        hub.run(1, lambda: 200, traceparent=NAMED)
        with pytest.raises(rampmeter.Refused):
            hub.permit(10, traceparent=NAMED).acquire()
        hub.client.flush()
        until("all spans", lambda: True if len(spans) == 3 else None)
    assert {span.trace for span in spans} == {NAMED[3:35]}
    granted, refused = recorded.get_finished_spans()
    assert granted.parent and refused.parent and f"{granted.parent.span_id:016x}" == NAMED[36:52]
    assert dict(refused.attributes or {}).items() >= {
        ("rampmeter.result", "refused"),
        ("error.type", "never_fits"),
        ("rampmeter.limit", "few"),
    }
    assert refused.status.status_code == trace.StatusCode.ERROR

    async def main() -> None:
        running.kill()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(hub.permit().aacquire(), 0.2)

    asyncio.run(main())
    cancelled = recorded.get_finished_spans()[-1]
    assert dict(cancelled.attributes or {})["rampmeter.result"] == "cancelled"


def test_without_opentelemetry_a_named_span_travels(
    scheduler: Starts, nats: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rampmeter._drive.spans._otel", lambda: None)
    with collecting() as (collector, spans):
        running = scheduler(LIMITS, http=f'[telemetry]\notlp = "{collector}"\nsample = 0.0')
        for url in (running.url, nats.url):
            with rampmeter.connect(url) as client:
                client.resource("api").run(1, lambda: 200, traceparent=NAMED)
                client.resource("api").run(1, lambda: 200, traceparent="none\r\nx: y")
        until("all spans", lambda: True if len(spans) == 4 else None)
    assert {(span.trace, span.parent) for span in spans} == {(NAMED[3:35], NAMED[36:52])}
