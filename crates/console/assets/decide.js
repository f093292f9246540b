// Going to where a draft or change is decided, and marking several that are alike; with what `console.js` declares. The keys lead there,
// and leave the doing to the person.
'use strict';

{
  const visible = (selector) => [...document.querySelectorAll(selector)].find((one) => one.checkVisibility());

  function focusDecision(decision) {
    const target = decision === 'reject' ? visible('.decide input[name="reason"]') : visible('.decide button[value="approve"]');
    const found = target ?? visible('.decide pre');
    found?.scrollIntoView({ block: 'center' });
    found?.focus();
  }

  function goDecide(decision) {
    const marks = visible('form[data-marked]');
    if (document.querySelector('.decide')) focusDecision(decision);
    else if (marks) location.assign(`${marks.action}?ids=${encodeURIComponent(marks.elements.ids.value)}#${decision}`);
    else openToDecide(decision);
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

  Object.assign(keyActions, { a: () => goDecide('approve'), r: () => goDecide('reject'), x: mark });
  document.addEventListener('change', (event) => { if (event.target.matches?.('[data-mark]')) showMarks(); });
  document.addEventListener('console:renewed', showMarks);
  window.addEventListener('pageshow', showMarks);
  showMarks();
}
