// Spans of a program with OpenTelemetry: docs/traces.md.
import assert from "node:assert/strict";
import { test } from "node:test";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { PermitError, Resource, withPermits, type ResourceOptions } from "../src/index.js";
import { configuration, freePort, scheduler, upstream } from "./machine.js";

const HOURLY = 'name = "hourly"\nunit = "units"\ncapacity = 10\nperiod = "1h"\nmargin = 0';

test("a wait for a permit is a span, in the trace of its caller and of the scheduler", async (t) => {
  const up = await upstream(t, ["requests=12/1s"]);
  const { url } = await scheduler(t, configuration(HOURLY));
  const sent: (string | null)[] = [];
  const overhear: ResourceOptions["fetch"] = (input, init) => {
    if (String(input).includes("/v1/permit/")) sent.push(new Headers(init?.headers).get("traceparent"));
    return fetch(input, init);
  };
  const hub = new Resource({ url, resource: "api", fetch: overhear, log: () => {} });
  const ask = { cost: { units: 2 }, class: "default", maxWaitMs: 60_000 };
  (await hub.permit(ask)).giveBack();
  await hub.settled();
  // A late answer is given back, and the permit asked for again.
  const untraced = sent.length;
  assert.ok(untraced > 0 && sent.every((each) => each === null), "no program has set up OpenTelemetry yet");

  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.register();
  t.after(() => {
    trace.disable();
    context.disable();
    return provider.shutdown();
  });
  await trace.getTracer("test").startActiveSpan("a caller", async (caller) => {
    const answer = await withPermits({ resource: hub, ...ask })(fetch)(`${up.url}/process`);
    assert.equal(answer.status, 200);
    caller.end();
  });
  await assert.rejects(hub.permit({ ...ask, cost: { units: 9 } }), PermitError);
  await assert.rejects(hub.permit({ ...ask, signal: AbortSignal.abort(new Error("no more")) }), /no more/);
  const away = { url: `http://127.0.0.1:${await freePort()}`, patienceMs: 100, log: () => {} };
  await new Resource({ ...away, resource: "api", unreachable: { calls: 1000, perMs: 1000 } }).permit();

  const [span, caller, refused, cancelled, local] = exporter.getFinishedSpans();
  assert.ok(span && caller && refused && cancelled && local);
  assert.deepEqual([span.name, span.kind], ["permit api", SpanKind.CLIENT]);
  assert.equal(span.parentSpanContext?.spanId, caller.spanContext().spanId);
  const { traceId, spanId } = span.spanContext();
  assert.equal(sent[untraced], `00-${traceId}-${spanId}-01`);
  const { "rampmeter.wait": wait, ...attributes } = span.attributes;
  assert.ok(typeof wait === "number" && wait >= 0 && wait < 60, `${wait}`);
  const asked = { "rampmeter.resource": "api", "rampmeter.mode": "wait", "rampmeter.class": "default" };
  const whole = { ...asked, "rampmeter.cost.estimate.units": 2 };
  assert.deepEqual(attributes, { ...whole, "rampmeter.result": "acquired" });
  const refusal = { "rampmeter.result": "refused", "error.type": "not_in_time", "rampmeter.limit": "hourly" };
  assert.deepEqual(refused.attributes, { ...whole, ...refusal, "rampmeter.cost.estimate.units": 9 });
  assert.deepEqual(refused.status, { code: SpanStatusCode.ERROR, message: "not_in_time" });
  assert.equal(cancelled.attributes["rampmeter.result"], "cancelled");
  assert.equal(local.attributes["rampmeter.result"], "local");
  // The trace that a caller has named is not touched.
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  (await hub.permit({ cost: { units: 1 }, traceparent })).settle();
  assert.deepEqual([sent.at(-1), exporter.getFinishedSpans().length], [traceparent, 5]);
});
