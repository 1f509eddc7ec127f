// Rules: their editions, what each changed, and another one.

import { el, part, say } from "./dom.js";
import { ask } from "./live.js";

/** Lines of both texts that are compared: the table of a comparison is as large as their product. */
const MAX_LINES = 1500;

/** @typedef {{ revision: number, text: string | null }} Edition */

/**
 * @param {HTMLElement} view
 * @param {boolean} operates
 * @param {(trouble: Error | null) => void} tell
 * @returns {() => void}
 */
export function rules(view, operates, tell) {
  const list = el("div", {});
  const parts = el("div", { class: "parts" }, part("Revisions", undefined, list), operates ? part("Change", undefined, change(load)) : null);
  view.replaceChildren(el("h1", {}, "Rules"), parts);
  load();

  async function load() {
    try {
      const { editions } = await ask("/page/rules");
      list.replaceChildren(...shown(editions));
      tell(null);
    } catch (error) {
      tell(error instanceof Error ? error : new Error(String(error)));
    }
  }
  return () => {};
}

/** @param {Edition[]} editions the latest first */
function shown(editions) {
  if (editions.length === 0) return [el("p", {}, "There are no rules: the limits of the configuration count.")];
  return editions.map((edition, place) => {
    const text = edition.text ?? "";
    const before = editions[place + 1]?.text ?? "";
    return el(
      "details",
      { open: place === 0 },
      el("summary", {}, `Revision ${edition.revision}${edition.text === null ? ": deleted" : ""}`),
      el("pre", { tabindex: 0, "aria-label": `What revision ${edition.revision} changed` }, difference(before, text)),
    );
  });
}

/** @param {() => void} written */
function change(written) {
  /** @type {number | null} */
  let revision = null;
  const text = el("textarea", { "aria-label": "Rules", spellcheck: "false", oninput: () => forget() });
  const found = el("pre", { role: "status" });
  const apply = el("button", { type: "button", disabled: true, onclick: () => send(true) }, "Apply");
  const form = el(
    "div",
    {},
    el("p", { class: "hint" }, "As in the configuration: [[resource]] with a name and all its [[resource.limit]]. Resources that are not named keep their limits."),
    text,
    el("div", { class: "actions" }, el("button", { type: "button", onclick: () => send(false) }, "Show what changes"), apply),
    found,
  );

  function forget() {
    revision = null;
    apply.disabled = true;
  }

  /** @param {boolean} writes */
  async function send(writes) {
    try {
      const body = writes && revision !== null ? { rules: text.value, if_revision: revision } : { rules: text.value };
      const answer = await ask("/page/order/apply", body);
      forget();
      if (answer.written !== undefined) {
        say(`written as revision ${answer.written}`);
        found.replaceChildren();
        written();
        return;
      }
      revision = answer.revision;
      apply.disabled = answer.difference === "";
      found.textContent = answer.difference || `nothing changes; the rules of revision ${revision} count`;
    } catch (error) {
      forget();
      found.textContent = error instanceof Error ? error.message : String(error);
    }
  }
  return form;
}

/**
 * The lines of `after`, with signs before those that are new, and the lines that are gone.
 * @param {string} before @param {string} after
 */
function difference(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  if (old.length + now.length > MAX_LINES) return after;
  const common = old.map(() => new Uint16Array(now.length + 1));
  common.push(new Uint16Array(now.length + 1));
  const at = (/** @type {number} */ i, /** @type {number} */ j) => common[i]?.[j] ?? 0;
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const row = common[i];
      if (row) row[j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) lines.push(`  ${now[j++]}`), i++;
    else if (j < now.length && (i >= old.length || at(i, j + 1) >= at(i + 1, j))) lines.push(`+ ${now[j++]}`);
    else lines.push(`- ${old[i++]}`);
  }
  return lines.join("\n");
}
