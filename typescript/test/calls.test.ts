// Each call has one permit, 429s end, and a call lasts as long as its body.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { PermitError, Resource, withPermits } from "../src/index.js";
import { anthropic, openai } from "../src/models.js";
import { configuration, counter, freePort, scheduler } from "./machine.js";

const PLENTY = 'name = "plenty"\ncapacity = 1000000\nperiod = "1s"';
const places = (capacity: number): string =>
  `name = "places"\nalgorithm = "concurrency"\ncapacity = ${capacity}\ntime_to_live = "500ms"`;

interface Api {
  readonly url: string;
  calls: number;
  mostAtOnce: number;
}

/** An API whose paths say how they answer: with 429 for ever, without money, or with a body that takes its time. */
async function serve(t: TestContext): Promise<Api> {
  let atOnce = 0;
  const respond = async (path: string, answer: ServerResponse): Promise<void> => {
    if (/throttled|spent/.test(path)) {
      const code = path.includes("spent") ? "insufficient_quota" : "rate_limit_exceeded";
      const after = path.includes("long") ? { "retry-after": "3600" } : { "retry-after-ms": "20" };
      answer.writeHead(429, { "content-type": "application/json", ...after });
      answer.end(JSON.stringify({ error: { message: "too much", code } }));
    } else if (path.includes("slow")) {
      answer.writeHead(200, { "content-type": "text/plain" });
      for (let part = 0; part < 6; part += 1) {
        await sleep(50);
        answer.write("x".repeat(1000));
      }
      answer.end();
    } else answer.end("ok");
  };
  const server = createServer((asked, answer) => {
    api.calls += 1;
    api.mostAtOnce = Math.max(api.mostAtOnce, (atOnce += 1));
    answer.on("close", () => (atOnce -= 1));
    asked.resume().on("end", () => void respond(asked.url ?? "", answer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const api = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls: 0, mostAtOnce: 0 };
  return api;
}

/** As many permits were granted as calls were made, and all are settled. */
async function allSettled(url: string, hub: Resource, calls: number): Promise<void> {
  await hub.settled();
  const [granted, returned] = [await counter(url, "granted"), await counter(url, "returned")];
  assert.equal(granted - returned, calls);
}

test("a 429 reaches the caller after three repetitions, and at once if no wait mends it", async (t) => {
  const [api, { url }] = [await serve(t), await scheduler(t, configuration(PLENTY))];
  const hub = new Resource({ url, resource: "api" });
  const call = withPermits({ resource: hub })(fetch);
  const table = [["throttled", 4, "rate_limit_exceeded"], ["spent", 5, "insufficient_quota"]] as const;
  for (const [path, calls, code] of table) {
    const answer = await call(`${api.url}/${path}`);
    assert.deepEqual([answer.status, api.calls], [429, calls]);
    assert.equal(((await answer.json()) as { error: { code: string } }).error.code, code);
  }
  await allSettled(url, hub, 5);
});

/** A front that grants at once, and takes settles after `takingMs`; what it was told, in order. */
async function slowFront(t: TestContext, takingMs: number): Promise<{ url: string; told: string[] }> {
  const told: string[] = [];
  const server = createServer((asked, answer) => {
    const chunks: Buffer[] = [];
    asked.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", async () => {
      const what = asked.url?.split("/")[2] ?? "";
      if (what === "settle") await sleep(takingMs);
      told.push(what);
      const messages = [JSON.parse(Buffer.concat(chunks).toString())].flat() as { id: string }[];
      const status = what === "settle" ? "settled" : "granted";
      const answers = messages.map(({ id }) => ({ status, id, delay_ms: 0, epoch: 1 }));
      answer.end(JSON.stringify(what === "settle" ? answers : answers[0]));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, told };
}

test("a call is repeated when a scheduler knows of its 429, or a second later", async (t) => {
  for (const [takingMs, order] of [[200, ["permit", "settle", "permit"]], [3000, ["permit", "permit"]]] as const) {
    const { url, told } = await slowFront(t, takingMs);
    const hub = new Resource({ url, resource: "api" });
    const begun = performance.now();
    assert.equal((await hub.run({ repeats: 1 }, () => ({ status: 429 }))).status, 429);
    const took = performance.now() - begun;
    assert.deepEqual(told, order);
    assert.ok(took > 190 && took < 2900, `${took}`);
  }
  const { url } = await slowFront(t, 3000);
  const gone = AbortSignal.timeout(200);
  const waiting = new Resource({ url, resource: "api" }).run({ signal: gone }, () => ({ status: 429 }));
  const begun = performance.now();
  await assert.rejects(waiting, /TimeoutError/);
  assert.ok(performance.now() - begun < 900, "its signal ends that wait, too");
});

test("work that begins after its call is refused, and takes no permit", async (t) => {
  const { url } = await scheduler(t, configuration(PLENTY));
  const hub = new Resource({ url, resource: "api" });
  let begun = 0;
  function* numbers(): Generator<number> {
    yield (begun += 1);
  }
  async function* later(): AsyncGenerator<number> {
    yield (begun += 1);
  }
  for (const call of [numbers, later] as (() => unknown)[]) {
    assert.throws(() => hub.limited(call), /a generator begins later: write `using .* hub\.permit\(\)` inside/);
    await assert.rejects(hub.run({}, () => call()), /a generator .*inside/);
  }
  const stream = new ReadableStream({ start: (controller) => controller.close() });
  assert.equal(await hub.run({}, () => stream), stream, "what can be read was begun");
  assert.equal(begun, 0);
  await allSettled(url, hub, 1);
});

test("a fetch that has permits takes other terms, and no second permit", async (t) => {
  const tokens = PLENTY.replace('"plenty"', '"tokens"\nunit = "tokens"');
  const [api, { url }] = [await serve(t), await scheduler(t, configuration(PLENTY, tokens))];
  const hub = new Resource({ url, resource: "api" });
  const asked: string[] = [];
  const permitted = ["first", "second"].reduce((below, name) => {
    const asking = (): object => ({ labels: { term: String(asked.push(name)) } });
    return withPermits({ resource: new Resource({ url, resource: "api" }), asking })(below);
  }, fetch);
  const model = openai({ resource: hub })(anthropic({ resource: hub })(permitted));
  for (const call of [permitted, withPermits({ resource: hub })(permitted), model])
    assert.equal(await (await call(`${api.url}/`)).text(), "ok");
  assert.deepEqual(asked, ["second"]);
  await allSettled(url, hub, 3);
  const wrap = (): unknown => withPermits({ url, resource: "another" })(permitted);
  assert.throws(wrap, /has permits of "api" at http:[^ ]*, not of "another" at http/);
});

test("a refusal after a 429 has its response", async (t) => {
  const [api, { url }] = [await serve(t), await scheduler(t, configuration(PLENTY))];
  const call = withPermits({ url, resource: "api", maxWaitMs: 500 })(fetch);
  const refusal = await call(`${api.url}/throttled/long`).catch((error: unknown) => error);
  assert.ok(refusal instanceof PermitError && refusal.code === "not_in_time", String(refusal));
  const response = refusal.response as Response;
  assert.equal(response.status, 429);
  assert.match(await response.text(), /rate_limit_exceeded/);
});

test("a call that fails at once, or returns no promise, frees its permit", async (t) => {
  const { url } = await scheduler(t, configuration(places(1)));
  const hub = new Resource({ url, resource: "api" });
  const ask = { maxWaitMs: 3000 };
  for (let calls = 0; calls < 2; calls += 1) {
    const call = (): Promise<number> => {
      throw new RangeError("thrown at once");
    };
    await assert.rejects(hub.run(ask, call), /thrown at once/);
  }
  assert.equal(await hub.run(ask, () => 7), 7);
  await allSettled(url, hub, 3);
});

test("a permit that is disposed of or lost frees its place", async (t) => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  const { url } = await scheduler(t, configuration(places(1)));
  const hub = new Resource({ url, resource: "api" });
  (await hub.permit())[Symbol.dispose]();
  await (async () => void (await hub.permit({ maxWaitMs: 3000 })))();
  const freed = hub.permit({ maxWaitMs: 20_000 });
  for (let tries = 0; tries < 10; tries += 1) {
    await sleep(50);
    gc();
  }
  (await freed).settle();
  await allSettled(url, hub, 3);
});

test("a call lasts as long as its body where places are counted", async (t) => {
  const [api, { url }] = [await serve(t), await scheduler(t, configuration(places(2)))];
  const hub = new Resource({ url, resource: "api" });
  const call = withPermits({ resource: hub })(fetch);
  const bodies = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const answer = await call(`${api.url}/slow`);
      assert.equal(answer.url, `${api.url}/slow`);
      return answer.text();
    }),
  );
  assert.deepEqual(bodies, Array(8).fill("x".repeat(6000)));
  assert.equal(api.mostAtOnce, 2);
  for (let calls = 0; calls < 4; calls += 1) await (await call(`${api.url}/slow`)).body?.cancel();
  await allSettled(url, hub, 12);
});

test("a call without a connection is given back", async (t) => {
  const { url } = await scheduler(t, configuration('name = "few"\ncapacity = 1\nperiod = "1h"'));
  const hub = new Resource({ url, resource: "api" });
  const call = withPermits({ resource: hub, maxWaitMs: 3000 })(fetch);
  const gone = `http://127.0.0.1:${await freePort()}`;
  for (let calls = 0; calls < 3; calls += 1) {
    await assert.rejects(call(gone), /fetch failed/);
    await allSettled(url, hub, 0);
  }
});

test("labels of a call are beside those of all calls, and a number is a cost of requests", async (t) => {
  const each = 'name = "each"\ncapacity = 3\nperiod = "1h"\nmargin = 0\nkey = ["client", "route"]';
  const [api, { url }] = [await serve(t), await scheduler(t, configuration(each))];
  const asking = (path: unknown): object => ({ labels: { route: String(path) }, cost: 2 });
  const call = withPermits({ url, resource: "api", labels: { client: "a" }, asking, maxWaitMs: 3000 })(fetch);
  for (const path of ["/one", "/two"]) assert.equal((await call(`${api.url}${path}`)).status, 200);
  await assert.rejects(call(`${api.url}/one`), /PermitError/);
});

test("a cost of nothing is nothing, and a request that was sent before takes no permit", async (t) => {
  const few = 'name = "few"\nunit = "units"\ncapacity = 2\nperiod = "1h"\nmargin = 0';
  const [api, { url }] = [await serve(t), await scheduler(t, configuration(few))];
  const hub = new Resource({ url, resource: "api", log: () => {} });
  const ask = { cost: { units: 2 }, maxWaitMs: 60_000 };
  for (let calls = 0; calls < 2; calls += 1) {
    (await hub.permit(ask)).settle({ status: 200, cost: { units: 0 } });
    await hub.settled();
  }
  const call = withPermits({ resource: hub, ...ask, actual: () => ({ units: 0 }) })(fetch);
  const request = new Request(`${api.url}/once`, { method: "POST", body: "a body" });
  assert.equal(await (await call(request)).text(), "ok");
  await request.text();
  await assert.rejects(call(request), TypeError);
  assert.equal(api.calls, 1);
  await allSettled(url, hub, 3);
});

test("a wait that is given up says nothing, and its permit goes back", async (t) => {
  const { url } = await scheduler(t, configuration(places(1)));
  const said: unknown[] = [];
  const note = (what: unknown): void => void said.push(what);
  const hub = new Resource({ url, resource: "api", log: note });
  for (const event of ["unhandledRejection", "warning"]) {
    process.on(event, note);
    t.after(() => process.off(event, note));
  }
  const held = await hub.permit();
  const waiting = new AbortController();
  const waits = Array.from({ length: 20 }, () => hub.permit({ signal: waiting.signal }));
  const refused = Promise.allSettled(waits);
  await sleep(200);
  waiting.abort();
  for (const { status } of await refused) assert.equal(status, "rejected");
  held.settle();
  (await hub.permit({ maxWaitMs: 60_000 })).settle();
  await hub.settled();
  assert.deepEqual(said, []);
});
