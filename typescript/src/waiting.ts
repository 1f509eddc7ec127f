/** The longest time that timers of JavaScript can wait. */
const MOST_TIMER_MS = 2 ** 31 - 1;

/** The pause before the next attempt, from 5 to 250 ms: exponential, with full jitter. */
export function backOff(failures: number): number {
  return 5 + Math.random() * (Math.min(250, 10 * 2 ** Math.min(Math.max(failures, 0), 8)) - 5);
}

/** A signal that ends at `end`, a time of `performance.now()`, unless it is cleared before. */
export function endingAt(end: number): { readonly signal: AbortSignal; clear(): void } {
  const [ends, left] = [new AbortController(), end - performance.now()];
  const timer = left < MOST_TIMER_MS ? setTimeout(() => ends.abort(), left) : undefined;
  return { signal: ends.signal, clear: () => clearTimeout(timer) };
}

/** Waits until `end`, a time of `performance.now()`. If `signal` ends first, this throws its reason. */
export async function until(end: number, signal?: AbortSignal | null, holdsProcess = true): Promise<void> {
  for (signal?.throwIfAborted(); performance.now() < end; signal?.throwIfAborted()) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(wake, Math.min(Math.ceil(end - performance.now()), MOST_TIMER_MS));
      if (!holdsProcess) (timer as { unref?: () => void }).unref?.();
      signal?.addEventListener("abort", wake);
      function wake(): void {
        clearTimeout(timer);
        signal?.removeEventListener("abort", wake);
        resolve();
      }
    });
  }
}
