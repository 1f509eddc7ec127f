import { backOff } from "./waiting.js";
import { PermitError, type Answer } from "./wire.js";

/** How often a resource without a scheduler is tried, whatever its policy. */
const PROBE_MS = 250;
/** Attempts after failures have a common pace: 2 000 a second cost a tenth of a core. */
const PACE_MS = 0.5;
/** When people are told of a silence, and how often then. */
const [TOLD_AFTER_MS, TOLD_EVERY_MS] = [2_000, 60_000];

/** The schedulers of one resource, as this process knows them. No method asks a clock. */
export class Schedulers {
  readonly baseDelay = new BaseDelay();
  /** The highest epoch of an answer; 0 before the first one. */
  epoch = 0;
  /** Failures since a scheduler has decided on a request. Pauses grow with them. */
  failures = 0;
  #heardAt = -Infinity;
  #why = "";
  /** Until when the schedulers count as lost, if no request is made. */
  #lostUntil = -Infinity;
  #probeAt = 0;
  /** When the next call at the safe rate may start. */
  #opens = 0;
  #attemptAt = 0;
  #toldAt = -Infinity;

  /**
   * A silence that is longer than `patienceMs` is told to callers. Calls at the safe rate are
   * `intervalMs` apart. Each may be `Infinity`.
   */
  constructor(private readonly patienceMs: number, private readonly intervalMs: number,
    private readonly log: (message: string) => void) {}

  /** A scheduler of this epoch (0: of none) has answered. False if it no longer leads. */
  heard(now: number, epoch: number): boolean {
    if (epoch > 0 && epoch < this.epoch) return false;
    if (this.#toldAt > -Infinity) this.log("a scheduler answers again");
    [this.epoch, this.#heardAt, this.#lostUntil, this.#toldAt] = [epoch || this.epoch, now, -Infinity, -Infinity];
    return true;
  }

  /** Notes a failed attempt. An answer has been owed since `owed`. */
  failed(now: number, owed: number, why: string): void {
    const silentMs = now - Math.max(owed, this.#heardAt);
    this.#why = `no scheduler has answered for ${Math.round(silentMs)} ms: ${why}`;
    if (silentMs >= TOLD_AFTER_MS && now - this.#toldAt >= TOLD_EVERY_MS) {
      this.#toldAt = now;
      this.log(this.#why);
    }
    if (silentMs < this.patienceMs) return;
    // A whole fleet loses its scheduler at once, and its calls must not all come at once.
    if (now > this.#lostUntil) this.#opens = Math.max(this.#opens, now + this.intervalMs * (1 - Math.random()));
    [this.#lostUntil, this.#probeAt] = [now + Math.max(this.patienceMs, 2 * PROBE_MS), now + PROBE_MS];
  }

  /** Whether it is of use to ask now. */
  mayTry(now: number): boolean {
    if (now <= this.#lostUntil && now < this.#probeAt) return false;
    this.#probeAt = now + PROBE_MS;
    return true;
  }

  /** Whether a call may start now without a scheduler. Throws if it never may, or not in time. */
  isLocal(now: number, mayWait: boolean): boolean {
    if (now > this.#lostUntil) return false;
    const isOpen = now >= this.#opens;
    if (isOpen) this.#opens = now + this.intervalMs;
    if (isOpen || (mayWait && this.#opens < Infinity)) return isOpen;
    const after = this.#opens < Infinity ? this.#opens - now : this.patienceMs * (1 + Math.random() / 4);
    throw new PermitError("unreachable", this.#why, after);
  }

  /** When to go on after a failure. */
  nextAttempt(now: number): number {
    if (now <= this.#lostUntil) return Math.min(this.#opens, now + PROBE_MS);
    return (this.#attemptAt = Math.max(this.#attemptAt + PACE_MS, now + backOff(this.failures++)));
  }
}

// How late an answer is, by the clock of the scheduler that wrote it: protocol/src/worker/lateness.rs.

/** How much later than promised a call may start: the scheduler's margin covers as much. */
const LATENESS_MS = 50;
/** A base delay is forgotten after one to two of these, because clocks drift apart. */
const MEMORY_MS = 30_000;

/** The least time that answers of one leader took lately, from their stamp to their receipt. */
export class BaseDelay {
  #term = { epoch: -1, since: 0 };
  #least = Infinity;
  #before = Infinity;

  /**
   * How long from now the call of an answer starts; nothing if it would or might start too late.
   * `before` is the time from the previous answer's stamp to its receipt, if that was late. Two
   * equal times show a long path.
   */
  start(answer: Answer, asked: number, now: number, before = Infinity): number | undefined {
    const { delay_ms: delay = 0, at_ms: stamp, epoch = 0 } = answer;
    if (stamp === undefined) return delay;
    const age = epoch === this.#term.epoch ? now - this.#term.since : Infinity;
    const kept = age <= 2 * MEMORY_MS ? this.#least : Infinity;
    if (age > MEMORY_MS) [this.#term, this.#before, this.#least] = [{ epoch, since: now }, kept, Infinity];
    const [way, trip] = [now - stamp, now - asked];
    const base = Math.min(this.#least, this.#before, trip <= LATENESS_MS ? way : Infinity);
    const late = base < Infinity ? Math.min(Math.max(0, way - base), trip) : Infinity;
    if (late <= LATENESS_MS) this.#least = Math.min(this.#least, way);
    // A stamp is whole milliseconds, so that the lateness may be one too high.
    if (late - delay <= LATENESS_MS) return Math.max(0, delay - Math.max(0, late - 1));
    if (Math.abs(way - before) > LATENESS_MS) return undefined;
    [this.#least, this.#before] = [way, Infinity];
    return delay;
  }
}
