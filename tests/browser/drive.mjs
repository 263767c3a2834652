// Looks at one report in the distribution's Chromium and prints what it saw as JSON.
//
//   node drive.mjs '{"chromium": PATH, "profile": FOLDER, "look": NAME, "page": FILE, …}'
//
// Every look counts what a page may never do: requests beside its own file, dialogs, violations of its policy, errors,
// and elements, handlers or links that are not its own.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const job = JSON.parse(process.argv[2]);
const FLAGS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  ...["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
];
const OWN = new Set(
  ("html head meta title style body a nav ul ol li div header p h1 h2 h3 span dl dt dd strong time main section article " +
    "code table caption thead tbody tr th td details summary noscript script pre button select option label input canvas wbr").split(" "),
);

async function opened(look) {
  const context = await chromium.launchPersistentContext(job.profile, {
    executablePath: job.chromium,
    headless: true,
    args: FLAGS,
    colorScheme: job.scheme ?? "light",
    reducedMotion: job.motion ?? "no-preference",
    viewport: { width: job.width ?? 1280, height: job.height ?? 900 },
    javaScriptEnabled: job.javascript ?? true,
    bypassCSP: job.bypass ?? false,
    deviceScaleFactor: job.scale ?? 1,
  });
  try {
    const page = await context.newPage();
    const seen = { requests: [], dialogs: [], errors: [] };
    const own = pathToFileURL(job.page).href;
    context.on("request", (request) => request.url().split("#")[0] !== own && seen.requests.push(request.url()));
    page.on("dialog", (dialog) => (seen.dialogs.push(dialog.message()), dialog.dismiss()));
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
    await page.addInitScript(() => {
      window.seenViolations = [];
      window.seenTasks = [];
      document.addEventListener("securitypolicyviolation", (event) => window.seenViolations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
      new PerformanceObserver((list) => window.seenTasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask", buffered: true });
    });
    const began = performance.now();
    await page.goto(own, { waitUntil: "load" });
    if (job.javascript !== false) await page.waitForFunction(() => document.documentElement.dataset.searchable || document.documentElement.dataset.ready === "failed", null, { timeout: 90_000 });
    seen.seconds = (performance.now() - began) / 1000;
    Object.assign(seen, await look(page));
    if (job.javascript !== false) Object.assign(seen, await found(page));
    return seen;
  } finally {
    await context.close();
  }
}

// Whatever is in the page and is not its own, and what the page was stopped from doing.
async function found(page) {
  return page.evaluate((own) => {
    const foreign = [];
    for (const element of document.querySelectorAll("*")) {
      if (!own.includes(element.localName) || element.namespaceURI !== "http://www.w3.org/1999/xhtml") foreign.push(element.localName);
      for (const { name, value } of element.attributes) {
        if (name.startsWith("on") || ["src", "srcdoc", "action", "formaction"].includes(name)) foreign.push(`${element.localName} ${name}`);
        if (name === "href" && !/^#[a-z]+$/.test(value)) foreign.push(`${element.localName} ${name}=${value}`);
      }
    }
    return { foreign, violations: window.seenViolations, polluted: Object.keys(Object.prototype), ready: document.documentElement.dataset.ready };
  }, [...OWN]);
}

const unfold = (page) => page.evaluate(async () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  await new Promise((resolve) => setTimeout(resolve, 100));
  for (const button of [...document.querySelectorAll(".opener")].slice(0, 60)) button.click();
});

const LOOKS = {
  // The words of each part, with everything unfolded.
  async read(page) {
    await unfold(page);
    return { parts: await page.evaluate(() => Object.fromEntries([...document.querySelectorAll("section")].map((part) => [part.id, part.innerText]))) };
  },

  // What is there without the page's program.
  async plain(page) {
    return { text: await page.locator("body").innerText() };
  },

  async axe(page) {
    await unfold(page);
    await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
    const result = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"], iframes: false }));
    return { axe: result.violations.map((one) => ({ id: one.id, impact: one.impact, help: one.help, nodes: one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)) })), passes: result.passes.length };
  },

  // What the Tab key reaches, in order, and whether each place can be seen to have the focus.
  async keyboard(page) {
    const walked = [];
    for (let step = 0; step < job.steps; step += 1) {
      await page.keyboard.press("Tab");
      walked.push(await page.evaluate(() => {
        const at = document.activeElement;
        const style = getComputedStyle(at);
        return { tag: at.localName, text: (at.getAttribute("aria-label") ?? at.innerText ?? "").slice(0, 60), outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
      }));
    }
    const skipped = await page.evaluate(() => document.querySelector(".skip").focus()).then(() => page.keyboard.press("Enter")).then(() => page.evaluate(() => location.hash));
    await page.locator("details > summary").first().focus();
    await page.keyboard.press("Enter");
    const unfolded = await page.evaluate(() => document.querySelector("details").open);
    await page.locator(".opener").first().focus();
    await page.keyboard.press("Enter");
    const expanded = await page.evaluate(() => [document.querySelector(".opener").getAttribute("aria-expanded"), document.querySelectorAll("tr.detail").length]);
    await page.locator(".theme").focus();
    await page.keyboard.press("Enter");
    const theme = await page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]);
    return { walked, skipped, unfolded, expanded, theme };
  },

  // What a search and each filter leave, by the words that are spoken.
  async search(page) {
    const status = () => page.locator(".events .status").innerText();
    const asked = [];
    for (const [word, filters] of job.asked) {
      await page.locator(".filters button").click();
      for (const [name, value] of Object.entries(filters)) await page.locator(`#events-${name}`).selectOption(value);
      const before = await page.evaluate(() => performance.now());
      await page.evaluate((text) => {
        const field = document.getElementById("events-search");
        field.value = text;
        field.dispatchEvent(new Event("input"));
      }, word);
      const typed = await page.evaluate(async () => {
        await new Promise((resolve) => setTimeout(resolve, 130));
        await new Promise((resolve) => requestAnimationFrame(resolve));
        return performance.now();
      });
      asked.push({ status: await status(), seconds: (typed - before - 130) / 1000, drawn: await page.locator(".rows tbody > tr").count() });
    }
    const tasks = await page.evaluate(() => window.seenTasks);
    const parts = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll("section")].map((part) => [part.id, part.querySelectorAll("*").length])));
    return { asked, parts, longest: Math.max(0, ...tasks) / 1000, nodes: await page.locator("*").count(), heap: await page.evaluate(() => performance.memory.usedJSHeapSize) };
  },

  async narrow(page) {
    return { overflow: await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]) };
  },

  async print(page) {
    await page.emulateMedia({ media: "print" });
    return { hidden: await page.evaluate(() => [...document.querySelectorAll("nav, .filters, .pager")].every((part) => getComputedStyle(part).display === "none")) };
  },

  async picture(page) {
    if (job.theme) await page.evaluate((theme) => (document.documentElement.dataset.theme = theme, document.dispatchEvent(new Event("fumehood-theme"))), job.theme);
    if (job.script) await page.evaluate(job.script);
    if (job.part) await page.evaluate((id) => document.getElementById(id).scrollIntoView({ behavior: "instant" }), job.part);
    await page.waitForTimeout(200);
    await page.screenshot({ path: job.picture, fullPage: job.whole ?? false });
    return {};
  },
};

console.log(JSON.stringify(await opened(LOOKS[job.look])));
