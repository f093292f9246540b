// Verifies the entry that a page shows, in the reader's browser: its hash, its place in the log and the checkpoint's signature, from
// what the server sent, against a key that the reader pinned earlier.

{
  const section = document.querySelector('.verify[data-entry]');
  const PINNED = 'crealeph-pinned-key';
  const pinned = () => {
    try { return localStorage.getItem(PINNED) ?? ''; } catch { return ''; }
  };

  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  function show(outcome, state, text) {
    outcome.className = `outcome ${state}`;
    outcome.replaceChildren(element('strong', {}, state === 'good' ? 'Verified. ' : state === 'bad' ? 'Not verified. ' : 'Consistent. '), text);
  }

  async function verify(outcome, keyText) {
    const { note, proof } = globalThis.crealephVerifier;
    outcome.hidden = false;
    outcome.className = 'outcome';
    outcome.replaceChildren('Verifying…');
    try {
      const keys = keyText.trim() === '' ? [] : note.parseKeys(keyText);
      const answer = await fetch(`/v1/entries/${encodeURIComponent(section.dataset.entry)}/proof`);
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const text = await answer.text();
      const found = await proof.verifyProof(text, keys);
      // What was proved must be what the page is about.
      if (JSON.parse(text).entry?.id !== section.dataset.entry) throw new Error('the proof is of another entry');
      const what = `Entry ${found.seq} of ${found.checkpoint.size} in the log ${found.checkpoint.origin}; its hash, path and root were computed here.`;
      if (found.isSigned) show(outcome, 'good', `${what} The checkpoint is signed with the key that you pinned.`);
      else show(outcome, 'open', `${what} No key is pinned, so this does not prove whose log it is.`);
    } catch (error) {
      show(outcome, 'bad', String(error.message ?? error));
    }
  }

  if (section && globalThis.crealephVerifier) {
    const key = element('input', { id: 'pinned-key', value: pinned(), autocomplete: 'off', spellcheck: false, maxLength: 400 });
    const outcome = element('p', { hidden: true });
    outcome.setAttribute('role', 'status');
    const form = element('form', { className: 'filter' },
      element('label', { htmlFor: 'pinned-key' }, element('span', {}, 'Key of the log, as `crealeph ledger key` printed it where you trust it'), key),
      element('button', { type: 'submit' }, 'Verify in this browser'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      try { localStorage.setItem(PINNED, key.value.trim()); } catch { /* it is not kept */ }
      verify(outcome, key.value);
    });
    section.append(form, outcome);
  }
}
