// The page in a real Chromium, as its readers use it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { browser, front, logIn, open, OPERATOR, RESOURCES, run, scheduler, shoot, until, WORKER } from "./machine.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const HOSTILE = "<img src=x onerror=window.broken=1><script>window.broken=1</script>";

/** Takes all that `hub` has, and has one more request wait. */
async function oneWaits(url, id = "waiting-request-1") {
  await front(url, "/v1/permit/hub", { cost: { requests: 4 }, labels: { client: HOSTILE } });
  front(url, "/v1/permit/hub", { id, mode: "wait", class: "bulk", labels: { client: HOSTILE } }).catch(() => {});
}

/** What a screen reader's user would stumble over. */
async function violations(page) {
  // The policy of the page lets no script in but its own; the browser's own world is not bound by it.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations);
  return found.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
}

test("a token opens the page, and stays in it alone", async (t) => {
  const { url, log } = await scheduler(t);
  const { page, complaints } = await open(await browser(t), url);
  await logIn(page, "wrong-wrong-wrong-wrong");
  await page.getByText("the token is missing or wrong").first().waitFor();
  await logIn(page, WORKER);
  await page.getByText("token `worker` has no `page = \"view\"`").first().waitFor();
  await page.getByRole("button", { name: "Token" }).click();
  await logIn(page, OPERATOR);
  await page.getByText("live, as on-call").waitFor();
  await page.getByRole("main").getByRole("link", { name: "hub" }).waitFor();
  const kept = await page.evaluate(() => JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }]));
  assert.ok(!kept.includes("canary"), kept);
  assert.ok(!log().includes("canary"), "a token in the log");
  await page.reload();
  await page.getByRole("dialog").waitFor();
  assert.deepEqual(complaints, []);
});

test("what happens is seen live, and foreign names are text", async (t) => {
  const { url } = await scheduler(t);
  const { page, complaints } = await open(await browser(t), url);
  await logIn(page, OPERATOR);
  await page.getByRole("main").getByRole("link", { name: "hub" }).click();
  const limit = page.getByRole("row", { name: /curve of few/ });
  await limit.getByText("4", { exact: true }).first().waitFor();
  await oneWaits(url);
  const request = page.getByRole("row", { name: /waiting-/ });
  await request.getByText(HOSTILE, { exact: true }).waitFor();
  await request.getByText(`client=${HOSTILE}`, { exact: true }).waitFor();
  await request.getByText("has 0 of 4 left, and this takes 1").waitFor();
  await page.getByText("1 wait; 0 of them are not listed.").waitFor();
  assert.equal(await page.evaluate(() => [window.broken, document.querySelectorAll("#view img").length].join()), ",0");
  await page.getByLabel("Id of a request").fill("waiting-request-1");
  await page.getByRole("button", { name: "Explain this id" }).click();
  await page.getByText("of class bulk: 0 ahead of it").waitFor();
  await page.getByText(/“few”: 0 of 4 left, 1 wait/).first().waitFor();
  const client = page.getByRole("region", { name: "Clients" }).getByRole("row", { name: HOSTILE });
  await client.getByText("100 %").waitFor();
  await shoot(page, "resource");
  assert.deepEqual(complaints, []);
});

test("an operator freezes, thaws, cancels, and ends waits", async (t) => {
  const { url } = await scheduler(t);
  const { page, complaints } = await open(await browser(t), `${url}/#/resource/hub`);
  await logIn(page, OPERATOR);
  const { id } = await front(url, "/v1/permit/hub", {});
  await front(url, "/v1/settle/hub", { id, response: { status: 429, headers: { "retry-after": "50" } } });
  await page.getByText(/the upstream demands \d+ s: the upstream asked for 50 s at .*then one probe/).first().waitFor();
  await page.getByRole("button", { name: "Thaw few" }).click();
  await page.getByRole("alert").getByText("few thawed").waitFor();
  await page.getByLabel("How long a freeze lasts").selectOption("10 min");
  await page.getByRole("button", { name: "Freeze few" }).click();
  await page.getByRole("alert").getByText("few frozen for 10 min").waitFor();
  await page.getByText(/an operator's order, for (9 min|10 min)/).waitFor();
  await page.getByRole("button", { name: "Thaw few" }).click();
  await page.getByRole("button", { name: "Freeze all limits" }).click();
  await page.getByRole("alert").getByText("few, fast frozen for 10 min").waitFor();
  for (const limit of ["few", "fast"]) await page.getByRole("button", { name: `Thaw ${limit}` }).click();
  await page.getByRole("button", { name: "Freeze fast" }).waitFor();
  await oneWaits(url);
  await page.getByRole("button", { name: /^Cancel/ }).click();
  await page.getByText("No request waits.").waitFor();
  front(url, "/v1/permit/hub", { id: "again", mode: "wait", labels: { client: "team-a" } }).catch(() => {});
  await page.getByText("1 wait; 0 of them are not listed.").waitFor();
  await page.getByLabel("Client whose waits end").fill("team-a");
  await page.getByRole("button", { name: "End all waits of this client" }).click();
  await page.getByRole("alert").getByText("1 waits of “team-a” are ended").waitFor();
  assert.deepEqual(complaints, []);
});

test("rules are applied after their difference was shown", async (t) => {
  const { url } = await scheduler(t);
  const { page, complaints } = await open(await browser(t), `${url}/#/rules`);
  await logIn(page, OPERATOR);
  await page.getByText("There are no rules").waitFor();
  const apply = page.getByRole("button", { name: "Apply" });
  assert.ok(await apply.isDisabled());
  await page.getByLabel("Rules", { exact: true }).fill('[[resource]]\nname = "hub"\n[[resource.limit]]\nname = "few"\ncapacity = 7\nperiod = "400h"\nmargin = 0\n');
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByText("~ few: capacity 4 → 7").waitFor();
  await shoot(page, "rules");
  await apply.click();
  await page.getByRole("alert").getByText("written as revision 1").waitFor();
  await page.getByText("+ capacity = 7").waitFor();
  await page.getByLabel("Rules", { exact: true }).fill("[[resource]]\n<script>");
  await page.getByRole("button", { name: "Show what changes" }).click();
  await page.getByText(/^page:\d+:\d+: /).waitFor();
  assert.ok(await apply.isDisabled());
  assert.deepEqual(complaints, []);
});

test("a forecast is drawn within a second", async (t) => {
  const { url } = await scheduler(t);
  const { page, complaints } = await open(await browser(t), `${url}/#/resource/hub`);
  await logIn(page, OPERATOR);
  await page.getByRole("slider", { name: "Limits, in percent of now" }).fill("200");
  await page.getByRole("button", { name: "Forecast" }).click();
  await page.getByText(/calls served, .* still wait/).waitFor();
  assert.equal(await page.locator("canvas").count(), 2, "the real curve, and that of the forecast");
  await shoot(page, "forecast");
  assert.deepEqual(complaints, []);
});

test("it is read on a phone, on a wall, in the dark, and by a screen reader", async (t) => {
  const { url } = await scheduler(t);
  await oneWaits(url);
  const started = await browser(t);
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [360, 1300, 2000]) {
      const { page, complaints } = await open(started, url, { colorScheme, viewport: { width, height: 800 } });
      await logIn(page, OPERATOR);
      for (const [view, shown] of [["#/", "All resources"], ["#/resource/hub", "has 0 of 4 left, and this takes 1"], ["#/rules", "There are no rules"], ["#/schedulers", "What a successor would go on from."]]) {
        await page.goto(`${url}/${view}`);
        await page.getByText(shown).first().waitFor();
        const name = `${view.split("/")[1] || "all"}-${width}-${colorScheme}`;
        assert.deepEqual(await violations(page), [], name);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(overflow <= 0, `${name}: ${overflow} px beyond the edge`);
        await shoot(page, name);
      }
      assert.deepEqual(complaints, []);
      await page.context().close();
    }
  }
});

test("schedulers and queues of jobs are shown, and jobs deleted", async (t) => {
  const { url, nats } = await scheduler(t, 'jobs = ["roles", "none"]\n' + RESOURCES);
  run("jobs", "init", "roles", "--nats", nats);
  const { page, complaints } = await open(await browser(t), `${url}/#/schedulers`);
  await logIn(page, OPERATOR);
  await page.getByRole("region", { name: "All schedulers" }).getByText("hub, other").waitFor();
  await page.getByRole("region", { name: "The store" }).getByRole("row", { name: /^hub/ }).waitFor();
  await shoot(page, "schedulers");
  await page.getByRole("link", { name: "Jobs" }).click();
  await page.getByText("0 delayed, 0 running, 0 dead").waitFor();
  await page.getByText(/It can't be read: /).waitFor();
  await page.getByLabel("Sequence of a job in roles").fill("17");
  await page.getByRole("region", { name: "roles" }).getByRole("button", { name: "Delete this job" }).click();
  await page.getByRole("alert").getByText("there is no job 17 in roles").waitFor();
  assert.deepEqual(await violations(page), []);
  await shoot(page, "jobs");
  assert.deepEqual(complaints, []);
});

test("a keyboard is enough", async (t) => {
  const { url } = await scheduler(t);
  const { id } = await front(url, "/v1/permit/hub", {});
  await front(url, "/v1/settle/hub", { id, response: { status: 429, headers: { "retry-after": "50" } } });
  const { page } = await open(await browser(t), url);
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type(OPERATOR);
  await page.keyboard.press("Enter");
  await page.getByText("live, as on-call").waitFor();
  const reach = async (name) => {
    await until(`${name} has the focus`, async () => {
      const focused = await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent);
      if (focused === name) return true;
      await page.keyboard.press("Tab");
      return false;
    });
    await page.keyboard.press("Enter");
  };
  await reach("hub");
  await page.getByRole("heading", { name: "hub" }).waitFor();
  await page.getByRole("button", { name: "Thaw few" }).waitFor();
  await reach("Thaw few");
  await page.getByRole("alert").getByText("few thawed").waitFor();
});

test("a page that loses its scheduler says so", async (t) => {
  const { url, pid } = await scheduler(t);
  const { page } = await open(await browser(t), `${url}/#/resource/hub`);
  await logIn(page, OPERATOR);
  await page.getByText("live, as on-call").waitFor();
  process.kill(pid, "SIGKILL");
  await page.getByText("no connection; trying again").waitFor();
});
