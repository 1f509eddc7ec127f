import { Front, type Reply } from "./front.js";
import { Outbox } from "./outbox.js";
import { Permit, type Outcome } from "./permit.js";
import { Schedulers } from "./schedulers.js";
import { RequestSession, type Wanted, type World } from "./session.js";
import { until } from "./waiting.js";
import { exact, type Charge, type Cost, type Price } from "./wire.js";

/**
 * What happens to requests while no scheduler answers. They wait, fail after the patience, or go on
 * at a rate that is known to be safe. At that rate each process counts for itself, and only calls
 * count.
 */
export type Unreachable = "wait" | "fail" | { readonly calls: number; readonly perMs: number };

export interface ResourceOptions {
  /** The address of a scheduler's HTTP front, such as `http://127.0.0.1:9480`, or of several. */
  readonly url: string | readonly string[];
  /** The rate-limited account, by its name in the scheduler's configuration. */
  readonly resource: string;
  /** The token, if the front asks for one. */
  readonly token?: string;
  /** What happens while no scheduler answers; "wait" by default. */
  readonly unreachable?: Unreachable;
  /** Milliseconds of silence after which no scheduler counts as answering; 2000 by default. */
  readonly patienceMs?: number;
  /** Tells people of silent schedulers and lost settles; `console.warn` by default. */
  readonly log?: (message: string) => void;
  /** What asks the scheduler; the global `fetch` by default. */
  readonly fetch?: typeof fetch;
}

/** What a call needs. */
export interface Ask extends Charge {
  readonly class?: string;
  /** In place of a cost: the request to the upstream, if the resource computes costs. */
  readonly price?: Price;
  /** The longest time from now to the start of the call, over all repeats; 0 for now or not at all. */
  readonly maxWaitMs?: number;
  /** Ends the wait: the request leaves the queue and is charged for nothing. */
  readonly signal?: AbortSignal | null;
  /** How often a call that is answered 429 is repeated; 3 by default. */
  readonly repeats?: number;
}

/** How long a request is open before its host is asked whether it is there. */
const PULSE_MS = 5_000;
/** How long a request for now or never may go without an answer. */
const AT_ONCE_MS = 2_000;
/** How much later than the longest wait an answer may come. */
const GRACE_MS = 250;

/** One account of a rate-limited API. Make one for each process and resource. */
export class Resource {
  /** The first one is asked, until it fails. */
  readonly #fronts: Front[];
  readonly #schedulers: Schedulers;
  readonly #outbox: Outbox;
  readonly #log: (message: string) => void;
  readonly #settling = new Set<Promise<void>>();

  constructor({ url, resource, token, unreachable = "wait", patienceMs = 2000, ...options }: ResourceOptions) {
    const isName = /^[A-Za-z0-9_-]{1,64}$/.test(resource);
    if (!isName) throw new TypeError(`rampmeter: \`resource\` is 1 to 64 of [A-Za-z0-9_-], not "${resource}"`);
    this.#log = (message) => (options.log ?? console.warn)(`rampmeter: ${resource}: ${message}`);
    const asking = options.fetch ?? ((...args) => fetch(...args));
    const patience = unreachable === "wait" ? Infinity : patienceMs;
    const interval = typeof unreachable === "object" ? unreachable.perMs / unreachable.calls : Infinity;
    const urls = [url].flat().map((each) => new URL(each).href.replace(/\/$/, ""));
    this.#fronts = urls.map((each) => new Front(each, resource, token, asking, Math.min(PULSE_MS, patience / 2)));
    this.#schedulers = new Schedulers(patience, interval, this.#log);
    this.#outbox = new Outbox((body) => this.#post("settle", body), this.#log);
  }

  /** Waits for a permit and for its start. Make the call at once, and settle the permit. */
  async permit(ask: Ask = {}): Promise<Permit> {
    return this.#obtain(ask, performance.now());
  }

  /**
   * Gets a permit, calls, and settles with the status and the headers of what `call` returns. After
   * a 429 all workers pause, and the call is repeated with a new permit. `actual` tells what a call
   * cost in the end, such as the tokens in its body.
   */
  async run<T>(ask: Ask, call: () => Promise<T>, actual?: (result: T) => Promise<Cost> | Cost): Promise<T> {
    const since = performance.now();
    for (let repeats = ask.repeats ?? 3; ; repeats -= 1) {
      const permit = await this.#obtain(ask, since);
      const result = await call().catch((error: unknown) => {
        permit.settle(outcomeOf(error)); // The call may have arrived.
        throw error;
      });
      const outcome = outcomeOf(result);
      const isRepeated = outcome.status === 429 && repeats > 0;
      if (actual === undefined || isRepeated) permit.settle(outcome);
      else this.#settleLater(permit, outcome, async () => actual(result));
      if (!isRepeated) return result;
      await (result as Partial<Response>).arrayBuffer?.().catch(() => {}); // This frees its connection.
    }
  }

  /** Resolves when a scheduler has taken all settles. */
  async settled(): Promise<void> {
    await Promise.all(this.#settling);
    await this.#outbox.emptied();
  }

  #settleLater(permit: Permit, outcome: Outcome, actual: () => Promise<Cost>): void {
    const settling = actual().then((cost) => permit.settle({ ...outcome, cost })).catch((error: unknown) => {
      this.#log(`a call is settled at its estimate: ${error}`);
      permit.settle(outcome);
    });
    this.#settling.add(settling);
    void settling.then(() => this.#settling.delete(settling));
  }

  async #obtain({ signal, ...ask }: Ask, since: number): Promise<Permit> {
    const want = wanted(ask, since);
    const world: World = {
      now: () => performance.now(),
      send: (request) => this.#post("permit", JSON.stringify(request), want.deadline + GRACE_MS, signal),
      pause: (end) => until(end, signal),
      giveBack: (id) => this.#outbox.push({ id, used: false }),
    };
    const { id, answer } = await new RequestSession(want, this.#schedulers, world).permit();
    return new Permit(id, answer, want, this.#outbox);
  }

  async #post(what: "permit" | "settle", body: string, end = Infinity, signal?: AbortSignal | null): Promise<Reply> {
    const front = this.#fronts[0] as Front;
    const reply = await front.post(what, body, end, signal);
    signal?.throwIfAborted();
    // The next one is asked.
    if (reply.unheard !== undefined && this.#fronts[0] === front) this.#fronts.push(...this.#fronts.splice(0, 1));
    return reply;
  }
}

function wanted({ maxWaitMs = Infinity, cost, class: urgency, labels, price }: Ask, since: number): Wanted {
  if (!(maxWaitMs >= 0)) throw new TypeError(`rampmeter: \`maxWaitMs\` is a time in milliseconds, not ${maxWaitMs}`);
  const [mode, wait] = maxWaitMs > 0 ? ["wait" as const, maxWaitMs] : ["allow" as const, AT_ONCE_MS];
  return { cost: cost && exact(cost), class: urgency, labels, price, mode, since, deadline: since + wait };
}

/** What the result of a call, or its error, tells: the answer of an HTTP client or an outcome. */
function outcomeOf(result: unknown): Outcome {
  const { status, headers, cost, quotaSpent, code, error } = Object(result) as Outcome & { readonly error?: unknown };
  const { code: ofBody, type } = Object(error) as { readonly code?: unknown; readonly type?: unknown };
  const told = [code, ofBody, type, error].find((each) => typeof each === "string") as string | undefined;
  return typeof status === "number" ? { status, headers, cost, quotaSpent, code: told } : {};
}
