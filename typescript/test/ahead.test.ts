// Starts ahead, what permits tell, and who hears of waits and 429s.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PermitError, Resource, type Ask, type ResourceOptions } from "../src/index.js";
import { configuration, counter, scheduler, upstream } from "./machine.js";

const TEN = 'name = "ten"\ncapacity = 10\nperiod = "1s"';
const HOURLY = 'name = "hourly"\nunit = "units"\ncapacity = 10\nperiod = "1h"\nmargin = 0';

test("starts are reserved ahead, and calls at those are never told 429", async (t) => {
  const up = await upstream(t, ["requests=12/1s"]);
  const { url } = await scheduler(t, configuration(TEN));
  const waits: number[] = [];
  const hub = new Resource({ url, resource: "api", onWait: (waitedMs) => void waits.push(waitedMs) });
  const reserved = await Promise.all(Array.from({ length: 24 }, () => hub.reserve()));
  assert.ok(waits.length === 24 && Math.max(...waits) > 800, `${waits}`);
  const [unwanted, ...rest] = reserved.reverse();
  unwanted?.giveBack();
  const call = async (permit: (typeof reserved)[number]): Promise<void> => {
    const ready = await permit.ready();
    assert.equal(ready.delayMs, 0);
    ready.settle(await fetch(`${up.url}/process`));
  };
  await Promise.all(rest.map(call));
  await hub.settled();
  const { ok, rate_limited } = await up.stats();
  assert.deepEqual({ ok, rate_limited }, { ok: 23, rate_limited: 0 });
  assert.equal((await counter(url, "granted")) - (await counter(url, "returned")), 23);
});

test("a reservation that has lapsed is asked for anew, and one whose wait ends is given back", async (t) => {
  const { url } = await scheduler(t, configuration(TEN).replace('"api"', '"api"\nvalidity = "300ms"'));
  const hub = new Resource({ url, resource: "api" });
  const lapsed = await hub.reserve();
  await sleep(lapsed.delayMs + 400);
  const permit = await lapsed.ready();
  assert.notEqual(permit.id, lapsed.id);
  permit.settle({ status: 200 });
  const ahead = await Promise.all(Array.from({ length: 20 }, () => hub.reserve()));
  const waiting = ahead.filter((each) => each.delayMs > 200);
  assert.ok(waiting.length > 0);
  const gone = AbortSignal.abort(new Error("changed my mind"));
  for (const each of waiting) await assert.rejects(each.ready(gone), /changed my mind/);
  for (const each of ahead) each.settle(); // What was given back stays so.
  await hub.settled();
  assert.equal((await counter(url, "granted")) - (await counter(url, "returned")), 1 + ahead.length - waiting.length);
});

test("a start that is too far ahead is refused with the time to come back", async (t) => {
  const { url } = await scheduler(t, configuration(HOURLY).replace('"api"', '"api"\nmax_ahead = "1m"'));
  const hub = new Resource({ url, resource: "api" });
  (await hub.reserve({ cost: { units: 10 } })).giveBack();
  await hub.settled();
  (await hub.permit({ cost: { units: 10 } })).settle();
  const refused = await hub.reserve({ cost: { units: 5 } }).catch((error: unknown) => error);
  assert.ok(refused instanceof PermitError && refused.code === "not_in_time", String(refused));
  assert.ok((refused.retryAfterMs ?? 0) > 60_000, `${refused.retryAfterMs}`);
});

test("a permit tells what its limits have left", async (t) => {
  const { url } = await scheduler(t, configuration(HOURLY));
  const hub = new Resource({ url, resource: "api" });
  const permit = await hub.permit({ cost: { units: 4 }, left: true });
  const left = permit.left.map(({ limit, unit, remaining }) => [limit, unit, Math.floor(remaining)]);
  assert.deepEqual(left, [["hourly", "units", 6]]);
  permit.settle();
  const silent = await hub.permit({ cost: { units: 1 } });
  assert.deepEqual(silent.left, []);
  silent.settle();
});

test("a call is made in the first way that starts in time", async (t) => {
  const [LARGE, SMALL] = [["large", 1], ["small", 10]].map(([name, capacity]) =>
    `name = "${name}"\ncapacity = ${capacity}\nperiod = "1h"\nmargin = 0\nmatch = { model = "${name}" }`);
  const { url } = await scheduler(t, configuration(`${LARGE}\n[[resource.limit]]\n${SMALL}`));
  const hub = new Resource({ url, resource: "api" });
  for (const way of [0, 1]) {
    const or = [{ labels: { model: "small" }, cost: 2 }];
    const permit = await hub.permit({ labels: { model: "large" }, worthMs: 5000, or });
    assert.equal(permit.way, way);
    permit.settle();
  }
  await hub.settled();
  const { left } = await hub.permit({ labels: { model: "small" }, left: true });
  assert.deepEqual(left.map(({ limit, remaining }) => [limit, Math.floor(remaining)]), [["small", 7]]);
});

test("time that was waited elsewhere and a trace travel with the request", async (t) => {
  const { url } = await scheduler(t, configuration(TEN));
  const heard: { age: number; traceparent: string | null }[] = [];
  const overhear: ResourceOptions["fetch"] = (input, init) => {
    const { age_ms: age } = JSON.parse(String(init?.body)) as { age_ms: number };
    heard.push({ age, traceparent: new Headers(init?.headers).get("traceparent") });
    return fetch(input, init);
  };
  const hub = new Resource({ url, resource: "api", fetch: overhear });
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const permit = await hub.permit({ ageMs: 30_000, traceparent, maxWaitMs: 60_000 });
  permit.giveBack();
  assert.ok((heard[0]?.age ?? 0) >= 30_000 && heard[0]?.traceparent === traceparent, JSON.stringify(heard));
  await assert.rejects(hub.permit({ ageMs: -1 }), /`ageMs` is a time/);
});

test("each call of a limited function has a permit", async (t) => {
  const up = await upstream(t, ["requests=12/1s"]);
  const { url } = await scheduler(t, configuration(TEN));
  const hub = new Resource({ url, resource: "api" });
  const ask = (path: string): Ask => ({ labels: { path }, maxWaitMs: 60_000 });
  const get = hub.limited((path: string) => fetch(`${up.url}${path}`), ask);
  const answers = await Promise.all(Array.from({ length: 20 }, () => get("/process")));
  assert.ok(answers.every((answer) => answer.status === 200));
  assert.equal(await hub.limited(() => 7)(), 7);
  await hub.settled();
  assert.equal((await counter(url, "granted")) - (await counter(url, "returned")), (await up.stats()).sent + 1);
});

test("waits and 429s are heard of", async (t) => {
  const up = await upstream(t, ["requests=4/4s"], "--retry-after", "seconds");
  const { url } = await scheduler(t, configuration(TEN));
  const slow = new Resource({
    url: (await scheduler(t, configuration('name = "slow"\ncapacity = 1\nperiod = "2s"'))).url,
    resource: "api",
    onWait: (waitedMs, limitedBy) => void waits.push([waitedMs, limitedBy]),
  });
  const [waits, codes] = [[] as [number, string | undefined][], [] as (number | undefined)[]];
  const begun = performance.now();
  for (const permit of await Promise.all([slow.permit(), slow.permit(), slow.reserve()])) permit.settle();
  const took = performance.now() - begun;
  const [longest = 0, ...others] = waits.map(([waitedMs]) => waitedMs).sort((one, two) => two - one);
  assert.ok(others.length === 2 && longest > 1000 && longest < took + 3000, JSON.stringify(waits));
  assert.ok(waits.some(([, limitedBy]) => limitedBy === "slow"), JSON.stringify(waits));
  const hub = new Resource({
    url,
    resource: "api",
    on429: ({ status }) => void codes.push(status),
  });
  await Promise.all(Array.from({ length: 12 }, () => hub.run({ repeats: 9 }, () => fetch(`${up.url}/process`))));
  await hub.settled();
  const { rate_limited, ok } = await up.stats();
  assert.equal(ok, 12);
  assert.ok(rate_limited > 0);
  assert.deepEqual(codes, Array(rate_limited).fill(429));
  const permit = await hub.permit();
  permit.settle({ status: 429 });
  permit.settle({ status: 429 });
  assert.equal(codes.length, rate_limited + 1, "a call is settled once");
});
