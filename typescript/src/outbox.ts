import type { Reply } from "./front.js";
import { backOff, until } from "./waiting.js";
import type { Answer, Settle } from "./wire.js";

/** Above this the oldest is dropped. Its permit counts as used at its estimated cost, which is safe. */
const MOST_SETTLES = 65_536;
/** Nearly all settles are far shorter than 64 KiB / 256, and the front reads 64 KiB. */
const [MOST_TOGETHER, MOST_LENGTH] = [256, 60_000];

/** The settles that no scheduler has taken. What waits while a request is under way travels together. */
export class Outbox {
  readonly #waiting: { settle: Settle; told: ((answer: Answer) => void) | undefined }[] = [];
  #sending: Promise<void> | undefined;

  constructor(private readonly send: (body: string) => Promise<Reply>, private readonly lost: (why: Error) => void) {}

  push(settle: Settle, told?: (answer: Answer) => void): void {
    if (this.#waiting.length === MOST_SETTLES) this.#waiting.shift();
    this.#waiting.push({ settle, told });
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = undefined));
  }

  /** Resolves when a scheduler has taken everything. */
  async emptied(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending;
  }

  async #sendAll(): Promise<void> {
    for (let failures = 0; this.#waiting.length > 0; ) {
      const [count, body] = this.#next(MOST_TOGETHER);
      const batch = this.#waiting.splice(0, count);
      const reply = await this.send(body).catch((why: Error) => this.lost(why));
      if (reply === undefined) continue;
      const isTaken = (answer: Answer | undefined): boolean => answer !== undefined && answer.code !== "unavailable";
      const again = batch.filter((_, index) => !isTaken(reply.answers[index]));
      reply.answers.forEach((answer, index) => isTaken(answer) && batch[index]?.told?.(answer));
      this.#waiting.unshift(...again);
      // A process that has nothing else to do does not wait for an absent scheduler.
      if (again.length === batch.length) await until(performance.now() + backOff(failures++), undefined, false);
      else failures = 0;
    }
  }

  #next(most: number): [number, string] {
    const body = JSON.stringify(this.#waiting.slice(0, most).map(({ settle }) => settle));
    return body.length > MOST_LENGTH && most > 1 ? this.#next(most >> 1) : [most, body];
  }
}
