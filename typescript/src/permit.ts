/// <reference lib="esnext.disposable" preserve="true" />
import type { Reply } from "./front.js";
import type { Grant, Wanted } from "./session.js";
import { backOff, unheld, until } from "./waiting.js";
import { exact, limitHeaders, type Charge, type Cost, type HeadersLike, type Left, type Settle } from "./wire.js";

/** How a call went. Every part may be left out: the call then counts as made, at its estimate. */
export interface Outcome {
  readonly status?: number;
  readonly headers?: HeadersLike;
  /** The actual cost. A unit that is left out keeps its estimate. */
  readonly cost?: Cost;
  /** The body says that a quota is spent, such as a month's. */
  readonly quotaSpent?: boolean;
  /** The code of the error in the body. It tells a spent quota from a forbidden call, and much else. */
  readonly code?: string;
}

/** How often a lease is renewed before it ends: two renewals may be lost. */
const RENEWALS = 3;

/** Settles the calls whose permits a program has lost. Of one that was settled, nothing comes of it. */
const LOST = new FinalizationRegistry((call: CallInFlight) => call.end({ used: true }));

/** What a permit needs around it: `again` asks for another one in place of it, at its age. */
export type PermitWorld = { readonly outbox: Outbox; again(signal?: AbortSignal | null): Promise<Permit> } &
  { on429?(outcome: Outcome): void };

/** The right to make one call. Settle it, or give it back; otherwise it counts as used. */
export class Permit {
  /** Names the call; absent if no scheduler answered and the call is made at a safe rate. */
  readonly id: string | undefined;
  /** The limit that set the delay, if one did. */
  readonly limitedBy: string | undefined;
  /** The account that makes the call, if the resource has accounts. */
  readonly account: string | undefined;
  /** The way in which the call has to be made: 0 as described, otherwise the entry of `or`, from 1. */
  readonly way: number;
  /** What the limits have left, if the request asked with `left: true`. */
  readonly left: readonly Left[];
  /** Whether a limit counts calls in flight: this one holds a place there until it is settled. */
  readonly hasPlace: boolean;
  readonly #call: CallInFlight;

  constructor(private readonly grant: Grant, want: Wanted, private readonly world: PermitWorld) {
    const { lease_ms, limited_by, account, way = 0, left = [] } = grant.answer;
    [this.id, this.limitedBy, this.account, this.way, this.left] = [grant.id, limited_by, account, way, left];
    this.hasPlace = lease_ms !== undefined;
    this.#call = new CallInFlight(grant.id, world.outbox);
    LOST.register(this, this.#call);
    if (lease_ms !== undefined) this.#call.keepPlace(lease_ms, askedOf(want, grant));
  }

  /** Milliseconds until the call may start; more than 0 for a reservation only. */
  get delayMs(): number {
    return Math.max(0, this.grant.at - performance.now());
  }

  /**
   * Waits for the start of a reservation, and returns the permit for the call: this one, or, if a long sleep has made
   * it void, another one at its age. `signal` ends the wait, and gives the permit back.
   */
  async ready(signal?: AbortSignal | null): Promise<Permit> {
    const { at, answer: { valid_ms = Infinity } } = this.grant;
    await until(at, signal).catch(() => {});
    if (!signal?.aborted && performance.now() < at + valid_ms) return this;
    this.giveBack();
    return this.world.again(signal);
  }

  /** Reports the call: pass the answer of `fetch`, or what is known of it. */
  settle(outcome: Outcome = {}): void {
    const { status, headers, cost, quotaSpent, code } = outcome;
    const response = status ? { status, headers: limitHeaders(headers), quota_spent: quotaSpent, code } : undefined;
    const elapsed_ms = Math.max(0, performance.now() - this.grant.at);
    const isFirst = this.#call.end({ used: true, response, cost: exact(cost), elapsed_ms });
    if (isFirst && status === 429) this.world.on429?.(outcome);
  }

  /** Gives the permit back: no call was made. */
  giveBack(): void {
    this.#call.end({ used: false });
  }

  /** The end of `using permit = …`: a call that nobody has settled counts as made. */
  [Symbol.dispose](): void {
    this.settle();
  }
}

/** What a call takes of the limits, by the way and the account that were chosen. */
export function askedOf(want: Wanted, { answer: { way = 0, cost, account } }: Grant): Charge {
  const [chosen, own] = [want.any_of?.[way - 1] ?? {}, account === undefined ? [] : [["account", account]]];
  const labels = Object.entries({ ...want.labels, ...chosen.labels }).filter(([key]) => chosen.labels?.[key] !== "");
  return { cost: chosen.cost ?? cost ?? want.cost, labels: Object.fromEntries([...labels, ...own]) };
}

/** The call of a permit until its end. It does not hold the permit, which a program may lose. */
class CallInFlight {
  #renewal: ReturnType<typeof setInterval> | undefined;
  /** What a successor of the scheduler has to know of the call, until its lease ends. */
  #asked: Charge | undefined;
  #leaseEnds = 0;
  #isOver = false;

  constructor(readonly id: string | undefined, private readonly outbox: Outbox) {}

  /** Reports the end, unless it was reported before. */
  end(how: Omit<Settle, "id">): boolean {
    if (this.#isOver) return false;
    clearInterval(this.#renewal);
    const asked = performance.now() < this.#leaseEnds ? this.#asked : undefined;
    if (this.id !== undefined) this.outbox.push({ id: this.id, ...how, asked });
    return (this.#isOver = true);
  }

  /** Renews the place among the calls in flight, until a scheduler does not know the call. */
  keepPlace(leaseMs: number, asked: Charge): void {
    const renewal = JSON.stringify({ id: this.id, extend: true, asked });
    [this.#asked, this.#leaseEnds] = [asked, performance.now() + leaseMs];
    const renew = async (): Promise<void> => {
      const sent = performance.now();
      const answer = (await this.outbox.send(renewal).catch(() => undefined))?.answers[0];
      if (answer && !answer.code) this.#leaseEnds = sent + leaseMs;
      if (/unknown_permit|invalid_request/.test(answer?.code ?? "")) clearInterval(this.#renewal);
    };
    this.#renewal = unheld(setInterval(() => void renew(), Math.max(50, leaseMs / RENEWALS)));
  }
}

/** Above this the oldest is dropped. Its permit counts as used at its estimated cost, which is safe. */
const MAX_SETTLES = 65_536;
/** The characters of a message. Each has at most three bytes, and the front reads 64 KiB. */
const MAX_LENGTH = 20_000;

/** The settles that no scheduler has taken. What waits while a request is under way travels together. */
export class Outbox {
  readonly #waiting: string[] = [];
  #sending: Promise<void> | undefined;

  constructor(readonly send: (body: string) => Promise<Reply>, private readonly log: (message: string) => void) {}

  push(settle: Settle): void {
    if (this.#waiting.length === MAX_SETTLES) this.#waiting.shift();
    this.#waiting.push(JSON.stringify(settle));
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = undefined));
  }

  /** Resolves when a scheduler has taken everything. */
  async emptied(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending;
  }

  async #sendAll(): Promise<void> {
    for (let failures = 0; this.#waiting.length > 0; ) {
      const batch = this.#nextBatch();
      const reply = await this.send(`[${batch}]`).catch((why: Error) => this.log(`settles are lost: ${why.message}`));
      const isTaken = (answer?: { code?: string }): boolean => answer !== undefined && answer.code !== "unavailable";
      const again = reply ? batch.filter((_, index) => !isTaken(reply.answers[index])) : [];
      this.#waiting.unshift(...again);
      // A process that has nothing else to do does not wait for an absent scheduler.
      if (again.length < batch.length) failures = 0;
      else await new Promise<void>((wake) => unheld(setTimeout(wake, backOff(failures++))));
    }
  }

  #nextBatch(): string[] {
    let length = 0;
    const fitting = this.#waiting.findIndex((settle) => (length += settle.length) > MAX_LENGTH);
    return this.#waiting.splice(0, fitting < 0 ? this.#waiting.length : Math.max(1, fitting));
  }
}
