import type { Reply } from "./front.js";
import { backOff, unheld } from "./waiting.js";
import type { Answer, Settle } from "./wire.js";

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
      const isTaken = (answer?: Answer): boolean => answer !== undefined && answer.code !== "unavailable";
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
