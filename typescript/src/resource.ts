import { Front, type Reply } from "./front.js";
import { Host } from "./host.js";
import { Outbox } from "./outbox.js";
import { Permit, type Outcome } from "./permit.js";
import { Schedulers, type Unreachable } from "./schedulers.js";
import { Request, type Wanted } from "./session.js";
import { endingAt, until } from "./waiting.js";
import { exact, type Charge, type Cost, type PermitRequest } from "./wire.js";

export interface ResourceOptions {
  /** The address of a scheduler's HTTP front, such as `http://127.0.0.1:9480`, or of several. */
  readonly url: string | readonly string[];
  /** The rate-limited account, by its name in the scheduler's configuration. */
  readonly resource: string;
  /** The token, if the front asks for one. */
  readonly token?: string;
  /** What happens while no scheduler answers; "wait" by default. */
  readonly unreachable?: Unreachable;
  /** How long schedulers may be silent before that; 2000 by default. */
  readonly patienceMs?: number;
  /** Tells people of silent schedulers and lost settles; `console.warn` by default. */
  readonly log?: (message: string) => void;
  /** What asks the scheduler; the global `fetch` by default. */
  readonly fetch?: typeof fetch;
}

/** What a call needs. */
export interface Ask extends Charge {
  readonly class?: string;
  /** The longest time from now to the start of the call, over all repeats; 0 for now or not at all. */
  readonly maxWaitMs?: number;
  /** Ends the wait: the request leaves the queue and is charged for nothing. */
  readonly signal?: AbortSignal | null;
  /** How often a call that is answered 429 is repeated; 3 by default. */
  readonly repeats?: number;
}

/** How long a host may be silent before it is asked whether it is there. */
const PULSE_MS = 5_000;
/** How long a request for now or never may go without an answer. */
const AT_ONCE_MS = 2_000;
/** An answer may come so much later than the longest wait. */
const GRACE_MS = 250;

/** One account of a rate-limited API. Make one for each process and resource. */
export class Resource {
  readonly #name: string;
  readonly #front: Front;
  readonly #schedulers: Schedulers;
  readonly #outbox: Outbox;
  readonly #log: (message: string) => void;
  readonly #settling = new Set<Promise<void>>();

  constructor({ url, resource, token, unreachable = "wait", patienceMs = 2000, ...options }: ResourceOptions) {
    const isName = /^[A-Za-z0-9_-]{1,64}$/.test(resource);
    if (!isName) throw new TypeError(`rampmeter: \`resource\` is 1 to 64 of [A-Za-z0-9_-], not "${resource}"`);
    this.#name = resource;
    this.#log = (message) => (options.log ?? console.warn)(`rampmeter: ${resource}: ${message}`);
    const asking = options.fetch ?? ((...args) => fetch(...args));
    const pulseMs = unreachable === "wait" ? PULSE_MS : patienceMs / 2;
    const hosts = [url].flat().map((each) => new Host(new URL(each).href.replace(/\/$/, ""), asking, pulseMs));
    this.#front = new Front(hosts, token);
    this.#schedulers = new Schedulers(unreachable, patienceMs, this.#log);
    const lost = (why: Error): void => this.#log(`settles are lost: ${why.message}`);
    this.#outbox = new Outbox((body) => this.#front.post(`settle/${this.#name}`, body), lost);
  }

  /** Waits for a permit and for its start. Make the call at once, and settle the permit. */
  async permit(ask: Ask = {}): Promise<Permit> {
    return this.#obtain(wanted(ask), ask.signal);
  }

  /**
   * Gets a permit, calls, and settles with the status and the headers of what `call` returns. After
   * a 429 all workers pause, and the call is repeated with a new permit. `actual` tells what a call
   * cost in the end, such as the tokens in its body.
   */
  async run<T>(ask: Ask, call: () => Promise<T>, actual?: (result: T) => Promise<Cost> | Cost): Promise<T> {
    const want = wanted(ask);
    for (let repeats = ask.repeats ?? 3; ; repeats -= 1) {
      const permit = await this.#obtain(want, ask.signal);
      const result = await call().catch((error: unknown) => {
        permit.settle(); // The call may have arrived.
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
    const estimated = (error: unknown): void => this.#log(`a call is settled at its estimate: ${error}`);
    const cost = actual().catch(estimated);
    const settling = cost.then((cost) => permit.settle({ ...outcome, cost: cost || outcome.cost }));
    this.#settling.add(settling);
    void settling.finally(() => this.#settling.delete(settling));
  }

  async #obtain(want: Wanted, signal: AbortSignal | null | undefined): Promise<Permit> {
    const last = endingAt(want.deadline + GRACE_MS);
    const ends = AbortSignal.any([last.signal, ...(signal ? [signal] : [])]);
    const send = async (request: PermitRequest): Promise<Reply> => {
      const reply = await this.#front.post(`permit/${this.#name}`, JSON.stringify(request), ends);
      signal?.throwIfAborted();
      return reply;
    };
    const giveBack = (id: string): void => this.#outbox.push({ id, used: false });
    const world = { now: () => performance.now(), send, pause: (end: number) => until(end, signal), giveBack };
    try {
      const { id, answer } = await new Request(want, this.#schedulers, world).permit();
      return new Permit(id, answer, want, this.#outbox);
    } finally {
      last.clear();
    }
  }
}

function wanted(ask: Ask): Wanted {
  const [now, { maxWaitMs = Infinity, cost }] = [performance.now(), ask];
  if (!(maxWaitMs >= 0)) throw new TypeError(`rampmeter: \`maxWaitMs\` is a time in milliseconds, not ${maxWaitMs}`);
  const [mode, wait] = maxWaitMs > 0 ? ["wait" as const, maxWaitMs] : ["allow" as const, AT_ONCE_MS];
  return { ...ask, cost: cost && exact(cost), mode, since: now, deadline: now + wait };
}

/** What the result of a call tells, if it is the answer of an HTTP client or an outcome. */
function outcomeOf(result: unknown): Outcome {
  const { status, headers, cost, quotaSpent } = (result ?? {}) as Outcome;
  if (typeof status !== "number") return {};
  return { status, headers: typeof headers?.get === "function" ? headers : undefined, cost, quotaSpent };
}
