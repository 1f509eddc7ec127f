import type { Outbox } from "./outbox.js";
import { unheld } from "./waiting.js";
import { exact, limitHeaders, type Answer, type Charge, type Cost, type HeadersLike, type Settle } from "./wire.js";

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

/** The right to make one call, now. Settle it, or give it back; otherwise it counts as used. */
export class Permit {
  /** The limit that set the delay, if one did. */
  readonly limitedBy: string | undefined;
  readonly #begun = performance.now();
  #renewal: ReturnType<typeof setInterval> | undefined;
  /** What a successor of the scheduler has to know of the call, until its lease ends. */
  #asked: Charge | undefined;
  #leaseEnds = 0;
  #isOver = false;

  /** `id` is absent if no scheduler answered and the call is made at a safe rate. */
  constructor(readonly id: string | undefined, answer: Answer, charge: Charge, private readonly outbox: Outbox) {
    this.limitedBy = answer.limited_by;
    const asked = { cost: answer.cost ?? charge.cost, labels: charge.labels };
    if (answer.lease_ms !== undefined) this.#keepPlace(answer.lease_ms, asked);
  }

  /** Reports the call: pass the answer of `fetch`, or what is known of it. */
  settle({ status, headers, cost, quotaSpent, code }: Outcome = {}): void {
    const response = status ? { status, headers: limitHeaders(headers), quota_spent: quotaSpent, code } : undefined;
    this.#end({ used: true, response, cost: cost && exact(cost), elapsed_ms: performance.now() - this.#begun });
  }

  /** Gives the permit back: no call was made. */
  giveBack(): void {
    this.#end({ used: false });
  }

  #end(how: Omit<Settle, "id">): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#renewal);
    const asked = performance.now() < this.#leaseEnds ? this.#asked : undefined;
    if (this.id !== undefined) this.outbox.push({ id: this.id, ...how, asked });
  }

  /** Renews the place among the calls in flight, until a scheduler does not know the call. */
  #keepPlace(leaseMs: number, asked: Charge): void {
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
