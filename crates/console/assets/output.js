// Output of a run in progress, with what `console.js` declares: new output is requested from where the last part ended, and appended.
// The end stays in view if it was, and nothing moves for someone who reads further up.
'use strict';

{
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
  document.addEventListener('console:renewed', startFollowing);
}
