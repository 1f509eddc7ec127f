import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { configuration, scheduler, upstream } from "./machine.js";
import { vendor } from "./vendor.js";

const page = readFileSync(new URL("../../../docs/typescript.md", import.meta.url), "utf8");

test("the first example of docs/typescript.md runs as printed", async (t) => {
  const example = page.split("```ts\n")[1]?.split("```")[0] ?? assert.fail("the page shows no example");
  const limit = 'name = "ten"\ncapacity = 10\nperiod = "1s"';
  const { url } = await scheduler(t, configuration(limit).replace('"api"', '"my-api"'));
  const up = await upstream(t, ["requests=12/1s"]); // A loaded machine starts calls late.
  // Inside the package its own name leads to it.
  const file = new URL("../example.mjs", import.meta.url);
  writeFileSync(file, example);
  const env = { ...process.env, RAMPMETER_URL: url, API_URL: `${up.url}/process` };
  const { stdout } = await promisify(execFile)(process.execPath, [file.pathname], { env, timeout: 30_000 });
  assert.equal(stdout.trim(), Array(20).fill("200").join(" "));
  assert.equal((await up.stats()).rate_limited, 0);
});

test("the example of the AI SDK runs as printed", async (t) => {
  const example = page.split("```ts\n").find((block) => block.includes("@ai-sdk/openai"))?.split("```")[0];
  const tokens = 'name = "tokens"\nunit = "tokens"\ncapacity = 9000\nperiod = "60s"';
  const limits = configuration('name = "ten"\ncapacity = 10\nperiod = "1s"', tokens);
  const { url } = await scheduler(t, limits.replace('"api"', '"openai"'));
  const api = await vendor(t, await upstream(t, ["requests=12/1s", "tokens=10000/60s"]));
  const file = new URL("../ai.mjs", import.meta.url);
  writeFileSync(file, example ?? assert.fail("the page shows no example"));
  const env = { ...process.env, RAMPMETER_URL: url, OPENAI_API_KEY: "none", OPENAI_BASE_URL: api.url };
  const { stdout } = await promisify(execFile)(process.execPath, [file.pathname], { env, timeout: 30_000 });
  assert.equal(stdout.trim(), "word ".repeat(20).trim());
  assert.equal(api.calls, 1);
});

test("the example of the package's own page runs as printed", async (t) => {
  const limit = 'name = "ten"\ncapacity = 10\nperiod = "1s"';
  const { url } = await scheduler(t, configuration(limit).replace('"api"', '"my-api"'));
  const up = await upstream(t, ["requests=12/1s"]);
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const example = readme.split("```js\n")[1]?.split("```")[0] ?? assert.fail("the page shows no example");
  const file = new URL("../readme.mjs", import.meta.url);
  writeFileSync(file, example.replace("http://127.0.0.1:9480", url));
  const env = { ...process.env, API_URL: `${up.url}/process` };
  const { stdout } = await promisify(execFile)(process.execPath, [file.pathname], { env, timeout: 30_000 });
  assert.equal(stdout.trim(), Array(5).fill("200").join(" "));
});

test("all examples of docs/typescript.md have the types that they need", async () => {
  const examples = [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, text = ""]) => text.split("\n"));
  const isImport = (line: string): boolean => line.startsWith("import ");
  const known = ['import OpenAI from "openai";', 'import { Client } from "discord.js";', "declare const url: string;"];
  const blocks = examples.map((lines) => ["{", ...lines.filter((line) => !isImport(line)), "}"]);
  const program = [...known, ...new Set(examples.flat().filter(isImport)), ...blocks.flat()].join("\n");
  writeFileSync(new URL("../examples.ts", import.meta.url), program);
  const compilerOptions = { noEmit: true, noUnusedLocals: false, rootDir: ".." };
  const project = { extends: "../tsconfig.json", compilerOptions, include: [], files: ["examples.ts"] };
  writeFileSync(new URL("../examples.json", import.meta.url), JSON.stringify(project));
  const tsc = new URL("../../node_modules/.bin/tsc", import.meta.url);
  const told = promisify(execFile)(tsc.pathname, ["-p", new URL("../examples.json", import.meta.url).pathname]);
  await told.catch((error: { stdout?: string }) => assert.fail(error.stdout));
  assert.ok(examples.length >= 3);
});
