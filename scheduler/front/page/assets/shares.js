// Shares and waits of classes and clients.

import { el, Table, write } from "./dom.js";
import { amount, count, duration } from "./text.js";

/** @type {import("./dom.js").Column<any>[]} */
const SHARE = [
  { title: "share", number: true, show: (one) => (one.share === undefined ? "" : `${amount(100 * one.share)} %`) },
  { title: "granted", number: true, show: (one) => (one.granted === undefined ? "" : count(one.granted)) },
  { title: "wait p50", number: true, show: (one) => bound(one.wait_p50_ms) },
  { title: "wait p99", number: true, show: (one) => bound(one.wait_p99_ms) },
  { title: "starved", number: true, show: (one) => (one.starved ? count(one.starved) : "") },
];

/** @type {import("./dom.js").Column<any>[]} */
const CLASSES = [
  { title: "class", head: true, show: (one) => one.name },
  { title: "waiting", number: true, show: (one) => count(one.queued) },
  { title: "longest wait", number: true, show: (one) => (one.queued ? duration(one.oldest_ms) : "") },
  ...SHARE,
];

/** @type {import("./dom.js").Column<any>[]} */
const CLIENTS = [
  { title: "client", head: true, show: (one) => one.name },
  { title: "waiting", number: true, show: (one) => (one.waiting ? count(one.waiting) : "") },
  ...SHARE,
];

/** @param {number | undefined} millis */
function bound(millis) {
  return millis === undefined ? "" : `≤ ${duration(millis)}`;
}

export function shares() {
  const classes = new Table("", CLASSES, "There is no class.");
  const clients = new Table("", CLIENTS, "No client is known. Clients are the values of the label that `fair_share` names.");
  const over = el("p", { class: "faint" });
  const more = el("p", { class: "faint" });
  return {
    classes: el("div", {}, over, classes.element),
    clients: el("div", {}, clients.element, more),
    /** @param {any} picture */
    know(picture) {
      const known = picture.shares ?? { classes: {}, clients: {} };
      classes.show(picture.classes_order.map((/** @type {string} */ name) => [name, { ...known.classes[name], ...picture.classes[name] }]));
      clients.show((known.clients_order ?? []).map((/** @type {string} */ name) => [name, known.clients[name]]));
      const minutes = known.over_min === 1 ? "minute" : `${count(known.over_min ?? 0)} minutes`;
      write(over, known.over_min ? `Shares, waits and starved requests of the last ${minutes}.` : "");
      write(more, known.more_clients ? `${count(known.more_clients)} more clients are known.` : "");
    },
  };
}
