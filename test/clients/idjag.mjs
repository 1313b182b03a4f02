// Two users of one gateway reach a tool server as themselves through an enterprise's identity
// provider (Enterprise-Managed Authorization): they sign in at the provider, call a tool with the
// official client through the gateway, and the server verifies the access token and answers who
// called. The logs of both parties are the proof: a grant (ID-JAG) for each user, used once.
// Everything that each party received is searched for the accounts of the other.
//
// The identity provider and the authorization server of the tool server are two instances of
// oidc-provider. What it lacks of draft-ietf-oauth-identity-assertion-authz-grant is written here
// as custom grants: to issue an ID-JAG (RFC 8693), and to accept one (RFC 7523).
//
//   node idjag.mjs SVC_BINARY
import { execFile, execFileSync } from 'node:child_process';
import { createHash, createPublicKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer, request } from 'node:http';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Provider from 'oidc-provider';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { check, expect, failures, finish } from './checks.mjs';
import { startGateway } from './gateway.mjs';
import { approve, claimsOf } from './issuer.mjs';

const [binary] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node idjag.mjs SVC_BINARY');
  process.exit(2);
}

const grantExchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const grantBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const typeGrant = 'urn:ietf:params:oauth:token-type:id-jag';
const callback = 'http://127.0.0.1:1/callback';

const dir = mkdtempSync(join(tmpdir(), 'svc-idjag-'));
const encode = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
const decode = (part) => JSON.parse(Buffer.from(part, 'base64url'));
const now = () => Math.floor(Date.now() / 1000);

// keyOf makes a client's key: the private one in a file for the gateway, the public one for a provider.
function keyOf(name, kid, type, options) {
  const { privateKey, publicKey } = generateKeyPairSync(type, options);
  const file = join(dir, `${name}.pem`);
  writeFileSync(file, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  chmodSync(file, 0o600);
  return { file, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig' } };
}

// listen serves on a free loopback port.
async function listen(handler) {
  const server = createServer(handler);
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

// startParty starts a provider behind a proxy that records everything that reaches its token endpoint
// from the gateway: the sign-ins of this program are left out. configure registers its grants.
const parties = [];
let signingIn = false;
async function startParty(settings, configure) {
  const party = { received: [], log: [], keys: [{ ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' }] };
  let inner;
  const front = await listen(async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    if (req.url === '/token' && !signingIn) {
      const basic = req.headers.authorization?.replace('Basic ', '') ?? '';
      party.received.push([JSON.stringify(req.headers), body, decodeURIComponent(String(body)), Buffer.from(basic, 'base64')].join('\n'));
    }
    request(inner.url + req.url, { method: req.method, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    }).end(body);
  });
  party.url = front.url;
  const provider = new Provider(party.url, {
    jwks: { keys: party.keys },
    scopes: ['openid'],
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    ttl: { IdToken: 3600, AccessToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
    cookies: { keys: ['not a secret'] },
    interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
    ...settings,
    features: { devInteractions: { enabled: false }, ...settings.features },
  });
  provider.on('server_error', (ctx, err) => console.error(`a provider failed: ${err.stack}`));
  configure(provider, party);
  const answer = provider.callback();
  inner = await listen(async (req, res) => {
    if (!req.url.startsWith('/interaction/')) return answer(req, res);
    const { prompt, params } = await provider.interactionDetails(req, res);
    if (prompt.name === 'login') return provider.interactionFinished(req, res, { login: { accountId: params.login_hint } });
    const grant = new provider.Grant({ accountId: params.login_hint, clientId: params.client_id });
    grant.addOIDCScope('openid');
    return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } });
  });
  party.stop = () => [front, inner].forEach(({ server }) => { server.closeAllConnections(); server.close(); });
  parties.push(party);
  return party;
}

function refuse(ctx, error) {
  ctx.status = 400;
  ctx.body = { error, error_description: 'planted-description' };
}

const idpKey = keyOf('idp', 'kid-at-idp', 'ec', { namedCurve: 'P-256' });
const serverKey = keyOf('server', 'kid-at-server', 'ed25519');
const machineKey = keyOf('machine', 'kid-of-machine', 'rsa', { modulusLength: 2048 });
const disabled = new Set(); // users whose account the enterprise disabled

// The identity provider: it issues an ID-JAG for its own ID token of the client that asks.
const idp = await startParty({
  clients: [{
    client_id: 'gateway-at-idp', token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [idpKey.jwk] }, application_type: 'native',
    grant_types: ['authorization_code', grantExchange], redirect_uris: [callback], response_types: ['code'],
  }],
}, (provider, party) => provider.registerGrantType(grantExchange, (ctx) => {
  const { params, client } = ctx.oidc;
  const claims = params.subject_token_type === 'urn:ietf:params:oauth:token-type:id_token' && claimsOf(params.subject_token, party.keys);
  if (params.requested_token_type !== typeGrant) return refuse(ctx, 'invalid_request');
  if (!claims || claims.aud !== client.clientId || disabled.has(claims.sub)) return refuse(ctx, 'invalid_grant');
  // The policy of the enterprise: this client may reach this resource, in its name at that server.
  if (params.audience !== server.url || params.resource !== resource) return refuse(ctx, 'invalid_target');
  const [{ kid }] = party.keys;
  const grant = { iss: party.url, sub: claims.sub, aud: params.audience, client_id: 'gateway-at-server', jti: randomUUID(), iat: now(), exp: now() + 60, resource: params.resource, scope: params.scope };
  const signed = `${encode({ alg: 'RS256', typ: 'oauth-id-jag+jwt', kid })}.${encode(grant)}`;
  party.log.push({ user: claims.sub, jti: grant.jti, client: client.clientId, scope: params.scope });
  ctx.body = { access_token: `${signed}.${sign('sha256', signed, { key: party.keys[0], format: 'jwk' }).toString('base64url')}`, token_type: 'N_A', issued_token_type: typeGrant, expires_in: 60 };
  return undefined;
}, ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'resource', 'scope']));

// The tool server: it verifies the access token, and its tool answers who called.
const seen = [];
const withdrawn = new Set(); // access tokens that it no longer accepts
const tool = await listen(async (req, res) => {
  const token = req.headers.authorization?.replace('Bearer ', '') ?? '';
  const claims = token && claimsOf(token, server.keys);
  if (!claims || claims.aud !== resource || claims.iss !== server.url || withdrawn.has(token)) return res.writeHead(401).end();
  seen.push({ user: claims.sub, client: claims.client_id, scope: claims.scope, token, headers: JSON.stringify(req.headers) });
  const mcp = new McpServer({ name: 'tickets', version: '1' });
  mcp.registerTool('whoami', { description: 'who calls' }, async () => ({ content: [{ type: 'text', text: claims.sub }] }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  await mcp.connect(transport);
  return transport.handleRequest(req, res);
});
const resource = `${tool.url}/mcp`;

// The authorization server of the tool server: it accepts an ID-JAG of the identity provider once.
const used = new Set();
let rejects = 0; // how many of the next grants it rejects, as after a restart that lost its keys
const server = await startParty({
  clients: [
    { client_id: 'gateway-at-server', token_endpoint_auth_method: 'private_key_jwt', token_endpoint_auth_signing_alg: 'EdDSA', jwks: { keys: [serverKey.jwk] }, grant_types: [grantBearer], redirect_uris: [], response_types: [] },
    { client_id: 'machine', token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [machineKey.jwk] }, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
  ],
  enabledJWA: { clientAuthSigningAlgValues: ['RS256', 'ES256', 'EdDSA'] },
  features: {
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true, defaultResource: () => undefined, useGrantedResource: () => true,
      getResourceServerInfo: (ctx, audience) => ({ scope: 'tickets.read', audience, accessTokenTTL: 3600, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
    },
  },
}, (provider, party) => provider.registerGrantType(grantBearer, async (ctx) => {
  const { params, client } = ctx.oidc;
  const claims = claimsOf(params.assertion, idp.keys);
  if (rejects > 0) {
    rejects--;
    return refuse(ctx, 'invalid_grant');
  }
  if (!claims || decode(params.assertion.split('.')[0]).typ !== 'oauth-id-jag+jwt' || claims.iss !== idp.url || claims.aud !== party.url ||
    claims.client_id !== client.clientId || used.has(claims.jti)) return refuse(ctx, 'invalid_grant');
  used.add(claims.jti);
  party.log.push({ user: claims.sub, jti: claims.jti, client: client.clientId });
  const token = new provider.AccessToken({ accountId: claims.sub, client, scope: claims.scope, gty: 'jwt_bearer' });
  token.resourceServer = new provider.ResourceServer(claims.resource, { scope: claims.scope, audience: claims.resource, accessTokenTTL: 3600, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } });
  ctx.body = { access_token: await token.save(), token_type: 'Bearer', expires_in: token.expiration, scope: claims.scope };
  return undefined;
}, ['assertion', 'scope']));

// signIn is the sign-in of a user at the identity provider, with the gateway's client: the
// authorization code flow with PKCE.
async function signIn(user) {
  signingIn = true;
  try {
    const verifier = randomUUID() + randomUUID();
    const asked = new URL(`${idp.url}/auth`);
    asked.search = new URLSearchParams({
      response_type: 'code', client_id: 'gateway-at-idp', redirect_uri: callback, scope: 'openid', login_hint: user, state: 's',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
    });
    const back = await approve(asked, callback);
    const signed = `${encode({ alg: 'ES256', kid: 'kid-at-idp' })}.${encode({ iss: 'gateway-at-idp', sub: 'gateway-at-idp', aud: idp.url, jti: randomUUID(), exp: now() + 60 })}`;
    const response = await fetch(`${idp.url}/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'authorization_code', code: back.searchParams.get('code'), redirect_uri: callback, code_verifier: verifier, client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: `${signed}.${sign('sha256', signed, { key: idpKey.privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`,
      }),
    });
    const body = await response.json();
    if (!body.id_token) throw new Error(JSON.stringify(body));
    return body;
  } finally {
    signingIn = false;
  }
}

const gateway = await startGateway(binary, {
  tickets: {
    url: resource,
    keys: `credentials: {id_jag: {idp: {token_url: "${idp.url}/token", client_id: gateway-at-idp, client_key_file: ${idpKey.file}, client_key_id: kid-at-idp}, `
      + `token_url: "${server.url}/token", client_id: gateway-at-server, client_key_file: ${serverKey.file}, client_key_id: kid-at-server, client_key_audience: "${server.url}", `
      + `audience: "${server.url}", resource: "${resource}", scopes: [tickets.read]}}`,
  },
  machine: {
    url: resource,
    keys: `prefix: machine_, credentials: {client_credentials: {token_url: "${server.url}/token", client_id: machine, client_key_file: ${machineKey.file}, resource: "${resource}", scopes: [tickets.read]}}`,
  },
}, '', '', {
  federation: '{enabled: true}',
  oauth: (port) => `  oauth:
    enabled: true
    issuer: ${idp.url}
    audience: gateway-at-idp
    jwks_url: ${idp.url}/jwks
    public_url: http://127.0.0.1:${port}`,
});

// whoami calls a tool with the official client.
const clients = [];
async function connect(token) {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(gateway.url, { requestInit: { headers: { authorization: `Bearer ${token}` } } }));
  clients.push(client);
  return client;
}
const whoami = async (client, name = 'whoami') => (await client.callTool({ name, arguments: {} })).content[0].text;
// post calls the tool without a client, for its answer as it is.
async function post(token) {
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'whoami' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami', arguments: {}, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } } }),
  });
  return { status: response.status, text: await response.text() };
}

const tokens = [];
const users = {};
await check('two users reach the tool server as themselves, with a grant each that is used once', async () => {
  for (const user of ['alice', 'bob']) {
    const { id_token: token, access_token: access } = await signIn(user);
    tokens.push(token, access);
    users[user] = { token, client: await connect(token) };
  }
  await Promise.all(['alice', 'bob', 'alice', 'bob', 'alice'].map(async (user) => {
    const answer = await whoami(users[user].client);
    expect(answer === user, `${user} is ${answer}`);
  }));
  users.alice.since = Date.now();
  const { tools } = await users.bob.client.listTools();
  expect(tools.map((t) => t.name).sort().join() === 'machine_whoami,whoami', JSON.stringify(tools));
  const issued = idp.log.map((l) => `${l.user} ${l.client} ${l.scope}`).sort();
  expect(issued.join() === 'alice gateway-at-idp tickets.read,bob gateway-at-idp tickets.read', JSON.stringify(idp.log));
  expect(idp.log.map((l) => l.jti).sort().join() === server.log.map((l) => l.jti).sort().join(), JSON.stringify([idp.log, server.log]));
  const calls = seen.filter((s) => s.user !== 'machine');
  expect(calls.every((s) => ['alice', 'bob'].includes(s.user) && s.client === 'gateway-at-server' && s.scope === 'tickets.read') && new Set(calls.map((s) => s.token)).size === 2, JSON.stringify(calls.map(({ user, client, scope }) => ({ user, client, scope }))));
});

await check('client_key_file also authenticates the gateway for client_credentials', async () => {
  const answer = await whoami(users.alice.client, 'machine_whoami');
  expect(answer === 'machine', answer);
});

await check('an authorization server that rejects a grant gets one other, once', async () => {
  for (const [user, count, status] of [['carol', 1, 200], ['dave', 2, 502]]) {
    const { id_token: token } = await signIn(user);
    tokens.push(token);
    const before = idp.log.length;
    rejects = count;
    const got = await post(token);
    expect(got.status === status && idp.log.length - before === 2 && rejects === 0, `${JSON.stringify(got)} after ${idp.log.length - before} grants`);
  }
  expect(gateway.log().includes('the authorization server of the upstream (id_jag): the token endpoint answered with status 400 and the error invalid_grant'), gateway.log());
});

await check('who is not accepted gets an error that can be found', async () => {
  const { id_token: token, access_token: access } = await signIn('mallory');
  tokens.push(token, access);
  disabled.add('mallory');
  const refused = await post(token);
  expect(refused.status === 502 && refused.text.includes('upstream_credentials') && !refused.text.includes('planted'), JSON.stringify(refused));
  expect(gateway.log().includes('the identity provider (id_jag.idp): the token endpoint answered with status 400 and the error invalid_grant'), gateway.log());
  const opaque = await post(access);
  expect(opaque.status === 401, JSON.stringify(opaque));
  const key = await post(gateway.headers.Authorization.replace('Bearer ', ''));
  expect(key.status === 403 && key.text.includes('no_subject_token'), JSON.stringify(key));
  expect(!seen.some((s) => s.user === 'mallory'), 'the tool server was reached');
});

await check('svc gateway --check --probe --token-env reaches the server with an ID token', async () => {
  const probe = (env, ...args) => new Promise((done) => {
    execFile(binary, ['gateway', '--config', join(gateway.dir, 'svc.yaml'), '--check', '--probe', ...args], { env: { ...process.env, ...env } }, (err, out, errors) => done({ code: err ? err.code : 0, text: out + errors }));
  });
  const asked = await probe({ USER_TOKEN: users.bob.token }, '--token-env', 'USER_TOKEN');
  expect(asked.code === 0 && /upstream +tickets +ok/.test(asked.text), asked.text);
  const without = await probe({});
  expect(without.code === 1 && without.text.includes('was not probed'), without.text);
});

await check('a 401 of the tool server causes one new grant', async () => {
  // A token of the last five seconds is not replaced: the next one would be rejected too.
  await new Promise((done) => setTimeout(done, users.alice.since + 5100 - Date.now()));
  const before = idp.log.length;
  withdrawn.add(seen.findLast((s) => s.user === 'alice').token);
  const answer = await whoami(users.alice.client);
  expect(answer === 'alice' && idp.log.length - before === 1, `${answer} after ${idp.log.length - before} grants`);
});

await check('no party received the account of the other, and no secret was written down', async () => {
  const signatures = (text) => [...text.matchAll(/client_assertion=([^&\s]+)/g)].map((m) => m[1].split('.')[2]);
  const [atIDP, atServer] = [idp, server].map((party) => party.received.join('\n'));
  const grants = [...atServer.matchAll(/[?&\n]assertion=([^&\s]+)/g)].map((m) => m[1].split('.')[2]);
  const own = tokens.map((t) => t.split('.').at(-1));
  expect(signatures(atIDP).length > 3 && signatures(atServer).length > 3 && grants.length > 3, 'nothing was recorded');
  for (const [where, text, secrets] of [
    ['the identity provider', atIDP, ['gateway-at-server', 'kid-at-server', ...signatures(atServer), ...grants]],
    ['the authorization server', atServer, ['gateway-at-idp', 'kid-at-idp', ...signatures(atIDP), ...own]],
    ['the tool server', seen.map((s) => s.headers).join('\n'), [...signatures(atIDP + atServer), ...grants, ...own]],
    ['the log, the audit lines and the arguments of processes', gateway.log() + gateway.audit() + execFileSync('ps', ['-eww', '-o', 'args=']), ['planted', ...signatures(atIDP + atServer), ...grants, ...own, ...seen.map((s) => s.token.split('.')[2])]],
  ]) {
    for (const secret of secrets) expect(secret && !text.includes(secret), `${where}: ${secret}`);
  }
});

if (failures()) console.log(gateway.log());
for (const client of clients) await client.close();
await gateway.stop();
gateway.remove();
rmSync(dir, { recursive: true, force: true });
for (const party of parties) party.stop();
tool.server.closeAllConnections();
tool.server.close();
finish();
