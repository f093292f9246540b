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
  // A row without a link has the focus itself, so that Enter does not open another one.
  const link = row.querySelector('a');
  if (!link) row.tabIndex = -1;
  (link ?? row).focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest' });
}

/** Opens the marked row of the inbox, or its first, at the form to decide. */
function openToDecide(decision) {
  if (location.pathname !== '/inbox') return;
  if (current < 0) moveTo(0);
  const link = rows()[current]?.querySelector('a');
  if (link) location.assign(`${link.href}#${decision}`);
}

const places = { i: '/inbox', r: '/robots', e: '/executions', w: '/runs', l: '/ledger', p: '/policy', u: '/usage', a: '/access' };

/** What a button in the menu turns on and off; it is remembered. Without scripts the button is hidden. */
function toggle(name, turnOff, turnOn, apply = () => {}) {
  const button = document.querySelector(`[data-${name}]`);
  const setting = { isOn: read(name) !== 'off' };
  const show = () => {
    button.textContent = setting.isOn ? turnOff : turnOn;
    apply(setting.isOn);
  };
  if (!button) return setting;
  button.hidden = false;
  show();
  button.addEventListener('click', () => {
    setting.isOn = !setting.isOn;
    keep(name, setting.isOn ? 'on' : 'off');
    show();
  });
  return setting;
}

// Single keys can be turned off: speech input and slips of the hand press them too.
const shortcuts = toggle('shortcuts', 'Turn keyboard shortcuts off', 'Turn keyboard shortcuts on', (isOn) => {
  for (const about of document.querySelectorAll('[data-keys]')) about.hidden = !isOn;
});
const updates = toggle('updates', 'Pause updates', 'Resume updates');

/** What single keys do. Scripts of some pages add to it. */
const keyActions = {
  '/': () => document.getElementById('search')?.focus(),
  j: () => moveTo(current + 1),
  k: () => moveTo(current - 1),
  a: () => openToDecide('approve'),
  r: () => openToDecide('reject'),
  '?': () => document.getElementById('keys')?.showModal(),
};

document.addEventListener('keydown', (event) => {
  if (!shortcuts.isOn || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
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
  if (event.key === 'g') {
    pending = 'g';
    return;
  }
  if (!Object.hasOwn(keyActions, event.key)) return;
  keyActions[event.key]();
  event.preventDefault();
});

// News: one event stream a session. The tab that holds the lock reads it and notifies the others. Tabs of another session, which may be of
// another tenant, have their own.
const TOPIC = ['live', 'types'];
let live;
let liveTypes;
let isLive;
const bar = document.querySelector('.changed');
const RENEW_MS = 3000;
const SAY_MS = 5000;
const MAX_ANNOUNCED = 1000;
let seen = Number(main?.dataset.seq ?? 0); // The page shows everything up to this entry, or says that there is more.
let streamed = seen; // The stream was read up to this entry; other tabs may show less than this one.
let announced = []; // The entries that concern the page and are not shown yet.
let problem = ''; // Why the page is not live.
let renewal = 0;
let renewedAt = 0;
let saying = 0;
let saidAt = 0;

// What a page is about: a robot, all entries, or entries of some types. It can change when the page is renewed.
function readTopic() {
  live = main?.dataset.live;
  liveTypes = main?.dataset.types?.split('\n') ?? [];
  isLive = live !== undefined || liveTypes.length > 0;
}
readTopic();
const concerns = (news) => live === '' || live === news.subject || liveTypes.includes(news.type);

function announce(news) {
  streamed = Math.max(streamed, news.seq);
  if (news.seq <= seen) return;
  seen = news.seq;
  if (!concerns(news)) return;
  announced = [...announced, news.seq].slice(-MAX_ANNOUNCED);
  if (isBusy()) sayNews();
  renewLater();
}

/** How much is new is said at once and then every few seconds: a screen reader reads each change. */
function sayNews() {
  saying ||= setTimeout(() => {
    saying = 0;
    saidAt = Date.now();
    showBar();
  }, Math.max(0, saidAt + SAY_MS - Date.now()));
}

/** Says what is new, or that nothing new will be shown; with a button, which stays the same one. */
function showBar() {
  const count = announced.length;
  if (!bar) return;
  if (bar.childElementCount === 0) {
    const button = document.createElement('button');
    button.type = 'button';
    button.addEventListener('click', () => refresh());
    bar.append(document.createElement('span'), ' ', button);
  }
  const [words, button] = bar.children;
  words.textContent = problem || `${count}${count === MAX_ANNOUNCED ? ' or more' : ''} new ${count === 1 ? 'entry' : 'entries'}.`;
  button.textContent = problem ? 'Refresh' : 'Show';
  bar.hidden = count === 0 && problem === '';
}

/** The page is renewed by itself only while no one is at work in it, and not more often than someone can read. */
function renewLater() {
  if (renewal) return;
  renewal = setTimeout(() => {
    renewal = 0;
    if (announced.length === 0) return;
    if (isBusy()) waitToRenew();
    else refresh(true);
  }, Math.max(isBusy() ? RENEW_MS : 0, renewedAt + RENEW_MS - Date.now()));
}

function waitToRenew() {
  if (announced.length > 0) sayNews();
  renewLater();
}

const isEdited = (field) => (field.matches('select') ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((one) => one.defaultSelected))
  : field.matches('[type="radio"], [type="checkbox"]') ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);

// Nothing jumps under the cursor, and nothing that someone typed, marked or is asked by their passkey is lost. Paused updates
// count as busy.
function isBusy() {
  const active = document.activeElement;
  const selection = document.getSelection();
  return !updates.isOn || window.scrollY > 0 || document.hidden || document.querySelector('main details[open] pre, dialog[open], main :hover, [data-acting]') !== null
    || [...main.querySelectorAll('input, select, textarea')].some(isEdited)
    || (selection?.isCollapsed === false && main.contains(selection.anchorNode))
    || (active && active !== document.body && main.contains(active));
}

/** The session that a page is of: what its forms carry. */
const sessionOf = (page) => page.querySelector('.who input[name="form"]')?.value;
const session = sessionOf(document);

let refreshing = false;
async function refresh(byItself = false) {
  if (refreshing) return;
  refreshing = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (byItself && isBusy()) { waitToRenew(); return; }
    // Of another session everything is different, not only what is in `main`.
    if (answer.redirected || (sessionOf(page) ?? session) !== session) { location.reload(); return; }
    const fresh = answer.ok && page.getElementById('main');
    if (!fresh) throw new Error(`The server answered ${answer.status} (request ${answer.headers.get('x-request-id') ?? 'unknown'}).`);
    renew(fresh, !byItself);
  } catch (error) {
    problem = error instanceof TypeError ? 'The server cannot be reached.' : error.message;
    showBar();
  } finally {
    refreshing = false;
    renewedAt = Date.now();
  }
}

/** What the page is about from now on; answers whether it is the same as before. */
function takeTopic(fresh) {
  if (TOPIC.every((name) => main.dataset[name] === fresh.dataset[name])) return true;
  for (const name of TOPIC) {
    if (name in fresh.dataset) main.dataset[name] = fresh.dataset[name];
    else delete main.dataset[name];
  }
  readTopic();
  if (main.dataset.stream !== undefined && !navigator.locks) readOwnStream();
  return false;
}

function renew(fresh, takesFocus) {
  const upTo = Number(fresh.dataset.seq ?? 0);
  renewedAt = Date.now();
  problem = '';
  seen = Math.max(seen, upTo);
  const hasOldTopic = takeTopic(fresh);
  // What arrived while the page was fetched may not be in it; about a new topic, the last of it stands for all.
  announced = hasOldTopic ? announced.filter((seq) => seq > upTo) : isLive && seen > upTo ? [seen] : [];
  showBar();
  if (announced.length > 0) renewLater();
  fresh.querySelector('.changed')?.replaceWith(bar);
  main.replaceChildren(...fresh.childNodes);
  document.title = fresh.ownerDocument.title;
  current = -1;
  if (takesFocus) {
    const heading = main.querySelector('h1');
    heading?.setAttribute('tabindex', '-1');
    heading?.focus({ preventScroll: true });
  }
  showTimes();
  document.dispatchEvent(new CustomEvent('console:renewed'));
}

// A list of what no entry tells yet is asked for again, while no one is at work in it.
const again = Number(document.querySelector('[data-again]')?.dataset.again);
if (again > 0) setInterval(() => { if (!isBusy() && announced.length === 0) refresh(true); }, again * 1000);

const EVENTS = `crealeph-events-${session}`;
const channel = 'BroadcastChannel' in window ? new BroadcastChannel(EVENTS) : null;
const MAX_RECENT = 200;
const GRACE_MS = 5000;
const MAX_WAIT_MS = 60000;
const SIGNED_OUT = 'You are signed out.';
let isSignedOut = false;
let recent = null; // Of the tab that reads the stream: what it read, for tabs that were loaded meanwhile.
let isReading = false;
let closeStream = () => {};

function notify(message) {
  hear(message);
  channel?.postMessage(message);
}

function hear(message) {
  if (message.news) announce(message.news);
  if (message.asks !== undefined) recent?.filter((news) => news.seq > message.asks).forEach((news) => channel.postMessage({ news }));
  isSignedOut ||= message.stream === SIGNED_OUT;
  if (isLive && message.stream !== undefined && message.stream !== problem) {
    problem = message.stream;
    showBar();
  }
}

/** Reads the stream until it ends. */
function readStream() {
  let grace = 0;
  const lost = (words) => notify({ stream: words });
  return new Promise((resolve) => {
    const events = new EventSource(`/v1/events?payload=none&after=${streamed}`);
    const close = () => { clearTimeout(grace); events.close(); resolve(); };
    closeStream = close;
    events.addEventListener('open', () => { clearTimeout(grace); grace = 0; lost(''); });
    events.addEventListener('entry', (event) => {
      const { subject, type } = JSON.parse(event.data);
      const news = { seq: Number(event.lastEventId), subject, type: type.replace('crealeph.entry.', '') };
      recent = [...recent, news].slice(-MAX_RECENT);
      notify({ news });
    });
    // The server says why it ended: the session, or the server itself.
    events.addEventListener('end', (event) => {
      lost(JSON.parse(event.data).code === 'key_ended' ? SIGNED_OUT : 'Live updates stopped.');
      close();
    });
    events.addEventListener('error', async () => {
      if (events.readyState !== EventSource.CLOSED) {
        grace ||= setTimeout(() => lost('Live updates stopped.'), GRACE_MS);
        return;
      }
      lost(await hasSessionEnded() ? SIGNED_OUT : 'Live updates stopped.');
      close();
    });
  });
}

/** Whether this page leads to the sign-in page now. A stream that is refused does not say why. */
async function hasSessionEnded() {
  try {
    return (await fetch(location.href, { method: 'HEAD', redirect: 'manual', headers: { accept: 'text/html' } })).type === 'opaqueredirect';
  } catch {
    return false;
  }
}

// With locks, one tab reads the stream for all of its session, whatever it shows; without, each page that is live reads its own.
const mayRead = () => !isSignedOut && (isLive || navigator.locks !== undefined);

async function lead() {
  isReading = true;
  recent = [];
  for (let wait = 1000; mayRead(); wait = Math.min(2 * wait, MAX_WAIT_MS)) {
    const startedAt = Date.now();
    await readStream();
    if (Date.now() - startedAt > MAX_WAIT_MS) wait = 1000;
    await new Promise((resolve) => { setTimeout(resolve, wait); });
  }
  isReading = false;
}

function readOwnStream() {
  if (!mayRead()) closeStream();
  else if (!isReading) lead();
}

if (main?.dataset.stream !== undefined) {
  channel?.addEventListener('message', (event) => hear(event.data));
  channel?.postMessage({ asks: seen });
  if (navigator.locks) navigator.locks.request(EVENTS, lead);
  else readOwnStream();
}
