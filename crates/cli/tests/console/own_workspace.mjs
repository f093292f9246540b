// The work pages of a server in its own workspace: a run while it runs, with and without scripts; two runs side by side; undoing one.

import { writeFileSync } from 'node:fs';

import { assert, assertAccessible, assertFits, documentPicture, screenshot, setting, tell } from './browser.mjs';

const base = setting('CREALEPH_URL');
const links = setting('CREALEPH_LINKS').split(' ');
const [failed, landed, later] = setting('CREALEPH_RUNS').split(' ');
const hostile = setting('CREALEPH_HOSTILE');
const go = (page, path) => page.goto(new URL(path, base).href);

async function enter(visitor, link, options) {
  const page = await visitor.page(options);
  await page.goto(link);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(/\/inbox$/);
  return page;
}

async function picture(page, name) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [360, 1100]) {
      await page.setViewportSize({ width, height: 800 });
      await screenshot(page, `${name}-${colorScheme}-${width}`);
    }
  }
}

await tell({
  'a run is watched while it runs': async (visitor) => {
    const page = await enter(visitor, links[0]);
    globalThis.operator = await page.context().cookies();
    await go(page, '/runs');
    await page.getByRole('heading', { name: 'In this workspace now' }).waitFor();
    await assertAccessible(page);
    await assertFits(page, 360);
    await picture(page, 'work-list');
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole('group', { name: 'Open runs' }).getByRole('link').click();
    const output = page.locator('pre.output');
    await page.waitForFunction(() => document.querySelector('pre.output')?.textContent.endsWith('wait'));
    const shown = await output.textContent();
    assert.ok(shown.length < 200_000, `${shown.length} characters`);
    assert.match(await page.locator('[data-state]').innerText(), /running/);
    assert.match(await page.locator('main').innerText(), /running for \d+ s/);
    await assertAccessible(page);
    await assertFits(page, 360);
    await picture(page, 'work-running');
    await page.setViewportSize({ width: 1280, height: 800 });
    // From the start, without scripts: what was printed is text.
    const still = await visitor.page({ javaScriptEnabled: false });
    await still.context().addCookies(await page.context().cookies());
    await still.goto(page.url());
    await still.getByRole('link', { name: 'Refresh' }).click();
    await still.getByRole('link', { name: 'Show it from the start' }).click();
    const start = await still.locator('pre.output').textContent();
    assert.ok(start.startsWith('agent\n</pre><script>document.title=1</script>\\u{202e}\\x1b[2J\n'), start.slice(0, 200));
    await still.getByRole('link', { name: 'Next part' }).click();
    await assertFits(still, 360);
    // What is selected or looked at stays where it is; the rest of the line, the tests and the end appear.
    await page.evaluate(() => { globalThis.first = document.querySelector('pre.output').firstChild; });
    await output.hover();
    writeFileSync(setting('CREALEPH_GATE'), '');
    await page.waitForFunction(() => /waiting\n[^]*tests\nchecked\n$/.test(document.querySelector('pre.output').textContent));
    assert.ok(await page.evaluate(() => globalThis.first.isConnected), 'what was there was not replaced');
    await page.getByRole('button', { name: 'Show how it ended' }).click();
    await page.waitForFunction(() => /succeeded/.test(document.querySelector('[data-state]').textContent));
    assert.match(await page.locator('main').innerText(), /c\.txt/);
    assert.match(await page.title(), /^Run /);
    await assertAccessible(page);
  },

  'whatever a run is called, writes and changes is shown as text, and the page stays small': async (visitor) => {
    const page = await visitor.page();
    await page.context().addCookies(globalThis.operator);
    for (const path of [`/runs/${hostile}`, `/runs/${hostile}/output`, `/runs/compare?a=${failed}&b=${hostile}`, '/runs', '/search?q=script']) {
      const answer = await go(page, path);
      assert.equal(answer.status(), 200, path);
      assert.ok((await answer.body()).length < 400_000, `${path} has ${(await answer.body()).length} bytes`);
      assert.match(await page.title(), /CreAleph$/, path);
      await page.setViewportSize({ width: 1280, height: 800 });
      await assertAccessible(page);
      await assertFits(page, 360);
    }
    await go(page, `/runs/${hostile}`);
    for (const fold of await page.locator('main details:not([open]) > summary').all()) await fold.click();
    const text = await page.locator('main').innerText();
    for (const said of ['<img src=x onerror=alert(1)>', '\\u{202e}', '+</pre><script>document.title=1</script>']) assert.ok(text.includes(said), `${said} is not in ${text.slice(0, 4000)}`);
    await assertFits(page, 360);
  },

  'two runs are compared, and one is undone': async (visitor) => {
    const page = await enter(visitor, links[1]);
    await go(page, `/runs/${later}`);
    assert.match(await page.locator('main').innerText(), /Your role cannot start runs here/);
    await go(page, '/runs');
    await page.getByLabel(`Compare ${failed} as A`).check();
    await page.getByLabel(`Compare ${landed} as B`).check();
    await page.getByRole('button', { name: 'Compare A and B' }).click();
    await page.waitForURL(/\/runs\/compare\?/);
    const text = await page.locator('main').innerText();
    for (const said of [/1 file only in A, 1 file different/, /-FOUR\s+\+four/, /70/, /Limit: files/]) assert.match(text, said);
    await assertAccessible(page);
    await assertFits(page, 360);
    await picture(page, 'work-compare');
    await documentPicture(page, 'compare', 800);
    await go(page, '/usage?by=agent');
    await documentPicture(page, 'usage', 400);
  },

  'undoing leads to the run that does it': async (visitor) => {
    const page = await visitor.page();
    await page.context().addCookies(globalThis.operator);
    await go(page, `/runs/${later}`);
    await assertAccessible(page);
    await picture(page, 'work-run');
    await page.getByRole('button', { name: 'Undo this run' }).press('Enter');
    await page.waitForURL((url) => /\/runs\/[0-9a-f-]{36}$/.test(url.pathname) && !url.pathname.endsWith(later));
    await page.waitForFunction(() => /tests\nchecking\n/.test(document.querySelector('pre.output').textContent));
    await documentPicture(page, 'run', 580);
    writeFileSync(setting('CREALEPH_GATE'), '');
    await page.waitForFunction(() => /succe/.test(document.querySelector('[data-state]').textContent));
    assert.match(await page.locator('main').innerText(), /It undoes/);
    await page.getByRole('link', { name: 'compare', exact: true }).click();
    assert.match(await page.locator('main').innerText(), /1 file different/);
  },
});
