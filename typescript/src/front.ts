import { alarm } from "./waiting.js";
import { PermitError, type Answer } from "./wire.js";

/** Causes of a failure before the request reached any process. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/** A scheduler's answers to a request, or why there are none. A scheduler may have granted what `wasSent`. */
export type Reply = { readonly answers: readonly Answer[]; readonly unheard?: string; readonly wasSent?: boolean };

/** The HTTP front of one scheduler, with the requests that it has not answered. */
export class Front {
  readonly #headers: [string, string][] = [["content-type", "application/json"]];
  readonly #open = new Set<() => void>();
  #pulse: ReturnType<typeof setInterval> | undefined;

  /** `pulseMs` is how long requests are open before the host is asked whether it is there, again and again. */
  constructor(private readonly url: string, private readonly resource: string, token: string | undefined,
    private readonly fetch: typeof globalThis.fetch, private readonly pulseMs: number) {
    if (token !== undefined) this.#headers.push(["authorization", `Bearer ${token}`]);
  }

  /** Posts `body`, until `end`, or `signal` ends, or the host is gone. Throws if asking again is useless. */
  async post(what: "permit" | "settle", body: string, end: number, signal?: AbortSignal | null): Promise<Reply> {
    const ends = new AbortController();
    const abort = (): void => ends.abort();
    const callOff = alarm(end, abort, signal);
    if (this.#open.add(abort).size === 1) this.#pulse = setInterval(() => void this.#feelPulse(), this.pulseMs);
    try {
      const init: RequestInit = { method: "POST", headers: this.#headers, body, redirect: "manual" };
      const response = await this.fetch(`${this.url}/v1/${what}/${this.resource}`, { ...init, signal: ends.signal });
      const text = await response.text();
      return read(text) ?? strange(`${this.url} answered ${response.status || response.type}`, response.status, text);
    } catch (error) {
      if (error instanceof PermitError) throw error;
      const cause = String((error as { cause?: { code?: unknown } }).cause?.code ?? error);
      return { answers: [], unheard: `${this.url}: ${cause}`, wasSent: !UNSENT.includes(cause) };
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
  try {
    const answers = [JSON.parse(text) as Answer].flat();
    const ofNone = answers.find(({ code, epoch = 0 }) => code === "unavailable" && epoch === 0);
    if (ofNone !== undefined) return { answers: [], unheard: ofNone.message ?? "" };
    return answers.every((answer) => typeof answer.status === "string") ? { answers } : undefined;
  } catch {
    return undefined;
  }
}

/** A response that no scheduler wrote: a mistake, or a proxy whose scheduler may come back. */
function strange(said: string, status: number, text: string): Reply {
  const what = `${said}: ${text.trim().slice(0, 200) || "nothing"}`;
  if (status >= 500 || status === 408 || status === 429) return { answers: [], unheard: what, wasSent: true };
  if (status === 401) throw new PermitError("wrong_token", `${what}; set \`token\` to one that the scheduler knows`);
  throw new PermitError("not_rampmeter", `${what}; set \`url\` to the address of a scheduler, its [http] \`listen\``);
}
