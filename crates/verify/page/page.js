// The page around the verifier. All content of files is shown as text.

import { pathOf } from './files.js';
import { verifyFiles } from './report.js';
import { shown } from './shown.js';

const STORED = 'crealeph-verifier';
const MAX_LINE = 2_000;
const MAX_DETAIL = 20_000;
const MAX_NAMED = 50;
const FIELDS = ['keys', 'checkpoint', 'root', 'heads'];
const MARKS = { good: '✓', unproven: '?', bad: '✗' };

const byId = (id) => document.getElementById(id);

let chosen = [];
/** Counts the runs, so that an older one that has not finished shows nothing. */
let run = 0;

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = shown(text, MAX_LINE);
  return made;
}

function resultElement({ name, state, headline, finding, checks, details }) {
  const made = element('article', `result ${state}`);
  const heading = element('h3');
  const mark = element('span', 'mark', MARKS[state]);
  mark.setAttribute('aria-hidden', 'true');
  heading.append(mark, ` ${shown(headline, MAX_LINE)}`);
  made.append(heading, element('p', 'name', name));
  if (finding) made.append(element('p', 'finding', finding));
  if (checks.length > 0) {
    const list = element('ul');
    for (const { what, basis } of checks) {
      const item = element('li', '', what);
      item.append(' ', element('span', 'basis', `Based on ${basis}.`));
      list.append(item);
    }
    made.append(list);
  }
  for (const { label, text } of details) {
    const box = element('details');
    const content = element('pre');
    content.textContent = shown(text, MAX_DETAIL);
    content.tabIndex = 0;
    box.append(element('summary', '', label), content);
    made.append(box);
  }
  return made;
}

async function verify() {
  const current = (run += 1);
  const [status, progress, results] = [byId('status'), byId('progress'), byId('results')];
  results.replaceChildren();
  if (chosen.length === 0) {
    status.textContent = 'Choose a file first.';
    return;
  }
  status.textContent = 'Checking…';
  progress.hidden = false;
  progress.value = 0;
  const given = Object.fromEntries(FIELDS.map((id) => [id, byId(id).value]));
  const onProgress = (name, share, done) => {
    if (current !== run) return;
    progress.value = share;
    status.textContent = `Checking ${shown(name, 200)}: ${done}…`;
  };
  try {
    const found = await verifyFiles(chosen, given, onProgress);
    if (current !== run) return;
    results.replaceChildren(...found.map(resultElement));
    const bad = found.filter(({ state }) => state === 'bad').length;
    const names = bad > 0 ? `${bad} of ${found.length} not verified` : `${found.length} checked, nothing wrong found`;
    status.textContent = found.length > 0 ? `Done: ${names}.` : 'Nothing to check among these files: choose an export, a proof or a receipt too.';
  } catch (error) {
    if (current !== run) return;
    status.textContent = `Cannot check: ${shown(error.message, MAX_LINE)}`;
  } finally {
    if (current === run) progress.hidden = true;
  }
}

function choose(files) {
  chosen = [...files];
  const named = chosen.slice(0, MAX_NAMED).map((file) => `${pathOf(file)} (${file.size.toLocaleString('en')} bytes)`);
  if (chosen.length > MAX_NAMED) named.push(`and ${(chosen.length - MAX_NAMED).toLocaleString('en')} more`);
  byId('chosen').replaceChildren(...named.map((name) => element('li', '', name)));
  verify();
}

function remember() {
  try {
    if (!byId('remember').checked) localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, JSON.stringify(Object.fromEntries(FIELDS.map((id) => [id, byId(id).value]))));
  } catch {
    byId('status').textContent = 'This browser does not let the page remember anything.';
  }
}

function recall() {
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? 'null');
    if (!stored) return;
    for (const id of FIELDS) byId(id).value = String(stored[id] ?? '');
    byId('remember').checked = true;
  } catch {
    // Nothing is stored.
  }
}

recall();
for (const id of ['files', 'folder']) byId(id).addEventListener('change', () => choose([...byId('files').files, ...byId('folder').files]));
byId('again').addEventListener('click', verify);
for (const id of ['remember', ...FIELDS]) byId(id).addEventListener('change', remember);
document.addEventListener('dragover', (event) => event.preventDefault());
document.addEventListener('drop', (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length > 0) choose(event.dataTransfer.files);
});
