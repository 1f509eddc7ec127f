import { watched } from "./body.js";
import { Front, wasUnsent, type Reply, type Sending } from "./front.js";
import { Outbox, Permit, type Outcome, type PermitWorld } from "./permit.js";
import { Schedulers } from "./schedulers.js";
import { RequestSession, type Wanted } from "./session.js";
import { traced } from "./trace.js";
import { until, within } from "./waiting.js";
import { codeIn, exact, FINAL, hasError, PermitError, type Charge, type Cost, type Mode, type Price } from "./wire.js";

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
  /** Hears for each permit how long its call has to wait, and which limit has set its start, if one did. */
  readonly onWait?: (waitedMs: number, limitedBy?: string) => void;
  /** Hears of each call that was answered 429. */
  readonly on429?: (outcome: Outcome) => void;
  /** What asks the scheduler; the global `fetch` by default. */
  readonly fetch?: typeof fetch;
}

/** What a call needs. Its labels are beside those of all calls. */
export interface Ask extends Charge {
  readonly class?: string;
  /** Accounts that may not make the call, such as one that was answered 401. */
  readonly not?: readonly string[];
  /**
   * Other ways to make the call, the preferred first. The first way that starts within the time that it is worth is
   * taken, or else the one that starts earliest; `way` of the permit tells which.
   */
  readonly or?: readonly Way[];
  /** How many milliseconds a start of the call as described is worth waiting for, if there are other ways. */
  readonly worthMs?: number;
  /** In place of a cost: the request to the upstream, if the resource computes costs. */
  readonly price?: Price;
  /** The longest time from now to the start of the call, over all repeats; 0 for now or not at all. */
  readonly maxWaitMs?: number;
  /** Milliseconds for which the call has waited elsewhere: it takes its place accordingly. */
  readonly ageMs?: number;
  /** Whether the permit tells what its limits have left. */
  readonly left?: boolean;
  /** The trace of the request, as W3C writes it. Without it a program with OpenTelemetry has a span for the wait. */
  readonly traceparent?: string;
  /** Ends the wait: the request leaves the queue and is charged for nothing. */
  readonly signal?: AbortSignal | null;
  /** How often a call that is answered 429 is repeated; 3 by default. */
  readonly repeats?: number;
}

/** Another way to make a call, with labels in place of those of the request; an empty one leaves a label out. */
export type Way = Charge & Pick<Ask, "worthMs">;

/** Settles the permit of a call, and returns what the caller gets. */
export type Finish<T> = (permit: Permit, outcome: Outcome, result: T) => T;

/** How often a call is repeated: all workers pause after a 429, so that a second one in a row is rare. */
const REPEATS = 3;
/** The longest time that a repeated call waits until a scheduler knows of its 429. */
const SETTLE_MS = 1_000;
/** How long a request is open before its host is asked whether it is there. */
const PULSE_MS = 5_000;
/** How long a request for now or never may go without an answer. */
const AT_ONCE_MS = 2_000;
/** How much later than the longest wait an answer may come. */
const GRACE_MS = 250;

/** One account of a rate-limited API. Make one for each process and resource. */
export class Resource {
  /** Its name and its schedulers. */
  readonly account: string;
  /** The first one is asked, until it fails. */
  readonly #fronts: Front[];
  readonly #schedulers: Schedulers;
  readonly #outbox: Outbox;
  readonly #options: ResourceOptions;
  readonly #settling = new Set<Promise<void>>();

  constructor(options: ResourceOptions) {
    const { url, resource, token, unreachable = "wait", patienceMs = 2000 } = options;
    const isName = typeof resource === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(resource);
    if (!isName) throw new TypeError(`rampmeter: \`resource\` is 1 to 64 of [A-Za-z0-9_-], not "${resource}"`);
    this.#options = options;
    const asking = options.fetch ?? ((...args) => fetch(...args));
    const patience = unreachable === "wait" ? Infinity : patienceMs;
    const interval = typeof unreachable === "object" ? unreachable.perMs / unreachable.calls : Infinity;
    const urls = [url].flat().map(addressOf);
    this.account = `"${resource}" at ${urls.join(", ")}`;
    this.#fronts = urls.map((each) => new Front(each, resource, token, asking, Math.min(PULSE_MS, patience / 2)));
    this.#schedulers = new Schedulers(patience, interval, this.#log);
    this.#outbox = new Outbox((body) => this.#post("settle", body), this.#log);
  }

  /** Waits for a permit and for its start. Make the call at once, and settle the permit. */
  async permit(ask: Ask = {}): Promise<Permit> {
    return this.#obtain(ask, performance.now());
  }

  /** A permit for now, or a refusal that says when to come back. */
  async tryPermit(ask: Ask = {}): Promise<Permit> {
    return this.permit({ ...ask, maxWaitMs: 0 });
  }

  /** A permit for a start ahead: `delayMs` tells how far, and `ready` waits for it. */
  async reserve(ask: Ask = {}): Promise<Permit> {
    return this.#obtain(ask, performance.now(), "reserve");
  }

  /** A function each call of which is a `run`. A function of its arguments may say what a call needs. */
  limited<A extends unknown[], T>(call: (...given: A) => Promise<T> | T, ask: Ask | ((...given: A) => Ask) = {}) {
    notLater(call);
    return async (...all: A): Promise<T> => this.run(typeof ask === "function" ? ask(...all) : ask, () => call(...all));
  }

  /**
   * Gets a permit, calls, and settles with the status and the headers of what `call` returns. After
   * a 429 all workers pause, and the call is repeated with a new permit. `actual` tells what a call
   * cost in the end, such as the tokens in its body. An answer with a body is settled at the end of
   * that if a limit counts calls in flight.
   */
  async run<T>(ask: Ask, call: () => Promise<T> | T, actual?: (result: T) => Promise<Cost> | Cost): Promise<T> {
    return this.runWith(ask, call, (permit, outcome, result) => {
      if (actual !== undefined) this.#settleLater(permit, outcome, async () => actual(result));
      else if (permit.hasPlace) return watched(result, () => permit.settle(outcome));
      else permit.settle(outcome);
      return result;
    });
  }

  /** Does what `run` does, but `finish` ends the last call. */
  async runWith<T>(ask: Ask, call: () => Promise<T> | T, finish: Finish<T>): Promise<T> {
    const since = performance.now();
    let last: T | undefined;
    for (let repeats = ask.repeats ?? REPEATS; ; repeats -= 1) {
      const permit = await this.#obtain(ask, since).catch((refusal: unknown) => {
        if (refusal instanceof PermitError) refusal.response = last;
        throw refusal;
      });
      const result = await (async () => notLater(await call()))().catch((error: unknown) => {
        if (wasUnsent(error) || error instanceof NotBegun) permit.giveBack();
        else permit.settle(outcomeOf(error)); // The call may have arrived.
        throw error;
      });
      const outcome = await told(result);
      if (outcome.status !== 429 || repeats === 0 || FINAL.includes(outcome.code ?? ""))
        return finish(permit, outcome, result);
      permit.settle(outcome);
      last = result;
      if (outcome.code === undefined) await (result as Partial<Response>).arrayBuffer?.().catch(() => {});
      // The request that follows must not overtake this settle.
      await within(performance.now() + SETTLE_MS, this.#outbox.emptied(), ask.signal);
    }
  }

  /** Resolves when a scheduler has taken all settles. */
  async settled(): Promise<void> {
    await Promise.all(this.#settling);
    await this.#outbox.emptied();
  }

  readonly #log = (message: string): void =>
    (this.#options.log ?? console.warn)(`rampmeter: ${this.#options.resource}: ${message}`);

  #settleLater(permit: Permit, outcome: Outcome, actual: () => Promise<Cost>): void {
    const settling = actual().then((cost) => permit.settle({ ...outcome, cost })).catch((error: unknown) => {
      this.#log(`a call is settled at its estimate: ${error}`);
      permit.settle(outcome);
    }).finally(() => this.#settling.delete(settling));
    this.#settling.add(settling);
  }

  async #obtain(ask: Ask, since: number, mode: Mode = "wait"): Promise<Permit> {
    const want = wanted(ask, since, mode);
    const grant = await traced(this.#options.resource, want, ask.traceparent, (traceparent) => {
      const sending = { end: want.deadline + GRACE_MS, signal: ask.signal, traceparent };
      return new RequestSession(want, this.#schedulers, {
        now: () => performance.now(),
        send: (request) => this.#post("permit", JSON.stringify(request), sending),
        pause: (end) => until(end, ask.signal),
        giveBack: (id) => this.#outbox.push({ id, used: false }),
      }).permit();
    });
    this.#options.onWait?.(grant.at - want.since, grant.answer.limited_by);
    const again: PermitWorld["again"] = (signal) => this.#obtain({ ...ask, signal, maxWaitMs: Infinity }, since);
    return new Permit(grant, want, { outbox: this.#outbox, again, on429: this.#options.on429 });
  }

  async #post(what: "permit" | "settle", body: string, how: Sending = {}): Promise<Reply> {
    const front = this.#fronts[0] as Front;
    const reply = await front.post(what, body, how);
    how.signal?.throwIfAborted();
    // The next one is asked.
    if (reply.unheard !== undefined && this.#fronts[0] === front) this.#fronts.push(...this.#fronts.splice(0, 1));
    return reply;
  }
}

/** What was called has not made its call. */
class NotBegun extends TypeError {}

/** The result of a call, or its function, unless it is of a generator, whose work begins after the call. */
function notLater<T>(what: T): T {
  if (!/^\[object (Async)?Generator(Function)?]$/.test(Object.prototype.toString.call(what))) return what;
  throw new NotBegun("rampmeter: a generator begins later: write `using permit = await hub.permit()` inside of it");
}

function wanted(ask: Ask, asked: number, mode: Mode): Wanted {
  const { maxWaitMs = Infinity, ageMs = 0, cost, class: urgency, labels, price, left, not, or, worthMs } = ask;
  for (const [name, time] of Object.entries({ maxWaitMs, ageMs }))
    if (!(time >= 0)) throw new TypeError(`rampmeter: \`${name}\` is a time in milliseconds, not ${time}`);
  const any_of = or?.map(({ worthMs, ...way }) => ({ ...way, cost: exact(way.cost), else_after_ms: worthMs }));
  const fields = { cost: exact(cost), class: urgency, labels, price, left, any_of, else_after_ms: worthMs };
  const times = { since: asked - ageMs, deadline: asked + (maxWaitMs || AT_ONCE_MS) };
  return { ...fields, ...(not?.length && { not }), mode: maxWaitMs > 0 ? mode : "allow", ...times };
}

/** What the result of a call, or its error, tells: the answer of an HTTP client or an outcome. */
function outcomeOf(result: unknown): Outcome {
  const { status, headers, cost, quotaSpent, code, error } = Object(result) as Outcome & { readonly error?: unknown };
  const ofBody = typeof code === "string" ? code : codeIn({ error });
  return typeof status === "number" ? { status, headers, cost, quotaSpent, code: ofBody } : {};
}

/** The outcome of a result, with the code of the error in its body. The caller reads the body itself, too. */
async function told(result: unknown): Promise<Outcome> {
  const outcome = outcomeOf(result);
  const { clone, bodyUsed } = Object(result) as Partial<Response>;
  if (!clone || bodyUsed || !hasError(outcome.status ?? 0, outcome.headers)) return outcome;
  return { ...outcome, code: await clone.call(result as Response).json().then(codeIn, () => undefined) };
}

/** The address of a front, as `url` names it. */
function addressOf(url: string): string {
  const { protocol, username, password, href } = URL.canParse(url) ? new URL(url) : ({} as Partial<URL>);
  if (username || password) throw new TypeError("rampmeter: `url` takes no user and no password; set `token`");
  if (href !== undefined && /^https?:$/.test(protocol ?? "")) return href.replace(/\/$/, "");
  throw new TypeError(`rampmeter: \`url\` is http://HOST:PORT or https://HOST:PORT, not "${url}"`);
}
