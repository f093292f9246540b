// An execution that was tried several times.

import { assert, assertAccessible, assertFits, setting, tell } from './browser.mjs';

await tell({
  'attempts are side by side': async (visitor) => {
    const page = await visitor.page();
    await page.goto(setting('CREALEPH_LINKS'));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(/\/inbox$/);
    await page.goto(new URL('/executions/retried/tries-1', setting('CREALEPH_URL')).href);
    const attempts = page.getByRole('region', { name: 'Attempts' });
    assert.deepEqual(await attempts.locator('thead th').allInnerTexts(), ['Attempt 1', 'Attempt 2']);
    await assertAccessible(page);
    await assertFits(page, 360);
  },
});
