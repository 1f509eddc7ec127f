// Which view is open, and with which token.

import { byId, el, write } from "./dom.js";
import { ask, Refused, useToken } from "./live.js";
import { link, overview } from "./overview.js";
import { jobs } from "./jobs.js";
import { resource } from "./resource.js";
import { rules } from "./rules.js";
import { schedulers } from "./schedulers.js";

/** @type {{ token: string | null, right: "view" | "operate" | null, resources: string[], overview: boolean, jobs: boolean }} */
let rights = { token: null, right: null, resources: [], overview: false, jobs: false };
/** Ends the open view. */
let close = () => {};

/** Shows whether the view is live. @param {Error | null} trouble */
function tell(trouble) {
  const lost = trouble && !(trouble instanceof Refused) ? "no connection; trying again" : trouble?.message;
  write(byId("connection"), lost ?? (rights.right === "operate" ? `live, as ${rights.token}` : "live"));
  if (trouble instanceof Refused && trouble.status === 401) askForToken("The scheduler asks for a token.");
}

/** Opens the view that the address names. */
function open() {
  close();
  const [, kind, name] = location.hash.split("/");
  const view = byId("view");
  const operates = rights.right === "operate";
  byId("views").replaceChildren(...links());
  if (kind === "resource" && name) close = resource(view, decodeURIComponent(name), operates, tell);
  else if (kind === "rules") close = rules(view, operates, tell);
  else if (kind === "jobs") close = jobs(view, operates, tell);
  else if (kind === "schedulers") close = schedulers(view, tell);
  else if (rights.overview) close = overview(view, tell);
  else view.replaceChildren(el("h1", {}, "Rampmeter"), el("p", {}, "Choose a resource above."));
}

function links() {
  const views = [["#/", "All resources"], ...rights.resources.map((name) => [link(name), name]), ...(rights.jobs ? [["#/jobs", "Jobs"]] : []), ["#/schedulers", "Schedulers"], ["#/rules", "Rules"]];
  const here = location.hash || "#/";
  return views.map(([href, name]) => el("li", {}, el("a", { href, "aria-current": href === here ? "page" : undefined }, name)));
}

/** @param {string} why */
function askForToken(why) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("ask-token"));
  write(byId("ask-token-why"), why);
  if (!dialog.open) dialog.showModal();
}

function tokenGiven() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("ask-token"));
  const input = /** @type {HTMLInputElement} */ (byId("token-text"));
  if (dialog.returnValue === "use") {
    useToken(input.value);
    begin();
  }
  input.value = "";
}

/** Learns what the token allows, and opens the view. */
async function begin() {
  try {
    rights = await ask("/page/rights");
    tell(null);
    open();
  } catch (error) {
    tell(error instanceof Error ? error : new Error(String(error)));
    if (!(error instanceof Refused)) setTimeout(begin, 2000);
  }
}

window.addEventListener("hashchange", () => {
  open();
  byId("view").focus();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("view").focus();
});
byId("token").addEventListener("click", () => askForToken("A token with page = \"operate\" lets you give orders."));
byId("ask-token").addEventListener("close", tokenGiven);
begin();
