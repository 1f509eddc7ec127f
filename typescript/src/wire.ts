// The messages of the protocol: docs/protocol.md in Rampmeter's repository.

/** Amounts by unit; a number alone counts requests. A call costs one of `requests` unless its cost says otherwise. */
export type Cost = number | Amounts;
/** Amounts by unit. */
export type Amounts = Readonly<Record<string, number>>;

type Fields<Name extends string, Value> = { readonly [name in Name]?: Value };

/** A permit, a refusal, or the receipt of a settle; each has some of the fields. */
export type Answer = { readonly status: "granted" | "refused" | "settled" } & Fields<"cost", Amounts> &
  Fields<"delay_ms" | "valid_ms" | "lease_ms" | "at_ms" | "retry_after_ms" | "epoch" | "way", number> &
  Fields<"code" | "message" | "limited_by" | "account", string> & Fields<"left", readonly Left[]>;

/** What a limit has left, and when time refills it, if it does. */
export type Left = Readonly<Record<"limit" | "unit", string> & { remaining: number }> & Fields<"reset_ms", number>;

/** What a call costs, and the labels that limits match on. */
export type Charge = { readonly cost?: Cost; readonly labels?: Readonly<Record<string, string>> };
/** The request to the upstream, if the scheduler computes what it costs. */
export type Price = { readonly kind: string; readonly api: string; readonly body: unknown; readonly given?: unknown };

/** The request for a permit. */
export type PermitRequest = Charge & { readonly id: string; readonly mode: Mode; readonly price?: Price } &
  Fields<"class", string> & Fields<"not", readonly string[]> & Fields<"left", boolean> &
  Fields<"any_of", readonly Charge[]> & Fields<"else_after_ms" | "max_wait_ms" | "age_ms" | "epoch", number>;

/** When a request is answered: once its turn has come; now, with a yes or a no; now, with a start ahead. */
export type Mode = "wait" | "allow" | "reserve";

/** The report on a call. */
export type Settle = { readonly id: string; readonly used: boolean; readonly cost?: Cost; readonly asked?: Charge } &
  Fields<"elapsed_ms", number> & Fields<"response", { status: number; headers: Record<string, string> }>;

/** Headers that schedulers read although their names do not say so. */
const OF_LIMITS =
  ["date", "sforce-limit-info", "x-amzn-errortype", "x-processingunits-spent", "x-shopify-shop-api-call-limit"];
const MARK = /quota|rate-?limit|retry-after|throttl/;
const SECRET = /(^|[-_])(auth|authorization|cookie|key|password|secret|session|signature|token)([-_]|$)/;

/** Whether a header is passed on. No other header leaves this process: it may hold a secret. */
export const speaksOfLimits = (name: string): boolean =>
  OF_LIMITS.includes(name) || (name.length <= 64 && MARK.test(name) && !SECRET.test(name));

/** Codes of a 429 that no wait mends. */
export const FINAL = ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated"];

/** The most bytes of a body that is looked at for the code of an error. */
const MAX_ERROR_BODY = 16 * 1024;

/** Whether the body of an answer is read for the code of its error: it is JSON, and short as far as it tells. */
export function hasError(status: number, headers: HeadersLike | undefined): boolean {
  const told = (name: string): string => String(headers?.get?.(name) ?? "");
  return status >= 400 && told("content-type").includes("json") && Number(told("content-length")) <= MAX_ERROR_BODY;
}

/** The most specific code in the shapes that APIs have for errors. */
export function codeIn(body: unknown): string | undefined {
  const { error, errors } = Object(body) as { readonly error?: unknown; readonly errors?: unknown };
  const places = [Object(error).errors?.[0], Array.isArray(errors) ? errors[0] : undefined, error, body];
  const codes = places.flatMap((place) => {
    if (typeof place === "string") return /^\w+$/.test(place) ? [place] : [];
    const { extensions, code, reason, type, status, __type } = Object(place) as Record<string, unknown>;
    return [Object(extensions).code, code, reason, type, status, __type];
  });
  return codes.find((code) => typeof code === "string" && code !== "error") as string | undefined;
}

/** The headers of an answer: `Headers`, or what has some of its methods. */
export type HeadersLike = { get?(name: string): unknown; forEach?(call: (value: string, name: string) => void): void };

/** The headers that speak of limits, by their names in lower case: at most 64, of at most 1024 characters. */
export function limitHeaders(headers: HeadersLike | undefined): Record<string, string> {
  const found = new Map(["retry-after", ...OF_LIMITS].map((name) => [name, headers?.get?.(name)]));
  headers?.forEach?.((value, name) => void found.set(name.toLowerCase(), value));
  const isTold = ([name, value]: [string, unknown]): boolean =>
    typeof value === "string" && value !== "" && value.length <= 1024 && speaksOfLimits(name);
  return Object.fromEntries([...found].filter(isTold).slice(0, 64)) as Record<string, string>;
}

/**
 * A new id: a random UUID, because a holder of the id can settle and cancel the permit. Not by
 * `randomUUID`, which pages without encryption do not have.
 */
export function newId(): string {
  const bits = (count: number): number => crypto.getRandomValues(new Uint8Array(1))[0]! & (1 << count) - 1;
  return "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx".replace(/[xy]/g, (x) => (x < "y" ? bits(4) : 8 + bits(2)).toString(16));
}

/** The cost in millionths of a unit, rounded up: a caller never pays too little. */
export function exact(cost: Cost | undefined): Amounts | undefined {
  if (cost === undefined) return undefined;
  const amounts = typeof cost === "number" ? { requests: cost } : cost;
  return Object.fromEntries(Object.entries(amounts).map(([unit, amount]) => {
    if (!(amount >= 0 && amount <= 1e9)) throw new TypeError(`rampmeter: a cost is 0 to 1e9, not ${amount} ${unit}`);
    return [unit, Math.ceil(amount * 1e6 - 1e-3) / 1e6]; // A thousandth of a millionth is noise.
  }));
}

/** What `make` returns, or nothing if it throws. */
export function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** Why there is no permit. */
export class PermitError extends Error {
  override readonly name = "PermitError";
  /** The upstream's last answer, if a call was answered 429 and is not repeated for this refusal. */
  response?: unknown;

  /**
   * `code` is one of the protocol's, such as `never_fits`, or one of the client's own: `unreachable`,
   * `wrong_token`, `not_rampmeter`. Without `retryAfterMs`, asking again is useless.
   */
  constructor(readonly code: string, message: string, readonly retryAfterMs?: number, readonly limitedBy?: string) {
    super(`rampmeter: ${message}`);
  }
}
