import { Resource, type Ask, type ResourceOptions } from "./resource.js";
import type { Cost } from "./wire.js";

/** The options of a resource, or a resource that is used elsewhere too, and what all calls need. */
export type FetchOptions = (ResourceOptions | { readonly resource: Resource }) & Omit<Ask, "signal"> & {
  /** What one call needs, beside what all calls need; nothing if the call needs no permit. */
  readonly asking?: (input: string | URL | Request, init?: RequestInit) => Ask | undefined;
  /** What a call cost in the end, from its answer or its body. The caller's own body is untouched. */
  readonly actual?: (response: Response) => Promise<Cost> | Cost;
};

/** `fetch`, or any function with its shape. */
type Fetch = (input: never, init?: never) => Promise<{ readonly status: number }>;

/**
 * Makes a `fetch` of which each call waits for a permit, and is settled with its answer. A call
 * that is answered 429 is repeated with a new permit. If its body is a stream, the 429 is passed on
 * instead.
 */
export function withPermits(options: FetchOptions): <F extends Fetch>(fetch: F) => F {
  const { asking = (): Ask => ({}), actual } = options;
  const resource = options.resource instanceof Resource ? options.resource : new Resource(options as ResourceOptions);
  const ofCopy = actual && ((response: Response): Promise<Cost> | Cost => actual(response.clone()));
  return <F extends Fetch>(fetch: F): F => {
    const call = fetch as unknown as (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
    const permitted: typeof call = async (input, init) => {
      const ask = asking(input, init);
      if (ask === undefined) return call(input, init);
      const signal = init?.signal ?? (input as Partial<Request>).signal;
      const repeats = isStream(init?.body) ? 0 : (ask.repeats ?? options.repeats);
      const made = (): Promise<Response> => call(input instanceof Request ? input.clone() : input, init);
      return resource.run({ ...options, ...ask, signal, repeats }, made, ofCopy);
    };
    return permitted as unknown as F;
  };
}

/** Whether a body can be sent only once. */
function isStream(body: unknown): boolean {
  return body instanceof ReadableStream || Symbol.asyncIterator in Object(body);
}
