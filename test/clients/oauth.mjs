// The official MCP clients discover a real OpenID provider through the gateway and are
// authorized by it: 401 with WWW-Authenticate, protected-resource metadata, the provider's
// metadata, registration or a client metadata document, authorization code with PKCE, token,
// call. Then the checks of tokens of that provider: other audiences and scopes, forged tokens,
// rotated keys, an unavailable provider.
//
//   node oauth.mjs SVC_BINARY GO_CLIENT_BINARY
import { execFile, execFileSync } from 'node:child_process';
import { createHmac, createPublicKey } from 'node:crypto';
import { createServer as createTLSServer } from 'node:https';
import { connect } from 'node:net';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { check, expect, failures, finish } from './checks.mjs';
import { eventually, startGateway } from './gateway.mjs';
import { approve, startIssuer } from './issuer.mjs';
import { startUpstream } from './upstream.mjs';

const [binary, goClient] = process.argv.slice(2);
if (!goClient) {
  console.error('usage: node oauth.mjs SVC_BINARY GO_CLIENT_BINARY');
  process.exit(2);
}

// A client whose id is the URL of its metadata document needs a host with TLS.
const dir = mkdtempSync(join(tmpdir(), 'svc-oauth-'));
execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1', '-subj', '/CN=client',
  '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', join(dir, 'key.pem'), '-out', join(dir, 'cert.pem')], { stdio: 'pipe' });
const cert = readFileSync(join(dir, 'cert.pem'));
const redirect = 'http://127.0.0.1:1/callback';
const metadata = { client_name: 'Planner of the check', redirect_uris: [redirect], grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none' };
const host = createTLSServer({ key: readFileSync(join(dir, 'key.pem')), cert }, (req, res) => {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.end(JSON.stringify({ client_id: document, ...metadata }));
});
await new Promise((done) => host.listen(0, '127.0.0.1', done));
const document = `https://127.0.0.1:${host.address().port}/client.json`;

const issuer = await startIssuer(cert);
const upstream = await startUpstream('tool');
const gateway = await startGateway(binary, { tool: upstream.url }, '  - {match: {tool_name: "*"}, upstream: tool}', '', {
  oauth: (port) => `  oauth:
    enabled: true
    issuer: ${issuer.url}
    audience: http://127.0.0.1:${port}/mcp
    jwks_url: ${issuer.jwksUrl}
    public_url: http://127.0.0.1:${port}
    required_scopes: [mcp]
    jwks_cache_ttl: 1s
    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}`,
  env: { SSL_CERT_FILE: join(dir, 'cert.pem') },
});
const resource = gateway.url.href;

// session stores the data of an OAuth client; url is the authorization URL for its user.
function session(clientMetadataUrl) {
  const kept = {};
  return {
    kept, clientMetadataUrl, redirectUrl: redirect, clientMetadata: metadata,
    clientInformation: () => kept.client, saveClientInformation: (client) => { kept.client = client; },
    tokens: () => kept.tokens, saveTokens: (tokens) => { kept.tokens = tokens; },
    redirectToAuthorization: (url) => { kept.url = url; },
    saveCodeVerifier: (verifier) => { kept.verifier = verifier; }, codeVerifier: () => kept.verifier,
    saveDiscoveryState: (state) => { kept.discovery = state; }, discoveryState: () => kept.discovery,
  };
}

const info = { name: 'svc-check', version: '1' };
const lines = () => gateway.audit().trim().split('\n').map((line) => JSON.parse(line));
const lastCall = () => lines().findLast((line) => line.method === 'tools/call');

// dance connects, follows the authorization at the provider, returns with the code, connects
// again and calls a tool.
async function dance(makeClient, Transport, provider) {
  const transport = () => new Transport(gateway.url, { authProvider: provider });
  const first = transport();
  const refused = await makeClient().connect(first).then(() => null, (err) => err);
  expect(refused?.constructor.name === 'UnauthorizedError', `the first connect: ${refused?.stack}`);
  const asked = provider.kept.url.searchParams;
  expect(asked.get('resource') === resource, `resource ${asked.get('resource')}`);
  expect(asked.get('scope') === 'mcp', `scope ${asked.get('scope')}`);
  expect(asked.get('code_challenge_method') === 'S256' && asked.get('code_challenge'), 'no PKCE');
  const back = await approve(provider.kept.url, redirect);
  if (Transport === LegacyTransport) await first.finishAuth(back.searchParams.get('code'), back.searchParams.get('iss') ?? undefined);
  else await first.finishAuth(back.searchParams);
  const client = makeClient();
  await client.connect(transport());
  const result = await client.callTool({ name: 'tool_echo', arguments: {} });
  expect(result.content[0].text === 'tool', JSON.stringify(result));
  await client.close();
  const line = lastCall();
  expect(line.principal === 'alice' && line.principal_kind === 'oauth' && line.action === 'allow', JSON.stringify(line));
  return line;
}

const legacy = () => new LegacyClient(info, { capabilities: {} });
const two = (versionNegotiation) => () => new Client(info, { capabilities: {}, versionNegotiation });
const clients = [
  ['sdk 1.x', legacy, LegacyTransport],
  ['client 2.x, sessions', two(undefined), StreamableHTTPClientTransport],
  ['client 2.x, 2026-07-28', two({ mode: { pin: '2026-07-28' } }), StreamableHTTPClientTransport],
];
for (const [name, makeClient, Transport] of clients) {
  await check(`${name}: discovery, registration, PKCE, call`, async () => {
    const provider = session();
    await dance(makeClient, Transport, provider);
    expect(provider.kept.client.client_id, 'the client did not register');
  });
  await check(`${name}: the same with a client metadata document; the gateway knows the client's name`, async () => {
    const provider = session(document);
    const line = await dance(makeClient, Transport, provider);
    expect(line.oauth_client_name === metadata.client_name, JSON.stringify(line));
  });
}
await check('Go SDK: discovery, registration, PKCE, call', async () => {
  const { stdout } = await promisify(execFile)(goClient, [resource, redirect], { timeout: 30_000 });
  expect(stdout.trim() === 'tool', stdout);
  expect(lastCall().principal === 'alice', JSON.stringify(lastCall()));
});
await check('Go SDK: the same with a client metadata document', async () => {
  const { stdout } = await promisify(execFile)(goClient, [resource, redirect, document], { timeout: 30_000 });
  expect(stdout.trim() === 'tool' && lastCall().oauth_client_name === metadata.client_name, `${stdout} ${JSON.stringify(lastCall())}`);
});

// call posts one tool call with a token and returns the response.
async function call(token) {
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${token}`, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'tool_echo' },
    body: JSON.stringify({
      jsonrpc: '2.0', id: 'q-1', method: 'tools/call',
      params: { name: 'tool_echo', arguments: {}, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } },
    }),
  });
  return { status: response.status, challenge: response.headers.get('www-authenticate') ?? '', text: await response.text() };
}
// refuses expects a 401 that starts a new authorization.
async function refuses(token) {
  const got = await call(token);
  expect(got.status === 401 && got.challenge.includes('error="invalid_token"') && got.challenge.includes('resource_metadata="') && JSON.parse(got.text).id === 'q-1', JSON.stringify(got));
}
const good = await issuer.token(resource, 'mcp');
await check('a token for this resource is good', async () => expect((await call(good)).status === 200, ''));
await check('a token for another resource is refused', async () => refuses(await issuer.token('http://127.0.0.1:1/mcp', 'mcp')));
await check('a token for a resource below is refused', async () => refuses(await issuer.token(`${resource}/x`, 'mcp')));
await check('a token without a resource is none', async () => refuses(await issuer.token()));
await check('a token without the scope is told which', async () => {
  const got = await call(await issuer.token(resource, 'other'));
  expect(got.status === 403 && got.challenge.includes('error="insufficient_scope"') && got.challenge.includes('scope="mcp"'), JSON.stringify(got));
});
const part = (token, i) => token.split('.')[i];
const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const kid = JSON.parse(Buffer.from(part(good, 0), 'base64url')).kid;
await check('alg none', async () => refuses(`${encode({ alg: 'none', typ: 'at+jwt' })}.${part(good, 1)}.`));
await check('alg none, the signature left in place', async () => refuses(`${encode({ alg: 'none', typ: 'at+jwt', kid })}.${part(good, 1)}.${part(good, 2)}`));
for (const type of ['spki', 'pkcs1']) {
  await check(`HS256 with the provider's public key as secret (${type})`, async () => {
    const { keys } = await (await fetch(issuer.jwksUrl)).json();
    const secret = createPublicKey({ key: keys[0], format: 'jwk' }).export({ type, format: 'pem' });
    const signed = `${encode({ alg: 'HS256', typ: 'at+jwt', kid })}.${part(good, 1)}`;
    await refuses(`${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`);
  });
}
await check('a changed payload', async () => {
  const claims = JSON.parse(Buffer.from(part(good, 1), 'base64url'));
  await refuses(`${part(good, 0)}.${encode({ ...claims, sub: 'root' })}.${part(good, 2)}`);
});
await check('a token of 10 MB ends in the header limit, and nobody else notices', async () => {
  const answer = await new Promise((done) => {
    let text = '';
    const socket = connect(gateway.url.port, '127.0.0.1');
    socket.on('data', (data) => { text += data; });
    socket.on('error', () => {});
    socket.on('close', () => done(text));
    socket.write(`POST /mcp HTTP/1.1\r\nHost: ${gateway.url.host}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nAuthorization: Bearer eyJ`);
    socket.write('a.'.repeat(5 << 20));
    socket.end('\r\n\r\n{}');
  });
  expect(answer === '' || answer.startsWith('HTTP/1.1 431'), answer.slice(0, 200));
  expect((await call(good)).status === 200, 'a good token is no longer good');
});
await check('the provider rotates its keys: the new one is good, the old one while it is published', async () => {
  await issuer.rotate(true);
  const before = issuer.asked();
  const fresh = await issuer.token(resource, 'mcp');
  expect(JSON.parse(Buffer.from(part(fresh, 0), 'base64url')).kid !== kid, 'the provider signs with the old key');
  // At once, or a second after a fetch that failed while the provider was unavailable.
  let known;
  for (let i = 0; i < 60 && known?.status !== 200; i++) {
    known = await call(fresh);
    if (known.status !== 200) await new Promise((done) => setTimeout(done, 50));
  }
  expect(known.status === 200, `the new key is not known: ${JSON.stringify(known)}`);
  expect((await call(good)).status === 200, 'the old key is forgotten');
  expect(issuer.asked() > before, 'the provider was not asked');
});
await check('a withdrawn key is no longer good', async () => {
  await issuer.rotate(false);
  let got;
  for (let i = 0; i < 200 && got?.status !== 401; i++) {
    got = await call(good);
    await new Promise((done) => setTimeout(done, 50));
  }
  expect(got.status === 401, JSON.stringify(got));
});
await check('while the provider is away its tokens stay good, after the time to live of its keys too', async () => {
  const token = await issuer.token(resource, 'mcp');
  // The gateway does not know the key, and fetches unknown keys at most every 15 s; known ones
  // every second.
  let got;
  for (let i = 0; i < 400 && got?.status !== 200; i++) {
    got = await call(token);
    await new Promise((done) => setTimeout(done, 50));
  }
  expect(got.status === 200, JSON.stringify(got));
  const second = await issuer.token(resource, 'mcp');
  await issuer.stop();
  await new Promise((done) => setTimeout(done, 2500));
  expect((await call(token)).status === 200, 'a known token is refused');
  expect((await call(second)).status === 200, 'a token that was not seen before is refused');
  await eventually('the outage is not in the log', () => gateway.log().includes('fetching the key set of the token issuer failed'));
});
await check('a gateway that starts without its provider lets no token in, nor sends its users away', async () => {
  expect(await gateway.stop() === 0, gateway.log());
  await gateway.start();
  const got = await call(good);
  expect(got.status === 503 && got.challenge === '', JSON.stringify(got));
  const key = await fetch(gateway.url, { method: 'POST', headers: { ...gateway.headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' }, body: '[]' });
  expect(key.status === 400, `a key: ${key.status}`);
  await issuer.start();
  const fresh = await issuer.token(resource, 'mcp');
  let again;
  for (let i = 0; i < 100 && again?.status !== 200; i++) {
    again = await call(fresh);
    await new Promise((done) => setTimeout(done, 100));
  }
  expect(again.status === 200, JSON.stringify(again));
});
await check('no token stands in the log or the audit file', async () => {
  const text = gateway.log() + gateway.audit();
  expect(!text.includes(part(good, 2)) && !text.includes(part(good, 1)), 'a token was written down');
});
await check('the gateway ends in order', async () => {
  const code = await gateway.stop();
  expect(code === 0, `exit code ${code}:\n${gateway.log()}`);
});
if (failures()) console.log(`${gateway.log()}\n${gateway.audit()}`);
gateway.remove();
rmSync(dir, { recursive: true, force: true });
await upstream.close();
host.close();
finish();
