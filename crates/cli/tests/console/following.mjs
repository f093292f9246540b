// The page of a run in progress: an answer that fails, paused updates, more output than a page keeps, and the end; until it is decided.

import { writeFileSync } from 'node:fs';

import { assert, assertAccessible, assertFits, setting, tell } from './browser.mjs';

const run = new URL(`/runs/${setting('CREALEPH_RUN')}`, setting('CREALEPH_URL')).href;
const link = setting('CREALEPH_LINK');
const gate = setting('CREALEPH_GATE');
const verdict = setting('CREALEPH_VERDICT');
const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
const note = (page) => page.locator('[data-follow]');
const output = (page) => page.locator('pre.output');
const parts = (page) => output(page).evaluate((pre) => pre.childNodes.length);
const endsWith = (page, text) => page.waitForFunction((text) => document.querySelector('pre.output').textContent.endsWith(text), text);
const state = (page, words) => page.waitForFunction((words) => document.querySelector('[data-state]').textContent.includes(words), words);

/** The page of the run, with the pointer outside of it. */
async function watch(visitor, prepare = () => {}) {
  const page = await visitor.page();
  await page.context().addCookies(globalThis.cookies);
  await page.addInitScript(prepare);
  await page.goto(run);
  await page.mouse.move(2, 2);
  return page;
}

/** Nothing is read, so nothing keeps the page from renewing itself. */
async function leaveAlone(page) {
  await page.evaluate(() => {
    document.querySelectorAll('main details').forEach((one) => { one.open = false; });
    document.activeElement.blur();
    scrollTo(0, 0);
  });
  await page.mouse.move(2, 2);
}

await tell({
  'an answer without output is said, and the output is requested again': async (visitor) => {
    visitor.allowErrors(/status of 503/);
    const first = await visitor.page();
    await first.goto(link);
    await first.getByRole('button', { name: 'Sign in' }).click();
    await first.waitForURL(/\/inbox$/);
    globalThis.cookies = await first.context().cookies();
    const page = await watch(visitor);
    await page.route('**/output?after=*', (route) => route.fulfill({ status: 503, body: '' }));
    await note(page).getByText('The server answered 503; trying again.').waitFor();
    await page.unroute('**/output?after=*');
    await note(page).getByText('The run is in progress; its output appears here.').waitFor();
  },

  'output does not grow while updates are paused, and not without end; what is left out is linked': async (visitor) => {
    const page = await watch(visitor);
    const menu = page.locator('.who summary');
    const choose = async (name) => {
      await menu.click();
      await page.getByRole('button', { name }).click();
      await menu.click();
    };
    await endsWith(page, '\n100\n');
    await choose('Pause updates');
    await note(page).getByText('Updates are paused').waitFor();
    const requests = [];
    page.on('request', (request) => requests.push(request.url()));
    writeFileSync(gate, '');
    await pause(3000);
    assert.deepEqual(requests, []);
    await endsWith(page, '\n100\n');
    // For someone who reads further up nothing is removed, and at some point nothing is appended.
    await output(page).evaluate((pre) => { pre.scrollTop = 0; });
    await choose('Resume updates');
    await note(page).getByText('New output is not shown while you read further up.').waitFor();
    const all = new URL(`${run}/output`).pathname;
    assert.equal(await note(page).getByRole('link', { name: 'Show all output' }).getAttribute('href'), all);
    const kept = await parts(page);
    assert.ok(kept > 4000 && kept < 13_000, `${kept} parts`);
    await pause(2500);
    assert.equal(await parts(page), kept);
    assert.match(await output(page).textContent(), /^agent\n1\n2\n/);
    await assertFits(page, 360);
    await page.setViewportSize({ width: 1280, height: 800 });
    // At the end the rest appears, and what is removed for it is said.
    assert.equal(await page.locator('p.cut').count(), 0);
    await output(page).evaluate((pre) => { pre.scrollTop = pre.scrollHeight; });
    await endsWith(page, '\n14000\n');
    assert.ok(await parts(page) <= 4000);
    assert.equal(await page.locator('p.cut').innerText(), 'Earlier output is not shown. Show it from the start');
    assert.equal(await page.locator('p.cut a').getAttribute('href'), all);
    await note(page).getByText('The run is in progress; its output appears here.').waitFor();
    await assertAccessible(page);
  },

  'a run that ended says so until its end is shown, and is then followed until it is decided': async (visitor) => {
    visitor.allowErrors(/status of 500/);
    const page = await watch(visitor);
    // Without locks, each page that concerns entries reads its own stream.
    const alone = await watch(visitor, () => Object.defineProperty(Navigator.prototype, 'locks', { get: () => undefined }));
    const streams = [];
    alone.on('request', (request) => { if (request.url().includes('/v1/events')) streams.push(request.url()); });
    await alone.reload();
    await alone.mouse.move(2, 2);
    await endsWith(alone, '\n14000\n');
    await page.route(run, (route) => route.fulfill({ status: 500, headers: { 'x-request-id': 'r-18' }, body: '' }));
    await page.evaluate(() => { document.title = 'before'; });
    await pause(1500);
    assert.deepEqual(streams, [], 'no entry concerns the page of a running run');
    writeFileSync(gate, '');
    await page.locator('.changed').getByText('The server answered 500 (request r-18).').waitFor();
    const end = note(page).getByRole('button', { name: 'Show how it ended' });
    await end.waitFor();
    await page.unroute(run);
    await end.click();
    for (const one of [page, alone]) {
      await one.getByRole('heading', { name: 'Change' }).waitFor();
      await state(one, 'held');
      await leaveAlone(one);
    }
    assert.match(await page.title(), /^Run /);
    assert.ok(await page.locator('.changed').isHidden());
    if (streams.length === 0) await alone.waitForRequest(/\/v1\/events/);
    const closed = alone.waitForEvent('requestfailed', (request) => request.url().includes('/v1/events'));
    writeFileSync(verdict, '');
    for (const one of [page, alone]) await state(one, 'failed');
    await closed;
    assert.equal(streams.length, 1, `it ends with what concerned the page: ${streams.join(' ')}`);
  },
});
