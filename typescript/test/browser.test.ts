// A page in a real browser, behind a reverse proxy of its own origin: docs/typescript.md, "In a browser".
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { configuration, folder, scheduler, upstream } from "./machine.js";

const isThere = (name: string): boolean => spawnSync(name, ["--version"]).error === undefined;
const BROWSER = ["chromium", "chromium-browser", "google-chrome"].find(isThere);
/** Nothing but the page is asked for. */
const QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"];
const PAGE = `<script type="module">
  import { withPermits } from "/rampmeter/index.js";
  const permitted = withPermits({ url: location.origin, resource: "api", log() {} })(fetch);
  const refusal = withPermits({ url: location.origin, resource: "apo", log() {} })(fetch)("/process");
  const calls = Array.from({ length: 30 }, () => permitted("/process").then((answer) => answer.status));
  const told = await Promise.all([...calls, refusal.catch((error) => error.code)]).catch(String);
  await fetch("/result", { method: "POST", body: JSON.stringify(told) });
</script>`;

/** Serves the page and the package over HTTP/2; the upstream and the scheduler are below the same origin. */
async function origin(t: TestContext, front: string, api: string): Promise<{ url: string; result: Promise<string> }> {
  let tell: (result: string) => void;
  const result = new Promise<string>((resolve) => (tell = resolve));
  const pass = (asked: Http2ServerRequest, answer: Http2ServerResponse, url: string): void => {
    const own = Object.entries(asked.headers).filter(([name]) => !name.startsWith(":"));
    const headers = { ...Object.fromEntries(own), host: asked.authority };
    const other = request(url + asked.url, { method: asked.method, headers }, (verdict) => {
      const { connection, "keep-alive": _, "transfer-encoding": __, ...told } = verdict.headers;
      answer.writeHead(verdict.statusCode ?? 502, told);
      verdict.pipe(answer);
    });
    answer.on("close", () => other.destroy());
    asked.pipe(other.on("error", () => answer.stream?.destroy()));
  };
  const serve = (asked: Http2ServerRequest, answer: Http2ServerResponse): void => {
    const [, file] = /^\/rampmeter\/([a-z]+\.js)$/.exec(asked.url) ?? [];
    const send = (type: string, body: string | Buffer): void =>
      void answer.writeHead(200, { "content-type": type }).end(body);
    if (asked.url === "/") send("text/html", PAGE);
    else if (file !== undefined) send("text/javascript", readFileSync(new URL(`../src/${file}`, import.meta.url)));
    else if (asked.url === "/result") void asked.setEncoding("utf8").toArray().then((parts) => tell(parts.join("")));
    else pass(asked, answer, asked.url === "/process" ? api : front);
  };
  const [key, cert] = ["key", "certificate"].map((name) => join(folder(t), name)) as [string, string];
  const subject = ["-subj", "/CN=localhost", "-keyout", key, "-out", cert];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", ...subject], { stdio: "ignore" });
  const server = createSecureServer({ key: readFileSync(key), cert: readFileSync(cert) }, serve).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, result };
}

const skip = (BROWSER === undefined || !isThere("openssl")) && "no browser, or no openssl, is on the PATH";
test("a page in a browser is never told 429, and reads why it is refused", { skip }, async (t) => {
  const up = await upstream(t, ["requests=12/1s"]); // A loaded machine starts calls late.
  const { url: front } = await scheduler(t, configuration('name = "ten"\ncapacity = 10\nperiod = "1s"'));
  const { url, result } = await origin(t, front, up.url);
  const place = [`--user-data-dir=${folder(t)}`, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"];
  const trust = "--ignore-certificate-errors";
  // Its processes are one group, and end together.
  const browser = spawn(BROWSER ?? "", [...place, ...QUIET, trust, url], { stdio: "ignore", detached: true });
  const left = once(browser, "exit");
  const told = await Promise.race([result, left.then(() => assert.fail("the browser has ended"))]);
  process.kill(-(browser.pid ?? assert.fail("it has not begun")), "SIGKILL");
  await left;
  assert.deepEqual(JSON.parse(told), [...Array(30).fill(200), "unknown_resource"]);
  const { ok, rate_limited } = await up.stats();
  assert.deepEqual({ ok, rate_limited }, { ok: 30, rate_limited: 0 });
});
