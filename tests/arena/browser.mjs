// Scenarios in a real browser, run by tests/arena/test_page.py:
//   node browser.mjs URL PLAYWRIGHT CHROMIUM PICTURES
// Reads a line per scenario, [NAME, FILE], where FILE is what the scenario needs, and prints a JSON object with what was
// seen, or with an error. All scenarios have one browser, and contexts of their own in it.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [url, playwright, executablePath, pictures] = process.argv.slice(2);
const { chromium } = createRequire(join(playwright, "x.js"))("playwright-core");
const PHONE = { width: 360, height: 740 };
const DESK = { width: 1200, height: 900 };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
let given = "";
let problems = [];

async function visit(viewport = DESK, scheme = "light", address = url, ready = "form button.primary") {
  const context = await browser.newContext({ viewport, colorScheme: scheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => new URL(request.url()).host === new URL(url).host || problems.push(`outside: ${request.url()}`));
  await page.goto(address);
  await page.waitForSelector(ready);
  return page;
}

// Opens a room of a game; rules are set in the lobby by the words that people see.
async function open(page, { game = "Skyjo", round = false, person = false, lesson = true, bot = "" } = {}) {
  await page.locator(".game", { hasText: game }).click();
  if (round) {
    await page.click("summary");
    await page.locator("label.field", { hasText: /^episode/ }).locator("select").selectOption("round");
  }
  if (person) await page.locator("label.field", { hasText: "Seat 2" }).locator("select").selectOption("person");
  if (bot) await page.locator("label.field", { hasText: "Seat 2" }).locator("select").selectOption(bot);
  await page.click("form button.primary");
  await page.waitForSelector(".board");
  if (lesson) await page.click(".lesson >> text=Skip");
}

// Cards that can be chosen, and those that carry what the agent thinks of them.
const badges = (page) => page.evaluate(() => ({ badges: document.querySelectorAll(".badge").length, legal: document.querySelectorAll("button.card.legal").length }));

const over = (page) => page.locator(".result").isVisible();

// Waits until the page asks for something: a decision, the end of a round, or the end of the game.
async function asked(page) {
  await page.waitForFunction(() => document.querySelector(".overlay, .prompt.mine"));
  const go = page.locator("text=Go on");
  if (await go.isVisible()) await go.click();
}

// One click on something that can be chosen; prefers face-down cards, so that rounds end.
async function click(page, number) {
  const before = await page.locator(".prompt").innerText();
  const down = page.locator('.own button.card[title*="face down"]');
  const any = page.locator("button.card.legal");
  const discard = page.locator("text=Discard it and turn a card over");
  const target = page.locator("button.card.target");
  if (await target.count()) await target.first().click();
  else if (number % 3 === 0 && (await discard.isVisible())) await discard.click();
  else if (await down.count()) await down.first().click();
  else if (await any.count()) await any.nth(number % (await any.count())).click();
  else return;
  await page.waitForFunction((old) => document.querySelector(".prompt").innerText !== old || document.querySelector(".overlay") || document.querySelector(".selected"), before, { timeout: 1000 }).catch(() => {});
}

const scenarios = {
  async clicking() {
    const page = await visit();
    await page.screenshot({ path: join(pictures, "lobby.png") });
    await open(page, { round: true });
    await asked(page);
    await page.screenshot({ path: join(pictures, "table.png") });
    let ends = 0;
    for (let i = 0; i < 300 && !(await over(page)); i++) {
      await page.waitForFunction(() => document.querySelector(".overlay, .prompt.mine"));
      const go = page.locator("text=Go on");
      if (await go.isVisible()) {
        ends += 1;
        await page.screenshot({ path: join(pictures, "round.png") });
        await go.click();
      } else if (!(await over(page))) await click(page, i);
    }
    await page.waitForSelector(".result a");
    const seen = { over: await over(page), ends, seed: /Seed/.test(await page.locator(".fair").textContent()) };
    await page.evaluate(() => (location.hash = "results"));
    await page.waitForSelector(".gallery a");
    await page.screenshot({ path: join(pictures, "results.png") });
    return { ...seen, results: await page.locator(".gallery a").count(), back: await page.locator("text=Back to the table").count() };
  },

  async keyboard() {
    const page = await visit();
    await page.keyboard.press("Tab");
    while (!(await page.evaluate(() => document.activeElement.matches("form button.primary")))) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".board");
    await page.locator(".lesson >> text=Skip").focus();
    await page.keyboard.press("Enter");
    for (let turn = 0; turn < 3; turn++) {
      await page.waitForSelector(".prompt.mine");
      await page.keyboard.press("d");
      await page.waitForSelector("text=You drew");
      await page.keyboard.press("x");
      await page.waitForSelector("text=face-down cards to turn over");
      await page.locator(".own button.card").first().focus();
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => !document.querySelector(".prompt").innerText.includes("turn over"));
    }
    const shown = await page.locator(".log").textContent();
    return { turned: (shown.match(/Guest turned over/g) || []).length };
  },

  // A whole round with keys only: D draws, X discards, arrows and Enter choose a card.
  async typing() {
    const page = await visit();
    await page.locator("summary").focus();
    await page.keyboard.press("Enter");
    const episode = page.locator("label.field", { hasText: /^episode/ }).locator("select");
    await episode.focus();
    for (let i = 0; i < 4 && (await episode.inputValue()) !== "round"; i++) await page.keyboard.press("ArrowDown");
    while (!(await page.evaluate(() => document.activeElement.matches("form button.primary")))) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".board");
    while ((await page.evaluate(() => document.activeElement.textContent)) !== "Skip") await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    for (let i = 0; i < 400 && !(await over(page)); i++) {
      await page.waitForFunction(() => document.querySelector(".overlay, .prompt.mine"));
      if (await page.locator("text=Go on").isVisible()) {
        await page.locator("text=Go on").focus();
        await page.keyboard.press("Enter");
        continue;
      }
      if (await over(page)) break;
      const prompt = await page.locator(".prompt").innerText();
      if (/take the top/.test(prompt)) await page.keyboard.press("d");
      else if (/You drew/.test(prompt)) await page.keyboard.press("x");
      else if (/column is complete/.test(prompt)) await page.keyboard.press("x");
      else {
        await page.locator(".own button.card").first().focus();
        if (i % 2) await page.keyboard.press("ArrowRight");
        await page.keyboard.press("Enter");
      }
      await page.waitForFunction((old) => document.querySelector(".prompt").innerText !== old || document.querySelector(".overlay"), prompt, { timeout: 3000 }).catch(() => {});
    }
    return { over: await over(page) };
  },

  async watching() {
    const page = await visit();
    await page.click("text=Watch");
    await page.waitForSelector(".load");
    await page.locator("form button.primary").click();
    await page.waitForSelector(".viewer .board");
    await page.locator(".controls select").first().selectOption("16");
    const at = async () => Number(/Decision (\d+)/.exec(await page.locator(".scrub").innerText())[1]);
    await page.waitForFunction(() => document.querySelector(".scrub input") && Number(document.querySelector(".scrub input").value) >= 20);
    await page.click(".controls >> text=Pause");
    const paused = await at();
    await page.waitForTimeout(200);
    const still = await at();
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction((old) => document.querySelector(".scrub input") && Number(document.querySelector(".scrub input").value) === old - 1, paused);
    await page.screenshot({ path: join(pictures, "watch.png"), fullPage: true });
    await page.locator(".scrub input").fill("5");
    await page.waitForFunction(() => (document.querySelector(".scrub") || { innerText: "" }).innerText.includes("Decision 5 "));
    const other = await page.locator(".own h3").innerText();
    await page.locator(".controls select").nth(1).selectOption("1");
    await page.waitForFunction((old) => document.querySelector(".own h3") && document.querySelector(".own h3").innerText !== old, other);
    return { paused: paused >= 20 && still === paused, legal: await page.locator("button.card.legal").count() };
  },

  // Loads a record, looks at its end, and opens its link in another browser.
  async record() {
    const page = await visit();
    await page.click("text=Watch");
    await page.locator(".load input").setInputFiles(given);
    await page.waitForSelector(".viewer .board");
    await page.click('[aria-label="last decision"]');
    await page.waitForSelector(".seats em");
    const shown = await page.locator(".viewer .seats").innerText();
    const other = await visit(DESK, "light", `${url}#${new URL(page.url()).hash.slice(1)}`, ".viewer .board");
    const downloaded = await (await other.request.get(`${url}records/${new URL(page.url()).hash.split("/")[1]}.json`)).json();
    await page.click(".places >> text=Watch");
    await page.waitForSelector(".gallery a");
    await page.screenshot({ path: join(pictures, "gallery.png") });
    return { shown, actions: downloaded.actions.length, listed: await page.locator(".gallery a").count() };
  },

  async review() {
    const page = await visit();
    await page.click("text=Watch");
    await page.locator(".load input").setInputFiles(given);
    await page.waitForSelector(".viewer .board");
    await page.click("text=Review");
    page.setDefaultTimeout(120000);
    await page.waitForSelector(".ledger");
    page.setDefaultTimeout(20000);
    const mistakes = await page.locator(".mistakes").first().locator("li").count();
    await page.click("text=The most costly one");
    await page.waitForSelector(".quiz");
    const told = await page.locator(".verdict").count();
    const next = await page.locator("text=Next mistake").count();
    await page.locator(".quiz button").first().click();
    await page.waitForSelector(".verdict");
    await page.screenshot({ path: join(pictures, "review.png"), fullPage: true });
    const sums = await page.evaluate(() => {
      const rows = [...document.querySelectorAll(".ledger tbody tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.innerText.replace("−", "-").replace(/[ %+]/g, ""))));
      return rows[0].map((_, seat) => rows.slice(0, 5).reduce((all, row) => all + row[seat], 0) - rows[5][seat]);
    });
    await page.click("text=What would an agent have done");
    await page.waitForSelector("text=The same deal as before");
    return { mistakes: mistakes > 0, told, next, sums: sums.map((each) => Math.abs(each) <= 0.35), verdict: true };
  },

  async advice() {
    const page = await visit();
    await page.locator(".game", { hasText: "L.A.M.A." }).click();
    await page.locator("label.field", { hasText: "Players" }).locator("select").selectOption("4");
    await page.click("form button.primary");
    await page.waitForSelector(".board");
    await page.click(".lesson >> text=Skip");
    await page.click("text=Think (?)");
    await asked(page);
    await page.waitForSelector(".think table");
    await page.screenshot({ path: join(pictures, "think-lama.png") });
    return { ...(await badges(page)), ranks: await page.locator(".think caption").count(), exact: await page.locator("rect.exact").count() };
  },

  // A trained agent brings its rule set to the table, where no two players have the same name.
  async learned() {
    const page = await visit();
    await page.locator(".game", { hasText: "L.A.M.A." }).click();
    await page.locator("label.field", { hasText: "Players" }).locator("select").selectOption("4");
    const rules = page.locator("label.field", { hasText: /^Rule set/ }).locator("select");
    const before = await rules.inputValue();
    await page.locator("label.field", { hasText: "Seat 3" }).locator("select").selectOption("lama-belief, 16 simulations");
    const after = await rules.inputValue();
    await page.click("form button.primary");
    await page.waitForSelector(".board");
    await page.click(".lesson >> text=Skip");
    await page.click("text=Think (?)");
    await asked(page);
    await page.waitForSelector(".think table");
    const names = await page.locator(".others h3").allInnerTexts();
    return { before, after, adviser: await page.locator(".think h2").innerText(), names: new Set(names).size, fold: await page.locator(".choices button").innerText() };
  },

  // Findings of axe-core that are serious or critical, on every screen, in light and dark and on a phone.
  async barriers() {
    const axe = readFileSync(given, "utf8");
    const found = [];
    const look = async (page, where) => {
      await page.evaluate(axe);
      const seen = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      for (const each of seen.violations) if (["serious", "critical"].includes(each.impact)) found.push(`${where}: ${each.id}, ${each.nodes[0].html.slice(0, 160)}`);
    };
    for (const [viewport, scheme] of [[DESK, "light"], [PHONE, "dark"]]) {
      const page = await visit(viewport, scheme);
      await look(page, `lobby ${scheme}`);
      await open(page, { lesson: false });
      await look(page, `lesson ${scheme}`);
      await page.click(".lesson >> text=Skip");
      await page.click("text=Think (?)");
      await asked(page);
      await page.waitForSelector(".think table");
      await look(page, `table ${scheme}`);
      await page.evaluate(() => (location.hash = "watch"));
      await page.waitForSelector(".load");
      await look(page, `watch ${scheme}`);
      await page.locator("form button.primary").click();
      await page.waitForSelector(".viewer .board");
      await page.click(".controls >> text=Pause");
      await look(page, `viewer ${scheme}`);
      await page.evaluate(() => (location.hash = "results"));
      await page.waitForSelector("text=Latest games");
      await look(page, `results ${scheme}`);
    }
    return { found };
  },

  async thinking() {
    const page = await visit();
    await open(page);
    await page.click("text=Think (?)");
    for (let i = 0; i < 9; i++) {
      await asked(page);
      await page.waitForSelector(".think table");
      await click(page, i);
    }
    await asked(page);
    await page.waitForSelector(".graph");
    await page.waitForSelector(".think table");
    await page.screenshot({ path: join(pictures, "think.png") });
    return {
      ...(await badges(page)),
      exact: await page.locator("rect.exact").count(),
      network: await page.locator("rect.network").count(),
    };
  },

  async people() {
    const [ada, bob] = [await visit(), await visit()];
    await open(ada, { person: true });
    const code = await ada.locator(".room strong").innerText();
    await bob.locator(".join input").fill(code);
    await bob.click("text=Join a room");
    await bob.click(".lesson >> text=Skip");
    await bob.waitForSelector(".board");
    for (let i = 0; i < 12; i++) {
      for (const page of [ada, bob]) if (await page.locator(".prompt.mine").count()) await click(page, i);
      await ada.waitForTimeout(50);
    }
    const before = await ada.locator(".log li").count();
    await ada.reload();
    await ada.waitForSelector(".board");
    return { players: await bob.locator(".seats li").count(), before, after: await ada.locator(".log li").count() };
  },

  // Leaves a table and returns, opens it in a second window, and follows the link of another room.
  async returning() {
    const page = await visit();
    await open(page);
    const room = await page.locator(".room strong").innerText();
    await page.click(".table nav >> text=Leave");
    await page.waitForSelector(".return");
    await page.reload();
    await page.click(".return button");
    await page.waitForSelector(".board");
    const back = (await page.locator(".room strong").innerText()) === room;
    const second = await page.context().newPage();
    await second.goto(url);
    await second.waitForSelector(".board");
    await page.click("text=Play here");
    await second.waitForSelector("text=Your seat is now in another window");
    await second.close();
    const host = await visit();
    await open(host, { person: true });
    const code = await host.locator(".room strong").innerText();
    await page.goto("about:blank");
    await page.goto(`${url}#${code.toLowerCase()}`);
    await page.click("text=Join a room");
    await page.waitForSelector(".board");
    return { back, joined: (await page.locator(".room strong").innerText()) === code };
  },

  // The lesson goes on with what the player does, and the finished game is dealt again with seats swapped.
  async lesson() {
    const page = await visit();
    await open(page, { game: "L.A.M.A.", round: true, lesson: false });
    await page.locator(".lesson button", { hasText: "Next" }).click();
    await page.waitForSelector("text=Decide now");
    await page.waitForSelector(".prompt.mine");
    await page.keyboard.press("f");
    await page.waitForSelector("text=That was a turn");
    await page.locator(".lesson button", { hasText: "Play" }).click();
    await page.click("text=Go on");
    await page.waitForSelector(".result");
    const cards = async () => (await page.locator(".own .card").evaluateAll((all) => all.map((each) => each.getAttribute("aria-label")))).join(" ");
    await page.click("text=The same deal with seats swapped");
    await page.waitForFunction(() => !document.querySelector(".result") && document.querySelector(".board"));
    return { cards: await cards(), other: (await page.locator(".others h3").innerText()).split(" 0")[0] };
  },

  async phone() {
    const found = {};
    for (const game of ["Skyjo", "L.A.M.A.", "Skip-Bo"]) {
      const page = await visit(PHONE, "dark");
      await open(page, { game });
      for (let i = 0; i < 6; i++) {
        await asked(page);
        if (await over(page)) break;
        await click(page, i);
      }
      await page.evaluate(() => scrollTo(0, 0));
      await page.waitForTimeout(100);
      if (game === "Skyjo") await page.screenshot({ path: join(pictures, "phone.png") });
      else await page.screenshot({ path: join(pictures, `phone-${game.replace(/\W/g, "").toLowerCase()}.png`) });
      found[game] = {
        wider: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
        below: await page.evaluate(() => Math.max(0, Math.round(document.querySelector(".own").getBoundingClientRect().bottom - innerHeight))),
        decisions: await page.locator(".log li").count(),
        unnamed: await page.evaluate(() => [...document.querySelectorAll("button, input, select")].filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label"))).length),
      };
      await page.context().close();
    }
    return found;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [scenario, file] = JSON.parse(line);
  given = file;
  problems = [];
  const seen = await scenarios[scenario]().catch((error) => ({ error: String(error.stack) }));
  for (const context of browser.contexts()) await context.close();
  console.log(JSON.stringify({ ...seen, problems }));
}
await browser.close();
