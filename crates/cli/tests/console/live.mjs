// Pages that keep themselves current: in two browsers, after the event stream was lost, and never under someone's hands.

import { assert, setting, tell } from './browser.mjs';

const base = setting('CREALEPH_URL');
const token = setting('CREALEPH_TOKEN');
const links = setting('CREALEPH_LINKS').split(' ');
const go = (page, path) => page.goto(new URL(path, base).href);

/** A page of a browser with cookies, storage and a stream of its own, with the pointer outside of what is read. */
async function enter(visitor) {
  const page = await visitor.page();
  await page.goto(links.shift());
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(/\/inbox$/);
  await page.mouse.move(2, 2);
  return page;
}

async function append(robotId, type) {
  const answer = await fetch(new URL('/v1/entries', base), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ robotId, module: 'm', source: 's', type, state: 'final', payload: { text: 'x'.repeat(1000) } }),
  });
  assert.equal(answer.status, 200);
}

const shows = (page, text) => page.waitForFunction((text) => document.querySelector('main').innerText.includes(text), text);
const bar = (page) => page.locator('.changed');

await tell({
  'two browsers show what is new, without being asked': async (visitor) => {
    const [one, other] = [await enter(visitor), await enter(visitor)];
    await go(one, '/robots/shop-17');
    await go(other, '/ledger');
    await append('shop-17', 'live-one');
    for (const page of [one, other]) await shows(page, 'live-one');
    // A robot's page is not touched by another robot's entry.
    await one.evaluate(() => { globalThis.heading = document.querySelector('main h1'); });
    await append('another-robot', 'live-two');
    await shows(other, 'live-two');
    await append('shop-17', 'live-three');
    await shows(one, 'live-three');
    assert.ok(!(await one.locator('main').innerText()).includes('live-two'));
  },

  'the tab that reads the stream may close, and nothing is missed': async (visitor) => {
    const first = await enter(visitor);
    const streams = [];
    first.context().on('request', (request) => { if (request.url().includes('/v1/events')) streams.push(request.url()); });
    await Promise.all([first.waitForRequest(/\/v1\/events/), go(first, '/robots')]);
    const second = await first.context().newPage();
    await go(second, '/ledger');
    await second.bringToFront();
    await append('shop-17', 'tab-one');
    await shows(second, 'tab-one');
    assert.equal(streams.length, 1, 'tabs share one stream');
    await first.close();
    await append('shop-17', 'tab-two');
    await shows(second, 'tab-two');
    assert.equal(streams.length, 2);
    assert.match(streams[1], /payload=none&after=\d+$/, 'the other tab goes on from where it was');
  },

  'a stream that is lost is said, and what it missed is shown': async (visitor) => {
    visitor.allowErrors(/status of 503/);
    const page = await enter(visitor);
    await page.route('**/v1/events?*', (route) => route.fulfill({ status: 503, body: '' }));
    await go(page, '/ledger');
    await bar(page).getByText('Live updates stopped.').waitFor();
    await append('shop-17', 'missed-one');
    await bar(page).getByRole('button', { name: 'Refresh' }).click();
    await shows(page, 'missed-one');
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'H1', 'the focus is at what was renewed');
    await page.evaluate(() => document.activeElement.blur());
    await page.mouse.move(2, 2);
    await append('shop-17', 'missed-two');
    await page.unroute('**/v1/events?*');
    await shows(page, 'missed-two');
    await bar(page).waitFor({ state: 'hidden' });
  },

  'a session that ends elsewhere is said': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/ledger');
    const form = await page.locator('input[name="form"]').first().inputValue();
    const left = await page.request.post(new URL('/sign-out', base).href, { form: { form }, headers: { origin: new URL(base).origin } });
    assert.equal(left.status(), 200);
    await bar(page).getByText('You are signed out.').waitFor();
    await bar(page).getByRole('button', { name: 'Refresh' }).click();
    await page.waitForURL(/\/sign-in\?next=%2Fledger$/);
  },

  'what someone types stays, whatever arrives': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/ledger');
    const field = page.locator('.filter input').first();
    await field.fill('half a wo');
    await field.press('Escape');
    await append('shop-17', 'typed-one');
    await bar(page).getByText('1 new entry.').waitFor();
    await append('shop-17', 'typed-two');
    await bar(page).getByText('2 new entries.').waitFor();
    assert.equal(await field.inputValue(), 'half a wo');
    await bar(page).getByRole('button', { name: 'Show' }).click();
    await shows(page, 'typed-two');
    assert.ok(await bar(page).isHidden());
  },

  'single keys can be turned off': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/robots');
    const toggle = async (name) => {
      await page.locator('.who summary').click();
      await page.getByRole('button', { name }).click();
      await page.locator('.who summary').click();
      await page.evaluate(() => document.activeElement.blur());
    };
    await toggle('Turn keyboard shortcuts off');
    for (const key of ['?', 'g', 'l']) await page.keyboard.press(key);
    assert.equal(await page.getByRole('dialog').count(), 0);
    await page.reload();
    await page.keyboard.press('?');
    assert.equal(await page.getByRole('dialog').count(), 0, 'it is remembered');
    await toggle('Turn keyboard shortcuts on');
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    // Keys are not for the page while the dialog is open.
    await page.keyboard.press('g');
    await page.keyboard.press('l');
    assert.match(page.url(), /\/robots$/);
  },
});
