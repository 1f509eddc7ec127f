// Clients at work for a while: RAMPMETER_SOAK=600 typescript/check lets them work for ten minutes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Resource, withPermits } from "../src/index.js";
import { anthropic, openai } from "../src/models.js";
import { configuration, counter, scheduler, upstream } from "./machine.js";
import { vendor } from "./vendor.js";

const SECONDS = Number(process.env["RAMPMETER_SOAK"] ?? 4);
/** Calls in a second that the vendor allows, and in flight. With slow bodies the latter are nearly as scarce. */
const [RATE, PLACES, WORKERS] = [20, 4, 64];
const UNITS = ["requests", "tokens", "input-tokens", "output-tokens"];
/** What a quota lacks of it was settled. */
const STOCK = 100_000_000;
const NEVER = `resets = "never"\nlearn = false\ncapacity = ${STOCK}`;
/** A margin pays for calls that are two seconds late. */
const LIMITS = [
  'name = "rate"\ncapacity = 60\nperiod = "3s"\nmargin = 40',
  'name = "words"\nunit = "tokens"\ncapacity = 15000\nperiod = "5s"\nmargin = 6000',
  `name = "in-flight"\nalgorithm = "concurrency"\ncapacity = ${PLACES}\ntime_to_live = "30s"`,
  ...UNITS.map((unit) => `name = "all-${unit}"\nunit = "${unit}"\nalgorithm = "quota"\n${NEVER}`),
];
const OTHERS = UNITS.slice(2).map((unit) => `${unit}=1000000/1s`);

const timeout = 120_000 + 2000 * SECONDS;

test("what clients pay for a while is what they have called, and no call is told 429", { timeout }, async (t) => {
  const up = await upstream(t, ["requests=60/3s", "tokens=15000/5s", ...OTHERS]);
  const text = configuration(...LIMITS).replace('"api"', '"api"\nstart = "full"\nlearn_costs = []');
  const [{ url }, api] = [await scheduler(t, text), await vendor(t, up)];
  const hub = new Resource({ url, resource: "api" });
  const key = { apiKey: "none", baseURL: api.url };
  const chats = new OpenAI({ ...key, fetch: openai({ resource: hub })(fetch) });
  const claude = new Anthropic({ ...key, fetch: anthropic({ resource: hub })(fetch) });
  const call = withPermits({ resource: hub })(fetch);
  const tools = [{ type: "function" as const, function: { name: "weather", parameters: { type: "object" } } }];
  const ask = (number: number): (() => Promise<unknown>) => {
    const messages = [{ role: "user" as const, content: `${number}: ${"Count to twenty. ".repeat(1 + (number % 4))}` }];
    const asked = { model: "slow", max_tokens: 60, messages };
    const text = `${Math.floor(number / 200)}: ${"words of a book ".repeat(50)}`;
    const system = [{ type: "text" as const, text, cache_control: { type: "ephemeral" as const } }];
    const kinds = [
      () => call(`${api.url}/slow`).then((answer) => answer.text()),
      () => chats.chat.completions.create({ ...asked, tools }),
      async () => {
        const how = { stream: true, stream_options: { include_usage: true } } as const;
        for await (const _ of await chats.chat.completions.create({ ...asked, ...how })) continue;
      },
      () => claude.messages.create({ ...asked, system }),
      async () => {
        for await (const _ of await claude.messages.create({ ...asked, system, stream: true })) continue;
      },
    ];
    return kinds[number % kinds.length] ?? assert.fail();
  };
  const [calls, begun] = [Math.round(RATE * SECONDS), performance.now()];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < calls) await ask(next++)();
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  const took = (performance.now() - begun) / 1000;
  // A package cancels a stream whose end it has seen a moment later.
  for (let waits = 0; waits < 500 && (await counter(url, "settled")) < calls; waits += 1) await sleep(20);
  await hub.settled();
  const { sent, ok, rate_limited, policies } = await up.stats();
  const permits = (await counter(url, "granted")) - (await counter(url, "returned"));
  const { left } = await hub.permit({ cost: Object.fromEntries(UNITS.map((unit) => [unit, 1])), left: true });
  const paid = UNITS.map((unit) => {
    const settled = STOCK - 1 - (left.find(({ limit }) => limit === `all-${unit}`)?.remaining ?? 0);
    return [unit, settled, policies.find((policy) => policy.unit === unit)?.spent ?? 0] as const;
  });
  const figures = `${calls} calls in ${took.toFixed(1)} s, ${api.mostAtOnce} in flight, ${rate_limited} × 429`;
  t.diagnostic(`${figures}, settled and charged: ${paid.map((each) => each.join(" ")).join(", ")}`);
  assert.deepEqual([api.calls, sent, ok, rate_limited, permits], [calls, calls, calls, 0, calls]);
  assert.ok(api.mostAtOnce <= PLACES, `${api.mostAtOnce}`);
  for (const [unit, settled, charged] of paid)
    assert.ok(charged > 0 && Math.abs(settled - charged) <= charged / 100, `${unit}: ${settled} for ${charged}`);
});
