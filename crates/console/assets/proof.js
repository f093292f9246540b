// Verifies the entry that a page shows, in the reader's browser: its hash, its place in the log and the checkpoint's signature, from
// what the server sent, against a key that the reader pinned earlier. The proved entry is shown from the proof, and the content that the
// page shows is compared with it.

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

  async function verify(outcome, keyText) {
    const { json, note, proof, shown } = globalThis.crealephVerifier;
    outcome.hidden = false;
    outcome.nextElementSibling?.remove();
    outcome.className = 'outcome';
    outcome.replaceChildren('Verifying…');
    try {
      const keys = keyText.trim() === '' ? [] : note.parseKeys(keyText);
      const answer = await fetch(`/v1/entries/${encodeURIComponent(section.dataset.entry)}/proof`);
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const text = await answer.text();
      const found = await proof.verifyProof(text, keys);
      // What was proved must be what the page is about.
      if (found.id !== section.dataset.entry) throw new Error('the proof is of another entry');
      outcome.after(proved(found.source, shown.shown));
      const content = displayed(json);
      if (content !== null && content !== found.source) throw new Error('the content on this page differs from the proved entry');
      const same = content === null
        ? 'The content that this page shows is cut or has escapes, so read the proved entry here.'
        : 'The content that this page shows is that of the proved entry.';
      const what = `Entry ${found.seq} of ${found.checkpoint.size} in the log ${found.checkpoint.origin}; its hash, path and root were computed here.`;
      if (found.isSigned) show(outcome, 'good', `${what} The checkpoint is signed with the key that you pinned. ${same}`);
      else show(outcome, 'open', `${what} No key is pinned, so this does not prove whose log it is. ${same}`);
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
