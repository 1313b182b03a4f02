// A call that needs the approval of a person, by official clients of both generations and by
// agent frameworks: what a model is told, the grant on the command line, and that the same call
// passes once after it. A receiver on this machine gets the message about each request.
//
//   node approvals.mjs SVC_BINARY
import { execFileSync, spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, expect, finish } from '../clients/checks.mjs';
import { connect } from '../clients/face.mjs';
import { eventually, eventuallyListed, startGateway } from '../clients/gateway.mjs';
import { adapters } from './adapters.mjs';
import { freePort } from './servers.mjs';

const binary = process.argv[2];
if (!binary) {
  console.error('usage: node approvals.mjs SVC_BINARY');
  process.exit(2);
}
const dir = mkdtempSync(join(tmpdir(), 'svc-approvals-'));

// The receiver of messages.
const messages = [];
const receiver = createServer((req, res) => {
  let body = '';
  req.on('data', (d) => { body += d; });
  req.on('end', () => { messages.push({ signature: req.headers['x-svc-signature'], ...JSON.parse(body) }); res.end(); });
});
await new Promise((done) => receiver.listen(0, '127.0.0.1', done));

// The control plane.
const port = await freePort();
const plane = `http://127.0.0.1:${port}`;
let log = '';
const serve = spawn(binary, ['serve', '--listen', `127.0.0.1:${port}`, '--data-dir', join(dir, 'plane'), '--webhook-allow', `127.0.0.1/32:${receiver.address().port}`],
  { stdio: ['ignore', 'pipe', 'pipe'] });
for (const out of [serve.stdout, serve.stderr]) out.on('data', (d) => { log += d; });
for (let i = 0; ; i++) {
  try {
    if ((await fetch(`${plane}/readyz`)).ok) break;
  } catch { /* not yet */ }
  if (i === 200) throw new Error(`the control plane did not start:\n${log}`);
  await new Promise((done) => setTimeout(done, 50));
}
const env = { ...process.env, SVC_URL: plane, SVC_API_KEY: readFileSync(join(dir, 'plane/bootstrap-key')).toString().trim() };
const svc = (...args) => execFileSync(binary, args, { env, stdio: 'pipe' }).toString();
const ingest = JSON.parse(svc('keys', 'create', 'gateway', '--scope', 'ingest', '-o', 'json'));
writeFileSync(join(dir, 'url'), `http://127.0.0.1:${receiver.address().port}/hook`);
svc('webhooks', 'create', 'chat', '--url-file', join(dir, 'url'), '--events', 'approval.requested');

const memory = join(import.meta.dirname, 'node_modules/@modelcontextprotocol/server-memory/dist/index.js');
const gateway = await startGateway(binary, { memory: { command: [process.execPath, memory], keys: `prefix: memory_, sharing: all, env: {MEMORY_FILE_PATH: ${join(dir, 'memory.jsonl')}}` } }, '',
  '{id: ask, action: allow, when: {tool_name: memory_create_entities}, approval: {not_self: false}}', {
    federation: '{enabled: true}',
    yaml: `control_plane: {url: "${plane}", ingest_key: "${ingest.key}"}`,
    denyAs: 'tool_error',
  });
await eventuallyListed(gateway, []);

// saved is how often an entity was written.
const saved = (name) => {
  try {
    return readFileSync(join(dir, 'memory.jsonl')).toString().split(`"name":"${name}"`).length - 1;
  } catch {
    return 0;
  }
};

const official = (kind) => async () => {
  const opened = await connect(kind, gateway);
  return { call: (name, args) => opened.call({ name, arguments: args }), close: opened.close };
};
const all = {
  ...Object.fromEntries(['sdk 1.x, sessions', 'client 2.x, sessions', 'client 2.x, 2026-07-28'].map((kind) => [kind, official(kind)])),
  ...Object.fromEntries(Object.entries(adapters).map(([name, open]) => [name, () => open(gateway.url.href, gateway.headers)])),
};
for (const [name, open] of Object.entries(all)) {
  const entity = `made by ${name}`;
  const args = { entities: [{ name: entity, entityType: 'program', observations: ['governs'] }] };
  // told is what a model reads, of a result or of the framework's error.
  const told = async (opened) => {
    try {
      return JSON.stringify(await opened.call('memory_create_entities', args));
    } catch (err) {
      return String(err?.message ?? err);
    }
  };
  await check(`${name}: is told to wait for a person, and passes once after the grant`, async () => {
    const opened = await open();
    const first = await told(opened);
    expect(/approve/.test(first) && /same arguments/.test(first), `the model is told ${first}`);
    expect(saved(entity) === 0, 'the call ran without a grant');
    const id = svc('approvals', 'list', '--status', 'pending', '--limit', '1', '-o', 'name').trim();
    expect(first.includes(id), `${first} does not name ${id}`);
    await eventually(() => `no message about ${id}: ${JSON.stringify(messages)}`, () => messages.some((m) => m.type === 'approval.requested' && m.subject.id === id));
    expect(!JSON.stringify(messages).includes(entity), 'a message has arguments of the call');
    svc('approvals', 'grant', id);
    await new Promise((done) => setTimeout(done, 2100)); // retry_after
    const second = await told(opened);
    expect(second.includes(entity), `after the grant: ${second}`);
    expect(saved(entity) === 1, `${saved(entity)} entities were written`);
    const third = await told(opened);
    expect(/approve/.test(third), `a grant was used twice: ${third}`);
    await opened.close();
  });
}
await check('every message is signed', async () => expect(messages.length > 0 && messages.every((m) => /^t=\d+,v1=[0-9a-f]{64}$/.test(m.signature)), JSON.stringify(messages[0])));
await check('the gateway ends in order', async () => expect(await gateway.stop() === 0, gateway.log()));
gateway.remove();
serve.kill();
receiver.close();
rmSync(dir, { recursive: true, force: true });
finish();
