// The first waiting requests, with their reasons.

import { el, say, Table, write } from "./dom.js";
import { ask } from "./live.js";
import { count, duration, sentence, soon, word } from "./text.js";

/** How often the list of requests is asked for anew, in milliseconds. */
const AGAIN = 2000;

/**
 * @param {string} path the resource
 * @param {boolean} operates
 */
export function waiting(path, operates) {
  /** @type {any} */
  let picture = {};
  let ended = false;
  let timer = 0;
  const about = el("p", { class: "faint" });
  const table = new Table("In the order in which they will probably be served.", columns(), "No request waits.");
  const id = el("input", { type: "text", placeholder: "id of a request", "aria-label": "Id of a request", autocomplete: "off", spellcheck: "false" });
  const found = el("div", { role: "status" });
  const find = el("form", { class: "actions", onsubmit: look }, id, el("button", {}, "Explain this id"));
  const client = el("input", { type: "text", placeholder: "client", "aria-label": "Client whose waits end", autocomplete: "off" });
  const purge = el("form", { class: "actions", onsubmit: endWaits }, client, el("button", {}, "End all waits of this client"));
  const element = el("div", {}, about, table.element, find, found, operates ? purge : null);
  load();

  async function load() {
    if (ended) return;
    if (!document.hidden) {
      try {
        show(await ask(`/page/waiting/${path}`, {}));
      } catch (error) {
        write(about, error instanceof Error ? error.message : String(error));
      }
    }
    if (!ended) timer = window.setTimeout(load, AGAIN);
  }

  /** @param {any} answer */
  function show(answer) {
    write(about, `${count(answer.waiting)} wait; ${count(answer.more)} of them are not listed.`);
    table.show(answer.first.map((/** @type {any} */ one) => [one.handle, one]));
  }

  /** @param {any} request */
  function because(request) {
    const limit = picture.limits?.[request.limited_by];
    if (!limit || !request.held_by || !request.reason) return [request.limited_by, word(request.reason)].filter(Boolean).join(": ");
    return sentence(request.reason, limit, request.held_by, { takes: request.takes[limit.name], class: request.class });
  }

  /** @returns {import("./dom.js").Column<any>[]} */
  function columns() {
    /** @type {Map<string, HTMLElement>} */
    const buttons = new Map();
    /** @param {any} request */
    const button = (request) => {
      if (buttons.size > 1000) buttons.clear();
      const known = buttons.get(request.handle) ?? el("button", { type: "button", "aria-label": `Cancel ${request.id}`, onclick: () => cancel(request) }, "Cancel");
      buttons.set(request.handle, known);
      return known;
    };
    return [
      { title: "request", head: true, show: (one) => one.id },
      { title: "ahead", number: true, show: (one) => count(one.position) },
      { title: "class", show: (one) => one.class },
      { title: "client", show: (one) => one.client ?? "" },
      { title: "labels", show: (one) => Object.entries(one.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(" ") },
      { title: "why it waits", show: because },
      { title: "waited", number: true, show: (one) => duration(one.waited_ms) },
      { title: "starts", number: true, show: (one) => soon(one.eta_ms) },
      ...(operates ? [{ title: "order", show: button }] : []),
    ];
  }

  /** @param {any} request */
  async function cancel(request) {
    try {
      await ask(`/page/order/cancel/${path}`, { request: request.handle });
      say(`${request.id} is cancelled`);
    } catch (error) {
      say(error instanceof Error ? error.message : String(error));
    }
    clearTimeout(timer);
    load();
  }

  /** @param {Event} event */
  async function look(event) {
    event.preventDefault();
    try {
      const { request } = await ask(`/page/waiting/${path}`, { id: id.value });
      const place = request.state === "waiting" ? `${count(request.position)} ahead of it; starts ${soon(request.eta_ms)}; ${because(request)}` : request.state;
      found.replaceChildren(el("p", {}, `${request.id} of class ${request.class}: ${place}`));
    } catch (error) {
      found.replaceChildren(el("p", {}, error instanceof Error ? error.message : String(error)));
    }
  }

  /** @param {Event} event */
  async function endWaits(event) {
    event.preventDefault();
    if (!client.value) return say("Name a client.");
    try {
      const { ended: number } = await ask(`/page/order/purge/${path}`, { client: client.value });
      say(`${count(number)} waits of “${client.value}” are ended`);
    } catch (error) {
      say(error instanceof Error ? error.message : String(error));
    }
  }

  return {
    element,
    /** @param {any} known */
    know(known) {
      picture = known;
    },
    end() {
      ended = true;
      clearTimeout(timer);
    },
  };
}
