// The gateway gets tokens for tool servers from a real OpenID provider: an operator logs in at
// a hosted server with 'svc upstream login', two gateways share that login while the provider
// rotates its refresh tokens, and two users access a server with their own identities by token
// exchange. No secret is in a log, an audit line, a response or an argument of a process.
//
//   node credentials.mjs SVC_BINARY
import { execFile, execFileSync, spawn } from 'node:child_process';
import { createServer, request } from 'node:http';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, expect, failures, finish } from './checks.mjs';
import { startGateway } from './gateway.mjs';
import { approve, claimsOf, startIssuer } from './issuer.mjs';
import { startUpstream } from './upstream.mjs';

const [binary] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node credentials.mjs SVC_BINARY');
  process.exit(2);
}

const issuer = await startIssuer(undefined, { offline: true, ttl: 6 });
const tool = await startUpstream('tool');

// hosted is a server that requires a login. It records the users and tokens of its requests.
const seen = [];
const hosted = createServer((req, res) => {
  const { origin } = new URL(url);
  if (req.url === '/.well-known/oauth-protected-resource/mcp') {
    res.writeHead(200, { 'content-type': 'application/json' });
    return res.end(JSON.stringify({ resource: url, authorization_servers: [issuer.url], scopes_supported: ['mcp'] }));
  }
  const token = req.headers.authorization?.replace('Bearer ', '') ?? '';
  const claims = token && claimsOf(token, issuer.keys);
  if (!claims || claims.aud !== url) {
    res.writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"` });
    return res.end();
  }
  seen.push({ user: claims.sub, token, headers: JSON.stringify(req.headers) });
  const { authorization, ...headers } = req.headers;
  return req.pipe(request(tool.url, { method: req.method, headers }, (answer) => { res.writeHead(answer.statusCode, answer.headers); answer.pipe(res); }));
});
await new Promise((done) => hosted.listen(0, '127.0.0.1', done));
const url = `http://127.0.0.1:${hosted.address().port}/mcp`;

const state = mkdtempSync(join(tmpdir(), 'svc-state-'));
const route = '  - {match: {tool_name: "*"}, upstream: hosted}';
const login = { url, keys: 'credentials: {authorization_code: {}}' };
const gateways = [];
for (let i = 0; i < 2; i++) gateways.push(await startGateway(binary, { hosted: login }, route, '', { yaml: `state_dir: ${state}` }));
const [first] = gateways;
const config = join(first.dir, 'svc.yaml');
const runWith = (env, ...args) => new Promise((done) => {
  execFile(binary, args, { env: { ...process.env, ...env } }, (err, stdout, stderr) => done({ code: err ? err.code : 0, text: stdout + stderr }));
});
const run = (...args) => runWith({}, ...args, '--config', config);

async function call(gateway, headers) {
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'tool_echo' },
    body: JSON.stringify({
      jsonrpc: '2.0', id: 'q-1', method: 'tools/call',
      params: { name: 'tool_echo', arguments: {}, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } },
    }),
  });
  return { status: response.status, text: await response.text() };
}

await check('nobody is logged in: the call says so, and so do the commands', async () => {
  const got = await call(first, first.headers);
  const { error } = JSON.parse(got.text);
  expect(got.status === 502 && error.message === 'upstream_credentials' && error.data.reason === 'upstream_login_required', JSON.stringify(got));
  const status = await run('upstream', 'status');
  expect(status.code === 1 && /hosted +nobody is logged in/.test(status.text), JSON.stringify(status));
  const probe = await run('gateway', '--check', '--probe');
  expect(probe.code === 1 && probe.text.includes("run 'svc upstream login hosted'"), JSON.stringify(probe));
  expect(seen.length === 0, 'the server was reached');
});

await check('svc upstream login: discovery, registration, PKCE, refresh token', async () => {
  const refused = await run('upstream', 'login', 'hosted');
  expect(refused.code === 2 && refused.text.includes('--accept-issuer') && refused.text.includes('(proposed by the server)'), JSON.stringify(refused));
  const host = new URL(issuer.url).host;
  const proposed = await run('upstream', 'login', 'hosted', '--accept-issuer', host);
  expect(proposed.code === 2 && proposed.text.includes('not accepted: the scopes mcp offline_access'), JSON.stringify(proposed));
  // The flag does not accept scopes that the server proposes: the operator writes them.
  const chosen = join(first.dir, 'chosen.yaml');
  writeFileSync(chosen, readFileSync(config, 'utf8').replace('authorization_code: {}', 'authorization_code: {scopes: [mcp]}'), { mode: 0o600 });
  const child = spawn(binary, ['upstream', 'login', 'hosted', '--accept-issuer', host, '--config', chosen], { stdio: ['ignore', 'pipe', 'pipe'] });
  let notes = '';
  child.stderr.on('data', (d) => { notes += d; });
  const address = await new Promise((done, fail) => {
    child.stdout.once('data', (d) => done(String(d).trim()));
    child.once('exit', () => fail(new Error(notes)));
  });
  const asked = new URL(address).searchParams;
  expect(asked.get('resource') === url && asked.get('code_challenge_method') === 'S256' && asked.get('scope') === 'mcp offline_access', address);
  const args = execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(child.pid)]).toString();
  expect(!args.includes(asked.get('state')), args);
  const back = await approve(address, asked.get('redirect_uri'));
  const page = await (await fetch(back)).text();
  expect(page.includes('You can close this page') && !page.includes(back.searchParams.get('code')), page);
  const code = await new Promise((done) => child.once('exit', done));
  expect(code === 0 && notes.includes('Logged in at'), `${code} ${notes}`);
  const [file] = readdirSync(state).filter((name) => name.startsWith('upstream-login-hosted') && name.endsWith('.json'));
  expect((statSync(join(state, file)).mode & 0o777) === 0o600 && JSON.parse(readFileSync(join(state, file))).refresh_token, file);
});

await check('two gateways use the login without a restart, while every refresh token is good once', async () => {
  // The previous failure is cached for a second.
  for (const gateway of gateways) {
    for (let i = 0; i < 60 && (await call(gateway, gateway.headers)).status !== 200; i++) await new Promise((done) => setTimeout(done, 50));
  }
  const end = Date.now() + 14_000; // several renewals by each gateway: a token is used for 3 s
  for (let calls = 0; Date.now() < end; calls++) {
    for (const got of await Promise.all(gateways.map((gateway) => call(gateway, gateway.headers)))) {
      expect(got.status === 200 && got.text.includes('tool'), `after ${calls} calls: ${JSON.stringify(got)}`);
    }
    await new Promise((done) => setTimeout(done, 200));
  }
  const tokens = new Set(seen.map((s) => s.token));
  expect(tokens.size >= 4 && tokens.size <= 8, `${tokens.size} tokens`);
  expect(seen.every((s) => s.user === 'alice'), 'another account');
  const probe = await run('gateway', '--check', '--probe');
  expect(probe.code === 0 && /upstream +hosted +ok/.test(probe.text), probe.text);
  const status = await run('upstream', 'status');
  expect(status.code === 0 && status.text.includes(issuer.url) && /logged in/.test(status.text), status.text);
});

await check('svc upstream logout revokes the login', async () => {
  const [file] = readdirSync(state).filter((name) => name.startsWith('upstream-login-hosted') && name.endsWith('.json'));
  const { refresh_token: refresh, client_id: client } = JSON.parse(readFileSync(join(state, file)));
  expect((await run('upstream', 'logout', 'hosted')).code === 0, 'logout');
  expect((await run('upstream', 'status')).code === 1, 'status');
  const response = await fetch(`${issuer.url}/token`, { method: 'POST', body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: refresh, client_id: client }) });
  expect(response.status === 400 && (await response.json()).error === 'invalid_grant', 'the refresh token is still good');
});

const users = await startGateway(binary, { hosted: { url, keys: `credentials: {token_exchange: {token_url: "${issuer.url}/token", client_id: exchanger, client_secret: planted-exchanger-secret, resource: "${url}"}}` } }, route, '', {
  oauth: (port) => `  oauth:
    enabled: true
    issuer: ${issuer.url}
    audience: http://127.0.0.1:${port}/mcp
    jwks_url: ${issuer.jwksUrl}
    public_url: http://127.0.0.1:${port}`,
});
const own = [];
await check('two users reach the server as themselves, by token exchange', async () => {
  for (const user of ['bob', 'carol', 'bob']) {
    const token = await issuer.userToken(users.url.href, user);
    own.push(token);
    seen.length = 0;
    const got = await call(users, { authorization: `Bearer ${token}` });
    expect(got.status === 200 && seen.length > 0 && seen.every((s) => s.user === user && s.token !== token && !s.headers.includes(token.split('.')[2])), `${user}: ${JSON.stringify(got)} ${JSON.stringify(seen)}`);
  }
  seen.length = 0;
  const key = await call(users, users.headers);
  expect(key.status === 403 && JSON.parse(key.text).error.message === 'no_subject_token' && seen.length === 0, JSON.stringify(key));
});
await check('svc gateway --check --probe --token-env asks for a user', async () => {
  const probe = (...args) => runWith({ USER_TOKEN: token }, 'gateway', '--config', join(users.dir, 'svc.yaml'), '--check', '--probe', ...args);
  const token = await issuer.userToken(users.url.href, 'carol');
  own.push(token);
  const without = await probe();
  expect(without.code === 1 && without.text.includes('was not probed: it needs a token that is exchanged for the token of a caller'), without.text);
  const asked = await probe('--token-env', 'USER_TOKEN');
  expect(asked.code === 0 && /upstream +hosted +ok/.test(asked.text), asked.text);
});

await check('no secret is in a log, an audit line or the arguments of a process', async () => {
  const secrets = ['planted', ...own.map((t) => t.split('.')[2]), ...seen.map((s) => s.token.split('.')[2])];
  const text = [...gateways, users].map((g) => g.log() + g.audit()).join('\n') + execFileSync('ps', ['-eww', '-o', 'args=']).toString();
  for (const secret of secrets) expect(!text.includes(secret), `a secret was written down: ${secret}`);
});
if (failures()) console.log([...gateways, users].map((g) => g.log()).join('\n---\n'));
for (const gateway of [...gateways, users]) {
  await gateway.stop();
  gateway.remove();
}
rmSync(state, { recursive: true, force: true });
await issuer.stop();
await tool.close();
hosted.closeAllConnections();
hosted.close();
finish();
