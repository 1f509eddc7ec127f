// All resources of this scheduler, a line each.

import { el, part, Table } from "./dom.js";
import { follow } from "./live.js";
import { count, duration, word } from "./text.js";

/** @param {string} name */
export function link(name) {
  return `#/resource/${encodeURIComponent(name)}`;
}

/** @type {import("./dom.js").Column<any>[]} */
const COLUMNS = [
  { title: "resource", head: true, show: (line) => line.link },
  { title: "waiting", number: true, show: (line) => (line.trouble ? "" : count(line.waiting)) },
  { title: "longest wait", number: true, show: (line) => (line.waiting ? duration(line.oldest_ms) : "") },
  { title: "waits for", show: (line) => [line.limited_by, word(line.reason)].filter(Boolean).join(": ") },
  { title: "granted", number: true, show: (line) => (line.trouble ? "" : count(line.granted)) },
  { title: "refused", number: true, show: (line) => (line.trouble ? "" : count(line.refused)) },
  { title: "429 upstream", number: true, show: (line) => (line.trouble ? "" : count(line.upstream_429)) },
  { title: "pauses", number: true, show: (line) => (line.frozen ? count(line.frozen) : "") },
  { title: "this scheduler", show: (line) => line.duty },
  { title: "leader", show: (line) => line.trouble ?? `${line.leader}, epoch ${line.epoch}${line.since ? `, since ${line.since}` : ""}` },
];

/**
 * @param {HTMLElement} view
 * @param {(trouble: Error | null) => void} tell
 * @returns {() => void}
 */
export function overview(view, tell) {
  const table = new Table("Totals count since each leader began.", COLUMNS, "No resource is configured.");
  /** @type {Map<string, HTMLAnchorElement>} */
  const links = new Map();
  view.replaceChildren(el("h1", {}, "Resources"), part("All resources", undefined, table.element));
  return follow(
    "/page/live",
    (picture) => {
      /** @type {[string, any][]} */
      const lines = Object.entries(picture["resources"] ?? {}).map(([name, line]) => {
        const known = links.get(name) ?? el("a", { href: link(name) }, name);
        links.set(name, known);
        return [name, { ...line, link: known }];
      });
      table.show(lines);
    },
    tell,
  );
}
