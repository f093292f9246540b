// What the console's pages show in detail: ids, an execution with its agent and events, search, proofs, diffs, lineage, drawings.

import { readFile } from 'node:fs/promises';

import { assert, assertAccessible, assertFits, setting, tell } from './browser.mjs';

const base = setting('CREALEPH_URL');
const token = setting('CREALEPH_TOKEN');
const logKey = setting('CREALEPH_LOG_KEY');
const links = setting('CREALEPH_LINKS').split(' ');

/** A page of someone who signed in with the next link. */
async function enter(visitor, options) {
  const page = await visitor.page(options);
  await page.goto(links.shift());
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(/\/inbox$/);
  return page;
}

const go = (page, path) => page.goto(new URL(path, base).href);
const main = (page) => page.locator('main').innerText();

/** Appends signals in one batch; each rests on the entries that it names. Their ids. */
async function append(entries) {
  const entry = ([robotId, ...dependsOnLedgerIds]) => ({
    robotId, module: 'm', source: 's', type: 'signal', state: 'final', payload: { text: 'a\u202eb' },
    ...(dependsOnLedgerIds.length > 0 && { lineage: { dependsOnLedgerIds } }),
  });
  const answer = await fetch(new URL('/v1/entries', base), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(entries.map(entry)),
  });
  assert.equal(answer.status, 200);
  return (await answer.json()).appended.map(({ id }) => id);
}

await tell({
  'entries of one batch look different, and a lineage goes on': async (visitor) => {
    const page = await enter(visitor);
    const batch = await append([['batch'], ['batch'], ['batch']]);
    await go(page, '/ledger?robot=batch');
    const ids = page.locator('tbody th code');
    const shown = await ids.allInnerTexts();
    assert.equal(new Set(shown).size, 3, shown.join(' '));
    for (const text of shown) assert.match(text, /^[0-9a-f]{8}…[0-9a-f]{12}$/);
    const titles = await ids.evaluateAll((all) => all.map((one) => one.title));
    assert.deepEqual(titles.sort(), batch.sort());
    const chain = [batch[0]];
    for (let link = 0; link < 4; link += 1) chain.push((await append([['batch', chain.at(-1)]]))[0]);
    await go(page, `/ledger/${chain[0]}`);
    const used = page.getByRole('region', { name: 'Depended on by' });
    assert.match(await used.innerText(), /It goes on beyond 2 steps\. Continue from signal/);
    await used.locator('.cut a').click();
    await page.waitForURL(new RegExp(chain[2]));
    assert.doesNotMatch(await page.getByRole('region', { name: 'Depended on by' }).innerText(), /goes on/, 'two more steps are all');
  },

  'an execution shows its agent and events, is replayed on demand, and is renewed by its robot': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/executions?state=planned&robot=shop-17');
    await page.locator('tbody th a').first().click();
    await page.waitForURL(/\/executions\/shop-17\//);
    assert.match(await page.getByRole('region', { name: 'Agent' }).innerText(), /Name\s+\S+[^]*Tokens[^]*Cost\s+not recorded/);
    assert.match(await page.getByRole('region', { name: 'Events' }).innerText(), /\bplanned\b/);
    assert.doesNotMatch(await main(page), /follows from the log/);
    await page.evaluate(() => document.addEventListener('console:renewed', () => { globalThis.renewed = true; }));
    await page.mouse.move(2, 2);
    await append([['shop-17']]);
    await page.waitForFunction(() => globalThis.renewed === true || !document.querySelector('.changed').hidden);
    await page.getByRole('button', { name: 'Replay' }).click();
    await page.waitForURL(/\?replay=1/);
    assert.match(await page.getByRole('region', { name: 'Replay' }).innerText(), /Attempt 1 verified The decision follows from the log/i);
    await assertAccessible(page);
    await assertFits(page, 360);
    // A robot's page says what an agent would be given.
    await go(page, '/robots/shop-17');
    assert.match(await page.getByRole('region', { name: 'Snapshot' }).innerText(), /Lineage\s+\d+[^]*Digest\s+[0-9a-f]{64}/);
  },

  'a search leads to executions, and finds what is held': async (visitor) => {
    const page = await enter(visitor);
    await go(page, '/executions?state=planned&robot=shop-17');
    const execution = await page.locator('tbody th code').first().getAttribute('title');
    await go(page, `/search?q=${execution}`);
    const hit = page.getByRole('row', { name: /^execution/ });
    assert.equal(await hit.count(), 1);
    await hit.getByRole('link').click();
    await page.waitForURL(new RegExp(`/executions/shop-17/${execution}$`));
    const held = async (words) => {
      await go(page, `/search?q=${words}`);
      await page.getByRole('row', { name: /^held change/ }).getByRole('link').click();
      await page.waitForURL(/\/inbox\/[0-9a-f-]{36}$/);
      return page.url().split('/').at(-1);
    };
    const run = await held('discount+GIVE');
    assert.equal(await held(run.slice(0, 30)), run);
    await go(page, `/search?q=${run}`);
    await page.getByRole('row', { name: /^run/ }).getByRole('link').click();
    await page.waitForURL(new RegExp(`/runs/${run}$`));
    await go(page, '/search?q=discount+nonsense');
    assert.match(await main(page), /Nothing was found for discount nonsense\.[^]*Searched[^]*Try/);
    await assertAccessible(page);
  },

  'a diff is a file, and runs are listed by how they ended': async (visitor) => {
    const page = await enter(visitor);
    await page.getByRole('link', { name: 'Give the discount' }).click();
    const run = page.url().split('/').at(-1);
    const saved = async () => {
      const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'As a file' }).click()]);
      assert.equal(file.suggestedFilename(), `${run}.diff`);
      return readFile(await file.path(), 'utf8');
    };
    const held = await saved();
    assert.match(held, /^\+.*\n/m);
    assert.doesNotMatch(held, /\\n/, 'no JSON');
    await page.getByRole('link', { name: run, exact: true }).click();
    await page.waitForURL(`**/runs/${run}`);
    assert.equal(await saved(), held);
    const tasks = async (status) => {
      await go(page, `/runs?status=${status}`);
      return page.locator('tbody td.wide').allInnerTexts();
    };
    assert.deepEqual(await tasks('denied'), ['Speed up CI']);
    assert.deepEqual(await tasks('held'), ['Give the discount']);
    assert.deepEqual((await tasks('failed')).sort(), ['Be cheaper', 'Speed up CI']);
    assert.deepEqual(await tasks('timeout'), []);
    assert.match(await main(page), /No run matches this filter/);
    assert.deepEqual((await page.getByLabel('Status').locator('option').allInnerTexts()).slice(1),
      ['succeeded', 'failed', 'denied', 'timeout', 'interrupted', 'running', 'held', 'unsettled']);
    await go(page, '/runs');
    assert.ok((await page.locator('thead th').allInnerTexts()).includes('Tests'));
  },

  'what is proved is shown, and a page that shows something else is caught': async (visitor) => {
    const page = await enter(visitor);
    const verify = async () => {
      await page.getByLabel(/Key of the log/).fill(logKey);
      await page.getByRole('button', { name: 'Verify in this browser' }).click();
      await page.waitForFunction(() => /^(Verified|Not verified|Consistent)/.test(document.querySelector('.outcome')?.textContent ?? ''));
      return page.locator('.outcome').innerText();
    };
    const proved = () => page.locator('pre[aria-label="The proved entry"]').innerText();
    await go(page, '/ledger?type=signal&robot=shop-17');
    const [first] = await page.locator('tbody th a').evaluateAll((all) => all.map((one) => one.getAttribute('href')).slice(-1));
    await go(page, first ?? '/ledger');
    assert.match(await verify(), /^Verified.*The content that this page shows is that of the proved entry/);
    assert.match(await proved(), /"visits": \d+/);
    await assertAccessible(page);
    await assertFits(page, 360);
    // The page lies and the proof does not.
    await page.evaluate(() => {
      const text = document.querySelector('pre[aria-label="The entry as JSON"]');
      text.textContent = text.textContent.replace('"visits": ', '"visits": 9');
    });
    assert.match(await verify(), /^Not verified\. the content on this page differs/);
    assert.doesNotMatch(await proved(), /"visits": 9/);
    // What would turn the text around is an escape, on the page and in what was proved.
    await go(page, '/ledger?robot=batch');
    await page.locator('tbody th a').last().click();
    assert.match(await verify(), /is cut or has escapes/);
    assert.match(await proved(), /"text": "a\\u202eb"/);
  },

  'drawings stay readable on a phone, and cost has a place': async (visitor) => {
    const page = await enter(visitor, { viewport: { width: 360, height: 800 } });
    for (const [path, text] of [['/robots/shop-17', '.graph text'], ['/usage', '.chart text']]) {
      await go(page, path);
      const height = await page.locator(text).first().evaluate((one) => one.getBoundingClientRect().height);
      assert.ok(height >= 11, `text of ${height} px on ${path}`);
      await assertFits(page, 360);
      await assertAccessible(page);
    }
    assert.match(await main(page), /US\$, as the agents reported them|No agent reported a cost/);
  },

  'an execution, a backtest, usage and two runs are read without scripts': async (visitor) => {
    const page = await enter(visitor, { javaScriptEnabled: false });
    await go(page, '/executions');
    await page.locator('tbody th a').first().click();
    await page.waitForURL(/\/executions\/[^/]+\/[^/]+$/);
    await page.getByRole('button', { name: 'Replay' }).click();
    await page.waitForURL(/\?replay=1/);
    assert.match(await main(page), /The decision follows from the log/);
    await go(page, '/policy');
    await page.getByLabel(/minLineageCount/).fill('50');
    await page.getByRole('button', { name: 'Backtest' }).click();
    await page.waitForURL(/minLineageCount=50/);
    assert.ok(await page.getByRole('group', { name: 'Decisions that would be different' }).getByRole('row').count() > 1);
    await go(page, '/usage');
    await page.getByLabel('From').fill('2020-01-01');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.waitForURL(/by=agent&from=2020-01-01&to=$/);
    await page.getByRole('navigation', { name: 'Grouped by' }).getByRole('link', { name: 'Day' }).click();
    assert.equal(await page.getByLabel('From').inputValue(), '2020-01-01');
    assert.match(await page.locator('tbody th').first().innerText(), /^\d{4}-\d\d-\d\d$/);
    await go(page, '/runs');
    await page.getByRole('button', { name: 'Compare A and B' }).click();
    await page.waitForURL(/\/runs\/compare\?.*\ba=/);
    assert.match(await main(page), /Two runs[^]*Limit: files[^]*Files/);
    await page.getByRole('link', { name: 'Swap A and B' }).click();
    assert.match(await main(page), /Two runs/);
  },
});
