// The console's pages: each is read, by each role, with and without scripts, in a narrow window, by keyboard; and renews itself.

import { assert, assertAccessible, assertFits, documentPicture, screenshot, setting, tell } from './browser.mjs';

const base = setting('CREALEPH_URL');
const token = setting('CREALEPH_TOKEN');
const logKey = setting('CREALEPH_LOG_KEY');
const links = setting('CREALEPH_LINKS').split(' ');

/** A page of someone who signed in with the next link. */
async function enter(visitor, options) {
  const page = await visitor.page(options);
  await page.goto(links.shift());
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(/\/(inbox|access)$/);
  return page;
}

const go = (page, path) => page.goto(new URL(path, base).href);
const hrefs = (page, selector) => page.locator(selector).evaluateAll((all) => all.map((one) => one.getAttribute('href')));

/** One page of each kind, found by following links as a person would. */
async function everyPage(page) {
  const paths = ['/inbox', '/robots', '/executions', '/runs', '/ledger', '/policy?minConfidence=0.99', '/usage?by=day', '/access', '/search?q=shop'];
  await go(page, '/inbox');
  paths.push(...(await hrefs(page, '.cards h2 a')).slice(0, 2));
  await go(page, '/executions?state=failed');
  paths.push(...(await hrefs(page, 'tbody th a')).slice(0, 1), '/robots/shop-17');
  await go(page, '/executions?state=planned');
  paths.push(...(await hrefs(page, 'tbody th a')).slice(0, 1));
  await go(page, '/runs');
  paths.push(...(await hrefs(page, 'tbody th a')).slice(0, 1));
  await go(page, '/ledger?type=signal');
  paths.push(...(await hrefs(page, 'tbody th a')).slice(0, 2));
  assert.equal(paths.length, 17, paths.join('\n'));
  return paths;
}

/** What a browser without a cache loads for a page, in bytes; of a full inbox, if it has as many rows as a list at most. */
async function firstPageBytes(page) {
  const HEADERS = 400;
  const ROWS = 50;
  return page.evaluate(([headers, rows]) => {
    const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    const bytes = loaded.reduce((sum, one) => sum + one.encodedBodySize + headers, 0);
    const cards = [...document.querySelectorAll('.cards > li')].map((card) => new Blob([card.outerHTML]).size);
    const all = cards.reduce((sum, one) => sum + one, 0);
    return Math.round(bytes - all + (rows * all) / cards.length);
  }, [HEADERS, ROWS]);
}

await tell({
  'the first page is small, with a full inbox too': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/inbox');
    const bytes = await firstPageBytes(page);
    assert.ok(bytes < 48_000, `${bytes} bytes, where the goal is 50,000`);
    const scripts = await page.evaluate(() => performance.getEntriesByType('resource').map((one) => one.name.split('-').at(-1)));
    assert.deepEqual(scripts.filter((name) => name.endsWith('.js')), ['console.js'], 'scripts of other pages are loaded there');
  },

  'every page reads, is accessible and fits a phone': async (visitor) => {
    const page = await enter(visitor);
    for (const path of await everyPage(page)) {
      await page.setViewportSize({ width: 1280, height: 800 });
      const answer = await go(page, path);
      assert.equal(answer.status(), 200, path);
      const loaded = await page.evaluate(() => performance.getEntriesByType('resource').map((one) => one.name));
      assert.equal(loaded.some((name) => name.endsWith('passkeys.js')), path.startsWith('/inbox/'), `${path} loads ${loaded}`);
      await assertAccessible(page);
      await page.locator('.who summary').click();
      await assertFits(page, 360);
    }
  },

  'each role finds the pages that it is shown, and is refused the others in words': async (visitor) => {
    visitor.allowErrors(/403/);
    const first = await enter(visitor);
    const paths = await everyPage(first);
    const refused = ['/inbox', '/robots/shop-17', '/executions', '/runs', '/ledger', '/policy', '/usage', '/search?q=x'];
    for (const role of ['reader', 'writer', 'auditor', 'operator', 'admin']) {
      const page = await enter(visitor);
      assert.match(await page.locator('.who summary').innerText(), new RegExp(`^${role} `));
      const reads = role !== 'admin';
      for (const link of await hrefs(page, 'nav a')) assert.equal((await go(page, link)).status(), 200, `${role} ${link}`);
      for (const path of reads ? paths : refused) assert.equal((await go(page, path)).status(), reads ? 200 : 403, `${role} ${path}`);
      if (!reads) assert.match(await page.locator('main').innerText(), /a key of the role admin cannot be used for this/);
      const pages = page.context().pages();
      await pages[0].close();
    }
  },

  'pictures of the main pages': async (visitor) => {
    const page = await enter(visitor, { viewport: { width: 1100, height: 760 } });
    for (const [name, path, link] of [
      ['inbox', '/inbox'], ['robot', '/robots/shop-17'], ['execution', '/executions?state=failed', 'tbody th a'], ['approval', '/inbox', '.cards h2 a'],
    ]) {
      await go(page, path);
      if (link) await page.locator(link).first().click();
      await page.waitForLoadState();
      await screenshot(page, `console-${name}`);
    }
    await go(page, '/policy?minLineageCount=9');
    await documentPicture(page, 'policy', 480);
  },

  'a change is read, and the page says how to decide about it': async (visitor) => {
    const page = await enter(visitor);
    await page.getByRole('link', { name: 'Give the discount' }).click();
    const text = await page.locator('main').innerText();
    for (const said of [/Give the discount waiting/i, /sh test\.sh/, /price\.sh \+1 −1/, /crealeph approve [0-9a-f-]{36}/]) assert.match(text, said);
    await go(page, '/runs');
    await page.getByRole('row', { name: 'Be cheaper' }).getByRole('rowheader').getByRole('link').click();
    const run = await page.locator('main').innerText();
    for (const said of [/Tests failed/, /price\.sh/, /echo \$\(\(\$1 \* 400\)\)/]) assert.match(run, said);
    // What would change a verdict.
    await go(page, '/executions?state=failed');
    await page.locator('tbody th a').first().click();
    assert.match(await page.locator('main').innerText(), /To change it: regenerate idea: run ideator\.run/);
    assert.match(await page.locator('main').innerText(), /idea, less than a minute old outdated/i);
    await page.getByText('Every rule in its order').click();
    assert.match(await page.locator('main').innerText(), /coherence\.stale decided\s+2?\.?\s*coherence\.partial\.draft_only not evaluated/);
    // Moving a threshold shows which decisions flip.
    await go(page, '/policy');
    await page.getByLabel(/minLineageCount/).fill('50');
    await page.getByRole('button', { name: 'Backtest' }).click();
    assert.match(await page.locator('main').innerText(), /4 decisions looked at, 3 decisions would be different/);
  },

  'what others wrote is text, and a page renews itself': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/ledger');
    assert.equal(await page.title(), 'Ledger · CreAleph');
    assert.match(await page.locator('main').innerText(), /<\/td><script>/);
    const other = await page.context().newPage();
    await go(other, '/robots');
    await page.mouse.move(2, 2);
    const appended = await fetch(new URL('/v1/entries', base), {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ robotId: 'fresh-robot', module: 'm', source: 's', type: 'signal', state: 'final', payload: {} }),
    });
    assert.equal(appended.status, 200);
    // One reads the stream and tells the other; each is renewed by itself or by its button.
    for (const one of [page, other]) {
      await one.bringToFront();
      await one.waitForFunction(() => document.body.innerText.includes('fresh-robot') || !document.querySelector('.changed').hidden);
      const button = one.locator('.changed button');
      if (await button.isVisible()) await button.click();
      await one.waitForFunction(() => document.querySelector('main').innerText.includes('fresh-robot'));
    }
    assert.equal(await page.title(), 'Ledger · CreAleph');
  },

  'a reader without scripts, and by keyboard': async (visitor) => {
    const link = links.shift();
    const context = { javaScriptEnabled: false };
    const still = await visitor.page(context);
    await still.goto(link);
    await still.getByRole('button', { name: 'Sign in' }).click();
    for (const path of ['/inbox', '/robots/shop-17', '/executions', '/runs', '/ledger', '/usage', '/search?q=shop']) {
      assert.equal((await go(still, path)).status(), 200, path);
      assert.ok((await still.locator('main h1').innerText()).length > 0, path);
    }
    const cookies = await still.context().cookies();
    assert.ok(await still.getByText('Keys: / search').isHidden(), 'there are no keys without scripts');
    assert.ok(cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === 'Lax', JSON.stringify(cookies));
    const page = await visitor.page();
    await page.context().addCookies(cookies);
    await go(page, '/robots');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/robots\/.+/);
    await page.keyboard.press('g');
    await page.keyboard.press('l');
    await page.waitForURL(/\/ledger$/);
    await page.keyboard.press('/');
    await page.keyboard.type('shop');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/search\?q=shop$/);
    assert.match(await page.locator('main').innerText(), /robot\s+shop-17/);
    // What is decided in a terminal is gone to as well.
    await go(page, '/inbox');
    await page.keyboard.press('j');
    await page.keyboard.press('a');
    await page.waitForURL(/\/inbox\/.+#approve$/);
    await page.waitForFunction(() => document.activeElement?.innerText?.includes('crealeph approve'));
    await page.keyboard.press('?');
    assert.ok(await page.getByRole('dialog').isVisible());
    await assertAccessible(page);
    await page.keyboard.press('Escape');
    // A row without a link has the focus itself: Enter opens no other one.
    await go(page, '/robots/shop-17');
    const row = (await page.locator('[data-row]').allInnerTexts()).findIndex((text) => /^benchmark\s+missing/i.test(text));
    assert.ok(row > 0, 'nothing is missing');
    for (let press = 0; press <= row; press += 1) await page.keyboard.press('j');
    assert.equal(await page.evaluate(() => document.activeElement.closest('[data-row]')?.querySelector('th').innerText), 'benchmark');
    await page.keyboard.press('Enter');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/ledger\/.+/);
    // Two runs are marked and compared.
    await go(page, '/runs');
    await page.locator('input[name="a"]').first().focus();
    await page.keyboard.press('ArrowDown');
    for (let press = 0; press < 40; press += 1) {
      if (await page.evaluate(() => document.activeElement.textContent === 'Compare A and B')) break;
      await page.keyboard.press('Tab');
    }
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/runs\/compare\?/);
    await page.locator('.who summary').click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(/\/sign-in$/);
    await assertAccessible(page);
    await go(still, '/robots');
    assert.match(still.url(), /\/sign-in\?next=/, 'the session is over in every window');
  },

  'an entry is verified in the browser, and a forged answer is not': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/ledger?type=signal&robot=shop-17');
    await page.locator('tbody th a').first().click();
    // By keyboard.
    const verify = async (key) => {
      await page.getByLabel(/Key of the log/).focus();
      await page.keyboard.press('Control+A');
      await page.keyboard.press('Delete');
      await page.keyboard.insertText(key);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => /^(Verified|Not verified|Consistent)/.test(document.querySelector('.outcome')?.textContent ?? ''));
      return page.locator('.outcome').innerText();
    };
    assert.match(await verify(''), /^Consistent\. Entry \d+ of \d+ .* No key is pinned for this log/);
    assert.match(await verify(logKey), /^Verified\. Entry \d+ of \d+ .* signed with the key that you gave/);
    await assertAccessible(page);
    await assertFits(page, 360);
    assert.match(await verify(''), /^Consistent/, 'a key is not pinned by being used');
    assert.match(await verify('nonsense'), /^Not verified/);
    await verify(logKey);
    await page.keyboard.press('Tab');
    assert.match(await page.evaluate(() => document.activeElement.textContent), /^Pin this key for the log/);
    await page.keyboard.press('Enter');
    await page.getByText(/The key is pinned for the log/).waitFor();
    await page.reload();
    assert.match(await verify(''), /^Verified\. .* signed with the key that you pinned for this log/);
    assert.match(await verify(logKey), /^Verified\. .* which is pinned for this log/);
    // A key of the same log that did not sign: refused, and what is pinned stays.
    assert.match(await verify('nonsense'), /^Not verified/);
    assert.match(await verify(''), /^Verified/);
    // An honest log of another tenant has its own key.
    const [origin] = logKey.split('+');
    await page.route('**/v1/entries/*/proof', async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: (await answer.text()).replaceAll(origin, `${origin}-other`) });
    });
    assert.match(await verify(''), /^Consistent\. .* No key is pinned for this log/);
    await page.unroute('**/v1/entries/*/proof');
    // The server lies: a digit, another entry, another log's key.
    const lies = [(text) => text.replace('"visits":', '"visits":9'), (text) => text.replace(/index \d+/, 'index 0'), (text) => text.replace(/"source":"demo"/, '"source":"dem0"')];
    for (const lie of lies) {
      await page.route('**/v1/entries/*/proof', async (route) => {
        const answer = await route.fetch();
        const text = await answer.text();
        assert.notEqual(lie(text), text);
        await route.fulfill({ response: answer, body: lie(text) });
      });
      assert.match(await verify(logKey), /^Not verified\. /);
      await page.unroute('**/v1/entries/*/proof');
    }
    assert.match(await verify(logKey), /^Verified/);
    const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Save the verifier' }).click()]);
    assert.equal(saved.suggestedFilename(), 'verify.html');
  },

  'an admin sees who may do what, and no evidence': async (visitor) => {
    visitor.allowErrors(/403/);
    const page = await enter(visitor);
    assert.deepEqual(await page.locator('nav li').allInnerTexts(), ['Access']);
    assert.match(await page.locator('main').innerText(), /API keys/);
    await page.getByText('Delete', { exact: true }).click();
    await assertAccessible(page);
    await assertFits(page, 360);
    await page.setViewportSize({ width: 1100, height: 760 });
    await page.getByLabel('Reason, optional').fill('not used');
    await page.getByRole('button', { name: 'Delete it and its secret' }).click();
    await page.getByText('deleted', { exact: true }).waitFor();
    const refused = await go(page, '/ledger');
    assert.equal(refused.status(), 403);
    assert.match(await page.locator('main').innerText(), /a key of the role admin cannot be used for this/);
    await assertAccessible(page);
  },

  'signing in is accessible, also when it is refused': async (visitor) => {
    visitor.allowErrors(/status of 40/);
    const page = await visitor.page();
    await page.goto(links.shift());
    await page.getByText(/This link signs you in once/).waitFor();
    await assertAccessible(page);
    await assertFits(page, 360);
    await go(page, '/sign-in');
    await page.getByLabel('Or paste an API key').fill('nonsense');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await assertAccessible(page);
    await assertFits(page, 360);
  },
});
