// Numbers, times and reasons as people say them.

/** @param {number} number */
export function count(number) {
  return Math.round(number).toLocaleString("en-US").replaceAll(",", "\u202f");
}

/** @param {number} number */
export function amount(number) {
  const digits = Math.abs(number) >= 1000 ? 0 : 2;
  return number.toLocaleString("en-US", { maximumFractionDigits: digits }).replaceAll(",", "\u202f");
}

/** The units of a duration, the longest first, and how many of each make one of the next. */
const UNITS = /** @type {const} */ ([["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]]);

/** @param {number} millis */
export function duration(millis) {
  if (millis < 1000) return `${Math.round(millis)} ms`;
  if (millis < 10000) return `${(millis / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  const place = UNITS.findIndex(([, size]) => millis >= size);
  const unit = UNITS[place];
  if (!unit) return `${Math.round(millis)} ms`;
  const next = UNITS[place + 1];
  const whole = Math.floor(millis / unit[1]);
  const rest = next ? Math.floor((millis % unit[1]) / next[1]) : 0;
  return rest && next && whole < 10 ? `${whole} ${unit[0]} ${rest} ${next[0]}` : `${count(whole)} ${unit[0]}`;
}

/** @param {number} millis */
export function soon(millis) {
  return millis <= 0 ? "now" : `in ${duration(millis)}`;
}

/** Reasons in a word or two. @type {Record<string, string>} */
const WORDS = {
  stock: "stock", headroom: "headroom", in_flight: "in flight", quota_spent: "quota spent", frozen: "pause",
  probe: "probe call", share: "share", turn: "turn", unproven: "unproven", store: "store",
};

/** @param {string | undefined} reason */
export function word(reason) {
  return reason === undefined ? "" : WORDS[reason] ?? "other";
}

/**
 * Why a request waits: the sentences of `rampmeter explain`.
 * @param {string} reason
 * @param {any} limit
 * @param {any} holder
 * @param {{ takes?: number, class?: string }} about
 */
export function sentence(reason, limit, holder, about) {
  const name = holder.key === undefined ? `“${limit.name}”` : `“${limit.name}” of “${holder.key}”`;
  const has = `${name} has ${amount(holder.level)} of ${amount(limit.capacity)} left`;
  const takes = about.takes === undefined ? "a request takes 1" : `this takes ${amount(about.takes)}`;
  const last = holder.pays_in_ms === undefined ? "there will never be enough" : `enough ${soon(holder.pays_in_ms)}`;
  const likely = holder.likely_free_ms === undefined ? last : `the next place is likely free ${soon(holder.likely_free_ms)}`;
  switch (reason) {
    case "stock":
      return holder.held_back === undefined
        ? `${has}, and ${takes}: ${likely}`
        : `${has}, of which ${amount(holder.held_back)} are held back for others, and ${takes}: ${likely}`;
    case "headroom":
      return `${has}; ${about.class === undefined ? "its class" : `class “${about.class}”`} must leave ${amount(holder.leaves ?? 0)}, and ${takes}: ${likely}${limit.algorithm === "sliding-window" ? `; in a sliding window that is ${amount((100 * (holder.leaves ?? 0)) / limit.capacity)} % less for good` : ""}`;
    case "in_flight":
      return `${amount(Math.max(holder.level, 0))} of ${amount(limit.capacity)} places of ${name} are free, the others have calls in flight: ${likely}`;
    case "quota_spent":
      return holder.pays_in_ms === undefined
        ? `the quota ${name} is spent, and is never reset`
        : `the quota ${name} is spent: it is reset ${soon(holder.pays_in_ms)}`;
    case "frozen":
      return `${limit.paused_by === "operator" ? "an operator" : "the upstream"} demanded a pause of ${name}: calls go on ${soon(holder.frozen_ms ?? holder.next_free_ms)}${limit.pause ? `; ${limit.pause}` : ""}`;
    case "probe":
      return `the pause of ${name} is over: one call tries it, and the others wait for its answer`;
    case "share":
      return `its client has had its share of ${name}: later requests of other clients go first`;
    case "turn":
      return `${name} has enough for it: requests ahead of it go first`;
    case "unproven":
      return `${name} may hold less at the upstream than here: a few calls try it first`;
    case "store":
      return "the scheduler waits for the store, or for NATS";
    default:
      return `held by ${name}: ${has}`;
  }
}

/** @param {any} limit */
export function period(limit) {
  if (limit.algorithm === "concurrency") return "in flight";
  return limit.algorithm === "quota" && !limit.period_ms ? "in all" : duration(limit.period_ms);
}

/** What else there is to know of a limit. @param {any} limit @returns {string[]} */
export function notes(limit) {
  const { shadow, learned, told, found } = limit;
  return [
    found && `nobody has written it: found by ${found.by}, ${duration(found.for_ms)} ago`,
    limit.margin > 0 && `a margin of ${amount(limit.margin)} is never used`,
    limit.key !== undefined && `${count(limit.keys)} keys in use; the fullest is “${limit.key}”`,
    limit.missing_labels && `no request has carried the label ${limit.missing_labels.join(", ")}`,
    learned && `the upstream gives ${amount(100 * learned.rate)} % of this rate; ${amount(learned.held_back)} more are held back`,
    told?.states !== undefined && `the upstream states ${amount(told.states)} in ${period(limit)}, the file says ${amount(limit.capacity)}`,
    told?.allows !== undefined && `the upstream seems to allow about ${amount(told.allows)} in ${period(limit)}, the file says ${amount(limit.capacity)}`,
    told?.capacity !== undefined && `${amount(told.capacity)} counts, by the headers`,
    told?.others > 0 && `${amount(told.others)} used by others, by the headers`,
    told?.held_back > 0 && `${amount(told.held_back)} held back for others`,
    told?.window_ends_ms !== undefined && `its window ends ${soon(told.window_ends_ms)}`,
    ...(limit.notes ?? []),
    shadow && `shadow mode: of ${count(shadow.calls)} calls, ${count(shadow.would_wait)} would wait and ${count(shadow.would_refuse)} be refused`,
  ].filter((note) => typeof note === "string");
}

/** What delays the first waiting request of each class, or else one more request. @param {any} picture */
export function delayed(picture) {
  const waiting = (picture.classes_order ?? []).map((/** @type {string} */ name) => picture.classes[name].first).filter(Boolean);
  if (waiting.length === 0) return delay(picture, "The next request", picture, {});
  /** @param {any} one */
  const subject = (one) => (waiting.length === 1 ? "The next request" : `The next request of class “${one.class}”`);
  return waiting
    .map((/** @type {any} */ one) => delay(picture, subject(one), one, { takes: one.takes[one.limited_by], class: one.class }))
    .join(" ");
}

/** @param {any} picture @param {string} subject @param {any} cause @param {any} about */
function delay(picture, subject, cause, about) {
  const limit = picture.limits?.[cause.limited_by];
  if (cause.limited_by === undefined) return cause.reason ? `${subject} waits: ${word(cause.reason)}.` : `Nothing delays t${subject.slice(1)}.`;
  if (!limit || !cause.held_by || !cause.reason) return `${subject} is delayed by “${cause.limited_by}”.`;
  const verb = cause.reason === "quota_spent" ? "refused" : "delayed";
  return `${subject} is ${verb}: ${sentence(cause.reason, limit, cause.held_by, about)}.`;
}
