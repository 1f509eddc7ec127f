// A real scheduler, a real upstream and, between them and the SDKs, a gateway with the vendors' paths.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const BINARY = process.env["RAMPMETER_BINARY"] ?? assert.fail("set RAMPMETER_BINARY, or run typescript/check");

const running = new Set<ChildProcess>();
// The runner stops a file that takes too long by a signal, and no hook of its tests runs then.
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

/** A process of the binary, which ends with its test or, at the latest, with this process. */
function start(t: TestContext, args: string[], env: Record<string, string> = {}): ChildProcess {
  const child = spawn(BINARY, args, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ...env } });
  running.add(child.once("exit", () => running.delete(child)));
  let log = "";
  child.stderr?.on("data", (data: Buffer) => (log = (log + data.toString()).slice(-4000)));
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    if (process.env["RAMPMETER_LOG"] !== undefined) console.error(log);
  });
  return child;
}

export function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "rampmeter-typescript-"));
  t.after(() => rmSync(path, { recursive: true, force: true, maxRetries: 10 }));
  return path;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Waits until the page at `url` is there. */
async function ready(url: string, isReady = (page: Response): boolean => page.ok): Promise<void> {
  for (const end = Date.now() + 20_000; ; await sleep(20)) {
    const page = await fetch(url).catch(() => undefined);
    await page?.text();
    if (page !== undefined && isReady(page)) return;
    assert.ok(Date.now() < end, `${url} is not ready`);
  }
}

export interface Scheduler {
  readonly url: string;
  /** kill -9 */
  kill(): Promise<void>;
  restart(): Promise<void>;
  signal(name: NodeJS.Signals): void;
}

/** A NATS server, whose data outlives it. */
export interface Nats {
  readonly url: string;
  /** kill -9, and a new process. */
  restart(): Promise<void>;
}

export async function nats(t: TestContext): Promise<Nats> {
  const [url, listen, data] = [`nats://127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`, folder(t)];
  const file = join(data, "nats.toml");
  writeFileSync(file, configuration('name = "unused"\ncapacity = 1\nperiod = "1s"').replace('"api"', '"unused"'));
  const place = ["--embedded-nats", "--nats", url, "--data", join(data, "data"), "--listen", listen];
  const run = async (): Promise<ChildProcess> => {
    const child = start(t, ["serve", file, ...place]);
    await ready(`http://${listen}/readyz`);
    return child;
  };
  let child = await run();
  const restart = async (): Promise<void> => {
    child.kill("SIGKILL");
    await once(child, "exit");
    child = await run();
  };
  return { url, restart };
}

/** A scheduler of the resources in `text`, at a NATS server that survives it. */
export async function scheduler(t: TestContext, text: string, at?: Nats): Promise<Scheduler> {
  const [server, port, file] = [at ?? (await nats(t)), await freePort(), join(folder(t), "rampmeter.toml")];
  const url = `http://127.0.0.1:${port}`;
  writeFileSync(file, text);
  const run = async (): Promise<ChildProcess> => {
    const child = start(t, ["serve", file, "--nats", server.url, "--listen", `127.0.0.1:${port}`]);
    await ready(`${url}/readyz`);
    return child;
  };
  let child = await run();
  return {
    url,
    kill: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
    restart: async () => {
      child = await run();
    },
    signal: (name) => void child.kill(name),
  };
}

/** A counter of the resource `api` at the scheduler of `url`, from its metrics. */
export async function counter(url: string, name: "granted" | "returned" | "settled"): Promise<number> {
  const page = await (await fetch(`${url}/metrics`)).text();
  const rows = page.split("\n").filter((row) => row.startsWith(`rampmeter_${name}`) && row.includes('"api"'));
  return rows.reduce((sum, row) => sum + Number(row.split(" ").at(-1)), 0);
}

export interface Upstream {
  readonly url: string;
  stats(): Promise<{ sent: number; ok: number; rate_limited: number; policies: { unit: string; spent: number }[] }>;
}

/** The upstream, which enforces `limits` and knows nothing of the scheduler. */
export async function upstream(t: TestContext, limits: string[], ...options: string[]): Promise<Upstream> {
  const url = `http://127.0.0.1:${await freePort()}`;
  start(t, ["upstream", ...limits.flatMap((limit) => ["--limit", limit]), "--listen", url.slice(7), ...options]);
  await ready(`${url}/stats`);
  return { url, stats: async () => (await fetch(`${url}/stats`)).json() as ReturnType<Upstream["stats"]> };
}

/** `rampmeter proxy` in front of `upstream`, with a scheduler of the resources in `text` inside. */
export async function proxy(t: TestContext, upstream: string, text: string, more = ""): Promise<string> {
  const [listen, metrics] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const data = folder(t);
  const file = join(data, "rampmeter.toml");
  const itself = `[[proxy]]\nupstream = "${upstream}"\nlisten = "${listen}"\nmetrics = "${metrics}"\n${more}\n`;
  writeFileSync(file, `[http]\nlisten = ""\n${itself}${text}`);
  start(t, ["proxy", file, "--data", join(data, "data")]);
  await ready(`http://${metrics}/healthz`);
  return `http://${listen}`;
}

/** Passes calls of any path on to `/process` of the upstream, and its verdicts back, with `body` on a 200. */
export async function gateway(
  t: TestContext,
  up: Upstream,
  query: string,
  body: (path: string) => object,
): Promise<string> {
  const pass = (asked: IncomingMessage, answer: ServerResponse): void => {
    asked.resume().on("end", () => {
      const forwarded = request(`${up.url}/process?${query}`, { agent: false }, (verdict) => {
        const [isGood, chunks] = [verdict.statusCode === 200, [] as Buffer[]];
        verdict.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
          const told = Object.entries(verdict.headers).filter(([name]) => /retry-after|ratelimit|spent/.test(name));
          const headers = { ...Object.fromEntries(told), "content-type": "application/json" };
          answer.writeHead(verdict.statusCode ?? 500, headers);
          answer.end(isGood ? JSON.stringify(body(asked.url ?? "")) : Buffer.concat(chunks));
        });
      });
      forwarded.end();
    });
  };
  const server: Server = createServer(pass).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A scheduler's configuration: a resource `api` with these limits, as `[[resource.limit]]` tables. */
export function configuration(...limits: string[]): string {
  return `[[resource]]\nname = "api"\n${limits.map((limit) => `[[resource.limit]]\n${limit}\n`).join("")}`;
}
