import assert from "node:assert/strict";
import { test } from "node:test";
import { REST, Routes } from "discord.js";
import OpenAI from "openai";
import { Resource, withPermits } from "../src/index.js";
import { configuration, gateway, proxy, scheduler, upstream } from "./machine.js";

// The upstream's limits, with margins that pay for calls that are two seconds late.
const LIMITS = ["requests=60/3s", "tokens=120000/30s"];
const REQUESTS = 'name = "requests"\ncapacity = 60\nperiod = "3s"\nmargin = 40';
const TOKENS = 'name = "tokens"\nunit = "tokens"\ncapacity = 120000\nperiod = "30s"\nmargin = 8000';

test("openai-node, unmodified, is never told 429, and the tokens are those that it used", async (t) => {
  const up = await upstream(t, LIMITS, "--dialect", "openai");
  const { url } = await scheduler(t, configuration(REQUESTS, TOKENS));
  const usage = { prompt_tokens: 20, completion_tokens: 280, total_tokens: 300 };
  const choices = [{ message: { role: "assistant", content: "ok" } }];
  const answer = { id: "1", object: "chat.completion", choices, usage };
  const baseURL = await gateway(t, up, "tokens=300", () => answer);
  const api = new Resource({ url, resource: "api" });
  const permitted = withPermits({
    resource: api,
    asking: () => ({ cost: { tokens: 500 } }),
    actual: async (response) => ({ tokens: ((await response.json()) as typeof answer).usage.total_tokens }),
  })(fetch);
  const openai = new OpenAI({ apiKey: "none", baseURL, fetch: permitted, maxRetries: 0 });
  const ask = { model: "any", messages: [{ role: "user" as const, content: "Say ok" }] };
  const answers = await Promise.all(Array.from({ length: 80 }, () => openai.chat.completions.create(ask)));
  assert.ok(answers.every((each) => each.choices[0]?.message.content === "ok"));
  await api.settled();
  const { ok, rate_limited } = await up.stats();
  assert.deepEqual({ ok, rate_limited }, { ok: 80, rate_limited: 0 });
  const wrong = withPermits({ url, resource: "apo", log: () => {} })(fetch);
  const refused = new OpenAI({ apiKey: "none", baseURL, fetch: wrong }).chat.completions.create(ask);
  await assert.rejects(refused, { status: 400, code: "unknown_resource", type: "invalid_request_error" });
});

test("discord.js, unmodified, is never told 429", async (t) => {
  const up = await upstream(t, LIMITS.slice(0, 1));
  const { url } = await scheduler(t, configuration(REQUESTS));
  const api = await gateway(t, up, "", () => ({ id: "1" }));
  const makeRequest = withPermits({ url, resource: "api" })(fetch);
  const rest = new REST({ api, makeRequest: makeRequest as never, globalRequestsPerSecond: 10_000 }).setToken("none");
  const roles = Array.from({ length: 60 }, (_, user) => rest.put(Routes.guildMemberRole("1", String(user), "2")));
  await Promise.all(roles);
  const { ok, rate_limited } = await up.stats();
  assert.deepEqual({ ok, rate_limited }, { ok: 60, rate_limited: 0 });
});

test("openai-node behind the proxy, changed in its URL alone, is never told 429", async (t) => {
  const up = await upstream(t, LIMITS, "--dialect", "openai");
  const usage = { prompt_tokens: 20, completion_tokens: 280, total_tokens: 300 };
  const choices = [{ message: { role: "assistant", content: "ok" } }];
  const api = await gateway(t, up, "tokens=300", () => ({ id: "1", object: "chat.completion", choices, usage }));
  const url = await proxy(t, api, configuration(REQUESTS, TOKENS), 'tokens = { total = "tokens" }');
  const openai = new OpenAI({ apiKey: "none", baseURL: `${url}/v1`, maxRetries: 0 });
  const ask = { model: "any", max_tokens: 400, messages: [{ role: "user" as const, content: "Say ok" }] };
  const answers = await Promise.all(Array.from({ length: 64 }, () => openai.chat.completions.create(ask)));
  assert.ok(answers.every((each) => each.choices[0]?.message.content === "ok"));
  const { ok, rate_limited } = await up.stats();
  assert.deepEqual({ ok, rate_limited }, { ok: 64, rate_limited: 0 });
});

test("discord.js behind the proxy keeps the order of each channel and is never told 429", async (t) => {
  const up = await upstream(t, LIMITS.slice(0, 1));
  const arrived = new Map<string, string[]>();
  const note = (path: string): object => {
    const [channel = "", number = ""] = path.split("?n=");
    arrived.set(channel, [...(arrived.get(channel) ?? []), number]);
    return { id: "1" };
  };
  const url = await proxy(t, await gateway(t, up, "", note), configuration(REQUESTS));
  const options = { api: `${url}/api`, globalRequestsPerSecond: 10_000, timeout: 60_000 };
  const rest = new REST(options).setToken("none");
  const send = (channel: number, n: number): Promise<unknown> =>
    rest.post(Routes.channelMessages(String(channel)), { body: {}, query: new URLSearchParams({ n: String(n) }) });
  await Promise.all(Array.from({ length: 150 }, (_, at) => send(at % 50, Math.floor(at / 50))));
  const { ok, rate_limited } = await up.stats();
  assert.deepEqual({ ok, rate_limited }, { ok: 150, rate_limited: 0 });
  assert.equal(arrived.size, 50);
  for (const numbers of arrived.values()) assert.deepEqual(numbers, ["0", "1", "2"]);
});

test("without permits the same calls are told 429", async (t) => {
  const up = await upstream(t, ["requests=20/1s"]);
  const api = await gateway(t, up, "", () => ({ id: "1" }));
  await Promise.all(Array.from({ length: 60 }, () => fetch(api)));
  assert.ok((await up.stats()).rate_limited > 0);
});
