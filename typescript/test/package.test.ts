import assert from "node:assert/strict";
import { execFileSync, spawnSync, type SpawnSyncReturns } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { exact, limitHeaders, newId, speaksOfLimits } from "../src/wire.js";
import { BaseDelay } from "../src/schedulers.js";
import { TABLE } from "../src/table.js";

const root = new URL("../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");

test("the package depends on nothing, and its lock file names no host", () => {
  const manifest = JSON.parse(read("package.json")) as { dependencies?: object };
  assert.equal(manifest.dependencies, undefined);
  assert.doesNotMatch(read("package-lock.json"), /"resolved"|https?:\/\/[^"]*registry/);
});

test("what is published is the code and its types", () => {
  const packed = execFileSync("npm", ["pack", "--dry-run", "--json", "--silent"], { cwd: root, encoding: "utf8" });
  const { files } = (JSON.parse(packed) as { files: { path: string }[] }[])[0] ?? assert.fail(packed);
  const paths = files.map((file) => file.path);
  const known = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "dist/src/index.d.ts", "dist/cjs/index.d.ts"];
  for (const needed of known) assert.ok(paths.includes(needed), needed);
  const { author, keywords } = JSON.parse(read("package.json")) as { author?: string; keywords?: string[] };
  assert.ok(author && (keywords ?? []).length > 0);
  const code = /^dist\/(src|cjs)\/[a-z]+\.(js|d\.ts)$/;
  const beside = ["dist/cjs/package.json", "LICENSE-MIT", "LICENSE-APACHE", "README.md", "package.json"];
  const isMeant = (path: string): boolean => code.test(path) || beside.includes(path);
  assert.ok(paths.every(isMeant), paths.join());
});

test("npm takes the package as it is, and its types are found however a program resolves them", () => {
  const run = (program: string, ...options: string[]): SpawnSyncReturns<string> =>
    spawnSync(program, options, { cwd: root, encoding: "utf8" });
  const published = run("npm", "publish", "--dry-run");
  assert.equal(published.status, 0, published.stderr);
  assert.doesNotMatch(published.stderr, /auto-corrected|errors corrected/);
  const types = run("node_modules/.bin/attw", "--pack", ".", "--no-emoji", "--no-color");
  assert.equal(types.status, 0, types.stdout);
  assert.match(types.stdout, /No problems found/);
});

test("programs may import the package, or require it, with its types", async () => {
  const program = `
    import { Resource, withPermits } from "rampmeter";
    import { openai } from "rampmeter/models";
    const hub = new Resource({ url: "http://127.0.0.1:1", resource: "api" });
    const calls: (typeof fetch)[] = [withPermits({ resource: hub })(fetch), openai({ resource: hub })(fetch)];
    console.log(calls.length);
  `;
  for (const kind of ["cts", "mts"]) {
    const name = `dist/program.${kind}`;
    writeFileSync(new URL(name, root), program);
    const options = ["--module", "node16", "--target", "es2022", "--lib", "es2023,dom", "--strict", "--types", ""];
    execFileSync("node_modules/.bin/tsc", [name, "--ignoreConfig", ...options], { cwd: root, encoding: "utf8" });
    const made = name.replace("ts", "js");
    assert.equal(execFileSync(process.execPath, [made], { cwd: root, encoding: "utf8" }), "2\n");
  }
});

test("the headers leave the process that speak of limits, and no secret", () => {
  const rows = read("../protocol/tests/headers.txt").split("\n").filter(Boolean).map((line) => line.split(" "));
  const passing = rows.filter(([passes]) => passes === "yes").map(([, name = ""]) => name);
  assert.ok(rows.length > 40 && passing.length < rows.length);
  for (const [passes, name = ""] of rows) assert.equal(speaksOfLimits(name.toLowerCase()), passes === "yes", name);
  const all = new Headers(rows.map(([, name = ""]) => [name, "1"]));
  const lower = [...new Set(passing.map((name) => name.toLowerCase()))];
  assert.deepEqual(Object.keys(limitHeaders(all)).sort(), lower.sort());
  assert.deepEqual(limitHeaders({ get: (name) => (name === "retry-after" ? "7" : null) }), { "retry-after": "7" });
  assert.deepEqual(limitHeaders(new Headers({ "retry-after": "1".repeat(1025) })), {});
  const many = new Headers(Array.from({ length: 100 }, (_, number) => [`x-quota-${number}`, "1"]));
  assert.equal(Object.keys(limitHeaders(many)).length, 64);
  assert.ok(speaksOfLimits("quota".padEnd(64, "x")) && !speaksOfLimits("quota".padEnd(65, "x")));
});

test("a cost is rounded up to a millionth", () => {
  const table = [[1 / 3, 0.333334], [0.1 + 0.2, 0.3], [2.5, 2.5], [1e9, 1e9], [4.0000001, 4.000001]] as const;
  for (const [amount, rounded] of table) assert.deepEqual(exact({ a: amount }), { a: rounded });
  for (const wrong of [-1, NaN, 2e9]) assert.throws(() => exact({ a: wrong }), /0 to 1e9/);
});

test("what is known of models is what the proxy knows", () => {
  assert.deepEqual(TABLE, JSON.parse(read("../proxy/models.json")));
});

test("an id is a random UUID", () => {
  const ids = Array.from({ length: 100 }, newId);
  const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  assert.ok(ids.every((id) => uuid.test(id)) && new Set(ids).size === 100);
});

test("a late answer shortens the delay, or its call is not made", () => {
  // Each answer: stamp, received, round trip, delay; and when its call starts, if it may.
  const play = (...answers: number[][]): (number | undefined)[] => {
    const [base, late] = [new BaseDelay(), [] as number[]];
    return answers.map(([stamp = 0, received = 0, roundTrip = 0, delay = 0]) => {
      const answer = { status: "granted", delay_ms: delay, at_ms: stamp, epoch: 1 } as const;
      const start = base.start(answer, received - roundTrip, received, late.pop());
      if (start === undefined) late.push(received - stamp);
      return start;
    });
  };
  assert.deepEqual(play([7001, 2, 2, 5000], [8000, 4001, 3991, 5000]), [5000, 2001], "two of five seconds are left");
  assert.deepEqual(play([7001, 2, 2, 0], [8000, 4001, 3991, 0]), [0, undefined], "its start is missed");
  assert.deepEqual(play([0, 900, 900, 0], [1000, 1900, 900, 0]), [undefined, 0], "two alike: the way is that long");
  assert.deepEqual(play([0, 900, 900, 0], [1000, 1700, 700, 0]), [undefined, undefined], "two that differ");
});

test("the source is short", () => {
  const sources = (folder: string): string[] => readdirSync(new URL(folder, root)).filter((name) => /\.ts$/.test(name));
  const linesOf = (folder: string): string[] =>
    sources(folder).flatMap((file) => read(`${folder}/${file}`).split("\n"));
  const lines = linesOf("src");
  const table = read("src/table.ts").split("\n").length;
  const code = lines.filter((line) => !/^\s*(\/\/|\/\*\*|\*|$)/.test(line));
  assert.ok(code.length - table <= 900, `${code.length - table} lines`);
  assert.deepEqual([...lines, ...linesOf("test")].filter((line) => line.length > 120), []);
});
