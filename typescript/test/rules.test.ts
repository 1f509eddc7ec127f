import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PermitError, Resource, withPermits, type Ask, type Cost, type Way } from "../src/index.js";
import { configuration, counter, folder, freePort, nats, scheduler, upstream } from "./machine.js";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const TEN = 'name = "ten"\ncapacity = 10\nperiod = "1s"';
const SLOW = 'name = "slow"\ncapacity = 1\nperiod = "60s"';

async function refusal(of: Promise<unknown>): Promise<PermitError> {
  const error = await of.then(() => assert.fail("there is a permit"), (why: unknown) => why);
  assert.ok(error instanceof PermitError, String(error));
  return error;
}

test("a scheduler is killed under waiting calls: no error, none over the limit", async (t) => {
  const up = await upstream(t, ["requests=12/1s"]); // A loaded machine starts calls late.
  const one = await scheduler(t, configuration(TEN));
  const call = withPermits({ url: one.url, resource: "api", log: () => {} })(fetch);
  const calls = Array.from({ length: 40 }, () => call(`${up.url}/process`).then((answer) => answer.status));
  for (let kills = 0; kills < 2; kills += 1) {
    await sleep(700);
    await one.kill();
    await sleep(300);
    await one.restart();
  }
  assert.ok((await Promise.all(calls)).every((status) => status === 200));
  assert.equal((await up.stats()).rate_limited, 0);
});

test("NATS is killed under waiting calls: no error, none over the limit", async (t) => {
  const [up, server] = [await upstream(t, ["requests=12/1s"]), await nats(t)];
  const one = await scheduler(t, configuration(TEN), server);
  const call = withPermits({ url: one.url, resource: "api", log: () => {} })(fetch);
  const calls = Array.from({ length: 25 }, () => call(`${up.url}/process`).then((answer) => answer.status));
  await sleep(300);
  await server.restart();
  assert.ok((await Promise.all(calls)).every((status) => status === 200));
  assert.equal((await up.stats()).rate_limited, 0);
});

test("another scheduler of the list takes over", async (t) => {
  const server = await nats(t);
  const [one, two] = [await scheduler(t, configuration(TEN), server), await scheduler(t, configuration(TEN), server)];
  const api = new Resource({ url: [one.url, two.url], resource: "api", log: () => {} });
  (await api.permit()).settle();
  await one.kill();
  (await api.permit()).settle();
  await api.settled();
});

test("a scheduler that hangs is left, and its requests are asked for again", async (t) => {
  const server = await nats(t);
  const [one, two] = [await scheduler(t, configuration(TEN), server), await scheduler(t, configuration(TEN), server)];
  const patience = { unreachable: "fail", patienceMs: 3000 } as const;
  const api = new Resource({ url: [one.url, two.url], resource: "api", log: () => {}, ...patience });
  one.signal("SIGSTOP");
  t.after(() => one.signal("SIGCONT"));
  (await api.permit()).settle();
});

test("bad input is an error that says what to do, and nothing is charged", async (t) => {
  const place = folder(t);
  writeFileSync(join(place, "token"), "a token of enough bytes");
  const http = `[http]\ntoken_file = "${join(place, "token")}"\n`;
  const { url } = await scheduler(t, http + configuration(TEN));
  const token = "a token of enough bytes";
  const other = createServer((_, answer) => answer.writeHead(200).end("<html>a page</html>")).listen(0, "127.0.0.1");
  await once(other, "listening");
  t.after(() => other.close());
  const page = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  const [api, log] = [{ url, token, resource: "api" }, (): void => {}];
  const table: [typeof api, Ask, string, RegExp][] = [
    [{ ...api, resource: "apo" }, {}, "unknown_resource", /no scheduler answers for resource `apo`/],
    [api, { cost: { tiles: 1 } }, "unknown_unit", /tiles/],
    [api, { class: "urgentest" }, "unknown_class", /there are `default`/],
    [api, { cost: { requests: 11 } }, "never_fits", /ten/],
    [{ ...api, token: "another" }, {}, "wrong_token", /set `token` to one that the scheduler knows/],
    [{ ...api, url: page }, {}, "not_rampmeter", /a page.*; set `url` to the address of a scheduler/],
    [{ ...api, url: `${url}/v1` }, {}, "not_rampmeter", /set `url` to the address of a scheduler/],
  ];
  for (const [options, ask, code, message] of table) {
    const error = await refusal(new Resource({ log, ...options }).permit(ask));
    assert.equal(error.code, code);
    assert.match(error.message, message);
  }
  assert.throws(() => new Resource({ ...api, resource: "two words" }), /`resource` is 1 to 64/);
  for (const wrong of ["nowhere", "nats://127.0.0.1:4222"])
    assert.throws(() => new Resource({ ...api, url: wrong }), /`url` is http:\/\/HOST:PORT or https:/);
  const secret = "http://me:secret@127.0.0.1:1";
  assert.throws(() => new Resource({ ...api, url: secret }), /no user and no password; set `token`$/);
  assert.throws(() => new Resource({ url } as typeof api), /`resource` is 1 to 64/);
  await assert.rejects(new Resource(api).permit({ cost: { requests: -1 } }), /a cost is 0 to 1e9/);
  await assert.rejects(new Resource(api).permit({ maxWaitMs: NaN }), /`maxWaitMs` is a time/);
  assert.equal(await counter(url, "granted"), 0);
});

test("a wait that is too long is refused at once, with the time to come back", async (t) => {
  const { url } = await scheduler(t, configuration(SLOW));
  const api = new Resource({ url, resource: "api" });
  (await api.permit()).settle();
  const error = await refusal(api.permit({ maxWaitMs: 500 }));
  assert.equal(error.code, "not_in_time");
  assert.ok((error.retryAfterMs ?? 0) > 10_000 && error.limitedBy === "slow", `${error.retryAfterMs}`);
});

test("a caller that gives up leaves the queue at no charge", async (t) => {
  const up = await upstream(t, ["requests=1/60s"]);
  const { url } = await scheduler(t, configuration(SLOW));
  const api = new Resource({ url, resource: "api" });
  const first = await api.permit();
  const waiting = new AbortController();
  const call = withPermits({ resource: api })(fetch)(`${up.url}/process`, { signal: waiting.signal });
  await sleep(200);
  waiting.abort(new Error("changed my mind"));
  await assert.rejects(call, /changed my mind/);
  first.giveBack();
  await api.settled();
  (await api.permit({ maxWaitMs: 1000 })).settle();
  await assert.rejects(api.permit({ signal: AbortSignal.abort(new Error("too late")) }), /too late/);
  assert.equal((await up.stats()).sent, 0);
});

test("a call that is answered 429 is repeated once the pause is over, unless its body is a stream", async (t) => {
  const up = await upstream(t, ["requests=2/1s"], "--retry-after", "seconds");
  const { url } = await scheduler(t, configuration('name = "too-high"\ncapacity = 10\nperiod = "1s"'));
  const call = withPermits({ url, resource: "api", repeats: 9 })(fetch);
  const post = (): Promise<Response> => call(new Request(`${up.url}/process`, { method: "POST", body: "a body" }));
  assert.ok((await Promise.all(Array.from({ length: 6 }, post))).every((answer) => answer.status === 200));
  assert.ok((await up.stats()).rate_limited > 0, "the limits of the scheduler were too high");
  const body = new Blob(["a stream"]).stream();
  const streamed = await call(`${up.url}/process`, { method: "POST", body, duplex: "half" } as RequestInit);
  assert.ok([200, 429].includes(streamed.status));
});

test("a call in flight keeps its place as long as it lasts", async (t) => {
  const held = 'name = "in-flight"\nalgorithm = "concurrency"\ncapacity = 1\ntime_to_live = "500ms"';
  const { url } = await scheduler(t, configuration(held));
  const api = new Resource({ url, resource: "api" });
  const long = await api.permit();
  const refused = await refusal(api.permit({ maxWaitMs: 1500 }));
  assert.match(refused.code, /not_in_time/);
  long.settle();
  (await api.permit({ maxWaitMs: 1000 })).settle();
});

test("while no scheduler answers, requests wait, fail, or go on at the safe rate", async () => {
  const [url, said] = [`http://127.0.0.1:${await freePort()}`, [] as string[]];
  const options = { url, resource: "api", patienceMs: 200, log: (message: string) => void said.push(message) };
  const error = await refusal(new Resource({ ...options, unreachable: "fail" }).permit());
  assert.equal(error.code, "unreachable");
  assert.match(error.message, /ECONNREFUSED/);
  const late = await refusal(new Resource(options).permit({ maxWaitMs: 300 }));
  assert.ok(late.code === "not_in_time" && /no scheduler answers/.test(late.message), late.message);
  const api = new Resource({ ...options, unreachable: { calls: 10, perMs: 1000 } });
  const begun = performance.now();
  const permits = await Promise.all(Array.from({ length: 6 }, () => api.permit()));
  const took = performance.now() - begun;
  assert.ok(permits.every((permit) => permit.id === undefined) && took > 690 && took < 3000, `${took}`);
});

test("calls that wait for their safe time ask the scheduler that is back", async (t) => {
  const one = await scheduler(t, configuration(TEN));
  const options = { url: one.url, resource: "api", patienceMs: 100, log: () => {} };
  const api = new Resource({ ...options, unreachable: { calls: 1, perMs: 3_600_000 } });
  await one.kill();
  const waiting = api.permit();
  await sleep(500);
  await one.restart();
  assert.notEqual((await waiting).id, undefined);
});

test("people are told of a silence, and of its end", async (t) => {
  const [one, said] = [await scheduler(t, configuration(TEN)), [] as string[]];
  const api = new Resource({ url: one.url, resource: "api", log: (message) => void said.push(message) });
  await one.kill();
  const waiting = api.permit();
  await sleep(2500);
  await one.restart();
  (await waiting).settle();
  assert.equal(said.length, 2, said.join("\n"));
  assert.match(said[0] ?? "", /rampmeter: api: no scheduler has answered for 2\d\d\d ms: .*ECONNREFUSED/);
  assert.match(said[1] ?? "", /a scheduler answers again/);
});

test("the cost of a call is what it took in the end", async (t) => {
  const units = 'name = "units"\nunit = "units"\ncapacity = 10\nperiod = "60s"';
  const { url } = await scheduler(t, configuration(units));
  const api = new Resource({ url, resource: "api" });
  const actual = async (answer: Response): Promise<Cost> => ({ units: Number(await answer.text()) });
  await api.run({ cost: { units: 9 } }, async () => new Response("4"), actual);
  await api.settled();
  (await api.permit({ cost: { units: 5 }, maxWaitMs: 0 })).settle();
});

test("settles that are too long for one message travel in several", async (t) => {
  const { url } = await scheduler(t, configuration('name = "many"\ncapacity = 1000\nperiod = "1s"'));
  const said: string[] = [];
  const api = new Resource({ url, resource: "api", log: (message) => void said.push(message) });
  const permits = await Promise.all(Array.from({ length: 200 }, () => api.permit()));
  const headers = new Headers({ "ratelimit-policy": "é".repeat(500) }); // Two bytes each.
  for (const permit of permits) permit.settle({ status: 200, headers });
  await api.settled();
  assert.deepEqual(said, []);
  assert.equal(await counter(url, "settled"), 200);
});

test("the code of an error tells a spent quota from a forbidden call", async (t) => {
  const month = 'name = "month"\nalgorithm = "quota"\nresets = "month"\ncapacity = 1000';
  const { url } = await scheduler(t, configuration(month).replace('"api"', '"api"\ndialect = "sentinel-hub"'));
  const api = new Resource({ url, resource: "api" });
  const call = async (code: string): Promise<void> => {
    await api.run({ maxWaitMs: 5000 }, async () => ({ status: 403, code }));
    await api.settled();
  };
  for (let calls = 0; calls < 2; calls += 1) await call("ACCESS_FORBIDDEN");
  // An SDK throws the error of the body, with its code in it.
  const thrown = Object.assign(new Error("no"), { status: 429, error: { type: "lock_timeout" } });
  await assert.rejects(api.run({ maxWaitMs: 5000 }, () => Promise.reject(thrown)), thrown);
  await api.settled();
  (await api.permit({ maxWaitMs: 0 })).settle();
  await call("ACCESS_INSUFFICIENT_PROCESSING_UNITS");
  assert.equal((await refusal(api.permit({ maxWaitMs: 5000 }))).code, "quota_spent");
});

/** A resource whose front grants all requests with these fields, and the messages that the front hears. */
async function grants(t: TestContext, fields: object): Promise<[Resource, Record<string, unknown>[]]> {
  const granted = { status: "granted", id: "a", delay_ms: 0, lease_ms: 150, epoch: 1, ...fields };
  const heard: Record<string, unknown>[] = [];
  const front = createServer((asked, response) => {
    const chunks: Buffer[] = [];
    asked.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
      heard.push(JSON.parse(Buffer.concat(chunks).toString()));
      response.end(JSON.stringify(asked.url === "/v1/permit/api" ? granted : { status: "settled", id: "a" }));
    });
  }).listen(0, "127.0.0.1");
  await once(front, "listening");
  t.after(() => front.close());
  return [new Resource({ url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`, resource: "api" }), heard];
}

test("a price goes in place of a cost, and a renewal has the cost that was computed", async (t) => {
  const answer = { cost: { units: 2.5 } };
  const [api, heard] = await grants(t, answer);
  const price = { kind: "sentinel-hub", api: "process", body: { output: { width: 512 } } };
  const permit = await api.permit({ price });
  while (heard.length < 2) await sleep(10);
  permit.giveBack();
  assert.deepEqual(heard[0]?.["price"], price);
  assert.deepEqual([heard[0]?.["cost"], heard[1]?.["asked"]], [undefined, { ...answer, labels: {} }]);
});

test("a permit and its renewals name the account", async (t) => {
  const [api, heard] = await grants(t, { account: "team-b" });
  const permit = await api.permit({ not: ["team-a"], labels: { route: "/" } });
  while (heard.length < 2) await sleep(10);
  permit.giveBack();
  assert.deepEqual([heard[0]?.["not"], permit.account], [["team-a"], "team-b"]);
  assert.deepEqual(heard[1]?.["asked"], { labels: { route: "/", account: "team-b" } });
});

test("a permit and its renewals tell the way to make the call", async (t) => {
  const [api, heard] = await grants(t, { way: 2, account: "team-b" });
  const small = { model: "small", region: "" };
  const or: Way[] = [{ labels: { model: "medium" } }, { labels: small, cost: 2, worthMs: 1000 }];
  const permit = await api.permit({ labels: { model: "large", region: "eu" }, worthMs: 5000, or });
  while (heard.length < 2) await sleep(10);
  permit.giveBack();
  const any_of = [or[0], { labels: small, cost: { requests: 2 }, else_after_ms: 1000 }];
  assert.deepEqual([heard[0]?.["else_after_ms"], heard[0]?.["any_of"], permit.way], [5000, any_of, 2]);
  assert.deepEqual(heard[1]?.["asked"], { cost: { requests: 2 }, labels: { model: "small", account: "team-b" } });
});
