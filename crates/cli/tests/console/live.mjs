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
const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
/** How often a page renews itself at most. */
const RENEW_MS = 3000;

/** Signs in again with the next link, in another tab of the browser: that ends the session that it had. */
async function signInAgain(page) {
  const tab = await page.context().newPage();
  await tab.goto(links.shift());
  await tab.getByRole('button', { name: 'Sign in' }).click();
  await tab.waitForURL(/\/inbox$/);
  return tab;
}

/** Chooses something in the menu, and leaves it. */
async function choose(page, name) {
  await page.locator('.who summary').click();
  await page.getByRole('button', { name }).click();
  await page.locator('.who summary').click();
  await page.evaluate(() => document.activeElement.blur());
  await page.mouse.move(2, 2);
}

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
    await pause(RENEW_MS + 500);
    assert.ok(await one.evaluate(() => globalThis.heading.isConnected), 'the page was not renewed');
    assert.ok(await bar(one).isHidden());
    await append('shop-17', 'live-three');
    await shows(one, 'live-three');
    assert.ok(!(await one.locator('main').innerText()).includes('live-two'));
    // Neither is a list of one robot's entries, or of one type.
    for (const [at, list] of ['/ledger?robot=shop-17', '/ledger?type=live-three', '/executions?robot=shop-17', '/runs'].entries()) {
      await go(one, list);
      await one.evaluate(() => { globalThis.heading = document.querySelector('main h1'); });
      await append('another-robot', `elsewhere-${at}`);
      await shows(other, `elsewhere-${at}`);
      await pause(500);
      assert.ok(await one.evaluate(() => globalThis.heading.isConnected), `${list} was renewed`);
      assert.ok(await bar(one).isHidden(), list);
    }
    await go(one, '/ledger?type=live%20four');
    await append('another-robot', 'live four');
    await shows(one, 'another-robot');
  },

  'a held change and its run are renewed by what is decided about them': async (visitor) => {
    const page = await enter(visitor);
    await page.getByRole('link', { name: 'Give the discount' }).click();
    await page.waitForURL(/\/inbox\/.+/);
    const paths = [new URL(page.url()).pathname, await page.locator('a[href^="/runs/"]').first().getAttribute('href')];
    for (const path of paths) {
      await go(page, path);
      await page.mouse.move(2, 2);
      // Its diff is short, and open: nothing moves while someone reads it.
      await page.evaluate(() => document.querySelectorAll('main details').forEach((one) => { one.open = false; }));
      await page.evaluate(() => { globalThis.heading = document.querySelector('main h1'); });
      await append('shop-17', 'unrelated');
      await pause(1500);
      assert.ok(await page.evaluate(() => globalThis.heading.isConnected), `${path} was renewed`);
      assert.ok(await bar(page).isHidden(), path);
      const types = (await page.locator('main').getAttribute('data-types')).split('\n');
      for (const type of ['verdict', 'landing', 'landing_outcome', 'run_receipt']) assert.ok(types.includes(type), `${path}: ${types}`);
    }
  },

  'the tab that reads the stream may close, and nothing is missed': async (visitor) => {
    const first = await enter(visitor);
    // The page of the inbox may request its stream late.
    await first.goto('about:blank');
    const streams = [];
    first.context().on('request', (request) => { if (request.url().includes('/v1/events')) streams.push(request.url()); });
    await Promise.all([first.waitForRequest(/\/v1\/events/), go(first, '/robots')]);
    const second = await first.context().newPage();
    await go(second, '/ledger');
    await second.bringToFront();
    await append('shop-17', 'tab-one');
    await shows(second, 'tab-one');
    assert.equal(streams.length, 1, `tabs share one stream: ${streams.join(' ')}`);
    await first.close();
    await append('shop-17', 'tab-two');
    await shows(second, 'tab-two');
    assert.equal(streams.length, 2, `the other tab has its own: ${streams.join(' ')}`);
    assert.match(streams[1], /payload=none&after=\d+$/, 'the other tab goes on from where it was');
  },

  'what arrives while a page is being renewed is shown too': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/ledger');
    let isFirst = true;
    await page.route('**/ledger', async (route) => {
      const answer = await route.fetch();
      if (isFirst) {
        isFirst = false;
        await append('shop-17', 'meanwhile-two');
        // Longer than the stream takes.
        await pause(1500);
      }
      await route.fulfill({ response: answer });
    });
    await append('shop-17', 'meanwhile-one');
    await shows(page, 'meanwhile-one');
    await shows(page, 'meanwhile-two');
    await bar(page).waitFor({ state: 'hidden' });
  },

  'a tab that shows more than the stream told leaves nothing out for the others': async (visitor) => {
    visitor.allowErrors(/status of 503/);
    const first = await enter(visitor);
    await first.context().route('**/v1/events?*', (route) => route.fulfill({ status: 503, body: '' }));
    await go(first, '/ledger');
    const second = await first.context().newPage();
    await go(second, '/ledger');
    await second.mouse.move(2, 2);
    for (const page of [first, second]) await bar(page).getByText('Live updates stopped.').waitFor();
    await append('shop-17', 'told-later');
    await bar(first).getByRole('button', { name: 'Refresh' }).click();
    await shows(first, 'told-later');
    await first.context().unroute('**/v1/events?*');
    await second.bringToFront();
    await shows(second, 'told-later');
  },

  'a failed refresh names the request': async (visitor) => {
    visitor.allowErrors(/status of 500/);
    const page = await enter(visitor);
    await go(page, '/ledger');
    const field = page.locator('.filter input').first();
    await field.fill('busy');
    await append('shop-17', 'refused-one');
    await page.route('**/ledger', (route) => route.fulfill({ status: 500, headers: { 'x-request-id': 'r-17' }, body: '' }));
    await bar(page).getByRole('button', { name: 'Show' }).click();
    await bar(page).getByText('The server answered 500 (request r-17).').waitFor();
    await page.unroute('**/ledger');
    await bar(page).getByRole('button', { name: 'Refresh' }).click();
    await shows(page, 'refused-one');
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
    await append('shop-17', 'before-the-end');
    await shows(page, 'before-the-end');
    const form = await page.locator('input[name="form"]').first().inputValue();
    const left = await page.request.post(new URL('/sign-out', base).href, { form: { form }, headers: { origin: new URL(base).origin } });
    assert.equal(left.status(), 200);
    await bar(page).getByText('You are signed out.').waitFor();
    await bar(page).getByRole('button', { name: 'Refresh' }).click();
    await page.waitForURL(/\/sign-in\?next=%2Fledger$/);
  },

  'a session that ended while the stream was lost is said too': async (visitor) => {
    visitor.allowErrors(/status of 503/);
    const page = await enter(visitor);
    await page.route('**/v1/events?*', (route) => route.fulfill({ status: 503, body: '' }));
    await go(page, '/ledger');
    await bar(page).getByText('Live updates stopped.').waitFor();
    const form = await page.locator('input[name="form"]').first().inputValue();
    await page.request.post(new URL('/sign-out', base).href, { form: { form }, headers: { origin: new URL(base).origin } });
    await bar(page).getByText('You are signed out.').waitFor();
  },

  'tabs of a session that ended say so until they are loaded again, also if someone signs in elsewhere': async (visitor) => {
    const first = await enter(visitor);
    await go(first, '/ledger');
    await append('shop-17', 'again-zero');
    await shows(first, 'again-zero');
    const second = await first.context().newPage();
    await go(second, '/robots');
    const third = await signInAgain(first);
    for (const page of [first, second]) await bar(page).getByText('You are signed out.').waitFor();
    await go(third, '/ledger');
    await append('shop-17', 'again-one');
    await shows(third, 'again-one');
    for (const page of [first, second]) assert.match(await bar(page).innerText(), /You are signed out\./);
    await third.close();
    await first.bringToFront();
    await Promise.all([first.waitForEvent('load'), bar(first).getByRole('button', { name: 'Refresh' }).click()]);
    await shows(first, 'again-one');
    assert.match(await first.locator('.who summary').innerText(), /^operator /, 'the header is of the new session');
    await append('shop-17', 'again-two');
    await shows(first, 'again-two');
  },

  'what another session sees is never shown under the header of this one': async (visitor) => {
    visitor.allowErrors(/status of 503/);
    const page = await enter(visitor);
    // It never hears that its session ended.
    await page.route('**/v1/events?*', (route) => route.fulfill({ status: 503, body: '' }));
    await go(page, '/ledger');
    await bar(page).getByText('Live updates stopped.').waitFor();
    await (await signInAgain(page)).close();
    await bar(page).getByRole('button', { name: 'Refresh' }).click();
    await page.getByText(/^operator /).waitFor();
    await page.locator('.who summary').click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(/\/sign-in$/);
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
    const keys = page.getByText('Keys: / search');
    assert.ok(await keys.isVisible());
    await choose(page, 'Turn keyboard shortcuts off');
    assert.ok(await keys.isHidden(), 'keys that do nothing are not named');
    for (const key of ['?', 'g', 'l']) await page.keyboard.press(key);
    assert.equal(await page.getByRole('dialog').count(), 0);
    await page.reload();
    await page.keyboard.press('?');
    assert.equal(await page.getByRole('dialog').count(), 0, 'it is remembered');
    await choose(page, 'Turn keyboard shortcuts on');
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    // Keys are not for the page while the dialog is open.
    await page.keyboard.press('g');
    await page.keyboard.press('l');
    assert.match(page.url(), /\/robots$/);
  },

  'updates can be paused': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/ledger');
    await choose(page, 'Pause updates');
    await append('shop-17', 'paused-one');
    await bar(page).getByText('1 new entry.').waitFor();
    await pause(RENEW_MS + 1500);
    assert.ok(!(await page.locator('main').innerText()).includes('paused-one'), 'nothing is shown unasked');
    await bar(page).getByRole('button', { name: 'Show' }).click();
    await shows(page, 'paused-one');
    await page.reload();
    await append('shop-17', 'paused-two');
    await bar(page).getByText('1 new entry.').waitFor();
    await pause(RENEW_MS + 1500);
    assert.ok(!(await page.locator('main').innerText()).includes('paused-two'), 'it is remembered');
    await choose(page, 'Resume updates');
    await shows(page, 'paused-two');
    await append('shop-17', 'paused-three');
    await shows(page, 'paused-three');
    const still = await visitor.page({ javaScriptEnabled: false });
    await still.context().addCookies(await page.context().cookies());
    await go(still, '/ledger');
    await still.locator('.who summary').click();
    assert.deepEqual(await still.locator('.menu button:visible').allInnerTexts(), ['Sign out']);
  },
});
