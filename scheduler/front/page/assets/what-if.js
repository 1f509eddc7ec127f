// What would happen with other limits and other callers, by the simulator.

import { el, Table, write } from "./dom.js";
import { ask } from "./live.js";
import { amount, count, duration } from "./text.js";

/** @param {string} path the resource */
export function whatIf(path) {
  /** @type {Map<string, { workers: HTMLInputElement, rate: HTMLInputElement }>} */
  const fleets = new Map();
  const percent = range("Limits, in percent of now", 10, 400, 100);
  const mix = el("div", {});
  const told = el("p", { role: "status" });
  const curve = el("div", { class: "chart", role: "img", "aria-label": "no forecast yet", hidden: true });
  const table = new Table("Ten minutes in the simulator, with its own callers.", COLUMNS, "");
  table.show([]);
  const start = el("button", { disabled: true }, "Forecast");
  const form = el("form", { onsubmit: run }, percent.element, mix, el("div", { class: "actions" }, start));
  /** @type {any} */
  let plot = null;
  /** @type {any} */
  let picture = {};

  /** @param {Event} event */
  async function run(event) {
    event.preventDefault();
    write(told, "The simulator runs.");
    const callers = [...fleets].map(([name, { workers, rate }]) => ({ class: name, workers: Number(workers.value), per_second: Number(rate.value) }));
    try {
      show(await ask(`/page/what-if/${path}`, { capacity_percent: Number(percent.input.value), fleets: callers.filter((fleet) => fleet.per_second > 0 && fleet.workers > 0) }));
    } catch (error) {
      write(told, error instanceof Error ? error.message : String(error));
    }
  }

  /** @param {any} answer */
  function show(answer) {
    const text = `In ${duration(1000 * answer.seconds)}: ${count(answer.ok)} calls served, ${count(answer.unfinished)} still wait, ${count(answer.rejected)} × 429; ${amount(100 * answer.used)} % of “${answer.binding}” used.`;
    write(told, text);
    table.show(answer.classes.map((/** @type {any} */ one) => [one.name, one]));
    const unit = picture.limits?.[answer.binding]?.unit ?? Object.keys(answer.curve.levels)[0];
    const levels = answer.curve.levels[unit] ?? [];
    curve.hidden = levels.length === 0;
    curve.setAttribute("aria-label", `What the upstream has left of ${unit}. ${text}`);
    plot?.destroy();
    if (!curve.hidden) plot = new uPlot(options(unit), [answer.curve.seconds.slice(0, levels.length), levels], curve);
  }

  /** @param {string} unit */
  function options(unit) {
    const styles = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => styles.getPropertyValue(name).trim();
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    return {
      title: `left of ${unit}`,
      width: Math.max(curve.clientWidth, 200),
      height: 200,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false } },
      axes: [{ ...axis, label: "seconds", stroke: colour("--faint") }, { ...axis, size: 60 }],
      series: [{}, { stroke: colour("--accent"), width: 2, points: { show: false } }],
    };
  }

  return {
    element: el("div", {}, form, told, table.element, curve),
    /** @param {any} known */
    know(known) {
      picture = known;
      const names = known.classes_order.filter((/** @type {string} */ name) => !fleets.has(name));
      for (const name of names) {
        const workers = range(`${name}: workers`, 0, 1000, fleets.size ? 0 : 20);
        const rate = range(`${name}: calls a second`, 0, 200, fleets.size ? 0 : 10);
        fleets.set(name, { workers: workers.input, rate: rate.input });
        mix.append(workers.element, rate.element);
      }
      start.disabled = fleets.size === 0;
    },
    end() {
      plot?.destroy();
    },
  };
}

/** @type {import("./dom.js").Column<any>[]} */
const COLUMNS = [
  { title: "class", head: true, show: (one) => one.name },
  { title: "served", number: true, show: (one) => count(one.ok) },
  { title: "still waiting", number: true, show: (one) => count(one.unfinished) },
  { title: "wait p50", number: true, show: (one) => duration(one.wait_ms.p50) },
  { title: "wait p99", number: true, show: (one) => duration(one.wait_ms.p99) },
];

/** A slider with its value beside it. @param {string} label @param {number} min @param {number} max @param {number} value */
function range(label, min, max, value) {
  const shown = el("output", {}, value);
  const input = el("input", { type: "range", min, max, value, oninput: () => write(shown, input.value) });
  return { input, element: el("label", { class: "slider" }, el("span", {}, label), input, shown) };
}
