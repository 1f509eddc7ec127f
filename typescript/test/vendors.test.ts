// Packages of vendors, unmodified, in the oldest and the newest version that is known to work.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAI } from "@ai-sdk/openai";
import { embed, generateText, streamText } from "ai";
import Anthropic0 from "anthropic-0";
import OpenAI from "openai";
import OpenAI4 from "openai-4";
import { Resource, withPermits, type Ask, type ResourceOptions } from "../src/index.js";
import { anthropic, openai } from "../src/models.js";
import { configuration, counter, freePort, scheduler, upstream, type Upstream } from "./machine.js";
import { vendor, type Vendor } from "./vendor.js";

/** What the vendor allows in a second, and what all calls of a test may take. */
const UNITS = ["tokens", "input-tokens", "output-tokens"];
const UPSTREAM = ["requests=25/1s", ...UNITS.map((unit) => `${unit}=1000000/8760h`)];
const yearly = (unit: string): string =>
  `name = "${unit}"\nunit = "${unit}"\ncapacity = 1000000\nperiod = "8760h"\nmargin = 0\nlearn = false`;
const LIMITS = ['name = "requests"\ncapacity = 20\nperiod = "1s"', ...UNITS.map(yearly)];

interface Account {
  readonly api: Vendor;
  readonly up: Upstream;
  readonly hub: Resource;
  readonly url: string;
}

async function account(t: TestContext): Promise<Account> {
  const up = await upstream(t, UPSTREAM);
  const full = '"api"\nstart = "full"\nlearn_costs = []';
  const { url } = await scheduler(t, configuration(...LIMITS).replace('"api"', full));
  const hub = new Resource({ url, resource: "api" });
  return { api: await vendor(t, up), up, hub, url };
}

/** Each call had one permit and no 429, and was settled with what the vendor has charged. */
async function allPaid({ api, up, hub, url }: Account, units: readonly string[]): Promise<void> {
  // A package may cancel a stream whose end it has seen a moment later.
  for (let waits = 0; waits < 500 && (await counter(url, "settled")) < api.calls; waits += 1) await sleep(20);
  await hub.settled();
  const { sent, rate_limited, policies } = await up.stats();
  assert.deepEqual([sent, rate_limited], [api.calls, 0]);
  assert.equal((await counter(url, "granted")) - (await counter(url, "returned")), api.calls);
  const { left } = await hub.permit({ cost: Object.fromEntries(units.map((unit) => [unit, 1])), left: true });
  for (const unit of units) {
    const spent = policies.find((policy) => policy.unit === unit)?.spent ?? 0;
    const paid = 1_000_000 - 1 - (left.find((limit) => limit.unit === unit)?.remaining ?? 0);
    assert.ok(spent > 0 && Math.abs(paid - spent) <= 1, `${unit}: ${paid} for ${spent}`);
  }
}

const messages = [{ role: "user" as const, content: "Count to twenty, in words." }];

for (const [version, Package] of [["4.0.0", OpenAI4], ["7", OpenAI]] as const)
  test(`openai ${version} has a permit for each call, and pays what it took`, async (t) => {
    const account_ = await account(t);
    const permitted = openai({ resource: account_.hub })(fetch);
    const client = new (Package as typeof OpenAI)({ apiKey: "none", baseURL: account_.api.url, fetch: permitted });
    const ask = { model: "m", messages, max_tokens: 50 };
    const once = async (): Promise<void> => {
      const whole = await client.chat.completions.create(ask);
      assert.match(whole.choices[0]?.message.content ?? "", /^(word ){20}$/);
      let words = 0;
      const options = { stream: true, stream_options: { include_usage: true } } as const;
      for await (const event of await client.chat.completions.create({ ...ask, ...options }))
        words += event.choices[0]?.delta.content ? 1 : 0;
      assert.equal(words, 20);
      await client.embeddings.create({ model: "e", input: "some text" });
    };
    await Promise.all(Array.from({ length: 10 }, once));
    await client.models.list();
    await allPaid(account_, ["tokens"]);
  });

for (const [version, Package] of [["0.20", Anthropic0], ["1", Anthropic]] as const)
  test(`@anthropic-ai/sdk ${version} has a permit for each call, and pays what it took`, async (t) => {
    const account_ = await account(t);
    const permitted = anthropic({ resource: account_.hub })(fetch);
    const client = new (Package as typeof Anthropic)({ apiKey: "none", baseURL: account_.api.url, fetch: permitted });
    const text = "words of a book ".repeat(2000);
    const system = [{ type: "text" as const, text, cache_control: { type: "ephemeral" as const } }];
    for (const prompt of [{}, { system }, { system }]) {
      const ask = { model: "m", messages, max_tokens: 50, ...prompt };
      const whole = await client.messages.create(ask);
      assert.equal(whole.usage.output_tokens, 20);
      let words = 0;
      for await (const event of await client.messages.create({ ...ask, stream: true }))
        words += event.type === "content_block_delta" ? 1 : 0;
      assert.equal(words, 20);
    }
    await allPaid(account_, ["input-tokens", "output-tokens"]);
  });

const REFUSALS: readonly (readonly [string, number, Partial<ResourceOptions> & Ask])[] = [
  ["not_in_time", 429, { maxWaitMs: 100 }],
  ["unknown_class", 400, { class: "nobody" }],
  ["unreachable", 503, { unreachable: "fail", patienceMs: 200 }],
];

test("a refusal is an ordinary error of openai-node and of Anthropic's package, which neither repeats", async (t) => {
  const slow = LIMITS.map((limit) => limit.replace('capacity = 20\nperiod = "1s"', 'capacity = 1\nperiod = "1h"'));
  const { url } = await scheduler(t, configuration(...slow));
  (await new Resource({ url, resource: "api" }).permit()).settle();
  const gone = `http://127.0.0.1:${await freePort()}`;
  for (const [code, status, options] of REFUSALS) {
    const asked: string[] = [];
    const counted: typeof fetch = (...call) => fetch(call[0], asked.push(String(call[0])) ? call[1] : {});
    const place = { url: code === "unreachable" ? gone : url, resource: "api", fetch: counted, log: () => {} };
    const target = { ...options, resource: new Resource({ ...place, ...options }) };
    const plain = { apiKey: "none", baseURL: gone, fetch: withPermits(target)(fetch) };
    const [chats, claudes] = [[OpenAI, OpenAI4], [Anthropic, Anthropic0]] as [(typeof OpenAI)[], (typeof Anthropic)[]];
    const ask = { model: "m", messages, max_tokens: 50 };
    const calls = [
      ...chats.map((Kind) => new Kind({ ...plain, fetch: openai(target)(fetch) }).chat.completions),
      ...claudes.map((Kind) => new Kind({ ...plain, fetch: anthropic(target)(fetch) }).messages),
      new OpenAI(plain).chat.completions,
    ] as { create(what: typeof ask): Promise<unknown> }[];
    for (const call of calls) {
      const error = await call.create(ask).then(() => assert.fail(code), (why: Error & { status?: number }) => why);
      assert.equal(error.status, status, error.message);
      assert.match(error.message, /rampmeter: .*(request allows|there are `default`|ECONNREFUSED)/);
    }
    const permits = asked.filter((path) => path.includes("/permit/"));
    assert.ok(code === "unreachable" || permits.length === calls.length, `${code}: ${permits.length} requests`);
  }
});

test("a prompt that the vendor keeps is not asked for again", async (t) => {
  const account_ = await account(t);
  const costs = new Map<string, number>();
  const { url } = account_;
  const overhear: typeof fetch = (input, init) => {
    const { id = "", cost } = JSON.parse(String(init?.body ?? "{}")) as { id?: string; cost?: Record<string, number> };
    // A request that is answered late is sent again under its id.
    if (String(input).includes("/v1/permit/")) costs.set(id, cost?.["input-tokens"] ?? 0);
    return fetch(input, init);
  };
  const permitted = anthropic({ resource: new Resource({ url, resource: "api", fetch: overhear }) })(fetch);
  const client = new Anthropic({ apiKey: "none", baseURL: account_.api.url, fetch: permitted });
  const text = "words of a book ".repeat(2000);
  const system = [{ type: "text" as const, text, cache_control: { type: "ephemeral" as const } }];
  const ask = { model: "m", system, messages, max_tokens: 50 };
  for (let calls = 0; calls < 3; calls += 1) await client.messages.create(ask);
  const [first = 0, second = 0, third = 0] = costs.values();
  assert.ok(first > 6000 && second < first / 4 && third === second, `${[...costs.values()]}`);
});

test("the AI SDK has a permit for each call, and pays what it took", async (t) => {
  const account_ = await account(t);
  const permitted = openai({ resource: account_.hub })(fetch);
  const provider = createOpenAI({ apiKey: "none", baseURL: account_.api.url, fetch: permitted });
  const ask = { prompt: "Count to twenty, in words.", maxOutputTokens: 50 };
  const once = async (): Promise<void> => {
    for (const model of [provider("m"), provider.chat("m")]) {
      const { text, usage } = await generateText({ model, ...ask });
      assert.deepEqual([text, usage.outputTokens], ["word ".repeat(20), 20]);
      const streamed = streamText({ model, ...ask });
      assert.equal(await streamed.text, "word ".repeat(20));
    }
    await embed({ model: provider.embedding("e"), value: "some text" });
  };
  await Promise.all(Array.from({ length: 5 }, once));
  await allPaid(account_, ["tokens"]);
});
