import type { Reply } from "./front.js";
import type { Schedulers } from "./schedulers.js";
import { newId, PermitError, type Answer, type Charge, type PermitRequest } from "./wire.js";

/** What a request wants; `allow` is now or not at all. All times are in milliseconds of one clock. */
export type Wanted = Charge & Pick<PermitRequest, "class" | "mode"> & Readonly<Record<"since" | "deadline", number>>;
/** The right to start a call at `at`. Without an id no scheduler knows of it. */
export type Grant = { readonly id?: string; readonly at: number; readonly answer: Answer };

/** What a request needs of its surroundings. What it awaits ends with an error if its caller gives up. */
export interface World {
  now(): number;
  send(request: PermitRequest): Promise<Reply>;
  pause(until: number): Promise<void>;
  giveBack(id: string): void;
}

/** A front says after so long that no scheduler answers: it owed nothing before. */
const FRONT_PATIENCE_MS = 1_000;
/** An id with one of these refusals is used up: its start was missed, or a front gave it back. */
const USED_UP = ["lapsed", "already_settled", "unknown_permit", "id_in_use"];
/** More ids of one request mean that something else answers them. */
const MOST_RENAMED = 100;

/** One request for a permit, from its first message to the start of its call. */
export class Request {
  #id: string;
  /** Whether a scheduler may have charged the id. */
  #isOpen = false;
  #renamed = 0;
  /** The one-way delay of the last answer, if that was late. */
  #lateWay: number | undefined;

  constructor(private readonly want: Wanted, private readonly schedulers: Schedulers, private readonly world: World,
    private readonly nextId = newId) {
    this.#id = nextId();
  }

  /** Asks until the call may start. Throws a `PermitError` if asking again is useless. */
  async permit(): Promise<Grant> {
    try {
      for (;;) {
        const grant = await this.#granted();
        if (grant.at > this.world.now()) await this.world.pause(grant.at);
        if (this.world.now() < grant.at + (grant.answer.valid_ms ?? Infinity)) return grant;
        this.#leave();
      }
    } catch (error) {
      if (!(error instanceof PermitError)) this.#withdraw(); // The caller has given up.
      throw error;
    }
  }

  async #granted(): Promise<Grant> {
    for (let owed: number | undefined; ; ) {
      const asked = this.world.now();
      if (asked >= this.want.deadline) {
        this.#withdraw();
        throw new PermitError("not_in_time", "no permit came within `maxWaitMs`; wait longer, or ask for less");
      }
      if (this.schedulers.mayTry(asked)) {
        const { answers: [answer], unheard, wasSent } = await this.world.send(this.#message(asked));
        // The front gives back what a client that hangs up has asked for.
        if (answer === undefined && wasSent) this.#leave();
        if (answer !== undefined && (answer.code !== "unavailable" || answer.epoch)) {
          const grant = await this.#answered(answer, asked);
          if (grant !== undefined) return grant;
          owed = undefined;
          continue;
        }
        owed ??= Math.max(asked, this.world.now() - FRONT_PATIENCE_MS);
        this.schedulers.failed(this.world.now(), owed, unheard ?? answer?.message ?? "");
      }
      if (this.schedulers.isLocal(this.world.now(), this.want.mode === "wait")) {
        this.#withdraw();
        return { at: this.world.now(), answer: { status: "granted" } };
      }
      await this.#pauseToRetry();
    }
  }

  #message(now: number): PermitRequest {
    const { cost, class: urgency, labels, mode, since, deadline } = this.want;
    const max_wait_ms = mode === "wait" && deadline < Infinity ? deadline - now : undefined;
    const age_ms = Math.floor(now - since); // Rounded down: it is a claim to a place in the queue.
    this.#isOpen = true;
    return { id: this.#id, cost, class: urgency, labels, mode, max_wait_ms, age_ms, epoch: this.schedulers.epoch };
  }

  /** The permit that an answer is. Without one the request goes on, or this throws. */
  async #answered(answer: Answer, asked: number): Promise<Grant | undefined> {
    const { status, code = "other", message = "", epoch = 0, retry_after_ms: after, limited_by: limit } = answer;
    const now = this.world.now();
    if (!this.schedulers.heard(now, epoch) || code === "unavailable") return this.#pauseToRetry();
    if (status === "granted") return this.#inTime(answer, asked, now);
    if (code === "lapsed") this.#withdraw();
    if (USED_UP.includes(code) && this.#renamed < MOST_RENAMED) return this.#rename();
    this.#isOpen = false;
    // A full queue refuses many in one moment, which must not come back in one.
    const then = now + (after ?? Infinity) * (1 + Math.random() / 4);
    const mayWait = code === "queue_full" && this.want.mode === "wait" && then < this.want.deadline;
    if (!mayWait) throw new PermitError(code, message, after, limit);
    return this.world.pause(then) as Promise<undefined>;
  }

  /** The permit, unless its call would start too late. */
  #inTime(answer: Answer, asked: number, now: number): Grant | undefined {
    const { delay_ms: told = 0, at_ms: stamp, epoch = 0 } = answer;
    const way = stamp === undefined ? undefined : now - stamp;
    const { baseDelay } = this.schedulers;
    const delay = way === undefined ? told : baseDelay.start(told, way, now - asked, epoch, now, this.#lateWay);
    this.#lateWay = delay === undefined ? way : undefined;
    return delay === undefined ? this.#leave() : { id: this.#id, at: now + delay, answer };
  }

  async #pauseToRetry(): Promise<undefined> {
    await this.world.pause(Math.min(this.schedulers.nextAttempt(this.world.now()), this.want.deadline));
  }

  #withdraw(): void {
    if (this.#isOpen) this.world.giveBack(this.#id);
    this.#isOpen = false;
  }

  /** Goes on under another id, because a scheduler refuses one that was given back. */
  #leave(): undefined {
    this.#withdraw();
    this.#rename();
  }

  #rename(): undefined {
    this.#renamed += 1;
    [this.#id, this.#isOpen] = [this.nextId(), false];
  }
}
