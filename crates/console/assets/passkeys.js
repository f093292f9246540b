// Passkeys: enrolling one by a link, signing in, and deciding with one. The server says what to ask; the browser and its
// authenticator answer; the answer goes back whole. Nothing here is trusted: anyone who checks the log checks the answer again.
'use strict';

const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.charCodeAt(0));

function encoded(buffer) {
  const letters = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join('');
  return btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** An answer's JSON; throws what went wrong in words, as the API or a page says it. */
async function answered(answer) {
  if (answer.redirected && new URL(answer.url).pathname === '/sign-in') throw new Error('You are signed out. Reload the page to sign in again.');
  const text = await answer.text();
  const isJson = (answer.headers.get('content-type') ?? '').includes('json');
  if (answer.ok && isJson) return JSON.parse(text);
  if (isJson) {
    const { detail, hint } = JSON.parse(text);
    throw new Error(hint ? `${detail}. To help: ${hint}.` : `${detail}.`);
  }
  const page = new DOMParser().parseFromString(text, 'text/html').getElementById('main');
  const words = [...(page?.querySelectorAll('p:not(:has(.brand, a)), .error') ?? [])].map((part) => part.textContent);
  throw new Error(words.join(' ') || 'The server did not answer as expected.');
}

const post = (url, body) => fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }).then(answered);
const sendForm = (url, fields) => fetch(url, { method: 'POST', body: new URLSearchParams(fields) }).then(answered);

/** Says how it went, to everyone. */
function say(place, words, isError = false) {
  const status = place.querySelector('[data-status]');
  status.textContent = words;
  status.className = isError ? 'error' : '';
}

const REFUSED = 'The passkey was not used: it was refused, timed out, or is enrolled already.';
const isRefused = (error) => error.name === 'NotAllowedError' || error.name === 'InvalidStateError';

/** Does something once at a time, and says why if it fails. The page is not renewed meanwhile. */
function onClick(place, button, act) {
  button.addEventListener('click', async () => {
    button.disabled = true;
    place.dataset.acting = '';
    try {
      await act();
    } catch (error) {
      say(place, isRefused(error) ? REFUSED : error.message, true);
    } finally {
      button.disabled = false;
      delete place.dataset.acting;
    }
  });
}

/** Asks a passkey to prove a statement. */
async function proved(question, allowed) {
  const { id, response } = await navigator.credentials.get({
    publicKey: {
      challenge: bytes(question.challenge),
      rpId: question.relyingParty,
      allowCredentials: allowed.map((credential) => ({ type: 'public-key', id: bytes(credential) })),
      userVerification: 'required',
    },
  });
  return {
    proof: 'passkey',
    signature: encoded(response.signature),
    passkey: { credentialId: id, authenticatorData: encoded(response.authenticatorData), clientDataJson: encoded(response.clientDataJSON) },
  };
}

async function startEnrolment(place) {
  const token = decodeURIComponent(location.hash.slice(1));
  const question = await post('/v1/enrolments/statement', { token });
  // The link is used up here, and not left in the history.
  history.replaceState(null, '', location.pathname);
  place.querySelector('[data-person]').textContent = question.person;
  const button = place.querySelector('button');
  button.hidden = false;
  say(place, `The invitation ends at ${question.expires}.`);
  onClick(place, button, async () => {
    const { response } = await navigator.credentials.create({
      publicKey: {
        challenge: bytes(question.challenge),
        rp: { id: question.relyingParty, name: 'CreAleph' },
        user: { id: bytes(question.userHandle), name: question.person, displayName: question.person },
        pubKeyCredParams: question.algorithms.map((alg) => ({ type: 'public-key', alg })),
        excludeCredentials: question.known.map((id) => ({ type: 'public-key', id: bytes(id) })),
        authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
        attestation: 'none',
      },
    });
    const made = { attestationObject: encoded(response.attestationObject), clientDataJson: encoded(response.clientDataJSON) };
    const enrolled = await post('/v1/enrolments', { token, statement: question.statement, ...made });
    button.hidden = true;
    say(place, `Enrolled as ${enrolled.person}.`);
    place.querySelector('[data-key]').textContent = enrolled.keyId;
    place.querySelector('[data-done]').hidden = false;
  });
}

function offerSignIn(place) {
  place.hidden = false;
  onClick(place, place.querySelector('button'), async () => {
    const form = place.querySelector('form');
    const question = await sendForm('/sign-in/question', { tenant: form.elements.tenant?.value ?? '' });
    const signed = { statement: question.statement, ...(await proved(question, [])) };
    form.elements.signed.value = JSON.stringify(signed);
    form.submit();
  });
}

/** What the passkey signs about a subject: exactly what the page shows, or nothing. */
async function signedVerdict(page, shown, fields) {
  // A blank reason is none, also in the statement.
  const reason = fields.reason.trim() === '' ? '' : fields.reason;
  const { statement, passkey } = await sendForm(`${page}/question`, { ...fields, reason });
  const isShown = statement.subjectDigest === shown.digest && statement.ruleDigest === shown.rule && statement.target === shown.target
    && statement.decision === fields.decision && (statement.reason ?? '') === reason;
  if (!isShown) throw new Error('What would be signed is no longer what this page shows. Reload the page, and look at it again.');
  return JSON.stringify({ statement, ...(await proved(passkey, [passkey.credentialId])) });
}

function offerVerdict(place) {
  place.hidden = false;
  const form = place.querySelector('form');
  const shown = place.closest('[data-digest]').dataset;
  for (const button of place.querySelectorAll('button')) {
    onClick(place, button, async () => {
      const { form: token, keyId, reason } = form.elements;
      const fields = { form: token.value, keyId: keyId.value, reason: reason.value, decision: button.value };
      form.elements.signed.value = await signedVerdict(location.pathname, shown, fields);
      form.submit();
    });
  }
}

/** One verdict: the question about it, the answer of the passkey, and the record. */
async function decideAbout(shown, fields) {
  const id = shown.several;
  const page = `/inbox/${encodeURIComponent(id)}`;
  const signed = await signedVerdict(page, shown, fields);
  const body = new URLSearchParams({ form: fields.form, signed });
  const recorded = await fetch(page, { method: 'POST', body });
  // It is recorded if the answer is the page of what was decided; a session that is over leads elsewhere.
  const target = decodeURIComponent(new URL(recorded.url).pathname);
  if (!recorded.ok || target !== `/inbox/${id}`) await answered(recorded);
}

function offerSeveral(place) {
  place.hidden = false;
  const form = place.querySelector('form');
  const all = [...document.querySelectorAll('[data-several]')];
  const tell = (one, words, isError) => {
    const outcome = one.querySelector('[data-outcome]');
    outcome.textContent = words;
    outcome.className = isError ? 'error' : '';
  };
  const isOpen = (one) => one.dataset.recorded === undefined;
  const buttons = [...place.querySelectorAll('button')];
  for (const button of buttons) {
    onClick(place, button, async () => {
      const { form: token, keyId, reason } = form.elements;
      const fields = { form: token.value, keyId: keyId.value, reason: reason.value, decision: button.value };
      buttons.forEach((other) => { other.disabled = true; });
      for (const [at, one] of all.entries()) {
        if (!isOpen(one)) continue;
        say(place, `${at + 1} of ${all.length}: ${one.querySelector('h2').textContent}`);
        tell(one, 'Waiting for your passkey.');
        try {
          await decideAbout(one.dataset, fields);
        } catch (error) {
          tell(one, 'Not recorded.', true);
          const left = all.filter(isOpen).length;
          const why = isRefused(error) ? REFUSED : error.message;
          buttons.forEach((other) => { other.disabled = false; });
          throw new Error(`Stopped at ${at + 1} of ${all.length}: ${why} Recorded: ${all.length - left}. Not recorded: ${left}; the button asks about these again.`);
        }
        one.dataset.recorded = button.value;
        tell(one, button.value === 'approve' ? 'Approval recorded.' : 'Rejection recorded.');
      }
      say(place, `All ${all.length} recorded.`);
      form.hidden = true;
    });
  }
}

function begin() {
  const enrol = document.querySelector('[data-enrol]');
  const signIn = document.querySelector('[data-passkey-sign-in]');
  const verdict = document.querySelector('[data-passkey-verdict]');
  const hasPasskeys = 'credentials' in navigator && 'PublicKeyCredential' in window;
  if (enrol && !hasPasskeys) say(enrol, 'This browser has no passkeys here: open the link by HTTPS, or at localhost.', true);
  else if (enrol) startEnrolment(enrol).catch((error) => say(enrol, error.message, true));
  if (signIn && hasPasskeys) offerSignIn(signIn);
  if (verdict && hasPasskeys) offerVerdict(verdict);
  const several = document.querySelector('[data-passkey-several]');
  if (several && hasPasskeys) offerSeveral(several);
}

begin();
document.addEventListener('console:renewed', () => {
  const verdict = document.querySelector('[data-passkey-verdict][hidden]');
  if (verdict) offerVerdict(verdict);
});
