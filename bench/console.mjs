// The browser's part of `cargo xtask bench console`: what is loaded for the first page and how long that takes, and how soon a diff of
// 20,000 lines is open and how it scrolls, in 50 files and in one. Medians of several visits, each with an empty cache of its own.

import { createRequire } from 'node:module';
import { join } from 'node:path';

const VISITS = 9;
const require = createRequire(join(process.env.CREALEPH_BROWSER_TOOLS, 'package.json'));
const { chromium } = require('playwright-core');
const url = process.env.CREALEPH_URL;
const [name, ...value] = process.env.CREALEPH_COOKIE.split('=');

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
});

/** Opens a page with an empty cache and measures with `measure`, several times: the medians. */
async function visits(path, measure) {
  const found = [];
  for (let visit = 0; visit < VISITS; visit += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    await context.addCookies([{ name, value: value.join('='), url }]);
    const page = await context.newPage();
    await page.goto('about:blank');
    await page.goto(url + path, { waitUntil: 'load' });
    found.push(await measure(page));
    await context.close();
  }
  const median = (key) => found.map((one) => one[key]).sort((one, other) => one - other)[VISITS >> 1];
  return Object.fromEntries(Object.keys(found[0]).map((key) => [key, median(key)]));
}

const load = (page) => page.evaluate(async () => {
  const [navigation] = performance.getEntriesByType('navigation');
  const all = [navigation, ...performance.getEntriesByType('resource')];
  // The first paint may come after the page is loaded.
  const painted = await new Promise((done) => {
    const look = (list) => list.getEntriesByName('first-contentful-paint').forEach((paint) => done(paint.startTime));
    new PerformanceObserver(look).observe({ type: 'paint', buffered: true });
  });
  return {
    bytes: all.reduce((sum, entry) => sum + entry.transferSize, 0),
    requests: all.length,
    painted,
    loaded: navigation.loadEventEnd,
  };
});

const first = await visits('/inbox', load);
const signIn = await visits('/sign-in', load);

const openDiff = (run) => visits(`/runs/${run}`, async (page) => ({
  ...(await load(page)),
  ...(await page.evaluate(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const folded = [...document.querySelectorAll('.diff details')];
    const start = performance.now();
    folded.forEach((file) => { file.open = true; });
    await frame();
    const unfolded = performance.now() - start;
    const steps = [];
    // What scrolls is the page with many files, and the file if there is one.
    const box = folded.length === 1 ? folded[0].querySelector('pre') : document.documentElement;
    for (let step = 1; step <= 40; step += 1) {
      const before = performance.now();
      box.scrollTop = (box.scrollHeight * step) / 40;
      await frame();
      steps.push(performance.now() - before);
    }
    steps.sort((one, other) => one - other);
    return { files: folded.length, lines: document.querySelectorAll('.diff pre span').length, unfolded, scrolled: steps[38] };
  })),
}));

const diffs = [await openDiff(process.env.CREALEPH_RUN_OF_FILES), await openDiff(process.env.CREALEPH_RUN_OF_ONE_FILE)];

const ms = (number) => `${number.toFixed(0)} ms`;
console.log('| page | bytes transferred | requests | first paint | loaded | aim |\n|---|---:|---:|---:|---:|---|');
console.log(`| the first one, inbox | ${first.bytes} | ${first.requests} | ${ms(first.painted)} | ${ms(first.loaded)} | 50,000 bytes, 100 ms |`);
console.log(`| sign-in | ${signIn.bytes} | ${signIn.requests} | ${ms(signIn.painted)} | ${ms(signIn.loaded)} | |`);
for (const diff of diffs) {
  console.log(`| a run with a diff of ${diff.lines} lines in ${diff.files} file${diff.files === 1 ? '' : 's'} | ${diff.bytes} | ${diff.requests} | ${ms(diff.painted)} | ${ms(diff.loaded)} | 500 ms |`);
}
console.log('');
for (const diff of diffs) {
  console.log(`Of ${diff.lines} lines in ${diff.files} file${diff.files === 1 ? '' : 's'}: unfolded and painted in ${ms(diff.unfolded)}; of 40 steps through them, 95% took at most ${ms(diff.scrolled)}.`);
}
await browser.close();
