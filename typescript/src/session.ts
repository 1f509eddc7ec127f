import type { Reply } from "./front.js";
import type { Schedulers } from "./schedulers.js";
import { newId, PermitError, type Answer, type Charge, type PermitRequest } from "./wire.js";

/** What a request wants; `allow` is now or not at all. All times are in milliseconds of one clock. */
export type Wanted = Charge & Pick<PermitRequest, "class" | "mode" | "price"> &
  Readonly<Record<"since" | "deadline", number>>;
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
/** More ids of one request that are used up mean that something else answers them. */
const MAX_USED_UP = 100;
/** No timer is faster: a permit that lapses sooner is of no use. */
const MIN_VALID_MS = 1;

/** One request for a permit, from its first message to the start of its call. */
export class RequestSession {
  #id = newId();
  /** Whether a scheduler may have charged the id. */
  #isOpen = false;
  #usedUp = 0;
  /** Since when a scheduler owes an answer. */
  #owed: number | undefined;
  /** The one-way delay of the last answer, if that was late. */
  #lateWay: number | undefined;

  constructor(private readonly want: Wanted, private readonly schedulers: Schedulers, private readonly world: World) {}

  /** Asks until the call may start. Throws a `PermitError` if asking again is useless. */
  async permit(): Promise<Grant> {
    try {
      for (;;) {
        const grant = await this.#attempt();
        if (grant === undefined) continue;
        await this.world.pause(grant.at);
        if (this.world.now() < grant.at + (grant.answer.valid_ms ?? Infinity)) return grant;
        this.#leave();
      }
    } catch (error) {
      // What a front turns away is charged nothing.
      if (!(error instanceof PermitError) || ["not_in_time", "unreachable"].includes(error.code)) this.#leave();
      throw error;
    }
  }

  /** The permit, or nothing if it is time to ask again. */
  async #attempt(): Promise<Grant | undefined> {
    const asked = this.world.now();
    if (asked >= this.want.deadline)
      throw new PermitError("not_in_time", this.#owed ? "no scheduler answers" : "raise `maxWaitMs`, or ask for less");
    if (this.schedulers.mayTry(asked)) {
      const { answers: [answer], unheard = "", wasSent } = await this.world.send(this.#message(asked));
      if (answer !== undefined) return this.#answered(answer, asked);
      // The front gives back what a client that hangs up has asked for.
      if (wasSent) this.#leave();
      this.#owed ??= Math.max(asked, this.world.now() - FRONT_PATIENCE_MS);
      this.schedulers.failed(this.world.now(), this.#owed, unheard);
    }
    if (!this.schedulers.isLocal(this.world.now(), this.want.mode === "wait")) return this.#pauseToRetry();
    this.#leave();
    return { at: this.world.now(), answer: { status: "granted" } };
  }

  #message(now: number): PermitRequest {
    const { since, deadline, ...fields } = this.want;
    const max_wait_ms = fields.mode === "wait" && deadline < Infinity ? deadline - now : undefined;
    const age_ms = Math.floor(now - since); // Rounded down: it is a claim to a place in the queue.
    this.#isOpen = true;
    return { id: this.#id, ...fields, max_wait_ms, age_ms, epoch: this.schedulers.epoch || undefined };
  }

  /** The permit that an answer is. Without one the request goes on, or this throws. */
  async #answered(answer: Answer, asked: number): Promise<Grant | undefined> {
    const { status, code = "other", message = "", epoch = 0, retry_after_ms: after, limited_by: limit } = answer;
    const now = this.world.now();
    this.#owed = undefined;
    if (!this.schedulers.heard(now, epoch) || code === "unavailable") return this.#pauseToRetry();
    if (USED_UP.includes(code) && this.#usedUp++ < MAX_USED_UP) return this.#askAnew(code === "lapsed");
    this.schedulers.failures = 0;
    if (status === "granted") return this.#inTime(answer, asked, now);
    this.#isOpen = false; // A refusal leaves no charge.
    // A full queue refuses many in one moment, which must not come back in one.
    const then = now + (after ?? Infinity) * (1 + Math.random() / 4);
    const mayWait = code === "queue_full" && this.want.mode === "wait" && then < this.want.deadline;
    if (!mayWait) throw new PermitError(code, message, after, limit);
    return this.world.pause(then) as Promise<undefined>;
  }

  /** The permit, unless its call would start too late. */
  async #inTime(answer: Answer, asked: number, now: number): Promise<Grant | undefined> {
    const { delay_ms: told = 0, valid_ms = Infinity, at_ms: stamp, epoch = 0 } = answer;
    const way = stamp === undefined ? undefined : now - stamp;
    const { baseDelay } = this.schedulers;
    const delay = way === undefined ? told : baseDelay.start(told, way, now - asked, epoch, now, this.#lateWay);
    this.#lateWay = delay === undefined ? way : undefined;
    if (delay === undefined || valid_ms < MIN_VALID_MS) return this.#askAnew();
    return { id: this.#id, at: now + delay, answer };
  }

  /** Pauses as after a failure: many requests may have the same reason to be sent again. */
  #askAnew(isCharged = true): Promise<undefined> {
    this.#isOpen &&= isCharged;
    this.#leave();
    return this.#pauseToRetry();
  }

  async #pauseToRetry(): Promise<undefined> {
    await this.world.pause(Math.min(this.schedulers.nextAttempt(this.world.now()), this.want.deadline));
  }

  /** Gives the id back. A scheduler refuses it from now on, so that the request goes on under another one. */
  #leave(): void {
    if (this.#isOpen) this.world.giveBack(this.#id);
    [this.#isOpen, this.#id] = [false, newId()];
  }
}
