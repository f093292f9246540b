// What pages do beyond being read: keys, times that stay true, and news of what changed. Without it every page still reads.
'use strict';

const main = document.getElementById('main');

// Times: relative, with the exact one on hover; in UTC or local.
const startedAt = Date.now();
const serverNow = Date.parse(main?.dataset.now ?? '') || startedAt;
const now = () => serverNow + (Date.now() - startedAt);
let exact = read('times');

function read(name) {
  try { return localStorage.getItem(`crealeph-${name}`); } catch { return null; }
}

function keep(name, value) {
  try { localStorage.setItem(`crealeph-${name}`, value); } catch { /* it is not kept */ }
}

function ago(at) {
  const seconds = Math.trunc((now() - at) / 1000);
  const age = Math.abs(seconds);
  if (seconds >= 0 && age < 5) return 'now';
  const [size, unit] = age < 60 ? [1, 's'] : age < 3600 ? [60, 'min'] : age < 86400 ? [3600, 'h'] : [86400, 'd'];
  const words = `${Math.trunc(age / size)} ${unit}`;
  return seconds < 0 ? `in ${words}` : `${words} ago`;
}

const local = (at) => new Date(at).toLocaleString();

function showTimes() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const text = exact === 'utc' ? time.dateTime : exact === 'local' ? local(at) : ago(at);
    if (time.textContent !== text) time.textContent = text;
  }
}

// Local times take long to make, so a title has one from when it is looked at.
document.addEventListener('pointerover', (event) => {
  const time = event.target.closest?.('time[datetime]');
  const at = Date.parse(time?.dateTime ?? '');
  if (!Number.isNaN(at)) time.title = `${time.dateTime}\n${local(at)}`;
});

const timesButton = document.querySelector('[data-times]');
const timeModes = { relative: ['utc', 'Show times in UTC'], utc: ['local', 'Show local times'], local: ['relative', 'Show how long ago'] };
function labelTimes() {
  if (timesButton) timesButton.textContent = timeModes[exact ?? 'relative'][1];
}
if (timesButton) {
  timesButton.hidden = false;
  timesButton.addEventListener('click', () => {
    exact = timeModes[exact ?? 'relative'][0];
    keep('times', exact);
    labelTimes();
    showTimes();
  });
}
if (!(exact in timeModes)) exact = 'relative';
labelTimes();
showTimes();
setInterval(showTimes, 15000);

// Keys.
const rows = () => [...document.querySelectorAll('[data-row]')];
let current = -1;
let pending = '';

function moveTo(index) {
  const all = rows();
  if (all.length === 0) return;
  all[current]?.classList.remove('current');
  current = Math.max(0, Math.min(all.length - 1, index));
  const row = all[current];
  row.classList.add('current');
  row.querySelector('a')?.focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest' });
}

// Deciding: the keys lead to where it is done, and leave the doing to the person.
const visible = (selector) => [...document.querySelectorAll(selector)].find((one) => one.checkVisibility());

function focusDecision(decision) {
  const target = decision === 'reject' ? visible('.decide input[name="reason"]') : visible('.decide button[value="approve"]');
  const found = target ?? visible('.decide pre');
  found?.scrollIntoView({ block: 'center' });
  found?.focus();
}

function goDecide(decision) {
  if (document.querySelector('.decide')) return focusDecision(decision);
  const marks = visible('form[data-marked]');
  if (marks) {
    const ids = encodeURIComponent(marks.elements.ids.value);
    return location.assign(`${marks.action}?ids=${ids}#${decision}`);
  }
  if (location.pathname !== '/inbox') return undefined;
  if (current < 0) moveTo(0);
  const link = rows()[current]?.querySelector('a');
  return link && location.assign(`${link.href}#${decision}`);
}

// Once what a passkey can do is shown.
document.addEventListener('DOMContentLoaded', () => {
  const decision = location.hash.slice(1);
  if (['approve', 'reject'].includes(decision)) focusDecision(decision);
});

// Enter in the reason moves to the button that it is for; the button asks.
document.addEventListener('submit', (event) => {
  const field = event.target.querySelector('input[name="signed"]');
  if (!field || !event.target.closest('.decide')) return;
  event.preventDefault();
  event.target.querySelector('button[value="reject"]')?.focus();
});

// Marking several that are alike. Those that are not cannot be marked with them.
function showMarks() {
  const form = document.querySelector('form[data-marked]');
  if (!form) return;
  const boxes = [...document.querySelectorAll('[data-mark]')];
  const marked = boxes.filter((box) => box.checked);
  const isFull = marked.length >= Number(form.dataset.marked);
  for (const box of boxes) {
    box.closest('p').hidden = false;
    box.disabled = !box.checked && marked.length > 0 && (isFull || box.dataset.alike !== marked[0].dataset.alike);
  }
  form.hidden = marked.length === 0;
  form.elements.ids.value = marked.map((box) => box.dataset.mark).join(',');
  if (marked.length === 0) return;
  const words = marked[0].closest('label').querySelector('span').textContent;
  form.querySelector('[data-status]').textContent = `${marked.length} marked: ${words}.${isFull ? ' That is the maximum to decide at once.' : ''}`;
}

function mark() {
  const box = rows()[current]?.querySelector('[data-mark]');
  if (!box || box.disabled) return;
  box.checked = !box.checked;
  showMarks();
}

document.addEventListener('change', (event) => { if (event.target.matches?.('[data-mark]')) showMarks(); });
document.addEventListener('console:renewed', showMarks);
window.addEventListener('pageshow', showMarks);
showMarks();

const places = { i: '/inbox', r: '/robots', e: '/executions', w: '/runs', l: '/ledger', p: '/policy', u: '/usage', a: '/access' };

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.('input:not([type="checkbox"]), textarea, select')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const before = pending;
  pending = '';
  if (before === 'g') {
    if (places[event.key]) location.assign(places[event.key]);
    return;
  }
  switch (event.key) {
    case '/': document.getElementById('search')?.focus(); break;
    case 'j': moveTo(current + 1); break;
    case 'k': moveTo(current - 1); break;
    case 'x': mark(); break;
    case 'a': goDecide('approve'); break;
    case 'r': goDecide('reject'); break;
    case 'g': pending = 'g'; return;
    case '?': document.getElementById('keys')?.showModal(); break;
    default: return;
  }
  event.preventDefault();
});

// News: one event stream a browser. The tab that holds the lock reads it and notifies the others.
const live = main?.dataset.live;
const bar = document.querySelector('.changed');
let count = 0;

function announce(entry) {
  if (live === undefined || !bar || !concerns(entry)) return;
  count += 1;
  bar.hidden = false;
  bar.replaceChildren(`${count} new ${count === 1 ? 'entry' : 'entries'}. `);
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Show';
  button.addEventListener('click', refresh);
  bar.append(button);
  if (!isBusy()) refresh();
}

// What a page is about: a robot, or nothing in particular.
function concerns(entry) {
  return live === '' || live === `robot=${encodeURIComponent(entry.subject)}`;
}

// Nothing jumps under the cursor: a page is renewed by itself only while no one is at work in it.
function isBusy() {
  const active = document.activeElement;
  return window.scrollY > 0 || document.querySelector('main details[open] pre, dialog[open], main :hover, [data-mark]:checked') !== null
    || [...document.querySelectorAll('main input[type="radio"]')].some((one) => one.checked !== one.defaultChecked)
    || (active && active !== document.body && main.contains(active)) || document.hidden;
}

let refreshing = false;
async function refresh() {
  if (refreshing) return;
  refreshing = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (!answer.ok || answer.redirected) { location.reload(); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('main');
    if (!fresh) { location.reload(); return; }
    const kept = bar;
    kept.hidden = true;
    kept.replaceChildren();
    count = 0;
    fresh.querySelector('.changed')?.replaceWith(kept);
    main.replaceChildren(...fresh.childNodes);
    current = -1;
    showTimes();
    document.dispatchEvent(new CustomEvent('console:renewed'));
  } catch {
    bar.replaceChildren('The server cannot be reached. ');
  } finally {
    refreshing = false;
  }
}

// Output of a run in progress: new output is requested from where the last part ended, and appended. The end stays in view if it was, and
// nothing moves for someone who reads further up.
const FOLLOW_MS = 1000;
const MAX_PARTS = 4000;
let followed = false;

function appendOutput(pre, part) {
  const isAtEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
  const news = [...part.childNodes];
  // A part does not know what came before it: the same heading is not repeated, and an open line of another stream ends.
  const headings = pre.querySelectorAll('.source');
  const isSame = news[0]?.classList?.contains('source') && headings[headings.length - 1]?.textContent === news[0].textContent;
  if (isSame) news.shift();
  const open = pre.lastElementChild?.dataset.open;
  if (open && news[0] && news[0].dataset?.stream !== open) pre.append('\n');
  pre.append(...news);
  while (isAtEnd && pre.childNodes.length > MAX_PARTS) pre.firstChild.remove();
  if (isAtEnd) pre.scrollTop = pre.scrollHeight;
}

async function followOutput() {
  const pre = document.querySelector('pre[data-output][data-running]');
  const note = document.querySelector('[data-follow]');
  if (!pre || !note) { followed = false; return; }
  let wait = FOLLOW_MS;
  try {
    const answer = document.hidden ? null : await fetch(pre.dataset.output + pre.dataset.next, { headers: { accept: 'text/html' } });
    if (answer?.redirected) { note.textContent = 'You are signed out; reload the page.'; followed = false; return; }
    if (answer?.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const part = fresh.querySelector('pre[data-output]');
      if (part && pre.isConnected) {
        appendOutput(pre, part);
        pre.dataset.next = part.dataset.next;
        const [state, now] = [document, fresh].map((page) => page.querySelector('[data-state]'));
        if (state && now) state.replaceChildren(...now.childNodes);
        note.textContent = 'The run is in progress; its output appears here.';
        if (part.dataset.more !== undefined) wait = 0;
        if (part.dataset.running === undefined && wait > 0) {
          delete pre.dataset.running;
          runIsOver(note);
          followed = false;
          return;
        }
      }
    } else if (answer) {
      wait = 5 * FOLLOW_MS;
    }
  } catch {
    note.textContent = 'The server cannot be reached; trying again.';
    wait = 5 * FOLLOW_MS;
  }
  setTimeout(followOutput, wait);
}

function runIsOver(note) {
  if (!isBusy()) { refresh(); return; }
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Show how it ended';
  button.addEventListener('click', refresh);
  note.replaceChildren('The run is over. ', button);
}

function showElapsed() {
  for (const one of document.querySelectorAll('[data-elapsed]')) {
    const seconds = Math.max(0, Math.trunc((now() - Date.parse(one.dataset.elapsed)) / 1000));
    if (Number.isNaN(seconds)) continue;
    one.textContent = seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.trunc(seconds / 60)} min ${seconds % 60} s`
      : `${Math.trunc(seconds / 3600)} h ${Math.trunc(seconds % 3600 / 60)} min`;
  }
}

function startFollowing() {
  const pre = document.querySelector('pre[data-output]');
  if (pre && !followed && pre.dataset.running !== undefined && document.querySelector('[data-follow]')) {
    followed = true;
    pre.scrollTop = pre.scrollHeight;
    setTimeout(followOutput, FOLLOW_MS);
    setInterval(showElapsed, FOLLOW_MS);
  }
}
startFollowing();

// A list of what no entry tells yet is asked for again, while no one is at work in it.
const again = Number(document.querySelector('[data-again]')?.dataset.again);
if (again > 0) setInterval(() => { if (!isBusy() && count === 0) refresh(); }, again * 1000);

const channel = 'BroadcastChannel' in window ? new BroadcastChannel('crealeph-events') : null;
channel?.addEventListener('message', (event) => announce(event.data));

function follow() {
  const events = new EventSource('/v1/events');
  events.addEventListener('entry', (event) => {
    let entry;
    try { entry = JSON.parse(event.data); } catch { return; }
    const news = { id: entry.id, subject: entry.subject };
    channel?.postMessage(news);
    announce(news);
  });
  // The server says why: the session has ended, or it stops. The page still reads, and reloading it says more.
  events.addEventListener('end', () => events.close());
  return new Promise(() => {});
}

if (main?.dataset.stream !== undefined) {
  if (navigator.locks) navigator.locks.request('crealeph-events', follow);
  else if (live !== undefined) follow();
}
