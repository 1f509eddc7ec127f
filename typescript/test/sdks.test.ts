import assert from "node:assert/strict";
import { test } from "node:test";
import { REST, Routes } from "discord.js";
import OpenAI from "openai";
import { Resource, withPermits } from "../src/index.js";
import { configuration, gateway, scheduler, upstream } from "./machine.js";

// A tenth below the upstream's limits: a loaded machine starts calls late.
const REQUESTS = 'name = "per-second"\ncapacity = 18\nperiod = "1s"';
const TOKENS = 'name = "tokens"\nunit = "tokens"\ncapacity = 36000\nperiod = "10s"';

test("openai-node, unmodified, is never told 429, and the tokens are those that it used", async (t) => {
  const up = await upstream(t, ["requests=20/1s", "tokens=40000/10s"], "--dialect", "openai");
  const { url } = await scheduler(t, configuration(REQUESTS, TOKENS));
  const usage = { prompt_tokens: 20, completion_tokens: 280, total_tokens: 300 };
  const answer = { id: "1", object: "chat.completion", choices: [{ message: { role: "assistant", content: "ok" } }], usage };
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
});

test("discord.js, unmodified, is never told 429", async (t) => {
  const up = await upstream(t, ["requests=20/1s"]);
  const { url } = await scheduler(t, configuration(REQUESTS));
  const api = await gateway(t, up, "", () => ({ id: "1" }));
  const makeRequest = withPermits({ url, resource: "api" })(fetch);
  const rest = new REST({ api, makeRequest: makeRequest as never, globalRequestsPerSecond: 10_000 }).setToken("none");
  const roles = Array.from({ length: 60 }, (_, user) => rest.put(Routes.guildMemberRole("1", String(user), "2")));
  await Promise.all(roles);
  const { ok, rate_limited } = await up.stats();
  assert.deepEqual({ ok, rate_limited }, { ok: 60, rate_limited: 0 });
});

test("without permits the same calls are told 429", async (t) => {
  const up = await upstream(t, ["requests=20/1s"]);
  const api = await gateway(t, up, "", () => ({ id: "1" }));
  await Promise.all(Array.from({ length: 60 }, () => fetch(api)));
  assert.ok((await up.stats()).rate_limited > 0);
});
