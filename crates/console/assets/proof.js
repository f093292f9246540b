// Verifies the entry that a page shows, in the reader's browser: its hash, its place in the log and the checkpoint's signature, from
// what the server sent, against a key that the reader gives or pinned for this log. The proved entry is shown from the proof, and the
// content that the page shows is compared with it.

{
  const section = document.querySelector('.verify[data-entry]');
  const PINNED = 'crealeph-pinned-keys';
  const MAX_PINNED = 100;

  /** The keys that the reader pinned, by the log that they are of. */
  function pinned() {
    try { return new Map(JSON.parse(localStorage.getItem(PINNED) ?? '[]')); } catch { return new Map(); }
  }

  /** Pins the keys of a log instead of those that were pinned for it; answers whether they are kept. */
  function pin(origin, keys) {
    const others = [...pinned()].filter(([log]) => log !== origin);
    try {
      localStorage.setItem(PINNED, JSON.stringify([...others, [origin, keys]].slice(-MAX_PINNED)));
      return true;
    } catch {
      return false;
    }
  }

  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  const MAX_SHOWN = 64 * 1024;

  /** The content of this page, as one canonical text; null if it is cut or has characters that are shown as escapes. */
  function displayed(json) {
    const text = document.querySelector('pre[aria-label="The entry as JSON"]')?.textContent ?? '';
    try { return json.canonical(json.parseJson(text).value); } catch { return null; }
  }

  /** The entry as the proof has it, as text. */
  function proved(source, shown) {
    const text = element('pre', { tabIndex: 0 }, shown(JSON.stringify(JSON.parse(source), null, 2), MAX_SHOWN));
    text.setAttribute('role', 'group');
    text.setAttribute('aria-label', 'The proved entry');
    return element('details', { open: true }, element('summary', {}, 'The proved entry'), text);
  }

  function show(outcome, state, text) {
    outcome.className = `outcome ${state}`;
    outcome.replaceChildren(element('strong', {}, state === 'good' ? 'Verified. ' : state === 'bad' ? 'Not verified. ' : 'Consistent. '), text);
  }

  /** Offers to pin the keys that just verified a checkpoint of a log. */
  function pinOffer(origin, keys) {
    const status = element('p');
    status.setAttribute('role', 'status');
    const button = element('button', { type: 'button', className: 'quiet' }, `Pin this key for the log ${origin}`);
    button.addEventListener('click', () => {
      status.textContent = pin(origin, keys) ? `The key is pinned for the log ${origin}.` : 'This browser keeps nothing, so the key is not pinned.';
      button.remove();
    });
    return [element('p', {}, button), status];
  }

  /** Which key verified the checkpoint, and the offer to pin it. */
  function signedWith(found, typed, known) {
    const { origin } = found.checkpoint;
    if (!found.isSigned) return ['No key is pinned for this log, so this does not prove whose log it is.', []];
    if (typed === '') return ['The checkpoint is signed with the key that you pinned for this log.', []];
    const keys = typed.split('\n').map((line) => line.trim()).filter((line) => line.startsWith(`${origin}+`)).join('\n');
    if (keys === known) return ['The checkpoint is signed with the key that you gave, which is pinned for this log.', []];
    const other = known ? ' Another key is pinned for this log.' : '';
    return [`The checkpoint is signed with the key that you gave.${other}`, pinOffer(origin, keys)];
  }

  async function verify(outcome, details, typed) {
    const { json, note, proof, shown } = globalThis.crealephVerifier;
    outcome.hidden = false;
    details.replaceChildren();
    outcome.className = 'outcome';
    outcome.replaceChildren('Verifying…');
    try {
      const answer = await fetch(`/v1/entries/${encodeURIComponent(section.dataset.entry)}/proof`);
      if (!answer.ok) throw new Error(`the server answered ${answer.status} (request ${answer.headers.get('x-request-id') ?? 'unknown'})`);
      const text = await answer.text();
      // Which log it is decides which key is pinned for it.
      const stated = await proof.verifyProof(text, []);
      // What was proved must be what the page is about.
      if (stated.id !== section.dataset.entry) throw new Error('the proof is of another entry');
      const known = pinned().get(stated.checkpoint.origin);
      const keys = note.parseKeys(typed || known || '');
      const found = keys.length > 0 ? await proof.verifyProof(text, keys) : stated;
      details.append(proved(found.source, shown.shown));
      const content = displayed(json);
      if (content !== null && content !== found.source) throw new Error('the content on this page differs from the proved entry');
      const same = content === null
        ? 'The content that this page shows is cut or has escapes, so read the proved entry here.'
        : 'The content that this page shows is that of the proved entry.';
      const what = `Entry ${found.seq} of ${found.checkpoint.size} in the log ${found.checkpoint.origin}; its hash, path and root were computed here.`;
      const [whose, offer] = signedWith(found, typed, known);
      show(outcome, found.isSigned ? 'good' : 'open', `${what} ${whose} ${same}`);
      details.prepend(...offer);
    } catch (error) {
      show(outcome, 'bad', String(error.message ?? error));
    }
  }

  if (section && globalThis.crealephVerifier) {
    const key = element('textarea', { id: 'log-key', rows: 2, autocomplete: 'off', spellcheck: false, maxLength: 4000 });
    const outcome = element('p', { hidden: true });
    outcome.setAttribute('role', 'status');
    const details = element('div');
    const form = element('form', { className: 'filter' },
      element('label', { htmlFor: 'log-key' },
        element('span', {}, 'Key of the log, as `crealeph ledger key` printed it where you trust it; empty for the one that you pinned'), key),
      element('button', { type: 'submit' }, 'Verify in this browser'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      verify(outcome, details, key.value.trim());
    });
    section.append(form, outcome, details);
  }
}
