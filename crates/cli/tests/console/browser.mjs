// What stories share: one chromium for a script, pages that report everything a person must never meet, axe-core, screenshots.

import assert from 'node:assert/strict';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';

export { assert };

const OLDEST_NODE = 20;
const SCHEMES = ['light', 'dark'];
const FLAGS = [
  '--no-sandbox', // tests run as root
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
];

if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
  throw new Error(`node ${process.versions.node} is too old; install Node.js ${OLDEST_NODE} or newer`);
}

const require = createRequire(join(setting('CREALEPH_BROWSER_TOOLS'), 'package.json'));
const { chromium } = require('playwright-core');
const axeSource = require('axe-core').source;

/** A variable that the Rust side sets. */
export function setting(name) {
  const value = process.env[name];
  if (!value) throw new Error(`the variable ${name} is not set; run \`cargo test -p crealeph-cli --test console\``);
  return value;
}

/** Tells stories one after the other in one browser; each has a context of its own. All are told; the script fails if one did. */
export async function tell(stories) {
  const browser = await chromium.launch({ executablePath: chromiumPath(), headless: true, args: FLAGS });
  let failed = 0;
  for (const [name, story] of Object.entries(stories)) {
    const visitor = new Visitor(browser, name);
    try {
      await story(visitor);
      visitor.assertQuiet();
      console.log(`ok: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED: ${name}\n${error.stack ?? error}`);
      visitor.problems.forEach((problem) => console.log(`  also: ${problem}`));
      await visitor.screenshotAll().catch((reason) => console.log(`  no screenshot: ${reason}`));
    } finally {
      await visitor.leave();
    }
  }
  await browser.close();
  process.exitCode = failed === 0 ? 0 : 1;
}

function chromiumPath() {
  const folders = ['/usr/bin', ...(process.env.PATH ?? '').split(delimiter)];
  for (const path of folders.map((folder) => join(folder, 'chromium'))) {
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  throw new Error('chromium is not installed; install the Debian package chromium');
}

/** A person with browsers of their own: what goes wrong on any of their pages is collected. */
class Visitor {
  constructor(browser, name) {
    this.browser = browser;
    this.name = name;
    this.contexts = [];
    this.problems = [];
    this.allowedErrors = [];
  }

  /** A new page with cookies of its own. `options` are Playwright's for a context. */
  async page(options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    this.contexts.push(context);
    context.setDefaultTimeout(30_000);
    context.on('page', (page) => this.#watch(page));
    context.on('request', (request) => this.#judge(request));
    return context.newPage();
  }

  /** Console errors that the story provokes, for example by an answer with an error status. */
  allowErrors(pattern) {
    this.allowedErrors.push(pattern);
  }

  #watch(page) {
    page.on('console', (message) => {
      if (message.type() === 'error') this.#note(`console error: ${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => this.#note(`uncaught error: ${error.stack ?? error}`));
  }

  #note(problem) {
    if (!this.allowedErrors.some((pattern) => pattern.test(problem))) this.problems.push(problem);
  }

  #judge(request) {
    const url = new URL(request.url());
    const own = process.env.CREALEPH_URL && new URL(process.env.CREALEPH_URL).host;
    const isOwn = ['data:', 'blob:', 'file:', 'about:'].includes(url.protocol) || url.host === own;
    if (!isOwn) this.problems.push(`request to another host: ${request.url()}`);
  }

  assertQuiet() {
    assert.deepEqual(this.problems, [], 'a page reported problems');
  }

  async screenshotAll() {
    const pages = this.contexts.flatMap((context) => context.pages());
    for (const [number, page] of pages.entries()) await screenshot(page, `failed-${this.name.replaceAll(/\W+/g, '-')}-${number}`);
  }

  async leave() {
    for (const context of this.contexts) await context.close();
  }
}

/** No violation of axe-core's rules, in both color schemes. */
export async function assertAccessible(page) {
  const violations = [];
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axeSource);
    const result = await page.evaluate(() => globalThis.axe.run(document, { preload: false, rules: { 'target-size': { enabled: true } } }));
    for (const { id, help, nodes } of result.violations) {
      const places = nodes.slice(0, 5).map((node) => `    ${node.target.join(' ')}: ${node.failureSummary}`);
      violations.push([`  ${colorScheme}: ${id}: ${help} (${nodes.length})`, ...places].join('\n'));
    }
  }
  assert.equal(violations.join('\n'), '', `axe-core on ${page.url()}`);
}

/** The page does not scroll sideways in a window of this width. */
export async function assertFits(page, width) {
  await page.setViewportSize({ width, height: 800 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= width, `the page is ${wide} px wide in a window of ${width} px`);
  const outside = await page.evaluate(() => [...document.querySelectorAll('.menu, main > *')].find((one) => one.checkVisibility() && one.getBoundingClientRect().left < 0)?.outerHTML);
  assert.equal(outside, undefined, 'something begins left of the window');
  const scrolls = await page.evaluate(() => [...document.querySelectorAll('pre')].find((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth && one.tabIndex < 0)?.outerHTML);
  assert.equal(scrolls, undefined, 'keys cannot scroll it');
}

/** Leaves a picture of the page for the documents, whatever window and scheme it is in. */
export async function documentPicture(page, name, height = 700) {
  const before = page.viewportSize();
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1100, height });
  await page.evaluate(() => scrollTo(0, 0));
  await screenshot(page, `console-${name}`);
  await page.setViewportSize(before);
}

/** Leaves a picture of the page for people. */
export async function screenshot(page, name) {
  const folder = setting('CREALEPH_SCREENSHOTS');
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}
