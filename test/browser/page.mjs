// The page of the control plane in a real browser: Debian's Chromium against a running svc serve --ui whose every
// text is hostile. Each page in both themes, at 360 and 1440 px, is looked at by axe-core and by the rules of this
// file; then a person signs in, follows the live list, grants an approval and switches a policy.
//
//   node page.mjs SVC_BINARY              100 traces
//   node page.mjs SVC_BINARY --full       also no, one and 100,000 traces, 800 px, no JavaScript, the keyboard alone,
//                                         200 % zoom and forced colors
//   node page.mjs SVC_BINARY --pictures DIR   also writes a picture of each page
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import { check, expect, finish } from '../clients/checks.mjs';
import { caller, executed, fill, marks, trace } from './fill.mjs';

const binary = process.argv[2];
const full = process.argv.includes('--full');
const pictures = process.argv.includes('--pictures') && process.argv[process.argv.indexOf('--pictures') + 1];
if (!binary || binary.startsWith('--')) {
  console.error('usage: node page.mjs SVC_BINARY [--full] [--pictures DIR]');
  process.exit(2);
}
if (pictures) mkdirSync(pictures, { recursive: true });

// startPlane starts a control plane with an empty store.
async function startPlane() {
  const dir = mkdtempSync(join(tmpdir(), 'svc-browser-'));
  const free = createServer();
  await new Promise((done) => free.listen(0, '127.0.0.1', done));
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  const url = `http://127.0.0.1:${port}`;
  let log = '';
  const child = spawn(binary, ['serve', '--ui', '--listen', `127.0.0.1:${port}`, '--data-dir', dir, '--rate-limit', '100000', '--ingest-rate-limit', '100000'], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((done) => child.on('exit', done));
  process.on('exit', () => child.kill('SIGKILL'));
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { log += d; });
  for (let i = 0; ; i++) {
    try {
      if ((await fetch(`${url}/readyz`)).ok) break;
    } catch { /* not yet */ }
    if (i === 200) throw new Error(`the control plane did not start:\n${log}`);
    await new Promise((done) => setTimeout(done, 50));
  }
  const api = readFileSync(join(dir, 'bootstrap-key')).toString().trim();
  const svc = (...args) => execFileSync(binary, args, { env: { ...process.env, SVC_URL: url, SVC_API_KEY: api }, stdio: 'pipe' }).toString();
  const key = (name, ...rest) => JSON.parse(svc('keys', 'create', name, '-o', 'json', '--scope', ...rest));
  return {
    url, dir, api, svc, key, ingest: key('gateway', 'ingest').key, log: () => log,
    stop: async () => { child.kill(); await ended; rmSync(dir, { recursive: true, force: true }); },
  };
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: process.getuid() === 0 ? ['--no-sandbox'] : [] });

// open opens a browser of its own, without cookies. trouble gets everything that must never happen.
async function open(plane, options = {}) {
  const context = await browser.newContext({ baseURL: plane.url, viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(8000);
  const page = await context.newPage();
  const trouble = [];
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type()) && !/status of 4\d\d/.test(m.text())) trouble.push(`console: ${m.text()}`); });
  page.on('pageerror', (err) => trouble.push(`script: ${err.stack ?? err}`));
  page.on('dialog', (d) => { trouble.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on('request', (r) => { if (!r.url().startsWith(`${plane.url}/`)) trouble.push(`a request leaves the origin: ${r.url()}`); });
  page.on('response', (r) => { if (r.status() >= 500) trouble.push(`${r.status()}: ${r.url()}`); });
  context.on('page', (other) => { if (other !== page) trouble.push(`another window: ${other.url()}`); });
  await page.addInitScript(() => addEventListener('securitypolicyviolation', (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`)));
  return { context, page, trouble, close: () => context.close() };
}

async function signIn(page, key, to = '') {
  await page.goto(`/signin${to && `?to=${encodeURIComponent(to)}`}`);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

// pagesOf are all pages for somebody who is signed in.
const pagesOf = (ids) => ({
  overview: '/', traces: '/traces', trace: `/traces/${ids.trace}`, 'traces-filtered': '/traces?status=blocked', approvals: '/approvals', approval: ids.approvals && `/approvals/${ids.approvals[0]}`,
  gateways: '/gateways', gateway: ids.gateway && `/gateways/${encodeURIComponent(ids.gateway)}`, agents: '/agents', agent: ids.agent && `/agents/${ids.agent}`,
  policies: '/policies', policy: ids.policy && `/policies/${ids.policy}`, budgets: '/budgets', events: '/events',
});

// problemsOf returns what is wrong with the document that a page shows.
const problemsOf = (page) => page.evaluate((executed) => {
  const out = [];
  const name = (e) => e.outerHTML.slice(0, 120);
  const all = [...document.querySelectorAll('*')];
  if (window.hostile) out.push('a script of a text ran');
  if (!/.+ · svc$/.test(document.title)) out.push(`title ${document.title}`);
  if (document.querySelectorAll('h1').length !== 1) out.push(`${document.querySelectorAll('h1').length} h1`);
  if (document.documentElement.lang !== 'en') out.push('no lang');
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = all.filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll')).slice(0, 3).map(name);
    out.push(`the document is ${document.documentElement.scrollWidth} px wide at ${innerWidth}: ${wide.join(' ')}`);
  }
  const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\u{e0000}-\u{e007f}]/u;
  for (const e of all) {
    if (e.tagName === 'IMG' && !e.getAttribute('src').startsWith('/static/') || ['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'STYLE', 'FOREIGNOBJECT'].includes(e.tagName.toUpperCase())) out.push(`element ${name(e)}`);
    if (e.tagName === 'SCRIPT' && !e.src.startsWith(`${location.origin}/static/`)) out.push(`script ${name(e)}`);
    for (const a of e.attributes) {
      if (/^on|^style$|^srcdoc$|^formaction$/i.test(a.name) && a.value) out.push(`attribute ${a.name} of ${name(e)}`);
      if (unseen.test(a.value)) out.push(`an attribute with characters that cannot be seen: ${a.name} of ${name(e)}`);
      if (['href', 'xlink:href', 'action', 'src'].includes(a.name) && !/^(\/(?![/\\])|#|\?)/.test(a.value)) out.push(`${a.name}=${a.value}`);
    }
    if (e.tagName === 'TH' && !e.scope) out.push(`a heading without scope: ${name(e)}`);
  }
  for (const t of document.querySelectorAll('table')) {
    if (!t.caption && !t.getAttribute('aria-label') && !t.getAttribute('aria-labelledby') && !t.closest('section, details, .scroll[aria-label]')?.querySelector('h1, h2, h3, summary') && !t.closest('[aria-label]')) out.push(`a table without a name: ${name(t)}`);
  }
  if (unseen.test(document.body.textContent)) out.push(`a text with characters that cannot be seen: ${JSON.stringify(document.body.textContent.match(new RegExp(`.{0,20}${unseen.source}`, 'u'))[0])}`);
  return out;
}, executed);

// axeOf returns what axe-core finds.
async function axeOf(page, forced) {
  if (!await page.evaluate(() => 'axe' in window)) await page.evaluate(axe.source);
  // With forced colors axe-core still reads those of the style sheet.
  const options = { resultTypes: ['violations'], preload: false, rules: { 'color-contrast': { enabled: !forced } } };
  const { violations } = await page.evaluate((options) => axe.run(document, options), options);
  return violations.map((v) => `axe ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' ')} ${v.nodes[0].any[0]?.message ?? ''}`);
}

// look opens each page and looks at it in all sizes and themes.
async function look(plane, ids, what, { sizes = [1440, 360], themes = ['light', 'dark'], options = {}, key = plane.api, only, css } = {}) {
  const one = await open(plane, { ...options, ...(css && { bypassCSP: true }) });
  await signIn(one.page, key);
  for (const [name, path] of Object.entries({ ...pagesOf(ids), ...(only ?? {}) })) {
    if (!path) continue;
    await check(`${what}: ${name}`, async () => {
      one.trouble.length = 0;
      const response = await one.page.goto(path);
      if (css) await one.page.addStyleTag({ content: css });
      const found = response.status() === 200 ? [] : [`status ${response.status()}`];
      for (const [i, theme] of themes.entries()) {
        await one.page.emulateMedia({ colorScheme: theme });
        for (const [j, width] of sizes.entries()) {
          await one.page.setViewportSize({ width, height: width < 500 ? 740 : 900 });
          const at = (list) => found.push(...list.filter((p) => !(css && p.startsWith('element <style'))).map((p) => `${width} px, ${theme}: ${p}`));
          at(await problemsOf(one.page));
          // Colors change with the theme, layout with the size: axe-core, which takes most of the time, looks once at each
          // theme and size. It waits for timers, which a page without JavaScript does not have.
          if ((full || i === j) && options.javaScriptEnabled !== false) at(await axeOf(one.page, options.forcedColors));
          if (pictures && !css && !options.deviceScaleFactor) await one.page.screenshot({ path: join(pictures, `${what.replaceAll(/\W+/g, '-')}-${name}-${width}-${theme}.png`), fullPage: true, caret: 'initial' });
        }
      }
      found.push(...one.trouble);
      expect(!found.length, `\n  ${[...new Set(found)].join('\n  ')}`);
    });
  }
  await one.close();
}

// tabTo presses Tab until an element has the focus, and returns how often.
async function tabTo(page, matches, most = 400) {
  for (let i = 0; i < most; i++) {
    if (await page.evaluate(matches)) return i;
    await page.keyboard.press('Tab');
  }
  throw new Error(`the keyboard does not reach ${matches}`);
}

const started = Date.now();
const plane = await startPlane();
const { ids, agents } = await fill({ url: plane.url, api: plane.api, ingest: plane.ingest, traces: 100 });
const admin = caller(plane.url, plane.api);
const gateway = caller(plane.url, plane.ingest);

const one = await open(plane);
const { page } = one;
const quiet = () => expect(!one.trouble.length, one.trouble.join('\n'));

await check('a page that needs a session asks to sign in, and then shows what was asked for', async () => {
  await page.goto('/traces?status=error');
  expect(new URL(page.url()).pathname === '/signin', page.url());
  const found = [...await problemsOf(page), ...await axeOf(page)];
  await page.getByLabel('API key').fill(`svc_api_${'A'.repeat(43)}`);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('API key').fill(plane.api);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  expect(page.url() === `${plane.url}/traces?status=error`, page.url());
  expect(!found.length, found.join('\n'));
  quiet();
});

await check('the first page is under 100 KB in all', async () => {
  const bodies = [];
  const cold = await open(plane, { storageState: await one.context.storageState() });
  cold.page.on('response', (r) => bodies.push(r.body().then((b) => b.length, () => 0)));
  await cold.page.goto('/', { waitUntil: 'load' });
  const bytes = (await Promise.all(bodies)).reduce((a, b) => a + b, 0);
  await cold.close();
  expect(bytes > 500 && bytes < 100_000, `${bytes} bytes`);
});

await look(plane, ids, '100 traces');

await check('a page that does not exist says so', async () => {
  const response = await page.goto('/no-such-page');
  const found = [...await problemsOf(page), ...await axeOf(page)];
  expect(response.status() === 404 && !found.length, found.join('\n'));
});

await check('hostile texts are read as texts', async () => {
  const missing = [];
  for (const [path, ...wanted] of [
    ['/', marks.image, marks.script], ['/traces', ...Object.values(marks)], [`/traces/${ids.trace}`, marks.script], [`/approvals/${ids.approvals[1]}`, ...Object.values(marks).filter((m) => m !== marks.address), '\\u{202E}gnp.exe'],
    [`/gateways/${encodeURIComponent(ids.gateway)}`, marks.image, marks.attribute, marks.script], ['/agents', ...Object.values(marks).slice(0, 3)], [`/agents/${ids.agent}`, marks.image, '\\u{202E}gnp.exe'],
    ['/policies', ...Object.values(marks)], ['/budgets', marks.image, marks.script], ['/events', marks.script],
  ]) {
    await page.goto(path);
    const shown = (await page.locator('main').textContent()).replaceAll(/\s+/g, ' ');
    missing.push(...wanted.filter((w) => !shown.includes(w)).map((w) => `${path}: ${w}`));
  }
  expect(!missing.length, `\n  ${missing.join('\n  ')}`);
  quiet();
});

await check('the live list shows a new trace without a reload', async () => {
  await page.goto('/traces');
  await page.evaluate(() => { window.kept = true; });
  await gateway('POST', '/api/traces', { traces: [{ ...trace(7, Date.now(), agents), id: 'live-1', toolName: `live ${marks.image}` }] });
  await page.getByText(`live ${marks.image}`).first().waitFor({ timeout: 5000 });
  expect(await page.evaluate(() => window.kept), 'the page was loaded again');
  const found = [...await problemsOf(page), ...await axeOf(page)];
  expect(!found.length, found.join('\n'));
  quiet();
});

await check('an approval is granted by clicks', async () => {
  await page.goto('/');
  await page.getByRole('navigation').getByRole('link', { name: 'Approvals' }).click();
  await page.locator(`a[href="/approvals/${ids.approvals[1]}"]`).first().click();
  await page.getByRole('link', { name: 'Grant…' }).click();
  const found = [...await problemsOf(page), ...await axeOf(page)];
  expect(!found.length, found.join('\n'));
  await page.getByLabel('I have read').check();
  await page.getByRole('button', { name: 'Grant once' }).click();
  await page.getByText('granted').first().waitFor();
  const { status } = await admin('GET', `/api/approvals/${ids.approvals[1]}`);
  expect(status === 'granted', status);
  quiet();
});

await check('a policy is disabled and enabled by clicks', async () => {
  await page.goto('/policies');
  await page.locator(`a[href="/policies/${ids.policy}"]`).click();
  for (const [name, then, enabled] of [['Disable', 'Enable', false], ['Enable', 'Disable', true]]) {
    await page.getByRole('link', { name: `${name}…` }).click();
    await page.getByRole('button', { name }).click();
    await page.getByRole('link', { name: `${then}…` }).waitFor();
    expect((await admin('GET', `/api/policies/${ids.policy}`)).enabled === enabled, `it is not ${enabled ? 'enabled' : 'disabled'}`);
  }
  quiet();
});

await check('a link signs in, once', async () => {
  const link = plane.svc('ui', 'link', '--data-dir', plane.dir).match(/https?:\S+/)[0];
  const other = await open(plane);
  await other.page.goto(link);
  await other.page.getByRole('button', { name: /sign in/i }).click();
  await other.page.getByRole('button', { name: 'Sign out' }).waitFor();
  expect(!other.trouble.length, other.trouble.join('\n'));
  await other.close();
  const late = await open(plane);
  await late.page.goto(link);
  const button = late.page.getByRole('button', { name: /sign in/i });
  if (await button.count()) await button.click();
  expect(await late.page.getByRole('button', { name: 'Sign out' }).count() === 0, 'the link works twice');
  await late.close();
});

await check('a deleted key ends its session, and the page says where to sign in', async () => {
  const key = plane.key('short-lived', 'api');
  const other = await open(plane);
  await signIn(other.page, key.key, '/traces');
  plane.svc('keys', 'delete', key.id, '--yes');
  await other.page.goto('/policies');
  expect(new URL(other.page.url()).pathname === '/signin', other.page.url());
  await other.close();
});

await check('a key that may see little gets little, and is told so', async () => {
  const team = await admin('POST', '/api/teams', { name: 'readers' });
  await admin('PUT', `/api/teams/${team.id}/scopes`, { scopes: ['traces:read'] });
  const key = plane.key('reader', 'api', '--team-id', team.id);
  const other = await open(plane);
  await signIn(other.page, key.key);
  const found = [...await problemsOf(other.page), ...await axeOf(other.page), ...other.trouble];
  expect(!found.length, found.join('\n'));
  const nav = await other.page.getByRole('navigation').getByRole('link').allTextContents();
  expect(nav.includes('Traces') && !nav.includes('Policies') && !nav.includes('Approvals'), nav.join());
  expect((await other.page.goto('/policies')).status() === 404, '/policies is there');
  await other.close();
});

await check('sign-out ends the session', async () => {
  await page.goto('/');
  const cookies = await one.context.cookies();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  await one.context.addCookies(cookies);
  await page.goto('/');
  expect(new URL(page.url()).pathname === '/signin', 'the old cookie still opens the page');
  quiet();
});
await one.close();

if (full) await everything();

await check('the control plane logs no error', async () => {
  const bad = plane.log().split('\n').filter((l) => /"level":"ERROR"|panic|page failed/.test(l));
  expect(!bad.length, bad.slice(0, 5).join('\n'));
});
await plane.stop();
await browser.close();
console.log(`${Math.round((Date.now() - started) / 1000)} s`);
finish();

// everything is what takes longer than a change should wait for.
async function everything() {
  await look(plane, ids, '800 px', { sizes: [800] });
  await look(plane, ids, 'forced colors', { sizes: [1440], options: { forcedColors: 'active' } });
  await look(plane, ids, '200 % zoom of 1280 px', { sizes: [640], options: { deviceScaleFactor: 2 } });
  await look(plane, ids, '200 % text', { sizes: [720], themes: ['light'], css: 'html { font-size: 200% }' });
  await look(plane, ids, 'no JavaScript', { themes: ['light'], options: { javaScriptEnabled: false } });

  await check('without JavaScript an approval is denied and a policy disabled', async () => {
    const other = await open(plane, { javaScriptEnabled: false });
    await signIn(other.page, plane.api, `/approvals/${ids.approvals[2]}`);
    await other.page.getByRole('link', { name: 'Deny…' }).click();
    await other.page.getByRole('button', { name: 'Deny' }).click();
    await other.page.getByText('denied').first().waitFor();
    expect((await admin('GET', `/api/approvals/${ids.approvals[2]}`)).status === 'denied', 'it is not denied');
    await other.page.goto(`/policies/${ids.policy}`);
    await other.page.getByRole('link', { name: 'Disable…' }).click();
    await other.page.getByRole('button', { name: 'Disable' }).click();
    await other.page.getByRole('link', { name: 'Enable…' }).waitFor();
    expect(!(await admin('GET', `/api/policies/${ids.policy}`)).enabled, 'it is not disabled');
    await other.close();
  });

  await check('the keyboard alone: sign in, open a trace, grant an approval', async () => {
    const { page, trouble, close } = await open(plane);
    await page.goto('/signin');
    await tabTo(page, () => document.activeElement?.id === 'key');
    await page.keyboard.type(plane.api);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    for (const [nav, row] of [['/traces', '/traces/'], ['/approvals', `/approvals/${ids.approvals[3]}`]]) {
      await tabTo(page, `document.activeElement?.getAttribute('href') === ${JSON.stringify(nav)}`);
      await page.keyboard.press('Enter');
      await page.waitForURL(`**${nav}`);
      await tabTo(page, `document.activeElement?.getAttribute('href')?.startsWith(${JSON.stringify(row)})`);
      await page.keyboard.press('Enter');
      await page.waitForURL(`**${row}**`);
    }
    await tabTo(page, () => document.activeElement?.textContent === 'Grant…');
    await page.keyboard.press('Enter');
    await page.waitForURL('**decide=grant**');
    await tabTo(page, () => document.activeElement?.type === 'checkbox');
    await page.keyboard.press('Space');
    await tabTo(page, () => document.activeElement?.textContent === 'Grant once');
    await page.keyboard.press('Enter');
    await page.getByText('granted').first().waitFor();
    const { status } = await admin('GET', `/api/approvals/${ids.approvals[3]}`);
    expect(status === 'granted' && !trouble.length, `${status} ${trouble.join()}`);
    await close();
  });

  await check('Tab reaches everything, and what has the focus is seen', async () => {
    const { page, close } = await open(plane);
    await signIn(page, plane.api);
    const found = [];
    for (const [name, path] of Object.entries(pagesOf(ids))) {
      await page.goto(path);
      const wanted = await page.evaluate(() => {
        const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')].filter((e) => e.checkVisibility() && !e.disabled);
        all.forEach((e, i) => { e.dataset.n = i; });
        return all.map((e) => e.outerHTML.slice(0, 100));
      });
      const seen = new Set();
      const outlined = new Set(); // a field for a date has parts, each with a look of its own
      for (let i = 0; i < wanted.length + 20 && seen.size < wanted.length; i++) {
        await page.keyboard.press('Tab');
        const [n, marked] = await page.evaluate(() => {
          const e = document.activeElement;
          return [e?.dataset?.n, e && getComputedStyle(e).outlineStyle !== 'none'];
        });
        if (n !== undefined) seen.add(+n);
        if (n !== undefined && marked) outlined.add(+n);
      }
      found.push(...wanted.filter((_, i) => !seen.has(i)).map((w) => `${name}: not reached: ${w}`));
      found.push(...wanted.filter((_, i) => seen.has(i) && !outlined.has(i)).map((w) => `${name}: the focus is not seen on ${w}`));
    }
    expect(!found.length, `\n  ${found.slice(0, 20).join('\n  ')}`);
    await close();
  });

  for (const n of [0, 1, 100_000]) {
    const other = await startPlane();
    if (n) await caller(other.url, other.ingest)('POST', '/api/traces', { traces: [{ ...trace(0, Date.now(), ['a']), id: 'trace-1' }] });
    const ids = n > 1 ? (await fill({ url: other.url, api: other.api, ingest: other.ingest, traces: n })).ids : { trace: n && 'trace-1' };
    if (!n) delete ids.trace;
    await look(other, ids, `${n} traces`, { themes: ['light'], only: n ? {} : { trace: undefined } });
    await other.stop();
  }
}
