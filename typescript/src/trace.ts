// Spans of OpenTelemetry: docs/traces.md has their names and attributes.
import type { TracerProvider } from "@opentelemetry/api";
import type { Grant, Wanted } from "./session.js";
import { PermitError } from "./wire.js";

/** Where each copy of `@opentelemetry/api` 1.x finds what the program has set up. So this package needs none. */
const API = Symbol.for("opentelemetry.js.api.1");
/** Numbers of that API. */
const [KIND_CLIENT, STATUS_ERROR] = [2, 2];

/** Asks for a permit, in the trace that is given. */
type Asking = (traceparent: string | undefined) => Promise<Grant>;

/** Asks in the trace that the caller has `given`, or else in a span of its own, if the program has OpenTelemetry. */
export async function traced(resource: string, want: Wanted, given: string | undefined, ask: Asking): Promise<Grant> {
  const tracer = (globalThis as { [API]?: { trace?: TracerProvider } })[API]?.trace?.getTracer("rampmeter");
  if (tracer === undefined || given !== undefined) return ask(given);
  const attributes = { "rampmeter.resource": resource, "rampmeter.mode": want.mode, "rampmeter.class": want.class };
  const span = tracer.startSpan(`permit ${resource}`, { kind: KIND_CLIENT, attributes });
  const costs = Object.entries(want.cost ?? {}).map(([unit, amount]) => [`rampmeter.cost.estimate.${unit}`, amount]);
  span.setAttributes(Object.fromEntries(costs));
  const { traceId, spanId, traceFlags } = span.spanContext();
  try {
    const grant = await ask(`00-${traceId}-${spanId}-0${traceFlags & 1}`);
    const [result, limit] = [grant.id === undefined ? "local" : "acquired", grant.answer.limited_by];
    const wait = (grant.at - want.since) / 1000;
    span.setAttributes({ "rampmeter.result": result, "rampmeter.wait": wait, "rampmeter.limit": limit });
    return grant;
  } catch (error) {
    const { code, limitedBy } = error instanceof PermitError ? error : ({} as Partial<PermitError>);
    span.setAttributes({ "rampmeter.result": code ? "refused" : "cancelled", "rampmeter.limit": limitedBy });
    if (code) span.setAttribute("error.type", code).setStatus({ code: STATUS_ERROR, message: code });
    throw error;
  } finally {
    span.end();
  }
}
