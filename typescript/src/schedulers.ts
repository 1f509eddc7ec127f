import { BaseDelay } from "./lateness.js";
import { backOff } from "./waiting.js";
import { PermitError } from "./wire.js";

/**
 * What happens to requests while no scheduler answers. They wait, fail after the patience, or go on
 * at a rate that is known to be safe. Each process counts for itself there, and calls alone count.
 */
export type Unreachable = "wait" | "fail" | { readonly calls: number; readonly perMs: number };

/** How often a resource without a scheduler is tried, whatever its policy. */
const PROBE_MS = 250;
/** Attempts after failures have a common pace: 2 000 a second cost a tenth of a core. */
const PACE_MS = 0.5;
/** When people are told of a silence, and how often then. */
const [TOLD_AFTER_MS, TOLD_EVERY_MS] = [2_000, 60_000];

/** The schedulers of one resource, as this process knows them. No method asks a clock. */
export class Schedulers {
  readonly baseDelay = new BaseDelay();
  #epoch = 0;
  #last = -Infinity;
  #failures = 0;
  #why = "";
  /** Until when a silence that was longer than the patience counts, if nothing is tried. */
  #lostUntil = -Infinity;
  #probeAt = 0;
  #opens = 0;
  #attemptAt = 0;
  #toldAt = -Infinity;

  constructor(private readonly policy: Unreachable, private readonly patienceMs: number,
    private readonly log: (message: string) => void) {}

  /** The highest epoch of an answer, for requests. */
  get epoch(): number | undefined {
    return this.#epoch || undefined;
  }

  /** A scheduler of this epoch (0: of none) has answered. False if it no longer leads. */
  heard(now: number, epoch: number): boolean {
    if (epoch > 0 && epoch < this.#epoch) return false;
    if (this.#toldAt > -Infinity) this.log("a scheduler answers again");
    [this.#epoch, this.#last, this.#failures] = [Math.max(epoch, this.#epoch), now, 0];
    this.#lostUntil = this.#toldAt = -Infinity;
    return true;
  }

  /** An attempt has failed; an answer was owed since then. */
  failed(now: number, owed: number, why: string): void {
    const silentMs = now - Math.max(owed, this.#last);
    this.#why = `no scheduler has answered for ${Math.round(silentMs)} ms: ${why}`;
    this.#failures += 1;
    if (silentMs >= TOLD_AFTER_MS && now - this.#toldAt >= TOLD_EVERY_MS) [this.#toldAt] = [now, this.log(this.#why)];
    if (this.policy === "wait" || silentMs < this.patienceMs) return;
    // A whole fleet loses its scheduler in one moment, and its calls must not come in one.
    if (!this.#isLost(now)) this.#opens = Math.max(this.#opens, now + Math.random() * this.#interval());
    this.#lostUntil = now + Math.max(this.patienceMs, 2 * PROBE_MS);
    this.#probeAt = now + PROBE_MS;
  }

  /** Whether it is of use to ask now. */
  mayTry(now: number): boolean {
    if (this.#isLost(now) && now < this.#probeAt) return false;
    this.#probeAt = now + PROBE_MS;
    return true;
  }

  /** Whether a call may start now without a scheduler. Throws if it never may, or not in time. */
  isLocal(now: number, mayWait: boolean): boolean {
    if (!this.#isLost(now)) return false;
    const isOpen = this.policy !== "fail" && now >= this.#opens;
    if (isOpen) this.#opens = now + this.#interval();
    if (isOpen || (mayWait && this.policy !== "fail")) return isOpen;
    const patience = this.patienceMs * (1 + Math.random() / 4);
    throw new PermitError("unreachable", this.#why, this.policy === "fail" ? patience : this.#opens - now);
  }

  /** When to go on after a failure. */
  nextAttempt(now: number): number {
    if (this.#isLost(now)) return Math.min(this.#opens, now + PROBE_MS);
    return (this.#attemptAt = Math.max(this.#attemptAt + PACE_MS, now + backOff(this.#failures - 1)));
  }

  #isLost(now: number): boolean {
    return now <= this.#lostUntil;
  }

  #interval(): number {
    return typeof this.policy === "object" ? this.policy.perMs / this.policy.calls : 0;
  }
}
