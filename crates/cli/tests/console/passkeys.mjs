// Enrolling, signing in and deciding with a passkey, and what a page, an authenticator or a copy of one could do wrong.

import { assert, assertAccessible, assertFits, documentPicture, screenshot, setting, tell } from './browser.mjs';

const url = setting('CREALEPH_URL');
const link = setting('CREALEPH_LINK');
const [first, second] = [setting('CREALEPH_DRAFT'), setting('CREALEPH_OTHER_DRAFT')];
const alike = setting('CREALEPH_ALIKE').split(' ');
const unlike = setting('CREALEPH_UNLIKE');
const [hostileDraft, hostileChange] = setting('CREALEPH_HOSTILE').split(' ');

/** An authenticator that touches itself and knows its owner. */
async function withAuthenticator(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  const options = {
    protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true,
    automaticPresenceSimulation: true,
  };
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', { options });
  return { authenticatorId, send: (method, more = {}) => session.send(`WebAuthn.${method}`, { authenticatorId, ...more }) };
}

/** Several that are alike, in one go: asked for one after the other, stopped at the first that is refused, and continued. */
async function decideSeveral(visitor, page) {
  await page.goto(`${url}/inbox`);
  const box = (id) => page.locator(`[data-mark="${id}"]`);
  await box(alike[0]).check();
  assert.ok(await box(unlike).isDisabled(), 'a different kind cannot be marked with it');
  await box(alike[1]).check();
  // By keyboard: the rows are newest first.
  const rows = await page.locator('[data-row]').evaluateAll((all) => all.map((row) => row.querySelector('[data-mark]')?.dataset.mark));
  for (let row = 0; row <= rows.indexOf(alike[2]); row += 1) await page.keyboard.press('j');
  await page.keyboard.press('x');
  await page.getByText('3 marked: drafts for landing_plan under the rule web.').waitFor();
  await documentPicture(page, 'several', 600);
  await assertAccessible(page);
  await assertFits(page, 360);
  visitor.allowErrors(/status of 4(00|22)/);
  await page.keyboard.press('a');
  await page.waitForURL(/\/inbox\/several\?ids=.+#approve$/);
  const order = await page.locator('[data-several]').evaluateAll((all) => all.map((one) => one.dataset.several));
  assert.deepEqual([...order].sort(), [...alike].sort());
  for (const part of await page.locator('[data-several]').allInnerTexts()) {
    assert.match(part, /Requester\s+\S[^]*Digest\s+[0-9a-f]{64}[^]*Policy\s+\S[^]*Tokens\s+\S[^]*Evidence\s+signal, [^]* fresh/i);
  }
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Approve all 3');
  await assertAccessible(page);
  await assertFits(page, 360);
  await screenshot(page, 'several');
  await page.locator('.decide input[name="reason"]').fill(' ');
  // The second question is about something else than what is shown.
  await page.route(`**/${order[1]}/question`, async (route) => {
    const answer = await route.fetch();
    const question = await answer.json();
    question.passkey.challenge = 'A'.repeat(43);
    await route.fulfill({ response: answer, json: question });
  });
  await page.getByRole('button', { name: 'Approve all 3' }).click();
  await page.getByText(/Stopped at 2 of 3: .*another statement.* Recorded: 1\. Not recorded: 2/).waitFor();
  assert.deepEqual(await page.locator('[data-outcome]').allInnerTexts(), ['Approval recorded.', 'Not recorded.', '']);
  await page.unroute(`**/${order[1]}/question`);
  const asked = [];
  page.on('request', (request) => { if (request.url().endsWith('/question')) asked.push(request.url()); });
  await page.getByRole('button', { name: 'Approve all 3' }).click();
  await page.getByText('All 3 recorded.').waitFor();
  assert.equal(asked.length, 2, 'what is recorded is not asked again');
  await page.goto(`${url}/inbox/several?ids=${order[0]},${second}`);
  assert.match(await page.locator('main').innerText(), /landed .* is left out/);
  const refused = await page.goto(`${url}/inbox/several?ids=${second},${unlike}`);
  assert.equal(refused.status(), 400);
  assert.match(await page.locator('main').innerText(), /of different kinds: drafts for landing_plan under the rule web, and drafts for site_plan/);
  assert.equal((await page.goto(`${url}/inbox/several?ids=${Array.from({ length: 21 }, (_, at) => `d-${at}`)}`)).status(), 400);
  await page.getByText('at most 20 at once').waitFor();
  await page.goto(`${url}/access`);
  assert.match(await page.locator('main').innerText(), /SSH key SHA256:.+[^]*Passkey of http:\/\/localhost:\d+ passkey:/);
}

/** What the row of a subject is, counted from the first. */
const rowOf = (page, id) => page.locator('[data-row] h2 a').evaluateAll((all, id) => all.findIndex((one) => one.href.endsWith(id)), id);

/** From the inbox to the recorded approval without the mouse: j to the row, a to the button, Enter. */
async function approveByKeyboard(page, id) {
  await page.goto(`${url}/inbox`);
  const row = await rowOf(page, id);
  assert.ok(row >= 0, `${id} is not in the inbox`);
  for (let at = 0; at <= row; at += 1) await page.keyboard.press('j');
  await page.keyboard.press('a');
  await page.waitForURL(`${url}/inbox/${id}#approve`);
  await page.waitForFunction(() => document.activeElement?.value === 'approve');
  await page.keyboard.press('Enter');
  await page.waitForURL(`${url}/inbox/${id}`);
}

/** Someone is offered what counts, and told why the rest does not. */
async function onlyWhatCounts(page) {
  await approveByKeyboard(page, unlike);
  await page.getByText('1 approval missing.').waitFor();
  await page.getByText('Your approval would not count: you have approved it already.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
  assert.equal(await page.getByRole('button', { name: 'Reject' }).count(), 1);
  await assertAccessible(page);
  await page.goto(`${url}/inbox`);
  await page.getByText('What your approval counts for.').waitFor();
  assert.equal(await rowOf(page, unlike), -1, 'what is approved already does not wait for its approver');
  assert.ok(await rowOf(page, second) >= 0);
  await page.getByRole('link', { name: 'Show all that waits' }).click();
  await page.waitForURL(`${url}/inbox?for=all`);
  assert.ok(await rowOf(page, unlike) >= 0);
  await page.getByText('Your approval would not count: you have approved it already.').waitFor();
  await page.locator('form.filter input[name="robot"]').fill('nobody');
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.waitForURL(/for=all&robot=nobody$/);
  await page.getByText('No draft of this robot awaits approval.').waitFor();
  await assertAccessible(page);
  await assertFits(page, 360);
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** What an agent wrote is text where people decide, and stays small; and what was approved says what remains. */
async function hostileContent(page) {
  for (const path of [`/inbox/${hostileDraft}`, `/inbox/${hostileChange}`, `/inbox/several?ids=${hostileDraft}`, `/inbox/several?ids=${hostileChange}`, '/inbox']) {
    const answer = await page.goto(url + path);
    assert.equal(answer.status(), 200, path);
    const body = (await answer.body()).toString();
    assert.ok(body.length < 400_000, `${path} has ${body.length} bytes`);
    for (const acting of ['<script>document', '<img src=x', '\u202e', '\u001b']) assert.ok(!body.includes(acting), `${path} has ${JSON.stringify(acting)}`);
    assert.match(await page.title(), /CreAleph$/, path);
    await page.evaluate(() => document.querySelectorAll('main details').forEach((fold) => { fold.open = true; }));
    const text = await page.locator('main').innerText();
    const markup = ['<img src=x onerror=alert(1)>', '</pre><script>document.title=1</script>'];
    for (const said of path === '/inbox' ? ['\\u{202e}'] : ['\\u{202e}', ...markup]) assert.ok(text.includes(said), `${said} is not in ${path}: ${text.slice(0, 3000)}`);
    await assertAccessible(page);
    await assertFits(page, 360);
    await page.setViewportSize({ width: 1280, height: 800 });
  }
  await page.goto(`${url}/inbox/${hostileChange}`);
  const all = page.getByRole('link', { name: 'Show all of it' });
  assert.deepEqual(await all.evaluateAll((links) => links.map((link) => link.getAttribute('href'))), [`/v1/inbox/${hostileChange}`]);
  await approveByKeyboard(page, hostileChange);
  await page.getByText('What remains: the next crealeph work run or crealeph work recover in the workspace').waitFor();
  await page.getByRole('heading', { name: 'Reject it before it lands' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
}

await tell({
  'a person enrols by the link, signs in and approves; what is forged is refused': async (visitor) => {
    const page = await visitor.page();
    const authenticator = await withAuthenticator(page);
    const sent = [];
    const posted = new Map();
    page.on('request', (request) => {
      sent.push(request.url());
      if (request.method() === 'POST') posted.set(request.url(), request.postData());
    });
    await page.goto(link);
    await page.getByText('An admin has invited you, ben,').waitFor();
    assert.equal(page.url(), `${url}/enrol`, 'the secret is not left in the address');
    assert.ok(!sent.some((address) => address.includes('crealeph-invite')), 'nor sent in one');
    await assertAccessible(page);
    await assertFits(page, 360);
    await page.getByRole('button', { name: 'Create a passkey' }).click();
    await page.getByText('Enrolled as ben.').waitFor();
    const keyId = await page.locator('[data-key]').textContent();
    assert.match(keyId, /^passkey:[\w-]{43}$/);
    await screenshot(page, 'passkey-enrolled');

    await page.goto(`${url}/inbox/${first}`);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL(`${url}/inbox/${first}`);
    await page.getByText('As ben, with your passkey').waitFor();
    // What signed in once does not sign in again, not even with everything that was sent.
    const again = await page.request.post(`${url}/sign-in/passkey`, {
      headers: { origin: url, 'content-type': 'application/x-www-form-urlencoded' }, data: posted.get(`${url}/sign-in/passkey`), maxRedirects: 0,
    });
    assert.equal(again.status(), 403);
    assert.match(await again.text(), /was already used/);
    await assertAccessible(page);
    await assertFits(page, 360);
    await screenshot(page, 'passkey-decide');
    // A blank reason is none.
    await page.locator('.decide input[name="reason"]').fill('   ');
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('landed', { exact: true }).waitFor();

    // The keys lead to where it is decided, and decide nothing.
    await page.goto(`${url}/inbox`);
    await page.keyboard.press('j');
    await page.keyboard.press('r');
    await page.waitForURL(/\/inbox\/.+#reject$/);
    await page.waitForFunction(() => document.activeElement?.name === 'reason');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.value), 'reject', 'Enter moves to the button');
    await page.keyboard.press('a');
    assert.equal(await page.evaluate(() => document.activeElement.value), 'approve');
    assert.match(await page.locator('h1').innerText(), /waiting/);

    await decideSeveral(visitor, page);
    await onlyWhatCounts(page);
    await hostileContent(page);

    // No one proved to be the owner: the browser refuses, and the page says so.
    await page.goto(`${url}/inbox/${second}`);
    await authenticator.send('setUserVerified', { isUserVerified: false });
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('The passkey was not used').waitFor();
    await authenticator.send('setUserVerified', { isUserVerified: true });

    visitor.allowErrors(/status of 422/);
    const refused = async (why) => {
      await page.getByText(why).waitFor();
      await page.getByText('approval_refused', { exact: true }).waitFor();
      await page.goto(`${url}/inbox/${second}`);
    };
    // A server or a script in between asks about something else than it shows.
    await page.route('**/question', async (route) => {
      const answer = await route.fetch();
      const question = await answer.json();
      question.passkey.challenge = 'A'.repeat(43);
      await route.fulfill({ response: answer, json: question });
    });
    await page.getByRole('button', { name: 'Approve' }).click();
    await refused(/asked about another statement/);
    await page.unroute('**/question');

    // The rule changed after the page was shown, or the question is about another subject: nothing is signed.
    for (const member of ['ruleDigest', 'subjectDigest', 'target', 'reason']) {
      await page.route('**/question', async (route) => {
        const answer = await route.fetch();
        const question = await answer.json();
        question.statement[member] = 'other';
        await route.fulfill({ response: answer, json: question });
      });
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByText('What would be signed is no longer what this page shows.').waitFor();
      await page.unroute('**/question');
      await page.goto(`${url}/inbox/${second}`);
    }

    // A page of another origin asks, of the same host, and hands the answer in.
    const question = await page.evaluate(async (keyId) => {
      const form = document.querySelector('[data-passkey-verdict] form').elements.form.value;
      const body = new URLSearchParams({ form, keyId, reason: '', decision: 'approve' });
      return (await fetch(`${location.pathname}/question`, { method: 'POST', body })).json();
    }, keyId);
    await page.route('http://localhost:9/', (route) => route.fulfill({ contentType: 'text/html', body: '<html lang=en><title>x</title>' }));
    await page.goto('http://localhost:9/');
    const signed = await page.evaluate(async ({ statement, passkey }) => {
      const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.charCodeAt(0));
      const encoded = (buffer) => new Uint8Array(buffer).toBase64?.({ alphabet: 'base64url', omitPadding: true })
        ?? btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
      const allowCredentials = [{ type: 'public-key', id: bytes(passkey.credentialId) }];
      const { id, response } = await navigator.credentials.get({
        publicKey: { challenge: bytes(passkey.challenge), rpId: 'localhost', allowCredentials, userVerification: 'required' },
      });
      const assertion = { credentialId: id, authenticatorData: encoded(response.authenticatorData), clientDataJson: encoded(response.clientDataJSON) };
      return JSON.stringify({ statement, proof: 'passkey', signature: encoded(response.signature), passkey: assertion });
    }, question);
    visitor.problems = visitor.problems.filter((problem) => !problem.includes('localhost:9/'));
    await page.goto(`${url}/inbox/${second}`);
    await page.evaluate((signed) => {
      const form = document.querySelector('[data-passkey-verdict] form');
      form.elements.signed.value = signed;
      form.submit();
    }, signed);
    await refused(/the page that asked is at .?http:..localhost:9/);

    // A copy of the passkey counts from where it was copied.
    const { credentials } = await authenticator.send('getCredentials');
    const [credential] = credentials;
    await authenticator.send('removeCredential', { credentialId: credential.credentialId });
    await authenticator.send('addCredential', { credential: { ...credential, signCount: 0 } });
    await page.getByRole('button', { name: 'Approve' }).click();
    await refused(/signature count \d+ after \d+/);
  },

  'a link that was used, or is none, says so': async (visitor) => {
    visitor.allowErrors(/status of 4(09|22)/);
    const page = await visitor.page();
    await page.goto(link);
    await page.getByText('the invitation was used').waitFor();
    await page.goto('about:blank');
    await page.goto(`${url}/enrol#x`);
    await page.getByText('the link is not that of an invitation').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Create a passkey' }).count(), 0);
  },

  'without scripts the page says what it needs': async (visitor) => {
    const page = await visitor.page({ javaScriptEnabled: false });
    await page.goto(`${url}/enrol`);
    await page.getByText('needs scripts').waitFor();
    await page.goto(`${url}/sign-in`);
    assert.equal(await page.getByRole('button', { name: 'Sign in with a passkey' }).count(), 0);
  },
});
