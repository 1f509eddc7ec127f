import type { Reply } from "./front.js";
import type { Schedulers } from "./schedulers.js";
import { newId, PermitError, type Answer, type PermitRequest } from "./wire.js";

/** What a request wants. All times are in ms of one clock. */
export type Wanted = Omit<PermitRequest, "id" | "max_wait_ms" | "age_ms" | "epoch"> &
  Readonly<Record<"since" | "deadline", number>>;
/** The right to start a call at `at`. Without an id no scheduler knows of it. */
export type Grant = { readonly id?: string; readonly at: number; readonly answer: Answer };

/** What a request needs around it. A promise that it awaits rejects if its caller gives up. */
export type World = { now(): number; giveBack(id: string): void } &
  { send(request: PermitRequest): Promise<Reply>; pause(until: number): Promise<void> };

/** A front says only after this time that no scheduler answers. It owes no answer before. */
const FRONT_PATIENCE_MS = 1_000;
/** An id with one of these refusals is used up: its start was missed, or a front gave it back. */
const USED_UP = ["lapsed", "already_settled", "unknown_permit", "id_in_use"];
/** The most ids of one request that may be used up. Beyond it, another id does not help. */
const MAX_USED_UP = 100;
/** No timer is faster: a permit that lapses sooner is useless. */
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

  constructor(readonly want: Wanted, readonly schedulers: Schedulers, readonly world: World) {}

  /** Asks until the call may start, or its start is reserved. Throws a `PermitError` if asking again is useless. */
  async permit(): Promise<Grant> {
    try {
      for (;;) {
        const next = await this.#attempt();
        if (typeof next !== "number" && this.want.mode === "reserve") return next;
        const at = typeof next === "number" ? Math.min(next, this.want.deadline) : next.at;
        await this.world.pause(at);
        if (typeof next === "number") continue;
        if (this.world.now() < at + (next.answer.valid_ms ?? Infinity)) return next;
        this.#leave();
      }
    } catch (error) {
      // What a front turns away is charged nothing.
      if (!(error instanceof PermitError) || ["not_in_time", "unreachable"].includes(error.code)) this.#leave();
      throw error;
    }
  }

  /** The permit, or when to ask again. */
  async #attempt(): Promise<Grant | number> {
    const { want, schedulers, world } = this;
    const asked = world.now();
    const advice = this.#owed ? "no scheduler answers" : "raise `maxWaitMs`, or ask for less";
    if (asked >= want.deadline) throw new PermitError("not_in_time", advice);
    if (schedulers.mayTry(asked)) {
      const { answers: [answer], unheard = "", wasSent } = await world.send(this.#message(asked));
      if (answer !== undefined) return this.#answered(answer, asked, world.now());
      // The front gives back what a client that hangs up has asked for.
      if (wasSent) this.#leave();
      this.#owed ??= Math.max(asked, world.now() - FRONT_PATIENCE_MS);
      schedulers.failed(world.now(), this.#owed, unheard);
    }
    const now = world.now();
    if (!schedulers.isLocal(now, want.mode !== "allow")) return schedulers.nextAttempt(now);
    this.#leave();
    return { at: now, answer: { status: "granted" } };
  }

  #message(now: number): PermitRequest {
    const { since, deadline, ...fields } = this.want;
    const max_wait_ms = fields.mode !== "allow" && deadline < Infinity ? deadline - now : undefined;
    const age_ms = Math.floor(now - since); // Rounded down: it is a claim to a place in the queue.
    this.#isOpen = true;
    return { id: this.#id, ...fields, max_wait_ms, age_ms, epoch: this.schedulers.epoch || undefined };
  }

  /** The permit in an answer, or when to ask again. */
  #answered(answer: Answer, asked: number, now: number): Grant | number {
    const { status, code = "other", message = "", epoch = 0, retry_after_ms: after } = answer;
    this.#owed = undefined;
    // A grant that does not say when the call starts is no permit.
    const isUseless = code === "unavailable" || (status === "granted" && answer.delay_ms === undefined);
    if (!this.schedulers.heard(now, epoch) || isUseless) return this.schedulers.nextAttempt(now);
    if (USED_UP.includes(code) && this.#usedUp++ < MAX_USED_UP) return this.#askAnew(now, code === "lapsed");
    this.schedulers.failures = 0;
    if (status === "granted") return this.#inTime(answer, asked, now);
    this.#isOpen = false; // A refusal leaves no charge.
    // Spread the retries of requests that a full queue refused together.
    const then = now + (after ?? Infinity) * (1 + Math.random() / 4);
    if (code === "queue_full" && this.want.mode === "wait" && then < this.want.deadline) return then;
    throw new PermitError(code, message, after, answer.limited_by);
  }

  /** The permit, unless its call would start too late. */
  #inTime(answer: Answer, asked: number, now: number): Grant | number {
    const { valid_ms = Infinity, at_ms: stamp = now } = answer;
    const delay = this.schedulers.baseDelay.start(answer, asked, now, this.#lateWay);
    this.#lateWay = delay === undefined ? now - stamp : undefined;
    if (delay === undefined || valid_ms < MIN_VALID_MS) return this.#askAnew(now);
    return { id: this.#id, at: now + delay, answer };
  }

  /** Pauses as after a failure: many requests may have the same reason to be sent again. */
  #askAnew(now: number, isCharged = true): number {
    this.#isOpen &&= isCharged;
    this.#leave();
    return this.schedulers.nextAttempt(now);
  }

  /** Gives the id back and goes on under another one: a scheduler refuses this one from now on. */
  #leave(): void {
    if (this.#isOpen) this.world.giveBack(this.#id);
    [this.#isOpen, this.#id] = [false, newId()];
  }
}
