// The page at /docs.

import { assert, assertAccessible, assertFits, screenshot, setting, tell } from './browser.mjs';

const url = setting('CREALEPH_URL');

await tell({
  'a page that misbehaves fails its story': async (visitor) => {
    const page = await visitor.page();
    const policy = `<meta http-equiv="Content-Security-Policy" content="script-src 'unsafe-inline'; style-src 'none'">`;
    await page.setContent(`${policy}<p style="color:red">low</p><img alt="" src="http://other.example/a.png">
      <script>console.error('said so'); setTimeout(() => { throw new Error('thrown') });</script>`);
    const kinds = [/said so/, /thrown/, /Content Security Policy/, /request to another host: http:..other.example.a.png/];
    await assert.rejects(async () => assertAccessible(page), /html-has-lang/);
    for (const kind of kinds) assert.ok(visitor.problems.some((problem) => kind.test(problem)), `${kind}: ${visitor.problems}`);
    visitor.problems = [];
  },
  'lists every operation of the OpenAPI document': async (visitor) => {
    const page = await visitor.page();
    const answer = await page.goto(`${url}/docs`);
    assert.equal(answer.status(), 200);
    const described = await (await page.request.get(`${url}/openapi.json`)).json();
    const operations = Object.entries(described.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const listed = await page.locator('h2').allTextContents();
    assert.deepEqual(listed.toSorted(), operations.toSorted());
    await assertAccessible(page);
    await screenshot(page, 'api-docs');
    await assertFits(page, 360);
  },
  'reads without scripts': async (visitor) => {
    const page = await visitor.page({ javaScriptEnabled: false });
    await page.goto(`${url}/docs`);
    await page.getByRole('link', { name: 'openapi.json' }).click();
    assert.equal(page.url(), `${url}/openapi.json`);
    // A browser asks for it next to a document that cannot name an icon.
    const icon = await page.request.get(`${url}/favicon.ico`);
    assert.deepEqual([icon.status(), icon.headers()['content-type']], [200, 'image/svg+xml']);
  },
});
