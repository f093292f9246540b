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

// Single keys can be turned off: speech input and slips of the hand press them too.
let shortcuts = read('shortcuts') !== 'off';
const shortcutsButton = document.querySelector('[data-shortcuts]');
function labelShortcuts() {
  shortcutsButton.textContent = shortcuts ? 'Turn keyboard shortcuts off' : 'Turn keyboard shortcuts on';
}
if (shortcutsButton) {
  shortcutsButton.hidden = false;
  labelShortcuts();
  shortcutsButton.addEventListener('click', () => {
    shortcuts = !shortcuts;
    keep('shortcuts', shortcuts ? 'on' : 'off');
    labelShortcuts();
  });
}

document.addEventListener('keydown', (event) => {
  if (!shortcuts || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
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
const RENEW_MS = 3000;
let seen = Number(main?.dataset.seq ?? 0); // The page shows everything up to this entry, or says that there is more.
let count = 0;
let problem = ''; // Why the page is not live.
let renewal = 0;
let renewedAt = 0;

// What a page is about: a robot, or nothing in particular.
const concerns = (news) => live !== undefined && (live === '' || live === news.subject);

function announce(news) {
  if (news.seq <= seen) return;
  seen = news.seq;
  if (!concerns(news)) return;
  count += 1;
  showBar();
  renewLater();
}

/** Says what is new, or that nothing new will be shown; with a button, which stays the same one. */
function showBar() {
  if (!bar || (live === undefined && count === 0)) return;
  if (bar.childElementCount === 0) {
    const button = document.createElement('button');
    button.type = 'button';
    button.addEventListener('click', () => refresh());
    bar.append(document.createElement('span'), ' ', button);
  }
  const [words, button] = bar.children;
  words.textContent = problem || `${count} new ${count === 1 ? 'entry' : 'entries'}.`;
  button.textContent = problem ? 'Refresh' : 'Show';
  bar.hidden = count === 0 && problem === '';
}

/** The page is renewed by itself only while no one is at work in it, and not more often than someone can read. */
function renewLater() {
  if (renewal) return;
  renewal = setTimeout(() => {
    renewal = 0;
    if (count === 0) return;
    if (isBusy()) renewLater();
    else refresh(true);
  }, Math.max(isBusy() ? RENEW_MS : 0, renewedAt + RENEW_MS - Date.now()));
}

const isEdited = (field) => (field.matches('select') ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((one) => one.defaultSelected))
  : field.matches('[type="radio"], [type="checkbox"]') ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);

// Nothing jumps under the cursor, and nothing that someone typed, marked or is asked by their passkey is lost.
function isBusy() {
  const active = document.activeElement;
  const selection = document.getSelection();
  return window.scrollY > 0 || document.hidden || document.querySelector('main details[open] pre, dialog[open], main :hover, [data-acting]') !== null
    || [...main.querySelectorAll('input, select, textarea')].some(isEdited)
    || (selection?.isCollapsed === false && main.contains(selection.anchorNode))
    || (active && active !== document.body && main.contains(active));
}

let refreshing = false;
async function refresh(byItself = false) {
  if (refreshing) return;
  refreshing = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (answer.redirected) { location.reload(); return; }
    const fresh = answer.ok && new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('main');
    if (!fresh) throw new Error(`The server answered ${answer.status}.`);
    if (byItself && isBusy()) { renewLater(); return; }
    renew(fresh, !byItself);
  } catch (error) {
    problem = error instanceof TypeError ? 'The server cannot be reached.' : error.message;
    showBar();
  } finally {
    refreshing = false;
    renewedAt = Date.now();
  }
}

function renew(fresh, takesFocus) {
  count = 0;
  problem = '';
  seen = Math.max(seen, Number(fresh.dataset.seq ?? 0));
  showBar();
  fresh.querySelector('.changed')?.replaceWith(bar);
  main.replaceChildren(...fresh.childNodes);
  current = -1;
  if (takesFocus) {
    const heading = main.querySelector('h1');
    heading?.setAttribute('tabindex', '-1');
    heading?.focus({ preventScroll: true });
  }
  showTimes();
  document.dispatchEvent(new CustomEvent('console:renewed'));
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

/** A status that is the same is not said again. */
function say(note, words) {
  if (note.textContent !== words) note.textContent = words;
}

async function followOutput() {
  const pre = document.querySelector('pre[data-output][data-running]');
  const note = document.querySelector('[data-follow]');
  if (!pre || !note) { followed = false; return; }
  let wait = FOLLOW_MS;
  try {
    const answer = document.hidden ? null : await fetch(pre.dataset.output + pre.dataset.next, { headers: { accept: 'text/html' } });
    if (answer?.redirected) { say(note, 'You are signed out; reload the page.'); followed = false; return; }
    if (answer?.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const part = fresh.querySelector('pre[data-output]');
      if (part && pre.isConnected) {
        appendOutput(pre, part);
        pre.dataset.next = part.dataset.next;
        const [state, now] = [document, fresh].map((page) => page.querySelector('[data-state]'));
        if (state && now) state.replaceChildren(...now.childNodes);
        say(note, 'The run is in progress; its output appears here.');
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
    say(note, 'The server cannot be reached; trying again.');
    wait = 5 * FOLLOW_MS;
  }
  setTimeout(followOutput, wait);
}

function runIsOver(note) {
  if (!isBusy()) { refresh(true); return; }
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Show how it ended';
  button.addEventListener('click', () => refresh());
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
if (again > 0) setInterval(() => { if (!isBusy() && count === 0) refresh(true); }, again * 1000);

const channel = 'BroadcastChannel' in window ? new BroadcastChannel('crealeph-events') : null;
const MAX_RECENT = 200;
const GRACE_MS = 5000;
const MAX_WAIT_MS = 60000;
const SIGNED_OUT = 'You are signed out.';
let isSignedOut = false;
let recent = null; // Of the tab that reads the stream: what it read, for tabs that were loaded meanwhile.

function notify(message) {
  hear(message);
  channel?.postMessage(message);
}

function hear(message) {
  if (message.news) announce(message.news);
  if (message.asks !== undefined) recent?.filter((news) => news.seq > message.asks).forEach((news) => channel.postMessage({ news }));
  isSignedOut ||= message.stream === SIGNED_OUT;
  if (message.stream !== undefined && message.stream !== problem) {
    problem = message.stream;
    showBar();
  }
}

/** Reads the stream until it ends; answers whether to try again. */
function readStream() {
  let grace = 0;
  const lost = (words) => notify({ stream: words });
  return new Promise((resolve) => {
    const events = new EventSource(`/v1/events?payload=none&after=${seen}`);
    const close = (again) => { clearTimeout(grace); events.close(); resolve(again); };
    events.addEventListener('open', () => { clearTimeout(grace); grace = 0; lost(''); });
    events.addEventListener('entry', (event) => {
      const news = { seq: Number(event.lastEventId), subject: JSON.parse(event.data).subject };
      recent = [...recent, news].slice(-MAX_RECENT);
      notify({ news });
    });
    // The server says why it ended: the session, or the server itself.
    events.addEventListener('end', (event) => {
      const isOver = JSON.parse(event.data).code === 'key_ended';
      lost(isOver ? SIGNED_OUT : 'Live updates stopped.');
      close(!isOver);
    });
    events.addEventListener('error', () => {
      if (events.readyState === EventSource.CLOSED) { lost('Live updates stopped.'); close(true); }
      else grace ||= setTimeout(() => lost('Live updates stopped.'), GRACE_MS);
    });
  });
}

async function lead() {
  recent = [];
  for (let wait = 1000; ; wait = Math.min(2 * wait, MAX_WAIT_MS)) {
    const startedAt = Date.now();
    if (isSignedOut || !await readStream()) return;
    if (Date.now() - startedAt > MAX_WAIT_MS) wait = 1000;
    await new Promise((resolve) => { setTimeout(resolve, wait); });
  }
}

if (main?.dataset.stream !== undefined) {
  channel?.addEventListener('message', (event) => hear(event.data));
  channel?.postMessage({ asks: seen });
  if (navigator.locks) navigator.locks.request('crealeph-events', lead);
  else if (live !== undefined) lead();
}
