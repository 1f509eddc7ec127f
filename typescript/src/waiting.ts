/** The longest time that timers of JavaScript can wait. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The pause before the next attempt, from 5 to 250 ms: exponential, with full jitter. */
export const backOff = (failures: number): number =>
  5 + Math.random() * (Math.min(250, 10 * 2 ** Math.min(failures, 8)) - 5);

/** A timer that keeps no process alive. */
export function unheld<Timer>(timer: Timer): Timer {
  (timer as { unref?: () => void }).unref?.();
  return timer;
}

/** Who wakes when a signal ends. It has one listener of ours: Node.js warns of a leak if there are more than ten. */
const WAKES = new WeakMap<AbortSignal, Set<() => void>>();

function listened(signal: AbortSignal): Set<() => void> {
  const wakes = new Set<() => void>();
  signal.addEventListener("abort", () => wakes.forEach((wake) => wake()));
  WAKES.set(signal, wakes);
  return wakes;
}

/** Calls `wake` about `end`, a time of `performance.now()`, or when `signal` ends. The result calls that off. */
export function alarm(end: number, wake: () => void, signal?: AbortSignal | null): () => void {
  const timer = setTimeout(wake, Math.min(Math.ceil(end - performance.now()), MAX_TIMER_MS));
  const wakes = signal ? (WAKES.get(signal) ?? listened(signal)) : undefined;
  wakes?.add(wake);
  if (signal?.aborted) wake();
  return () => {
    clearTimeout(timer);
    wakes?.delete(wake);
  };
}

/** Waits until `end`, a time of `performance.now()`. If `signal` ends first, this throws its reason. */
export async function until(end: number, signal?: AbortSignal | null): Promise<void> {
  for (let callOff = (): void => {}; performance.now() < end && !signal?.aborted; callOff())
    await new Promise<void>((wake) => (callOff = alarm(end, wake, signal)));
  signal?.throwIfAborted();
}

/** Waits for `work`, but no longer than until `end`, a time of `performance.now()`, or until `signal` ends. */
export async function within(end: number, work: Promise<void>, signal?: AbortSignal | null): Promise<void> {
  await new Promise<void>((wake) => void work.then(wake).then(alarm(end, wake, signal)));
}
