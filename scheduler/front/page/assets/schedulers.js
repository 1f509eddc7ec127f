// All schedulers with what they lead, and what the store holds of each resource.

import { el, part, Table, write } from "./dom.js";
import { ask } from "./live.js";
import { count, duration } from "./text.js";

/** How often they are asked for anew, in milliseconds. */
const AGAIN = 5000;

/** @type {import("./dom.js").Column<any>[]} */
const SCHEDULERS = [
  { title: "scheduler", head: true, show: (one) => one.name },
  { title: "leads", show: (one) => one.leads.join(", ") },
  { title: "stands by for", show: (one) => one.stands_by.join(", ") },
  { title: "heard of", number: true, show: (one) => `${duration(one.heard_ms)} ago` },
];

/** @type {import("./dom.js").Column<any>[]} */
const RECORDS = [
  { title: "resource", head: true, show: (one) => one.resource },
  { title: "epoch", number: true, show: (one) => (one.epoch === undefined ? "" : count(one.epoch)) },
  { title: "written by", show: (one) => one.leader ?? one.trouble },
  { title: "checkpoint", number: true, show: (one) => (one.trouble ? "" : one.checkpoint === null ? "handed over" : count(one.checkpoint)) },
  { title: "written", number: true, show: (one) => (one.age_ms === undefined ? "" : `${duration(one.age_ms)} ago`) },
  { title: "revision", number: true, show: (one) => (one.revision === undefined ? "" : count(one.revision)) },
  { title: "rules", number: true, show: (one) => (one.rules ? `revision ${count(one.rules)}` : "") },
  { title: "NATS server", show: (one) => one.server ?? "" },
];

/**
 * @param {HTMLElement} view
 * @param {(trouble: Error | null) => void} tell
 * @returns {() => void}
 */
export function schedulers(view, tell) {
  const about = el("p", { class: "faint" });
  const list = new Table("", SCHEDULERS, "No scheduler was heard of yet.");
  const records = new Table("What a successor would go on from.", RECORDS, "The store has no record.");
  view.replaceChildren(el("h1", {}, "Schedulers"), about, part("All schedulers", undefined, list.element), part("The store", undefined, records.element));
  let ended = false;
  let timer = 0;
  load();

  async function load() {
    if (!document.hidden) {
      try {
        const answer = await ask("/page/schedulers");
        if (ended) return;
        write(about, `This page is served by ${answer.me}.`);
        list.show(answer.schedulers.map((/** @type {any} */ one) => [one.name, one]));
        records.show(answer.records.map((/** @type {any} */ one) => [one.resource, one]));
        tell(null);
      } catch (error) {
        if (!ended) tell(error instanceof Error ? error : new Error(String(error)));
      }
    }
    if (!ended) timer = window.setTimeout(load, AGAIN);
  }
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
