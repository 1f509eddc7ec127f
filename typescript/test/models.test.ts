// Language models: what calls cost before they are sent, and what settles them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import OpenAI from "openai";
import { PermitError, Resource } from "../src/index.js";
import { anthropic, openai } from "../src/models.js";
import {
  estimate, labelsOf, MAX_PROMPTS, Meter, Prompts, requestOf, type ModelRequest, type Tokens,
} from "../src/tokens.js";
import { configuration, counter, scheduler } from "./machine.js";

const CHAT = "/v1/chat/completions";
const REQUESTS = 'name = "requests"\ncapacity = 1000\nperiod = "1s"';
/** A stock of a unit that counts what was settled. */
const yearly = (unit: string, capacity: number): string =>
  `name = "${unit}"\nunit = "${unit}"\ncapacity = ${capacity}\nperiod = "8760h"\nmargin = 0\nlearn = false`;

async function estimated(path: string, body: object, method = "POST"): Promise<Tokens> {
  return estimate(await requestOf(`http://host${path}`, { method, body: JSON.stringify(body) }));
}

test("a request may take the most that it allows, as the proxy and Python estimate it", async () => {
  const table: [string, object, Tokens][] = [
    [CHAT, { max_tokens: 100 }, [0, 100]],
    [CHAT, { max_completion_tokens: 7, n: 3 }, [0, 21]],
    [CHAT, { model: "m" }, [1, 1024]],
    ["/v1/completions", { prompt: ["four", "more"], n: 2, best_of: 3, max_tokens: 10 }, [2, 60]],
    ["/v1/embeddings", { input: [[1, 2, 3], [4, 5]] }, [5, 0]],
    ["/v1/embeddings", { input: ["four", "more"] }, [2, 0]],
    ["/v1/batches", { input_file_id: "f" }, [0, 0]],
    ["/v1/messages/count_tokens", { messages: [], max_tokens: 5 }, [0, 0]],
    ["/v1/threads/t/runs", { assistant_id: "a", max_completion_tokens: 50 }, [1, 50]],
  ];
  for (const [path, body, expected] of table) {
    assert.deepEqual(await estimated(path, body), expected, path);
    assert.deepEqual(await estimated(path, body, "PUT"), [0, 0]);
  }
  const data = "QUJD".repeat(50_000);
  const contents: [unknown, number, number][] = [
    ["漢".repeat(40_000), 40_000, 60_000],
    ['{"id":123,"name":"foo"},'.repeat(1000), 6000, 12_000],
    [[{ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }], 1600, 1630],
    [[{ type: "image_url", image_url: { url: "https://a.example/picture" } }], 1600, 1630],
    [[{ type: "image", source: { type: "base64", data: `iVBORw0KGgo${data}` } }], 1600, 1630],
    [[{ type: "document", source: { data: `JVBERi0${data}` } }], 6000, 6030],
    [[{ type: "tool_use", input: { query: "words of arguments ".repeat(100) } }], 475, 520],
  ];
  for (const [content, least, most] of contents) {
    const [read] = await estimated(CHAT, { messages: [{ role: "user", content }], max_tokens: 5 });
    assert.ok(least <= read && read <= most, `${read}`);
  }
  assert.deepEqual(labelsOf(await requestOf("http://host/v1/models")), { model: "none" });
});

test("what the vendor keeps of a prompt is not estimated again", async () => {
  const ask = async (system: string, content: string): Promise<ModelRequest> => {
    const body = JSON.stringify({ model: "m", system: system.repeat(4000), messages: [{ role: "user", content }] });
    return requestOf("http://host/v1/messages", { method: "POST", body });
  };
  const prompts = new Prompts();
  const count = await ask("word", "Count.");
  assert.equal(prompts.kept(count), 0);
  prompts.note(count, 9000);
  assert.equal(prompts.kept(count), 9000, "a conversation");
  assert.equal(prompts.kept(await ask("word", "Sing.")), 4001, "its instructions, in another conversation");
  assert.equal(prompts.kept(await ask("text", "Count.")), 0, "other instructions");
  for (let number = 0; number < MAX_PROMPTS; number += 1) prompts.note(await ask("", `${number}`), 1);
  assert.equal(prompts.kept(count), 0, "the last ones are remembered");
});

test("an answer of any length says what it took", () => {
  const table: [object, Tokens][] = [
    [{ usage: { input_tokens: 5, cache_creation_input_tokens: 20_000, output_tokens: 7 } }, [20_005, 7]],
    [{ usage: { prompt_tokens: 5, total_tokens: 5 } }, [5, 0]],
    [{ data: [{ b64: "A".repeat(500_000) }], usage: { input_tokens: 70, output_tokens: 4100 } }, [70, 4100]],
    [{ text: '{"usage": {"input_tokens": 9}}', usage: { input_tokens: 5, output_tokens: 7 } }, [5, 7]],
    [{ choices: [] }, [70, 900]],
  ];
  for (const [answer, expected] of table) {
    const bytes = new TextEncoder().encode(`\n  ${JSON.stringify(answer, null, 1)}`);
    for (const step of [bytes.length, 1009]) {
      const meter = new Meter(70, 900);
      for (let at = 0; at < bytes.length; at += step) meter.feed(bytes.subarray(at, at + step));
      assert.deepEqual(meter.used(true), expected);
    }
  }
});

test("a stream that is left is settled with what has come", () => {
  const delta = { choices: [{ delta: { content: "word" } }] };
  const ofAnthropic = { type: "content_block_delta", delta: { text: "word" } };
  const start = { type: "message_start", message: { usage: { input_tokens: 5, output_tokens: 1 } } };
  const last = { type: "message_delta", delta: {}, usage: { output_tokens: 20 } };
  const table: [object[], Tokens][] = [
    [[delta, delta], [70, 2]],
    [[delta, delta, { choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } }], [5, 1]],
    [[start, ofAnthropic, ofAnthropic], [5, 3]],
    [[start, ofAnthropic, ofAnthropic, last], [5, 20]],
    [[{ delta: 'a "delta": and "usage": {"input_tokens": 9}' }], [70, 1]],
    [[], [70, 0]],
  ];
  for (const [events, expected] of table) {
    const bytes = new TextEncoder().encode(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
    for (const step of [1000, 7]) {
      const meter = new Meter(70, 900);
      for (let at = 0; at < bytes.length; at += step) meter.feed(bytes.subarray(at, at + step));
      assert.deepEqual(meter.used(false), expected, JSON.stringify(events.at(-1)));
    }
  }
});

/** Waits for the ends of so many calls: a package may cancel a stream whose end it has seen a moment later. */
async function settledCalls(url: string, hub: Resource, calls: number): Promise<void> {
  for (let waits = 0; waits < 500 && (await counter(url, "settled")) < calls; waits += 1)
    await new Promise((wake) => setTimeout(wake, 20));
  await hub.settled();
}

const USAGE = { prompt_tokens: 5, completion_tokens: 20, total_tokens: 25 };

/** A vendor's API, of which every call takes 25 tokens. Returns its URL and its number of calls. */
async function vendor(t: TestContext): Promise<{ url: string; calls: number }> {
  const frame = { id: "c", created: 1, model: "m" };
  const server = createServer((asked, answer) => {
    const chunks: Buffer[] = [];
    asked.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", async () => {
      api.calls += 1;
      if (asked.url?.includes("spent")) {
        answer.writeHead(429, { "content-type": "application/json" });
        return answer.end(JSON.stringify({ error: { message: "no money", code: "insufficient_quota" } }));
      }
      if (!String(Buffer.concat(chunks)).includes('"stream":true')) {
        answer.writeHead(200, { "content-type": "application/json" });
        const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "ok" } }];
        return answer.end(JSON.stringify({ ...frame, object: "chat.completion", choices, usage: USAGE }));
      }
      answer.writeHead(200, { "content-type": "text/event-stream" });
      const event = (more: object): unknown =>
        answer.write(`data: ${JSON.stringify({ ...frame, object: "chat.completion.chunk", ...more })}\n\n`);
      for (let word = 0; word < 20; word += 1) {
        event({ choices: [{ index: 0, delta: { content: "word " }, finish_reason: null }] });
        await new Promise((wake) => setTimeout(wake, 5));
      }
      event({ choices: [], usage: USAGE });
      return answer.end("data: [DONE]\n\n");
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const api = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls: 0 };
  return api;
}

test("openai-node has a permit for each call, and each is settled with its usage", async (t) => {
  const [api, { url }] = [await vendor(t), await scheduler(t, configuration(REQUESTS, yearly("tokens", 4000)))];
  const hub = new Resource({ url, resource: "api" });
  const permitted = openai({ resource: hub, maxWaitMs: 5000 })(fetch);
  const client = new OpenAI({ apiKey: "none", baseURL: api.url, fetch: permitted });
  const ask = { model: "m", max_tokens: 900, messages: [{ role: "user" as const, content: "Count." }] };
  for (let calls = 0; calls < 4; calls += 1) await client.chat.completions.create(ask);
  const events = await client.chat.completions.create({ ...ask, stream: true });
  for await (const _ of events) continue;
  await settledCalls(url, hub, 5);
  assert.equal((await counter(url, "granted")) - (await counter(url, "returned")), api.calls);
  // Five calls of 25 tokens: 3875 are left, and not one more.
  (await hub.tryPermit({ cost: { tokens: 3875 } })).giveBack();
  await assert.rejects(hub.tryPermit({ cost: { tokens: 3876 } }), PermitError);
  const left = await client.chat.completions.create({ ...ask, stream: true });
  let words = 0;
  for await (const _ of left) if ((words += 1) === 3) break;
  await settledCalls(url, hub, 7);
  (await hub.tryPermit({ cost: { tokens: 3840 } })).giveBack();
  const poor = new OpenAI({ apiKey: "none", baseURL: `${api.url}/spent`, fetch: openai({ resource: hub })(fetch) });
  const before = api.calls;
  await assert.rejects(poor.chat.completions.create(ask), /no money/);
  assert.equal(api.calls, before + 1, "nobody repeats what no wait mends");
});

test("anthropic counts input and output apart", async (t) => {
  const units = [yearly("input-tokens", 1000), yearly("output-tokens", 1000)];
  const [api, { url }] = [await vendor(t), await scheduler(t, configuration(REQUESTS, ...units))];
  const hub = new Resource({ url, resource: "api" });
  const body = JSON.stringify({ model: "m", max_tokens: 500, messages: [] });
  const answer = await anthropic({ resource: hub })(fetch)(`${api.url}/v1/messages`, { method: "POST", body });
  assert.match(await answer.text(), /"content":"ok"/);
  await hub.settled();
  (await hub.tryPermit({ cost: { "input-tokens": 995, "output-tokens": 980 } })).giveBack();
  await assert.rejects(hub.tryPermit({ cost: { "input-tokens": 995, "output-tokens": 981 } }), PermitError);
});
