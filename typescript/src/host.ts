/** What a host has said. */
export type Said = { readonly status: number | string; readonly text: string };

/** One host, with the requests that it has not answered. */
export class Host {
  readonly #open = new Set<AbortController>();
  #heard = 0;
  #pulse: ReturnType<typeof setInterval> | undefined;

  /** `pulseMs` is how long the host may be silent before it is asked whether it is there. */
  constructor(readonly url: string, private readonly fetch: typeof globalThis.fetch,
    private readonly pulseMs: number) {}

  /** Throws if `signal` ends, or the host is gone. */
  async ask(path: string, init: RequestInit, signal?: AbortSignal): Promise<Said> {
    const silent = new AbortController();
    if (this.#open.size === 0) {
      this.#heard = performance.now();
      this.#pulse = setInterval(() => void this.#feelPulse(), this.pulseMs);
    }
    this.#open.add(silent);
    try {
      const ends = AbortSignal.any([silent.signal, ...(signal ? [signal] : [])]);
      const response = await this.fetch(this.url + path, { ...init, signal: ends });
      const text = await response.text();
      this.#heard = performance.now();
      return { status: response.status || response.type, text };
    } finally {
      this.#open.delete(silent);
      if (this.#open.size === 0) clearInterval(this.#pulse);
    }
  }

  /** A scheduler may be silent about a request that waits; a host that is gone is silent for ever. */
  async #feelPulse(): Promise<void> {
    if (performance.now() - this.#heard < this.pulseMs) return;
    const open = [...this.#open];
    try {
      await (await this.fetch(`${this.url}/healthz`, { signal: AbortSignal.timeout(this.pulseMs) })).text();
      this.#heard = performance.now();
    } catch {
      open.forEach((silent) => silent.abort(new Error("the host is silent")));
    }
  }
}
