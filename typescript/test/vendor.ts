// A vendor of language models on an account of `rampmeter upstream`: it decides by formulas of its own what a call
// costs, and lets the upstream decide whether it may run.
import { once } from "node:events";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Upstream } from "./machine.js";

export interface Vendor {
  readonly url: string;
  calls: number;
  mostAtOnce: number;
}

type Body = { readonly [name: string]: unknown };
/** What a call reads, answers, and writes into the cache or reads from it. */
type Usage = { readonly read: number; readonly words: number; readonly written: number; readonly found: number };

const FRAME = { id: "x", created: 1, created_at: 1, model: "m" };
const sized = (part: unknown): number => Math.ceil(JSON.stringify(part ?? "").length / 5);

/** How long a slow body takes: that of a path or of a model with the word `slow`. */
const SLOW_MS = 100;

/** Serves chats, responses and embeddings as OpenAI does, and messages with a cache of prompts as Anthropic does. */
export async function vendor(t: TestContext, up: Upstream): Promise<Vendor> {
  const cached = new Set<string>();
  let atOnce = 0;
  const usageOf = (body: Body): Usage => {
    const most = [body["max_tokens"], body["max_completion_tokens"], body["max_output_tokens"]].find(Number) ?? 64;
    const prompt = JSON.stringify(body["system"] ?? "");
    const isKept = prompt.includes("cache_control");
    const [kept, isKnown] = [isKept ? sized(prompt) : 0, cached.has(prompt)];
    if (isKept) cached.add(prompt);
    const read = sized(body["messages"] ?? body["input"]) + (isKept ? 0 : sized(prompt));
    return { read, words: Math.min(Number(most), 20), written: isKnown ? 0 : kept, found: isKnown ? kept : 0 };
  };
  const respond = async (path: string, body: Body, answer: ServerResponse): Promise<void> => {
    const usage = usageOf(body);
    const [kind, form] = Object.entries(FORMS).find(([end]) => path.endsWith(end)) ?? ["", LIST];
    if (!(await charge(up, answer, kind, usage))) return void (atOnce -= 1);
    const told = form(body, usage);
    const end = (last?: string): void => {
      atOnce -= 1; // Packages leave at the last event.
      answer.end(last);
    };
    if (!Array.isArray(told)) {
      const [text, isSlow] = [JSON.stringify(told), `${path} ${body["model"]}`.includes("slow")];
      if (isSlow) answer.write(text.slice(0, 10));
      await sleep(isSlow ? SLOW_MS : 0);
      return end(text.slice(isSlow ? 10 : 0));
    }
    answer.setHeader("content-type", "text/event-stream");
    for (const event of told as { readonly type?: string }[]) {
      await sleep(2);
      answer.write(`${event.type ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`);
    }
    end(kind === "/chat/completions" ? "data: [DONE]\n\n" : undefined);
  };
  const server = createServer((asked: IncomingMessage, answer) => {
    api.calls += 1;
    api.mostAtOnce = Math.max(api.mostAtOnce, (atOnce += 1));
    const chunks: Buffer[] = [];
    asked.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
      const text = Buffer.concat(chunks).toString();
      void respond(asked.url ?? "", text.startsWith("{") ? (JSON.parse(text) as Body) : {}, answer);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const api = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls: 0, mostAtOnce: 0 };
  return api;
}

/** Asks the upstream; a refusal is passed on. */
async function charge(up: Upstream, answer: ServerResponse, kind: string, usage: Usage): Promise<boolean> {
  const { read, words, written } = usage;
  const ofOpenai = kind === "/embeddings" ? { tokens: read } : kind === "" ? {} : { tokens: read + words };
  const cost = kind === "/messages" ? { "input-tokens": read + written, "output-tokens": words } : ofOpenai;
  const headers = Object.fromEntries(Object.entries(cost).map(([unit, amount]) => [`x-cost-${unit}`, `${amount}`]));
  const asked = request(`${up.url}/process`, { method: "POST", headers, agent: false }).end();
  const [verdict] = (await once(asked, "response")) as [IncomingMessage];
  answer.statusCode = verdict.statusCode ?? 500;
  answer.setHeader("content-type", "application/json");
  for (const [name, value = ""] of Object.entries(verdict.headers))
    if (/retry-after|ratelimit/.test(name)) answer.setHeader(name, value);
  if (verdict.statusCode === 200) verdict.resume();
  else verdict.pipe(answer);
  return verdict.statusCode === 200;
}

/** What lists are answered. */
const LIST = (): object => ({ object: "list", data: [] });

/** The answers of each path, or the events of a stream. */
const FORMS: Readonly<Record<string, (body: Body, usage: Usage) => object>> = {
  "/chat/completions": ({ stream, stream_options }, { read, words }) => {
    const usage = { prompt_tokens: read, completion_tokens: words, total_tokens: read + words };
    const message = { role: "assistant", content: "word ".repeat(words) };
    const whole = { choices: [{ index: 0, finish_reason: "stop", message }], usage };
    if (!stream) return { ...FRAME, object: "chat.completion", ...whole };
    const chunk = (more: object): object => ({ ...FRAME, object: "chat.completion.chunk", ...more });
    const word = chunk({ choices: [{ index: 0, delta: { content: "word " }, finish_reason: null }] });
    const last = chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    return [...Array<object>(words).fill(word), last, ...(stream_options ? [chunk({ choices: [], usage })] : [])];
  },
  "/responses": ({ stream }, { read, words }) => {
    const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
    const usage = { input_tokens: read, output_tokens: words, total_tokens: read + words, ...details };
    const text = { type: "output_text", text: "word ".repeat(words), annotations: [] };
    const item = { type: "message", id: "i", role: "assistant", status: "completed", content: [text] };
    const whole = { ...FRAME, object: "response", status: "completed", output: [item], usage };
    if (!stream) return whole;
    const place = { output_index: 0, item_id: "i", content_index: 0 };
    const delta = { type: "response.output_text.delta", ...place, delta: "word " };
    return [
      { type: "response.created", response: { ...whole, status: "in_progress", output: [], usage: null } },
      { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } },
      ...Array<object>(words).fill(delta),
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: whole },
    ];
  },
  "/embeddings": (_, { read }) => {
    const data = [{ object: "embedding", index: 0, embedding: [0.5] }];
    return { object: "list", model: "m", data, usage: { prompt_tokens: read, total_tokens: read } };
  },
  "/messages": ({ stream }, { read, words, written, found }) => {
    const cache = { cache_creation_input_tokens: written, cache_read_input_tokens: found };
    const ended = { stop_reason: "end_turn", stop_sequence: null };
    const whole = { id: "x", type: "message", role: "assistant", model: "m", ...ended };
    const content = [{ type: "text", text: "word ".repeat(words) }];
    const usage = { input_tokens: read, output_tokens: words, ...cache };
    if (!stream) return { ...whole, content, usage };
    const delta = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "word " } };
    const begun = { ...whole, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
    return [
      { type: "message_start", message: begun },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      ...Array<object>(words).fill(delta),
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: words } },
      { type: "message_stop" },
    ];
  },
};
