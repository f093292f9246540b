// The verifier in one HTML file, opened from the disk.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { assert, assertAccessible, assertFits, screenshot, setting, tell } from './browser.mjs';

const folder = setting('CREALEPH_FOLDER');
const run = setting('CREALEPH_RUN');
const inFolder = (...names) => names.map((name) => join(folder, name));
const inRun = (...names) => names.map((name) => join(run, name));
const KEPT = inFolder('saved.key', 'saved.checkpoint', 'kept.root');

async function open(visitor, options) {
  const page = await visitor.page(options);
  await page.goto(`file://${folder}/verify.html`);
  return page;
}

/** Chooses files and gives what the page then says: the state of each result, and the text of all. */
async function chosen(page, files, input = '#files') {
  await page.setInputFiles(input, files);
  await page.waitForFunction(() => /^(Done|Cannot|Nothing to check)/.test(document.getElementById('status').textContent));
  const results = await page.locator('#results article').evaluateAll((all) => all.map((one) => one.className.replace('result ', '')));
  return { results, text: await page.locator('#results').innerText(), status: await page.locator('#status').innerText() };
}

await tell({
  'an export with what the auditor kept is verified': async (visitor) => {
    const page = await open(visitor);
    const { results, text } = await chosen(page, [...inFolder('good.jsonl'), ...KEPT]);
    assert.deepEqual(results, ['good'], text);
    for (const said of [/^\W*Verified/, /none was changed, left out or moved/, /Based on the key that you gave/, /extends the checkpoint that you kept/, /1 verdict of people/, /Based on the fingerprint that you gave/]) {
      assert.match(text, said);
    }
    await page.getByText('Verdicts').click();
    assert.match(await page.locator('#results pre').last().innerText(), /ana approves draft .* used by a landing/);
    await assertAccessible(page);
    await page.emulateMedia({ colorScheme: 'light' });
    await screenshot(page, 'verifier');
    await assertFits(page, 360);
  },

  'without a key it is consistent and no more': async (visitor) => {
    const page = await open(visitor);
    const { results, text } = await chosen(page, inFolder('good.jsonl'));
    assert.deepEqual(results, ['unproven'], text);
    assert.match(text, /its origin is not proved/);
    assert.match(text, /no key was given, so this proves consistency, not origin/);
    assert.match(text, /Based on the file itself: compare it/);
  },

  'what was forged is named with its entry': async (visitor) => {
    const page = await open(visitor);
    for (const [file, said] of [
      ['forged.jsonl', /Not verified \(changed, entry 3\)[^]*entry 3 \(`[^`]+`\) does not match its leaf hash/],
      ['cut.jsonl', /Not verified \(truncated, entry \d+\)/],
      ['forged-proof.json', /Not verified \(changed, entry \d+\)[^]*entry or proof was changed/],
      ['long.jsonl', /Not verified \(changed, entry 3\)[^]*the line of entry 3 is not one of an export/],
    ]) {
      const { results, text, status } = await chosen(page, [...inFolder(file), ...KEPT]);
      assert.deepEqual(results, ['bad'], `${file}: ${text}`);
      assert.match(text, said);
      assert.match(status, /1 of 1 not verified/);
    }
    await assertAccessible(page);
    await screenshot(page, 'verifier-forged');
  },

  'another root of the approvals, another log, and a broken key are refused': async (visitor) => {
    const page = await open(visitor);
    await page.fill('#root', `SHA256:${'A'.repeat(43)}`);
    const other = await chosen(page, inFolder('good.jsonl', 'saved.key'));
    assert.deepEqual(other.results, ['bad'], other.text);
    assert.match(other.text, /trust none of them/);
    await page.fill('#root', '');
    await page.fill('#keys', 'crealeph-log/2-x+00000000+AAAA');
    assert.match((await chosen(page, inFolder('good.jsonl'))).status, /^Cannot check: the key is not an Ed25519 key/);
  },

  'a proof shows its entry as text, whatever is in it': async (visitor) => {
    const page = await open(visitor);
    const { results, text } = await chosen(page, [...inFolder('proof.json'), ...KEPT]);
    assert.deepEqual(results, ['good'], text);
    await page.getByText('Entry', { exact: true }).click();
    const entry = await page.locator('#results pre').innerText();
    assert.match(entry, /<script>document\.title='hacked'<\/script>/);
    assert.match(entry, /\\u202etxt\.exe/);
    assert.equal(await page.title(), 'CreAleph verifier');
    assert.equal(await page.locator('#results script, #results img').count(), 0);
  },

  'a run is verified with the files beside it, and a changed diff is named': async (visitor) => {
    const page = await open(visitor);
    const files = readdirSync(join(run, 'run')).map((name) => join('run', name));
    const good = await chosen(page, inRun(...files, 'work.key'));
    assert.deepEqual(good.results, ['good'], good.text);
    assert.match(good.text, /As signed: .*change\.diff/);
    const forged = files.map((name) => (name.endsWith('change.diff') ? 'forged/change.diff' : name));
    const bad = await chosen(page, inRun(...forged, 'work.key'));
    assert.deepEqual(bad.results, ['bad'], bad.text);
    assert.match(bad.text, /the file `change\.diff` is not the one that was signed/);
    const unproven = await chosen(page, inRun('run/RECEIPT.json', 'run/RECEIPT.dsse.json'));
    assert.deepEqual(unproven.results, ['unproven'], unproven.text);
  },

  'a folder with runs is one chain, and a receipt that was left out is named': async (visitor) => {
    const page = await open(visitor);
    const inFolderOf = (name) => chosen(page, join(run, name), '#folder');
    // A key that is in the folder is not the reader's own.
    const unproven = await inFolderOf('exported');
    assert.deepEqual(unproven.results, ['unproven'], unproven.text);
    await page.setInputFiles('#files', inRun('work.key'));
    await page.fill('#heads', readFileSync(join(run, 'kept.head'), 'utf8'));
    const good = await inFolderOf('exported');
    assert.deepEqual(good.results, ['good'], good.text);
    for (const said of [/2 receipts of crealeph-workspace\/\S+: one chain, whole from the first one on/, /Each is signed\. Based on the key that you gave in `work\.key`/, /has the receipts that you kept/, /files beside the receipts: as signed/]) {
      assert.match(good.text, said);
    }
    await page.getByText('Receipts, newest first').click();
    assert.match(await page.locator('#results pre').innerText(), /^2 run \S+ succeeded, hash \w+, with .*change\.diff/);
    await assertAccessible(page);
    await assertFits(page, 360);
    for (const [folder, said] of [
      ['gap', /Not verified \(missing, receipt 1\)[^]*the receipt with the hash `\w+` is missing; it comes before receipt/],
      ['cut', /Not verified \(truncated, receipt 2\)[^]*which you kept, is not in the chain/],
      ['changed', /Not verified \(changed\)[^]*the file `changed\/runs\/\S+\/change\.diff` is not the one that was signed/],
    ]) {
      const bad = await inFolderOf(folder);
      assert.deepEqual(bad.results, ['bad'], `${folder}: ${bad.text}`);
      assert.match(bad.text, said);
    }
    await page.fill('#heads', 'abc');
    assert.match((await inFolderOf('exported')).status, /^Cannot check: `abc` is not the hash of a receipt/);
  },

  'keys are remembered if asked, and by keyboard alone': async (visitor) => {
    const page = await open(visitor);
    await page.focus('#keys');
    await page.keyboard.type('kept');
    for (let step = 0; step < 4; step += 1) await page.keyboard.press('Tab');
    await page.keyboard.press('Space');
    await page.reload();
    assert.equal(await page.inputValue('#keys'), 'kept');
    await page.uncheck('#remember');
    await page.reload();
    assert.equal(await page.inputValue('#keys'), '');
    await page.focus('#again');
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('#status').innerText(), 'Choose a file first.');
  },
});
