import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

/** A file with one test, which starts a scheduler, tells its address, and never ends. */
const ENDLESS = `
  import { test } from "node:test";
  import { configuration, scheduler } from ${JSON.stringify(new URL("machine.js", import.meta.url).href)};
  test("endless", async (t) => {
    const { url } = await scheduler(t, configuration('name = "ten"\\ncapacity = 10\\nperiod = "1s"'));
    console.error(url);
    await new Promise(() => {});
  });
`;

test("a file of tests that is stopped leaves no process behind", async () => {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env; // It is no part of this run.
  const file = ["--input-type=module", "--eval", ENDLESS];
  const endless = spawn(process.execPath, file, { env, stdio: ["ignore", "ignore", "pipe"] });
  const [told] = (await once(endless.stderr, "data")) as [Buffer];
  const url = told.toString().trim();
  assert.match(url, /^http/);
  endless.kill("SIGTERM");
  await once(endless, "exit");
  const isThere = (): Promise<boolean> => fetch(`${url}/healthz`).then(() => true, () => false);
  for (const end = Date.now() + 10_000; await isThere(); await sleep(20)) assert.ok(Date.now() < end, url);
});
