/**
 * An answer whose body is watched: `end` is called when it was read, with true, or was cancelled or broken off.
 * Each part goes to `feed`.
 */
export function watched<T>(answer: T, end: (isWhole: boolean) => void, feed?: (part: Uint8Array) => void): T {
  const { body, status, statusText, headers, url, redirected, type } = Object(answer) as Partial<Response>;
  if (!(body instanceof ReadableStream) || body.locked) {
    end(true);
    return answer;
  }
  const reader = body.getReader();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        end(false);
        throw error;
      });
      if (value) feed?.(value);
      if (done) end(true);
      return done ? controller.close() : controller.enqueue(value);
    },
    cancel(why) {
      end(false);
      return reader.cancel(why);
    },
  }, { highWaterMark: 0 });
  const same = new Response(stream, { status, statusText, headers });
  const told = Object.entries({ url, redirected, type }).map(([name, value]) => [name, { value }]);
  return Object.defineProperties(same, Object.fromEntries(told)) as T;
}
