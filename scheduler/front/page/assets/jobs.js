// Queues of jobs: each lane with what is delayed, running and dead, and the dead letters.

import { el, part, say, Table, write } from "./dom.js";
import { ask } from "./live.js";
import { count } from "./text.js";

/** How often the queues are counted anew, in milliseconds. */
const AGAIN = 5000;

/** @type {import("./dom.js").Column<any>[]} */
const LANES = [
  { title: "group", head: true, show: (one) => one.group },
  { title: "class", show: (one) => one.class ?? "" },
  { title: "delayed", number: true, show: (one) => count(one.delayed) },
  { title: "running", number: true, show: (one) => count(one.running) },
  { title: "dead", number: true, show: (one) => count(one.dead) },
];

/**
 * @param {HTMLElement} view
 * @param {boolean} operates
 * @param {(trouble: Error | null) => void} tell
 * @returns {() => void}
 */
export function jobs(view, operates, tell) {
  /** @type {Map<string, ReturnType<typeof queue>>} */
  const shown = new Map();
  const parts = el("div", { class: "parts" });
  view.replaceChildren(el("h1", {}, "Jobs"), parts);
  let ended = false;
  let timer = 0;
  load();

  async function load() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const { queues } = await ask("/page/jobs");
        if (ended) return;
        for (const one of queues) show(one);
        tell(null);
      } catch (error) {
        if (!ended) tell(error instanceof Error ? error : new Error(String(error)));
      }
    }
    if (!ended) timer = window.setTimeout(load, AGAIN);
  }

  /** @param {any} one */
  function show(one) {
    let known = shown.get(one.name);
    if (!known) {
      known = queue(one.name, operates, load);
      shown.set(one.name, known);
      parts.append(known.element);
    }
    known.know(one);
  }
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** @param {string} name @param {boolean} operates @param {() => void} changed */
function queue(name, operates, changed) {
  const about = el("p", {});
  const more = el("p", { class: "faint" });
  const lanes = new Table("Those with the most jobs first.", LANES, "No job waits or runs.");
  const letters = new Table("Dead letters, the oldest first. No worker tries them any more.", columns(), "No job is dead.");
  const sequence = el("input", { type: "number", min: 1, "aria-label": `Sequence of a job in ${name}`, placeholder: "sequence of a job" });
  const form = el("form", { class: "actions", onsubmit: submit }, sequence, el("button", {}, "Delete this job"));
  const element = part(name, "wide", about, lanes.element, more, letters.element, operates ? form : null);

  /** @returns {import("./dom.js").Column<any>[]} */
  function columns() {
    /** @type {Map<number, HTMLElement>} */
    const buttons = new Map();
    /** @param {any} letter */
    const button = (letter) => {
      if (buttons.size > 1000) buttons.clear();
      const known = buttons.get(letter.sequence) ?? el("button", { type: "button", "aria-label": `Delete job ${letter.sequence}`, onclick: () => remove(letter.sequence) }, "Delete");
      buttons.set(letter.sequence, known);
      return known;
    };
    return [
      { title: "sequence", head: true, show: (one) => String(one.sequence) },
      { title: "group", show: (one) => one.group },
      { title: "class", show: (one) => one.class ?? "" },
      { title: "attempts", number: true, show: (one) => count(one.attempts) },
      { title: "why", show: (one) => one.reason },
      { title: "job", show: (one) => one.payload },
      ...(operates ? [{ title: "order", show: button }] : []),
    ];
  }

  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    if (!sequence.value) return say("Name the sequence of a job.");
    remove(Number(sequence.value));
  }

  /** @param {number} which */
  async function remove(which) {
    try {
      const { deleted } = await ask("/page/order/delete-job", { queue: name, sequence: which });
      say(deleted ? `job ${which} is deleted` : `there is no job ${which} in ${name}`);
    } catch (error) {
      say(error instanceof Error ? error.message : String(error));
    }
    changed();
  }

  return {
    element,
    /** @param {any} one */
    know(one) {
      write(about, one.trouble ? `It can't be read: ${one.trouble}` : `${count(one.delayed)} delayed, ${count(one.running)} running, ${count(one.dead)} dead`);
      write(more, one.more_lanes ? `${count(one.more_lanes)} more lanes have fewer jobs.` : "");
      lanes.show((one.lanes ?? []).map((/** @type {any} */ lane) => [JSON.stringify([lane.class, lane.group]), lane]));
      letters.show((one.letters ?? []).map((/** @type {any} */ letter) => [String(letter.sequence), letter]));
    },
  };
}
