import { Resource, type Ask, type Finish, type ResourceOptions } from "./resource.js";
import { PermitError, type Cost } from "./wire.js";

/** The options of a resource, or a resource that is used elsewhere too. */
export type Target = ResourceOptions | { readonly resource: Resource };

/** What one call needs. `finish` settles its permit, in place of `actual`, and says what the caller gets. */
export type CallAsk = Ask & { readonly finish?: Finish<Response> };

/** A resource, and what all calls need. */
export type FetchOptions = Target & Omit<Ask, "signal"> & {
  /** What one call needs, beside what all calls need; nothing if the call needs no permit. */
  readonly asking?: (input: Input, init?: RequestInit) => CallAsk | undefined | Promise<CallAsk | undefined>;
  /** What a call cost in the end, from its answer or its body. The caller's own body is untouched. */
  readonly actual?: (response: Response) => Promise<Cost> | Cost;
};

/** What `fetch` takes first. */
export type Input = string | URL | Request;
/** `fetch`, or any function with its shape. */
type Fetch = (input: never, init?: never) => Promise<{ readonly status: number }>;
type Call = (input: Input, init?: RequestInit) => Promise<Response>;

/** Where a `fetch` with permits names the one below and its account. Other copies of this package find that, too. */
const BELOW = Symbol.for("rampmeter.below");
type Wrapped = { readonly [BELOW]?: { readonly call: Call; readonly account: string } };

/**
 * Makes a `fetch` of which each call waits for a permit, and is settled with its answer. A call
 * that is answered 429 is repeated with a new permit. If its body is a stream, or no wait mends the
 * 429, it is passed on instead. A `fetch` that has permits gets these in place of its own; it has one for each
 * call. This throws if those are of another account.
 */
export function withPermits(options: FetchOptions): <F extends Fetch>(fetch: F) => F {
  const { asking = (): CallAsk => ({}), actual } = options;
  const resource = options.resource instanceof Resource ? options.resource : new Resource(options as ResourceOptions);
  const ofCopy = actual && ((response: Response): Promise<Cost> | Cost => actual(response.clone()));
  return <F extends Fetch>(fetch: F): F => {
    const { call = fetch as unknown as Call, account = resource.account } = (fetch as Wrapped)[BELOW] ?? {};
    if (account !== resource.account)
      throw new TypeError(`rampmeter: this \`fetch\` has permits of ${account}, not of ${resource.account}`);
    const permitted: Call = async (input, init) => {
      // A request that was sent before can't be sent; `fetch` says so.
      const ask = (input as Partial<Request>).bodyUsed ? undefined : await asking(input, init);
      if (ask === undefined) return call(input, init);
      const signal = init?.signal ?? (input as Partial<Request>).signal;
      // A stream can be sent only once.
      const isStream = init?.body instanceof ReadableStream || Symbol.asyncIterator in Object(init?.body);
      const repeats = isStream ? 0 : (ask.repeats ?? options.repeats);
      const made = (): Promise<Response> => call(input instanceof Request ? input.clone() : input, init);
      const whole = { ...options, ...ask, labels: { ...options.labels, ...ask.labels }, signal, repeats };
      const answer = ask.finish ? resource.runWith(whole, made, ask.finish) : resource.run(whole, made, ofCopy);
      return new Headers(init?.headers).has("x-stainless-lang") ? answer.then(unrepeated, refused) : answer;
    };
    return Object.assign(permitted, { [BELOW]: { call, account } }) as unknown as F;
  };
}

// The packages of OpenAI and Anthropic repeat calls by themselves, unless an answer says that it is of no use.

const OF_NO_USE = { "x-should-retry": "false" };
/** What the packages call these. */
const TYPES = { 400: "invalid_request_error", 429: "rate_limit_error", 503: "api_error" } as const;

/** A 429 that was repeated here. The package would begin anew. */
function unrepeated(response: Response): Response {
  if (response.status !== 429) return response;
  const { body, status, statusText, headers } = response;
  return new Response(body, { status, statusText, headers: { ...Object.fromEntries(headers), ...OF_NO_USE } });
}

/** A refusal as an API answers it. The package would take an exception for a lost connection. */
function refused(error: unknown): Response {
  if (!(error instanceof PermitError)) throw error;
  const { code, message, retryAfterMs: retry_after_ms, limitedBy: limited_by } = error;
  const mayCome = code === "not_in_time" || retry_after_ms !== undefined;
  const status = code === "unreachable" ? 503 : mayCome ? 429 : 400;
  const told = { type: TYPES[status], code, message, retry_after_ms, limited_by };
  return Response.json({ type: "error", error: told }, { status, headers: OF_NO_USE });
}
