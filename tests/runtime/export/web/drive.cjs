// Drives a page in headless Chromium: node drive.cjs JOB, which prints what was read as JSON.
//
// JOB is JSON: playwright (the folder of playwright-core), chromium (the program), url, colours
// ("light" or "dark"), width, and steps, each an array of a name and its arguments.

const fs = require("fs"), os = require("os"), path = require("path");
const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const { chromium } = require(job.playwright);

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PATIENCE = 120000;

async function main() {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), "chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: job.chromium, headless: true, args: FLAGS, acceptDownloads: true,
    colorScheme: job.colours ?? "light", viewport: { width: job.width ?? 1180, height: 900 },
  });
  const page = context.pages()[0] ?? await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const told = { console: [], requests: [], read: {} };
  page.on("console", (message) => told.console.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => told.console.push(`pageerror: ${error}`));
  page.on("request", (request) => told.requests.push(request.url()));

  // The answer of a form follows what was typed last: two frames after it, or once its run is over.
  const settle = () => page.waitForFunction(() => document.documentElement.dataset.busy !== "yes");
  const steps = {
    fill: (selector, text) => page.fill(selector, text),
    check: (selector) => page.check(selector),
    select: (selector, value) => page.selectOption(selector, value),
    press: (key) => page.keyboard.press(key),
    click: (selector) => page.click(selector),
    focus: (selector) => page.focus(selector),
    file: (selector, name) => page.setInputFiles(selector, name),
    wait: (selector) => page.waitForSelector(selector),
    scroll: (selector) => page.locator(selector).scrollIntoViewIfNeeded(),
    text: async (name, selector) => { told.read[name] = await page.textContent(selector); },
    texts: async (name, selector) => { told.read[name] = await page.locator(selector).allTextContents(); },
    evaluate: async (name, code) => { told.read[name] = await page.evaluate(code); },
    picture: (name, whole) => page.screenshot({ path: name, fullPage: Boolean(whole) }),
    download: async (selector, name) => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
      await download.saveAs(name);
    },
    drop: async (selector, name) => {
      const transfer = await page.evaluateHandle(([text, called]) => {
        const data = new DataTransfer();
        data.items.add(new File([text], called, { type: "text/csv" }));
        return data;
      }, [fs.readFileSync(name, "utf8"), path.basename(name)]);
      await page.dispatchEvent(selector, "drop", { dataTransfer: transfer });
    },
  };

  await page.goto(job.url);
  await page.waitForFunction(() => document.documentElement.dataset.state !== undefined);
  for (const [name, ...rest] of job.steps) {
    await steps[name](...rest);
    await settle();
  }
  told.state = await page.evaluate(() => document.documentElement.dataset.state);
  await context.close();
  fs.rmSync(profile, { recursive: true, force: true });
  process.stdout.write(JSON.stringify(told));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
