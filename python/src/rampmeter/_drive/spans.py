"""Spans of requests for permits, if the program has OpenTelemetry. docs/traces.md has their names."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

from .._core.ask import Grant
from ..errors import RampmeterError

TRACEPARENT: Final = "traceparent"
"""The header with the span of a message. Until then, it is a field of the message."""

WRITTEN: Final = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
"""How it is written. Anything else is ignored."""


@functools.cache
def _otel() -> Any:
    """OpenTelemetry's interface of traces, and what writes contexts; nothing if it is not installed."""
    try:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    return trace, TraceContextTextMapPropagator()


def in_span(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a request, with the current span if they name none."""
    return fields if TRACEPARENT in fields else _naming(fields)


def _naming(fields: Mapping[str, Any], span: Any = None) -> Mapping[str, Any]:
    """The fields with `span`, or with the current one; as they are if there is none."""
    if (otel := _otel()) is None:
        return fields
    trace, writer = otel
    named = dict(fields)
    writer.inject(named, None if span is None else trace.set_span_in_context(span))
    named.pop("tracestate", None)
    return named


class PermitSpan:
    """The span of one request, from asking until the call begins."""

    def __init__(self, resource: str, fields: Mapping[str, Any]) -> None:
        self.fields = fields
        """The fields of the request, which name this span."""
        self._span: Any = None
        if (otel := _otel()) is None:
            return
        trace, writer = otel
        told = {"resource": resource, "mode": fields["mode"], "class": fields.get("class")}
        told |= {f"cost.estimate.{unit}": float(amount) for unit, amount in fields.get("cost", {}).items()}
        is_here = _naming({}).get(TRACEPARENT) == fields.get(TRACEPARENT)
        around = None if is_here else writer.extract(fields)
        tracer, kind = trace.get_tracer("rampmeter"), trace.SpanKind.CLIENT
        self._span = tracer.start_span(f"permit {resource}", around, kind, _attributes(told))
        self.fields = _naming(fields, self._span)

    def granted(self, grant: Grant) -> None:
        """Ends it: the call may begin."""
        result = "local" if grant.id is None else "acquired"
        self._end({"result": result, "wait": grant.start - grant.since, "limit": grant.limited_by})

    def denied(self, error: BaseException) -> None:
        """Ends it: there is no permit."""
        if not isinstance(error, RampmeterError):
            return self._end({"result": "cancelled"})
        code = getattr(error, "code", type(error).__name__.lower())
        if self._span is not None:
            trace = _otel()[0]
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, code))
            self._span.set_attribute("error.type", code)
        self._end({"result": "refused", "limit": getattr(error, "limited_by", None)})

    def _end(self, told: Mapping[str, Any]) -> None:
        if self._span is not None:
            self._span.set_attributes(_attributes(told))
            self._span.end()


def _attributes(told: Mapping[str, Any]) -> dict[str, Any]:
    return {f"rampmeter.{name}": value for name, value in told.items() if value is not None}
