// The rules of a client's session: protocol/session-scripts/README.md says how to read them.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { setImmediate as settled } from "node:timers/promises";
import { read, type Reply } from "../src/front.js";
import { askedOf } from "../src/permit.js";
import { Schedulers } from "../src/schedulers.js";
import { RequestSession } from "../src/session.js";
import { PermitError, type Answer, type PermitRequest } from "../src/wire.js";

const folder = new URL("../../../protocol/session-scripts/", import.meta.url);
/** The time at which a script begins. */
const ORIGIN = 1_000_000;
/** Chance has a part: each script is played so often. */
const PLAYS = 20;
/** What no client over HTTP hears. */
const OF_OTHERS = /^\d+ freeze/m;

interface Policy {
  readonly fail_after_ms?: number;
  readonly safe_rate_ms?: number;
  readonly after_ms?: number;
}

class Play {
  readonly #done: string[] = [];
  #now = ORIGIN;
  readonly #ids: string[] = [];
  #schedulers = schedulers({});
  #resume: (heard?: Reply) => void = () => assert.fail("nothing was asked yet");

  async line(line: string): Promise<void> {
    if (line.startsWith(">?")) return; // This client leaves it out.
    if (line.startsWith("> ")) return this.#expect(line.slice(2));
    assert.deepEqual(this.#done, [], `before ${line}`);
    const [, at, what, rest = ""] = /^(\d+) (\w+) ?(.*)$/.exec(line) ?? assert.fail(line);
    this.#now = ORIGIN + Number(at);
    if (what === "policy") this.#schedulers = schedulers(JSON.parse(rest) as Policy);
    else if (what === "ask") this.#ask(JSON.parse(rest) as PermitRequest);
    else if (what === "answer") this.#resume(read(rest));
    else if (what === "silence") this.#resume({ answers: [], unheard: "it was silent", wasSent: false });
    else if (what === "hangup") this.#resume({ answers: [], unheard: "it hung up", wasSent: true });
    else if (what === "wake") this.#resume();
    else assert.fail(`an event is not known: ${line}`);
    await settled();
  }

  end(): void {
    assert.deepEqual(this.#done, [], "at the end");
  }

  #ask({ max_wait_ms = Infinity, age_ms = 0, mode, ...charge }: PermitRequest): void {
    const want = { ...charge, mode, since: this.#now - age_ms, deadline: this.#now + max_wait_ms };
    const world = {
      now: () => this.#now,
      send: ({ id, ...fields }: PermitRequest) =>
        this.#wait<Reply>(`send ${this.#ordinal(id)} ${JSON.stringify(fields)}`),
      pause: async (until: number) => {
        if (until > this.#now) await this.#wait<void>(`pause ${until - ORIGIN}`);
      },
      giveBack: (id: string) => void this.#done.push(`give back ${this.#ordinal(id)}`),
    };
    const request = new RequestSession(want, this.#schedulers, world);
    const granted = request.permit().then((grant) => {
      const { id, at, answer } = grant;
      this.#done.push(`granted ${at - ORIGIN}${id === undefined ? " local" : ""}${chosen(answer)}`);
      return answer.lease_ms === undefined ? [] : [`asked ${JSON.stringify(askedOf(want, grant))}`];
    });
    const ended = granted.catch((error: unknown) => {
      assert.ok(error instanceof PermitError, String(error));
      return [error.code === "unreachable" ? error.code : `refused ${error.code}`];
    });
    void ended.then((how) => this.#done.push(...how));
  }

  /** The first id that the session shows is 1. */
  #ordinal(id: string): number {
    if (!this.#ids.includes(id)) this.#ids.push(id);
    return this.#ids.indexOf(id) + 1;
  }

  /** What the session has done; it goes on with the next event. */
  async #wait<Heard>(done: string): Promise<Heard> {
    this.#done.push(done);
    return new Promise<Heard>((resolve) => (this.#resume = resolve as (heard?: Reply) => void));
  }

  #expect(expected: string): void {
    const done = this.#done.shift() ?? assert.fail(`it has not done: ${expected}`);
    const [, verb, from, to] = /^(\w+) (\d+)\.\.(\d+)$/.exec(expected) ?? [];
    if (verb !== undefined) {
      const [did, time] = done.split(" ");
      assert.ok(did === verb && Number(time) >= Number(from) && Number(time) <= Number(to), `${done}, not ${expected}`);
    } else if (/^(send|asked) /.test(expected)) {
      const parts = (text: string): string[] => /^([^{]*)(.*)$/.exec(text)?.slice(1) ?? [];
      const [[what, fields = ""], [did, sent = ""]] = [parts(expected), parts(done)];
      assert.equal(did, what, done);
      assert.deepEqual({ ...JSON.parse(sent), ...JSON.parse(fields) }, JSON.parse(sent), done);
    } else {
      assert.equal(done, expected);
    }
  }
}

/** The account and the way that a scheduler has chosen. */
function chosen({ account, way }: Answer): string {
  return `${account === undefined ? "" : ` by ${account}`}${way === undefined ? "" : ` in way ${way}`}`;
}

function schedulers({ fail_after_ms, safe_rate_ms = Infinity, after_ms = Infinity }: Policy): Schedulers {
  return new Schedulers(fail_after_ms ?? after_ms, safe_rate_ms, () => {});
}

async function check(lines: readonly string[]): Promise<void> {
  for (let plays = 0; plays < PLAYS; plays += 1) {
    const play = new Play();
    for (const line of lines) await play.line(line);
    play.end();
  }
}

for (const file of readdirSync(folder).filter((name) => name.endsWith(".txt"))) {
  const script = readFileSync(new URL(file, folder), "utf8");
  if (OF_OTHERS.test(script)) continue;
  const [rule = "", ...lines] = script.trim().split("\n");
  test(`${file}: ${rule.slice(2)}`, () => check(lines));
}
