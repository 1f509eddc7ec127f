// One resource: limits, classes, what the upstream answers, and what waits.

import { chart } from "./chart.js";
import { el, kept, part, Table, write } from "./dom.js";
import { freezes } from "./freezes.js";
import { follow } from "./live.js";
import { shares } from "./shares.js";
import { amount, count, delayed, notes, period, soon } from "./text.js";
import { waiting } from "./waiting.js";
import { whatIf } from "./what-if.js";

/**
 * @param {HTMLElement} view
 * @param {string} name
 * @param {boolean} operates whether the token allows orders
 * @param {(trouble: Error | null) => void} tell
 * @returns {() => void}
 */
export function resource(view, name, operates, tell) {
  const path = encodeURIComponent(name);
  const state = el("p", {});
  const why = el("p", {});
  const curve = chart(path);
  const pauses = freezes(path, operates);
  const limits = new Table("", limitColumns(pauses, (limit) => curve.choose(limit)), "No limit counts.");
  const shared = shares();
  const numbers = el("dl", {});
  const learned = el("div", {});
  const list = waiting(path, operates);
  const forecast = whatIf(path);
  const parts = el(
    "div",
    { class: "parts" },
    part("Limits", "wide", limits.element, pauses.element),
    part("Last ten minutes", undefined, curve.element),
    part("Answers and refusals", undefined, numbers),
    part("Classes", "wide", shared.classes),
    part("Waiting requests", "wide", list.element),
    part("Clients", "wide", shared.clients),
    part("Configured and learned", "wide", learned),
    part("What if", "wide", forecast.element),
  );
  view.replaceChildren(el("h1", {}, name), state, why, parts);
  const end = follow(
    `/page/live/${path}`,
    (picture, change) => {
      write(state, `This scheduler: ${picture["duty"]}. ${picture["trouble"] ?? `Led by ${picture["leader"]}, epoch ${picture["epoch"]}${picture["standbys"] === 0 ? ", no standby" : ""}.`}`);
      parts.hidden = "trouble" in picture;
      if (parts.hidden) return write(why, "");
      write(why, delayed(picture));
      showLimits(limits, picture, change);
      curve.know(picture);
      list.know(picture);
      forecast.know(picture);
      if (change === null || change["classes"] || change["shares"]) shared.know(picture);
      showNumbers(numbers, picture);
      showLearned(learned, picture);
    },
    tell,
  );
  return () => {
    end();
    curve.end();
    list.end();
    forecast.end();
  };
}

/** Only limits that have changed are written. @param {Table<any>} table @param {any} picture @param {any} change */
function showLimits(table, picture, change) {
  if (change === null || change.limits_order) {
    table.show(picture.limits_order.map((/** @type {string} */ key) => [key, picture.limits[key]]));
    return;
  }
  for (const key of Object.keys(change.limits ?? {})) {
    if (picture.limits[key]) table.update(key, picture.limits[key]);
  }
}

/**
 * @param {{ show: (limit: any) => string | Node }} pauses
 * @param {(limit: string) => void} choose
 * @returns {import("./dom.js").Column<any>[]}
 */
function limitColumns(pauses, choose) {
  const meters = kept((/** @type {string} */ name) => el("meter", { min: 0, "aria-label": `left of ${name}` }));
  const heads = kept((/** @type {string} */ name) =>
    el("span", {}, el("button", { type: "button", "aria-label": `Show the curve of ${name}`, onclick: () => choose(name) }, name)),
  );
  return [
    { title: "limit", head: true, show: (limit) => heads(limit.name) },
    {
      title: "level",
      show: (limit) => {
        const meter = meters(limit.name);
        meter.max = limit.capacity || 1;
        meter.low = meter.max / 10;
        meter.optimum = meter.max;
        meter.value = Math.max(limit.level, 0);
        return meter;
      },
    },
    { title: "left", number: true, show: (limit) => (limit.level < 0 ? `${amount(limit.level)} (promised)` : amount(limit.level)) },
    { title: "of", number: true, show: (limit) => amount(limit.capacity) },
    { title: "unit", show: (limit) => limit.unit },
    { title: "per", number: true, show: period },
    { title: "next free", number: true, show: (limit) => soon(limit.likely_free_ms ?? limit.next_free_ms) },
    { title: "pause", show: pauses.show },
    { title: "notes", show: (limit) => notes(limit).join("; ") },
  ];
}

/** Why the upstream rejects. @type {Record<string, string>} */
const CAUSES = {
  ours: "more was taken than estimated", "limit-too-high": "the upstream allows less than the file says",
  burst: "bursts beyond the margin", strangers: "others use the account", upstream: "the upstream itself",
  quota: "a quota is spent", unknown: "the cause is not known",
};

/** @param {HTMLElement} list @param {any} picture */
function showNumbers(list, picture) {
  const { counters, since, answers = {}, refusals = {} } = picture;
  /** @type {[string, string][]} */
  const rows = [
    ...(since ? [/** @type {[string, string]} */ (["counted since", since])] : []),
    ["granted", count(counters.granted)],
    ["settled", count(counters.settled)],
    ["returned", count(counters.returned)],
    ["429 upstream", count(counters.upstream_429)],
    ...Object.entries(counters.rejections ?? {}).filter(([, number]) => number > 0).map(([cause, number]) => /** @type {[string, string]} */ ([`429: ${CAUSES[cause] ?? cause}`, count(number)])),
    ...Object.entries(answers).map(([kind, number]) => /** @type {[string, string]} */ ([`answered ${kind}`, count(number)])),
    ...Object.entries(refusals).map(([code, number]) => /** @type {[string, string]} */ ([`refused: ${code}`, count(number)])),
  ];
  const shown = rows.map(([name, value]) => `${name}\n${value}`).join("\n");
  if (list.dataset["shown"] === shown) return;
  list.dataset["shown"] = shown;
  list.replaceChildren(...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** @param {HTMLElement} place @param {any} picture */
function showLearned(place, picture) {
  const { rules, provider, corrections = [], differing = [], limits } = picture;
  const learned = Object.values(limits).filter((limit) => limit.learned || limit.told || limit.notes);
  const lines = [
    rules && (rules.counts ? `rules of revision ${rules.revision}, applied by ${rules.by ?? "?"} at ${rules.at ?? "?"}` : `limits of the configuration; rules of revision ${rules.revision} have none for it`),
    ...(rules?.differ ?? []),
    ...(picture.notes ?? []),
    rules?.refused && `rules of revision ${rules.refused.revision} are refused: ${rules.refused.reason}`,
    provider && `provider ${provider.kind}: ${provider.state}${provider.reason ? `: ${provider.reason}` : ""}`,
    ...(provider?.notes ?? []),
    ...differing.map((/** @type {any} */ other) => `${other.scheduler} has another configuration: ${[...other.limits, ...other.settings].join(", ")}`),
    ...learned.flatMap((/** @type {any} */ limit) => notes(limit).map((note) => `${limit.name}: ${note}`)),
    ...corrections.map((/** @type {any} */ one) => `cost of “${one.kind}”: ${amount(one.factor)} × the estimate of ${one.unit}, from ${count(one.calls)} calls`),
  ].filter((line) => typeof line === "string");
  const shown = lines.length ? lines : ["The upstream enforces what is configured, as far as its answers tell."];
  const text = shown.join("\n");
  if (place.dataset["shown"] === text) return;
  place.dataset["shown"] = text;
  place.replaceChildren(el("ul", { class: "notes" }, ...shown.map((line) => el("li", {}, line))));
}
