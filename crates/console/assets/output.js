// Output of a run in progress, with what `console.js` declares: new output is requested from where the last part ended, and appended.
// The end stays in view if it was, and nothing moves for someone who reads further up.
'use strict';

{
  const FOLLOW_MS = 1000;
  const MAX_PARTS = 4000;
  // So many stay for someone who reads further up; then nothing is appended until they are at the end.
  const MAX_PARTS_ABOVE = 2 * MAX_PARTS;
  let followed = false;

  const isAtEnd = (pre) => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;

  function appendOutput(pre, part) {
    const wasAtEnd = isAtEnd(pre);
    const news = [...part.childNodes];
    // A part does not know what came before it: the same heading is not repeated, and an open line of another stream ends.
    const headings = pre.querySelectorAll('.source');
    const isSame = news[0]?.classList?.contains('source') && headings[headings.length - 1]?.textContent === news[0].textContent;
    if (isSame) news.shift();
    const open = pre.lastElementChild?.dataset.open;
    if (open && news[0] && news[0].dataset?.stream !== open) pre.append('\n');
    pre.append(...news);
    if (!wasAtEnd) return;
    if (pre.childNodes.length > MAX_PARTS) sayCut(pre);
    while (pre.childNodes.length > MAX_PARTS) pre.firstChild.remove();
    pre.scrollTop = pre.scrollHeight;
  }

  function linkToAll(pre, words) {
    const link = document.createElement('a');
    link.href = pre.dataset.output.split('?')[0];
    link.textContent = words;
    return link;
  }

  /** Says once that what is shown is not the whole output, instead of how much was left out when the page was loaded. */
  function sayCut(pre) {
    if (pre.dataset.cut !== undefined) return;
    pre.dataset.cut = '';
    const cut = document.createElement('p');
    cut.className = 'cut';
    cut.append('Earlier output is not shown. ', linkToAll(pre, 'Show it from the start'));
    if (pre.previousElementSibling?.matches('.cut')) pre.previousElementSibling.remove();
    pre.before(cut);
  }

  /** A status that is the same is not said again. */
  function say(note, ...parts) {
    if (note.textContent !== parts.map((part) => part.textContent ?? part).join('')) note.replaceChildren(...parts);
  }

  /** Shows what a page has of the output; answers how long to wait for more, or nothing if the run is over. */
  function showPart(pre, note, page) {
    const part = page.querySelector('pre[data-output]');
    // Updates may have been paused meanwhile.
    if (!part || !pre.isConnected || !updates.isOn) return FOLLOW_MS;
    const isFull = pre.childNodes.length >= MAX_PARTS_ABOVE && !isAtEnd(pre);
    const [hasMore, isRunning] = [part.dataset.more !== undefined, part.dataset.running !== undefined];
    if (!isFull) {
      appendOutput(pre, part);
      pre.dataset.next = part.dataset.next;
    }
    const [state, now] = [document, page].map((one) => one.querySelector('[data-state]'));
    if (state && now) state.replaceChildren(...now.childNodes);
    if (!isRunning && (isFull || !hasMore)) {
      delete pre.dataset.running;
      runIsOver(note, isFull ? [' Its last output is not shown here. ', linkToAll(pre, 'Show all output')] : []);
      return undefined;
    }
    if (isFull) say(note, 'New output is not shown while you read further up. ', linkToAll(pre, 'Show all output'));
    else say(note, 'The run is in progress; its output appears here.');
    return hasMore && !isFull ? 0 : FOLLOW_MS;
  }

  async function followOutput() {
    const pre = document.querySelector('pre[data-output][data-running]');
    const note = document.querySelector('[data-follow]');
    if (!pre || !note) { followed = false; return; }
    let wait = FOLLOW_MS;
    if (!updates.isOn) say(note, 'Updates are paused; resume them in the menu to see new output.');
    try {
      const answer = document.hidden || !updates.isOn ? null : await fetch(pre.dataset.output + pre.dataset.next, { headers: { accept: 'text/html' } });
      if (answer?.redirected) { say(note, 'You are signed out; reload the page.'); followed = false; return; }
      if (answer?.ok) {
        wait = showPart(pre, note, new DOMParser().parseFromString(await answer.text(), 'text/html'));
        if (wait === undefined) { followed = false; return; }
      } else if (answer) {
        say(note, `The server answered ${answer.status}; trying again.`);
        wait = 5 * FOLLOW_MS;
      }
    } catch {
      say(note, 'The server cannot be reached; trying again.');
      wait = 5 * FOLLOW_MS;
    }
    setTimeout(followOutput, wait);
  }

  /** Says so with a button, because the page may not renew itself: someone is at work in it, or the server does not answer. */
  function runIsOver(note, more) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Show how it ended';
    button.addEventListener('click', () => refresh());
    note.replaceChildren('The run is over. ', button, ...more);
    if (!isBusy()) refresh(true);
  }

  function showElapsed() {
    if (!updates.isOn) return;
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
