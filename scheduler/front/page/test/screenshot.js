// Takes the picture of the page that README.md shows: the second half of `rampmeter demo`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { chromium } from "playwright-core";

const [BINARY, CHROMIUM, TARGET] = [process.env.RAMPMETER_BINARY, process.env.CHROMIUM, process.argv[2]].map((given) => given ?? process.exit(2));
/** Milliseconds into the half with permits: bulk waits, and levels have gone up and down. */
const INTO = 30_000;
const SECONDS = 40;

const demo = spawn(BINARY, ["demo", "--seconds", String(SECONDS)], { stdio: ["ignore", "ignore", "pipe"] });
let told = "";
const heard = (text) =>
  new Promise((done) => {
    const look = () => told.includes(text) && done(undefined);
    demo.stderr.on("data", look);
    look();
  });
demo.stderr.on("data", (data) => (told += data));
await heard("as long as the demo runs");
await heard("\n");
const [url] = /http:\/\/\S+/.exec(told) ?? process.exit(1);

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1300, height: 1330 }, deviceScaleFactor: 0.8, colorScheme: "light" });
await page.goto(url);
await heard("\nwith permits");
await page.waitForTimeout(INTO);
mkdirSync(dirname(resolve(TARGET)), { recursive: true });
await page.getByRole("button", { name: "Show the curve of processing-units" }).click();
await page.waitForTimeout(2000);
await page.screenshot({ path: TARGET });
await browser.close();
demo.kill("SIGINT");
await once(demo, "exit");
