// The tokens of language models: what a request may take, what its answer has taken, and what vendors keep of prompts.
import { TABLE } from "./table.js";
import { attempt } from "./wire.js";

/** Tokens of input, and the most tokens of output. */
export type Tokens = readonly [number, number];

/** What counts of a request to a language model. */
export type ModelRequest = Readonly<Record<"method" | "path" | "text", string> & { body: Record<string, unknown> }>;

/** The label of calls that name no model. They share limits of their own. */
const NO_MODEL = "none";
const MAX_LABEL = 256;
/** Of a body that is no JSON. */
const CHARACTERS_PER_TOKEN = 4;

/** Reads a request. A body that is sent as it is read counts nothing. */
export async function requestOf(input: string | URL | Request, init?: RequestInit): Promise<ModelRequest> {
  const request = input instanceof Request ? input : undefined;
  const method = (init?.method ?? request?.method ?? "GET").toUpperCase();
  const given = init?.body ?? (request?.body ? await request.clone().text() : "");
  const text = typeof given === "string" ? given : "";
  const { pathname } = new URL(request?.url ?? String(input));
  const path = (attempt(() => decodeURIComponent(pathname)) ?? pathname).replace(/\/+$/, "");
  const body: unknown = attempt(() => JSON.parse(text));
  return { method, path, text, body: typeof body === "object" && !Array.isArray(body) ? Object(body) : {} };
}

/** The label `model`, by which presets key their limits. */
export const labelsOf = ({ body: { model } }: ModelRequest): Record<string, string> =>
  ({ model: typeof model === "string" && model !== "" ? model.slice(0, MAX_LABEL) : NO_MODEL });

/** The tokens of a request that was not sent yet. */
export function estimate(request: ModelRequest): Tokens {
  const [most] = numbers(request.body, TABLE.output.most);
  const kind = kindOf(request, most !== undefined);
  if (kind === "free") return [0, 0];
  const isJson = Object.keys(request.body).length > 0;
  const read = isJson ? tokensOf(request.body) : Math.ceil(request.text.length / CHARACTERS_PER_TOKEN);
  if (kind === "embeds") return [read, 0];
  const texts = [request.body[TABLE.output.prompts]].flat().filter((prompt) => typeof prompt === "string").length;
  const answers = Math.max(1, ...numbers(request.body, TABLE.output.answers));
  return [read, (most ?? TABLE.output.default) * answers * Math.max(texts, 1)];
}

/** Which list of paths the request is in. */
function kindOf({ method, path }: ModelRequest, isBounded: boolean): "free" | "embeds" | "generates" {
  if (method !== "POST") return "free";
  const isIn = (kind: "free" | "embeds" | "generates"): boolean =>
    TABLE.paths[kind].some((end) => {
      const [behind = "", before = ""] = end.split("*").reverse();
      return path.endsWith(behind) && path.includes(before);
    });
  return (["free", "embeds", "generates"] as const).find(isIn) ?? (isBounded ? "generates" : "free");
}

/** The tokens of input in these fields of a request. */
function tokensOf(body: object): number {
  const all = [...parts(body, "", 1)].map((part) => (typeof part === "string" ? twelfths(part) : 12 * part));
  return Math.ceil(all.reduce((sum, each) => sum + each, 0) / 12);
}

/** The texts in a request, and the tokens of what is no text. Parameters of the request are none. */
function* parts(value: unknown, path: string, depth: number): Generator<string | number> {
  const deeper = (item: unknown): number => depth + (typeof item === "object" && item !== null ? 1 : 0);
  if (typeof value === "string") yield attached(value, path) ?? value;
  else if (Array.isArray(value)) for (const item of value) yield* parts(item, path, deeper(item));
  else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      if (depth > 1) yield* [key, 1];
      yield* parts(item, `${path}.${key}`, deeper(item));
    }
  } else if (depth > 1) yield 1;
}

/** The tokens of an attachment; nothing for a text. */
function attached(text: string, path: string): number | undefined {
  const isAt = (end: string): boolean => path.endsWith(`.${end}`);
  const named = Object.entries(TABLE.attachments).find(([end]) => isAt(end))?.[1];
  const [, media] = /^data:(.*?);base64,/s.exec(text.slice(0, 1024)) ?? [];
  const isNamed = named !== undefined && /^[A-Za-z0-9+/=_-]*$/.test(text);
  if (media === undefined && !isNamed) return TABLE.links.some(isAt) ? TABLE.kinds.picture.least : undefined;
  const start = media ?? text.slice(0, 64);
  const signed = Object.values(TABLE.kinds).find(({ signs }) => signs.some((sign) => start.startsWith(sign)));
  const kind = signed ?? TABLE.kinds[media !== undefined ? "picture" : (named ?? "picture")];
  const size = Math.floor(Math.floor((text.length * 3) / 4) / kind.bytes_per_token);
  return Math.min(Math.max(size, kind.least), kind.most);
}

const { letter, digit, punctuation, two_bytes, three_bytes, four_bytes } = TABLE.twelfths;
const ASCII = Array.from({ length: 0x80 }, (_, point) => String.fromCharCode(point)).map((character) =>
  /[A-Za-z\0- ]/.test(character) ? letter : /\d/.test(character) ? digit : punctuation);

/** The tokens of a text by its characters, in twelfths of one. */
function twelfths(text: string): number {
  let sum = 0;
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    sum += ASCII[point] ?? (point < 0x800 ? two_bytes : point < 0x10000 ? three_bytes : four_bytes);
  }
  return sum;
}

function numbers(body: unknown, paths: readonly string[]): number[] {
  const at = (path: string): unknown => path.split(".").reduce((part, key) => (Object(part) as never)[key], body);
  return paths.map(at).filter((found): found is number => Number.isInteger(found));
}

/** Characters of a usage. An answer is looked through for it however long it is. */
const MAX_USAGE = 16 * 1024;
/** An object in JSON with objects in its objects. */
const OBJECT = /\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}/.source;
/** A part of a streamed answer, or a usage. Of names in a text, the quotes are escaped. */
const TOLD = new RegExp(`(?<!\\\\)"(?:delta"\\s*:|usage(?:Metadata)?"\\s*:\\s*(${OBJECT}))`, "g");

/** Reads the usage from an answer as it passes by, whether its body is JSON or a stream of events. */
export class Meter {
  readonly #decoder = new TextDecoder();
  readonly #told: Record<string, number> = {};
  /** Since the last usage. */
  #deltas = 0;
  #rest = "";
  #isJson: boolean | undefined;

  constructor(private readonly read: number, private readonly most: number) {}

  feed(part: Uint8Array): void {
    this.#rest += this.#decoder.decode(part, { stream: true });
    // Gateways keep a connection alive with empty lines.
    const [first] = this.#rest.trimStart();
    if (first !== undefined) this.#isJson ??= "[{".includes(first);
    let end = this.#isJson === false ? this.#rest.lastIndexOf("\n") + 1 : 0; // An event is one line.
    for (const { index, 0: told, 1: usage } of this.#rest.matchAll(TOLD)) {
      end = Math.max(end, index + told.length);
      if (usage === undefined) this.#deltas += 1;
      else this.#take(attempt(() => JSON.parse(usage)));
    }
    this.#rest = this.#rest.slice(end).slice(-MAX_USAGE);
  }

  /** The tokens of input and of output; of a stream that was broken off, as far as it came. */
  used(isWhole: boolean): Tokens {
    const forms = TABLE.usage.forms.map((form) => [this.#sum(form.input), this.#sum(form.output)] as const);
    const [read, told] = forms.find((form) => form.some((sum) => sum !== undefined)) ?? [];
    const isCounted = !this.#isJson && (!isWhole || (told === undefined && this.#deltas > 0));
    const output = isCounted ? (told ?? 0) + this.#deltas : told;
    return [read ?? this.read, output ?? (read === undefined ? this.most : 0)];
  }

  /** The tokens of the prompt that the vendor keeps now. */
  get kept(): number {
    return TABLE.usage.forms.map((form) => ("kept" in form ? this.#sum(form.kept) : 0)).find(Boolean) ?? 0;
  }

  #sum(names: readonly string[]): number | undefined {
    const told = names.flatMap((name) => this.#told[name] ?? []);
    return told.length > 0 ? told.reduce((sum, each) => sum + each) : undefined;
  }

  #take(usage: unknown): void {
    this.#deltas = 0;
    for (const [name, value] of Object.entries(Object(usage)))
      if (Number.isInteger(value)) this.#told[name] = value as number;
  }
}

/** The most prompts that are remembered. */
export const MAX_PROMPTS = 512;
/** For how long a vendor keeps a prompt after its last use. */
const KEPT_MS = 300_000;

/** The tokens that vendors keep of prompts, as their last answers said. */
export class Prompts {
  readonly #kept = new Map<string, { readonly tokens: number; readonly end: number }>();

  /** Notes that the vendor keeps so many tokens of the prompt of `request`. */
  note(request: ModelRequest, tokens: number): void {
    for (const [key, most] of promptsOf(request)) {
      this.#kept.delete(key); // The map has them in the order of their last use.
      this.#kept.set(key, { tokens: Math.min(tokens, most), end: performance.now() + KEPT_MS });
    }
    for (const oldest of this.#kept.keys()) if (this.#kept.size > MAX_PROMPTS) this.#kept.delete(oldest);
  }

  /** The tokens of its prompt that cost nothing now. */
  kept(request: ModelRequest): number {
    if (this.#kept.size === 0) return 0;
    const found = promptsOf(request).map(([key]) => this.#kept.get(key));
    return found.find((kept) => kept !== undefined && performance.now() < kept.end)?.tokens ?? 0;
  }
}

/** The conversation, and its instructions with the tools: a hash of each, and the most tokens that are kept of it. */
function promptsOf({ body }: ModelRequest): [string, number][] {
  const parts = Object.fromEntries(["model", ...TABLE.instructions].map((name) => [name, body[name]]));
  const text = JSON.stringify(parts);
  const [first] = Array.isArray(body["messages"]) ? body["messages"] : [];
  return [[hash(`${text}\n${JSON.stringify(first)}`), Infinity], [hash(text), tokensOf(parts)]];
}

/** A text that may be long, by its length and FNV-1a. */
function hash(text: string): string {
  let sum = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  return `${text.length} ${sum}`;
}
