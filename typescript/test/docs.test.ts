import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { promisify } from "node:util";
import { configuration, scheduler, upstream } from "./machine.js";

test("the first example of docs/typescript.md runs as printed", async (t) => {
  const page = readFileSync(new URL("../../../docs/typescript.md", import.meta.url), "utf8");
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
