// What the page costs with much to show: 100 000 waiting requests, 1 000 clients, 200 limits. It
// prints figures, and fails beyond its bars. `scheduler/front/page/check --long` runs it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { browser, logIn, open, OPERATOR, scheduler, until } from "./machine.js";

const [WAITING, CLIENTS, RESOURCES, LIMITS, BATCH] = [100_000, 1_000, 4, 50, 1_000];
/** How long each figure is measured, in seconds. */
const SECONDS = 30;
const BROWSERS = 20;
/** Permits for one percentile, and how many percentiles are taken with browsers and without. */
const [PERMITS, ROUNDS] = [1_000, 9];

/** Every request takes from all limits but `free`; `slow` holds those that wait. */
function resource(name) {
  const limits = [`name = "slow"\ncapacity = 10\nperiod = "400h"\nmargin = 0`, `name = "free"\nunit = "free"\ncapacity = 1000000\nperiod = "1s"`];
  for (let number = limits.length; number < LIMITS; number++) limits.push(`name = "limit-${number}"\ncapacity = ${1000 * number}\nperiod = "${number}s"`);
  return `[[resource]]\nname = "${name}"\nfair_share = "client"\nstart = "full"\nmax_waiting = ${WAITING + CLIENTS}\n${limits.map((limit) => `[[resource.limit]]\n${limit}\n`).join("")}`;
}

/** The part of NATS that a worker needs. */
class Nats {
  constructor(url) {
    const { hostname, port } = new URL(url);
    this.socket = connect(Number(port), hostname);
    this.waiting = new Map();
    this.number = 0;
    this.inbox = `_INBOX.long${Math.random().toString(36).slice(2)}`;
    this.rest = Buffer.alloc(0);
    this.socket.on("data", (data) => this.read(data));
    this.socket.write(`CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB ${this.inbox}.* 1\r\n`);
  }

  read(data) {
    this.rest = Buffer.concat([this.rest, data]);
    for (;;) {
      const end = this.rest.indexOf("\r\n");
      if (end < 0) return;
      const words = this.rest.subarray(0, end).toString().split(" ");
      const length = words[0] === "MSG" || words[0] === "HMSG" ? Number(words.at(-1)) + 2 : 0;
      if (this.rest.length < end + 2 + length) return;
      if (words[0] === "PING") this.socket.write("PONG\r\n");
      if (length) this.waiting.get(words[1])?.(this.rest.subarray(end + 2, end + length));
      this.rest = this.rest.subarray(end + 2 + length);
    }
  }

  send(subject, payload) {
    const [text, reply] = [JSON.stringify(payload), `${this.inbox}.${this.number++}`];
    this.socket.write(`PUB ${subject} ${reply} ${Buffer.byteLength(text)}\r\n${text}\r\n`);
    return reply;
  }

  ask(subject, payload) {
    return new Promise((done) => {
      const reply = this.send(subject, payload);
      this.waiting.set(reply, (answer) => {
        this.waiting.delete(reply);
        done(answer);
      });
    });
  }
}

/** The 99th percentile of the round trips of permits, one after the other, in milliseconds. */
async function permits(nats) {
  const spent = [];
  for (let number = 0; number < PERMITS; number++) {
    const began = performance.now();
    const answer = await nats.ask("rampmeter.permit.hub", { mode: "allow", cost: { requests: 0, free: 1 } });
    spent.push(performance.now() - began);
    assert.ok(answer.includes("granted"), String(answer));
  }
  spent.sort((a, b) => a - b);
  return spent[Math.floor(PERMITS * 0.99)];
}

/** The medians of percentiles without and with browsers, which are taken in turn: other programs disturb both alike. */
async function compared(nats, url, browsers) {
  const [without, beside] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    without.push(await permits(nats));
    const ended = new AbortController();
    const looking = Array.from({ length: browsers }, () => look(url, ended.signal));
    await pause(2000);
    beside.push(await permits(nats));
    ended.abort();
    await Promise.all(looking);
  }
  return [without, beside].map((all) => all.sort((a, b) => a - b)[(ROUNDS - 1) / 2]);
}

/** Seconds of a processor that a process has used. */
function cpu(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function percentOfACore(pid, work = () => pause(1000 * SECONDS)) {
  const [began, before] = [performance.now(), cpu(pid)];
  await work();
  return (100_000 * (cpu(pid) - before)) / (performance.now() - began);
}

const headers = { Authorization: `Bearer ${OPERATOR}`, "Content-Type": "application/json" };

/** Asks what an open page asks, until it is told to end. Returns the bytes that came. */
async function look(url, ended) {
  let bytes = 0;
  const poll = async (path, every, init) => {
    while (!ended.aborted) {
      bytes += (await (await fetch(`${url}${path}`, { headers, ...init })).text()).length;
      await pause(every, undefined, { signal: ended });
    }
  };
  const stream = async () => {
    const response = await fetch(`${url}/page/live/hub`, { headers, signal: ended });
    for await (const part of response.body) bytes += part.length;
  };
  await Promise.allSettled([stream(), poll("/page/waiting/hub", 2000, { method: "POST", body: "{}" }), poll("/page/history/hub?limit=slow", 5000)]);
  return bytes;
}

const round = (number) => Number(number.toFixed(2));

test("much to show costs little", async (t) => {
  const resources = ["hub", ...Array.from({ length: RESOURCES - 1 }, (_, number) => `other-${number}`)].map(resource).join("");
  const { url, nats: address, pid } = await scheduler(t, resources);
  const nats = new Nats(address);
  t.after(() => nats.socket.destroy());
  await nats.ask("rampmeter.permit.hub", { cost: { requests: 10 } });
  for (let begin = 0; begin < WAITING; begin += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, number) => ({ id: `long-${begin + number}`, mode: "wait", labels: { client: `client-${(begin + number) % CLIENTS}` } }));
    nats.send("rampmeter.permit.hub", batch);
  }
  const status = async () => JSON.parse(await nats.ask("rampmeter.status.hub", {}));
  let queued = 0;
  await until("all wait", async () => (queued = (await status()).classes[0].queued) === WAITING, () => queued);
  // Workers ask all the time, so that levels change.
  let asks = true;
  const busy = (async () => {
    for (; asks; await pause(100)) for (let number = 0; number < RESOURCES - 1; number++) nats.send(`rampmeter.permit.other-${number}`, { cost: { requests: 0, free: 1 } });
  })();
  const idle = await percentOfACore(pid);

  const chromium = await browser(t);
  const { page, complaints } = await open(chromium, `${url}/#/resource/hub`);
  await logIn(page, OPERATOR);
  await page.getByText("100\u202f000 wait;", { exact: false }).waitFor({ timeout: 60_000 });
  const tools = await page.context().newCDPSession(page);
  let bytes = 0;
  tools.on("Network.dataReceived", ({ encodedDataLength, dataLength }) => (bytes += Math.max(encodedDataLength, dataLength)));
  await tools.send("Network.enable");
  await tools.send("Performance.enable");
  const scripting = async () => (await tools.send("Performance.getMetrics")).metrics.find(({ name }) => name === "ScriptDuration").value;
  const before = await scripting();
  await pause(1000 * SECONDS);
  const kilobytes = bytes / 1000 / SECONDS;
  const script = (1000 * (await scripting() - before)) / SECONDS;
  assert.deepEqual(complaints, []);
  await page.close();

  const ended = new AbortController();
  const looking = Array.from({ length: BROWSERS }, () => look(url, ended.signal));
  await pause(3000);
  const many = await percentOfACore(pid);
  ended.abort();
  const sent = (await Promise.all(looking)).reduce((sum, one) => sum + one, 0);
  const one = await compared(nats, url, 1);
  const twenty = await compared(nats, url, BROWSERS);
  asks = false;
  await busy;

  const told = ([without, beside], browsers) => console.log(`p99 of permits, without and with ${browsers} looking: ${round(without)} ms, ${round(beside)} ms`);
  console.log(`${WAITING} waiting requests, ${CLIENTS} clients, ${RESOURCES} × ${LIMITS} limits`);
  console.log(`to one browser: ${round(kilobytes)} KB/s; scripting: ${round(script)} ms/s`);
  console.log(`processor, without browsers: ${round(idle)} % of a core; with ${BROWSERS}: ${round(many)} % (${Math.round(sent / 1000)} KB sent)`);
  told(one, 1);
  told(twenty, BROWSERS);
  assert.ok(kilobytes <= 100, "more than 100 KB/s");
  assert.ok(script <= 50, "more than 50 ms of scripting a second");
  assert.ok(many - idle <= 5, "twenty browsers take more than 5 % of a core");
});
