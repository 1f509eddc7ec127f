// A real scheduler with a NATS server of its own, and a real browser.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { chromium } from "playwright-core";

const BINARY = process.env.RAMPMETER_BINARY ?? assert.fail("set RAMPMETER_BINARY, or run scheduler/front/page/check");

export const OPERATOR = "canary-of-the-operator";
export const WORKER = "canary-of-the-worker";

/** Nothing refills while a test runs. */
export const RESOURCES = `
[[resource]]
name = "hub"
fair_share = "client"
classes = [{ name = "urgent" }, { name = "bulk" }]
[[resource.limit]]
name = "few"
capacity = 4
period = "400h"
margin = 0
[[resource.limit]]
name = "fast"
capacity = 1000
period = "1s"

[[resource]]
name = "other"
[[resource.limit]]
name = "few"
capacity = 4
period = "400h"
`;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** A scheduler that ends with its test. */
export async function scheduler(t, resources = RESOURCES) {
  const folder = mkdtempSync(join(tmpdir(), "rampmeter-page-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [nats, listen] = [`nats://127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const tokens = `[[token]]\nname = "worker"\nsecret = "${WORKER}"\n[[token]]\nname = "on-call"\nsecret = "${OPERATOR}"\npage = "operate"\n`;
  writeFileSync(join(folder, "tokens.toml"), tokens, { mode: 0o600 });
  writeFileSync(join(folder, "rampmeter.toml"), `[http]\ntokens_file = "${join(folder, "tokens.toml")}"\n${resources}`);
  const place = ["--embedded-nats", "--nats", nats, "--data", join(folder, "data"), "--listen", listen];
  const child = spawn(BINARY, ["serve", join(folder, "rampmeter.toml"), ...place], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (data) => (log += data));
  t.after(async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  const url = `http://${listen}`;
  await until("the scheduler is ready", async () => (await fetch(`${url}/readyz`).catch(() => undefined))?.ok, () => log);
  return { url, nats, log: () => log, pid: child.pid };
}

/** Runs a command of the program to its end. */
export function run(...args) {
  execFileSync(BINARY, args, { stdio: ["ignore", "ignore", "inherit"] });
}

/** Asks the front, as a worker does. */
export async function front(url, path, body) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${WORKER}` };
  const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return response.json();
}

export async function until(what, look, why = () => "") {
  for (const end = Date.now() + 30_000; Date.now() < end; await pause(50)) {
    const found = await look();
    if (found) return found;
  }
  assert.fail(`${what}: not within 30 s ${why()}`);
}

/** A browser that ends with its test. */
export async function browser(t) {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  const launched = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  t.after(() => launched.close());
  return launched;
}

/** A page at `url` whose complaints fail the test. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    const text = message.text();
    // The browser notes each answer that is no success.
    if (message.type() === "error" && !text.startsWith("Failed to load resource")) complaints.push(text);
  });
  await page.goto(url);
  return { page, complaints };
}

export async function logIn(page, token) {
  await page.getByRole("dialog").getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Use" }).click();
}

/** Keeps a picture, if a folder is given for them. */
export async function shoot(page, name) {
  const folder = process.env.RAMPMETER_SHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
