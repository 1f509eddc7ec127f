// The level of one limit over the last ten minutes, beside what waits and what the upstream refused.

import { el, write } from "./dom.js";
import { ask } from "./live.js";
import { amount, count } from "./text.js";

/** How often the curve is asked for anew, in milliseconds: its samples are as far apart. */
const AGAIN = 5000;
/** The time that the curve shows at most, in seconds. */
const SHOWN = 600;

/** @param {string} path the resource */
export function chart(path) {
  let limit = "";
  let capacity = 0;
  /** @type {any} */
  let known = null;
  let ended = false;
  let timer = 0;
  /** @type {any} */
  let plot = null;
  const about = el("p", { class: "faint" });
  const place = el("div", { class: "chart", role: "img", "aria-label": "no curve yet" });
  const element = el("div", {}, about, place);
  const resized = new ResizeObserver(() => plot?.setSize(size()));
  resized.observe(place);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => {
    plot?.destroy();
    plot = null;
    load();
  };
  dark.addEventListener("change", repaint);

  function size() {
    return { width: Math.max(place.clientWidth, 200), height: 220 };
  }

  async function load() {
    clearTimeout(timer);
    if (ended) return;
    if (limit && !document.hidden) {
      try {
        draw(await ask(`/page/history/${path}?limit=${encodeURIComponent(limit)}`));
      } catch (error) {
        write(about, error instanceof Error ? error.message : String(error));
      }
    }
    clearTimeout(timer);
    if (!ended) timer = window.setTimeout(load, AGAIN);
  }

  /** @param {any} curve */
  function draw(curve) {
    const now = Date.now() / 1000;
    const refused = curve.upstream_429.map((/** @type {number} */ total, /** @type {number} */ at) => Math.max(total - (curve.upstream_429[at - 1] ?? total), 0));
    const data = [curve.ages_s.map((/** @type {number} */ age) => now - age), curve.levels, curve.waiting, refused];
    const level = curve.levels.at(-1);
    const sum = refused.reduce((/** @type {number} */ all, /** @type {number} */ one) => all + one, 0);
    const text = `“${limit}”: ${amount(level ?? 0)} of ${amount(capacity)} left, ${count(curve.waiting.at(-1) ?? 0)} wait, ${count(sum)} × 429 in this time`;
    write(about, `${text}. Below zero is promised.`);
    place.setAttribute("aria-label", text);
    if (plot) plot.setData(data);
    else plot = new uPlot(options(), data, place);
  }

  function options() {
    const styles = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => styles.getPropertyValue(name).trim();
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    return {
      ...size(),
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { range: stretch }, level: {}, waiting: { range: (/** @type {any} */ _, /** @type {number} */ _least, /** @type {number} */ most) => [0, Math.max(most, 1)] } },
      axes: [axis, { ...axis, scale: "level", size: 60 }, { ...axis, scale: "waiting", side: 1, grid: { show: false }, size: 60 }],
      series: [
        {},
        { scale: "level", stroke: colour("--accent"), width: 2, points: { show: false } },
        { scale: "waiting", stroke: colour("--warn"), width: 1, dash: [4, 3], points: { show: false } },
        { scale: "waiting", stroke: colour("--bad"), fill: colour("--bad"), width: 1, points: { show: false } },
      ],
    };
  }

  /** From the first sample on, if that is a minute ago. @param {any} _ @param {number | null} least @returns {[number, number]} */
  function stretch(_, least) {
    const now = Date.now() / 1000;
    return [Math.min(Math.max(least ?? now, now - SHOWN), now - 60), now];
  }

  return {
    element,
    /** @param {string} name */
    choose(name) {
      limit = name;
      capacity = known?.limits[name]?.capacity ?? 0;
      load();
    },
    /** @param {any} picture */
    know(picture) {
      known = picture;
      if (!picture.limits[limit]) {
        const first = picture.limited_by ?? picture.limits_order[0];
        if (first !== undefined) this.choose(first);
      }
      capacity = picture.limits[limit]?.capacity ?? 0;
    },
    end() {
      ended = true;
      clearTimeout(timer);
      resized.disconnect();
      dark.removeEventListener("change", repaint);
      plot?.destroy();
    },
  };
}
