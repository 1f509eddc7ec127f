// Questions to the scheduler, and streams of what changes.

/** @typedef {Record<string, any>} Picture */

/** The token is kept only here: not in the URL, nor in the browser's storage. */
let token = "";

/** @param {string} text */
export function useToken(text) {
  token = text;
}

/** A refusal, in the scheduler's words. */
export class Refused extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** @param {string} path @param {RequestInit} [init] */
async function send(path, init = {}) {
  /** @type {Record<string, string>} */
  const headers = init.body ? { "Content-Type": "application/json" } : {};
  if (token) headers["Authorization"] = `Bearer ${token}`;
  const response = await fetch(path, { ...init, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  if (response.ok) return response;
  const text = await response.text();
  throw new Refused(response.status, message(text) || `the scheduler answers ${response.status}`);
}

/** @param {string} text */
function message(text) {
  try {
    return String(JSON.parse(text).message);
  } catch {
    return text.trim();
  }
}

/** The answer to a question. @param {string} path @param {object} [body] @returns {Promise<any>} */
export async function ask(path, body) {
  const response = await send(path, body ? { method: "POST", body: JSON.stringify(body) } : {});
  return response.json();
}

/** Pauses before the next attempt, in milliseconds. */
const PAUSES = [500, 1000, 2000, 5000, 10000];
/** The scheduler writes something every ten seconds. */
const SILENCE = 25000;

/**
 * Follows a picture until it is told to end. A hidden page follows nothing.
 * @param {string} path
 * @param {(picture: Picture, change: Picture | null) => void} show the change is null if all is new
 * @param {(trouble: Refused | Error | null) => void} tell
 * @returns {() => void} ends it
 */
export function follow(path, show, tell) {
  let ended = false;
  let failures = 0;
  let abort = new AbortController();
  /** @type {Picture} */
  let picture = {};
  const run = async () => {
    while (!ended) {
      if (document.hidden) {
        await shown();
        continue;
      }
      abort = new AbortController();
      try {
        await read(path, abort, (name, data) => {
          failures = 0;
          tell(null);
          const change = name === "change" ? data : null;
          picture = change === null ? data : merged(picture, change);
          try {
            show(picture, change);
          } catch (error) {
            // A bug of the page is no loss of the connection.
            reportError(error);
          }
        });
      } catch (error) {
        if (ended) return;
        if (document.hidden) continue;
        tell(error instanceof Error ? error : new Error(String(error)));
        if (error instanceof Refused && (error.status === 401 || error.status === 403)) return;
        await new Promise((done) => setTimeout(done, PAUSES[Math.min(failures++, PAUSES.length - 1)]));
      }
    }
  };
  const hide = () => document.hidden && abort.abort();
  document.addEventListener("visibilitychange", hide);
  run();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", hide);
    abort.abort();
  };
}

function shown() {
  return new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

/**
 * Reads events until the stream ends.
 * @param {string} path @param {AbortController} abort @param {(name: string, data: Picture) => void} hear
 */
async function read(path, abort, hear) {
  const response = await send(path, { signal: abort.signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const silent = setTimeout(() => abort.abort(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? [];
      if (name && data) hear(name, JSON.parse(data));
    }
  }
}

/**
 * A picture after a merge patch (RFC 7396).
 * @param {any} before @param {any} patch
 * @returns {any}
 */
export function merged(before, patch) {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const after = typeof before === "object" && before !== null && !Array.isArray(before) ? before : {};
  for (const [key, value] of Object.entries(patch)) {
    if (key === "__proto__") continue;
    if (value === null) delete after[key];
    else after[key] = merged(after[key], value);
  }
  return after;
}
