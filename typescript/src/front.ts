import { alarm } from "./waiting.js";
import { attempt, PermitError, type Answer } from "./wire.js";

/** Causes of a failure before the request reached any process. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/** How many causes of an error are looked at. */
const MAX_CAUSES = 8;

/** Whether an error, or a cause of it, says that there was no connection, so that nothing was sent. */
export function wasUnsent(error: unknown, causes = MAX_CAUSES): boolean {
  if (!(error instanceof Error) || causes === 0) return false;
  return UNSENT.includes(String((error as { code?: unknown }).code)) || wasUnsent(error.cause, causes - 1);
}

/** A scheduler's answers to a request, or why there are none. A scheduler may have granted what `wasSent`. */
export type Reply = { readonly answers: readonly Answer[]; readonly unheard?: string; readonly wasSent?: boolean };

/** Until when a message is sent, and in which trace. */
export type Sending = { readonly end?: number; readonly signal?: AbortSignal | null; readonly traceparent?: string };

/** The HTTP front of one scheduler, with the requests that it has not answered. */
export class Front {
  readonly #headers: Readonly<Record<string, string>>;
  readonly #open = new Set<() => void>();
  #pulse: ReturnType<typeof setInterval> | undefined;

  /** `pulseMs` is how long requests are open before the host is asked whether it is there, again and again. */
  constructor(private readonly url: string, private readonly resource: string, token: string | undefined,
    private readonly fetch: typeof globalThis.fetch, private readonly pulseMs: number) {
    this.#headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  }

  /** Posts `body`, until `end`, or `signal` ends, or the host is gone. Throws if asking again is useless. */
  async post(what: "permit" | "settle", body: string, { end, signal, traceparent }: Sending): Promise<Reply> {
    const ends = new AbortController();
    const abort = (): void => ends.abort();
    const callOff = alarm(end ?? Infinity, abort, signal);
    if (this.#open.add(abort).size === 1) this.#pulse = setInterval(() => void this.#feelPulse(), this.pulseMs);
    try {
      const headers = { ...this.#headers, ...(traceparent && { traceparent }) };
      const init: RequestInit = { method: "POST", headers, body, redirect: "manual" };
      const response = await this.fetch(`${this.url}/v1/${what}/${this.resource}`, { ...init, signal: ends.signal });
      const text = await response.text();
      return read(text) ?? strange(`${this.url} answered ${response.status || response.type}`, response.status, text);
    } catch (error) {
      if (error instanceof PermitError) throw error;
      const cause = String((error as { cause?: { code?: unknown } }).cause?.code ?? error);
      return { answers: [], unheard: `${this.url}: ${cause}`, wasSent: !wasUnsent(error) };
    } finally {
      callOff();
      this.#open.delete(abort);
      if (this.#open.size === 0) clearInterval(this.#pulse);
    }
  }

  /** A scheduler may be silent about a request that waits; a host that is gone is silent for ever. */
  async #feelPulse(): Promise<void> {
    const open = [...this.#open];
    const page = this.fetch(`${this.url}/healthz`, { signal: AbortSignal.timeout(this.pulseMs) });
    await page.then((health) => health.text()).catch(() => open.forEach((abort) => abort()));
  }
}

/** The answers of a scheduler in a text, if it has any. A front that finds no scheduler answers for none. */
export function read(text: string): Reply | undefined {
  const answers = [attempt(() => JSON.parse(text)) as Answer | undefined].flat();
  const ofNone = answers.find((answer) => answer?.code === "unavailable" && !answer.epoch);
  if (ofNone !== undefined) return { answers: [], unheard: ofNone.message ?? "" };
  return answers.every((answer): answer is Answer => typeof answer?.status === "string") ? { answers } : undefined;
}

/** A response that no scheduler wrote: a mistake, or a proxy whose scheduler may come back. */
function strange(said: string, status: number, text: string): Reply {
  const what = `${said}: ${text.trim().slice(0, 200) || "nothing"}`;
  if (status >= 500 || status === 408 || status === 429) return { answers: [], unheard: what, wasSent: true };
  if (status === 401) throw new PermitError("wrong_token", `${what}; set \`token\` to one that the scheduler knows`);
  throw new PermitError("not_rampmeter", `${what}; set \`url\` to the address of a scheduler, its [http] \`listen\``);
}
