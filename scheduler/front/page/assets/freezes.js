// Pauses of limits: what they come from, when they end, and orders to begin and to end them.

import { el, kept, say, write } from "./dom.js";
import { ask } from "./live.js";
import { duration, soon } from "./text.js";

/** How long a freeze may last, in milliseconds. */
const SPANS = [60_000, 600_000, 3_600_000, 86_400_000];

/**
 * @param {string} path the resource
 * @param {boolean} operates
 */
export function freezes(path, operates) {
  const span = el("select", { "aria-label": "How long a freeze lasts" }, ...SPANS.map((millis) => el("option", { value: millis }, duration(millis))));
  const all = el("button", { type: "button", onclick: () => freeze(undefined) }, "Freeze all limits");
  const pauses = kept((/** @type {string} */ name) => {
    const text = el("span", { class: "warn" });
    const thaw = el("button", { type: "button", "aria-label": `Thaw ${name}`, onclick: () => order("thaw", { limit: name }, "thawed") }, "Thaw");
    const begin = el("button", { type: "button", "aria-label": `Freeze ${name}`, onclick: () => freeze(name) }, "Freeze");
    return { text, thaw, begin, element: el("span", { class: "actions" }, text, operates ? thaw : null, operates ? begin : null) };
  });

  /** @param {string | undefined} limit */
  function freeze(limit) {
    order("freeze", { limit, for_ms: Number(span.value) }, `frozen for ${duration(Number(span.value))}`);
  }

  /** @param {string} kind @param {object} about @param {string} done */
  async function order(kind, about, done) {
    try {
      const { limits } = await ask(`/page/order/${kind}/${path}`, about);
      say(limits.length ? `${limits.join(", ")} ${done}` : "nothing is paused");
    } catch (error) {
      say(String(error instanceof Error ? error.message : error));
    }
  }

  return {
    element: operates ? el("div", { class: "actions" }, el("span", {}, "A freeze lasts"), span, all) : null,
    /** @param {any} limit @returns {string | Node} */
    show(limit) {
      const isPaused = limit.paused_by !== undefined;
      // Each key has a bucket of its own, and a limit in shadow mode delays nothing.
      const mayPause = limit.key === undefined && limit.keys === 1 && limit.shadow === undefined;
      if (!isPaused && !(operates && mayPause)) return "";
      const pause = pauses(limit.name);
      write(pause.text, isPaused ? cause(limit) : "");
      pause.thaw.hidden = !isPaused;
      pause.begin.hidden = isPaused || !mayPause;
      return pause.element;
    },
  };
}

/** The leader's sentence on the pause, if it has one. @param {any} limit */
function because(limit) {
  return limit.pause ? `: ${limit.pause}` : "";
}

/** Why and how long no call starts. @param {any} limit */
function cause(limit) {
  switch (limit.paused_by) {
    case "operator":
      return `an operator's order, for ${duration(limit.frozen_ms)}`;
    case "quota":
      return `the upstream says that it is spent: it goes on ${soon(limit.next_free_ms)}${because(limit)}`;
    default:
      return `the upstream demands ${duration(limit.frozen_ms)}${because(limit)}`;
  }
}
