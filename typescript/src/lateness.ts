// How late an answer is, by the clock of the scheduler that wrote it: protocol/src/worker/lateness.rs.
import type { Answer } from "./wire.js";

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
    this.#forgetOld(epoch, now);
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

  #forgetOld(epoch: number, now: number): void {
    const age = epoch === this.#term.epoch ? now - this.#term.since : Infinity;
    if (age <= MEMORY_MS) return;
    this.#before = age <= 2 * MEMORY_MS ? this.#least : Infinity;
    [this.#term, this.#least] = [{ epoch, since: now }, Infinity];
  }
}
