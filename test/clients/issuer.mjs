// A real OpenID provider (panva's oidc-provider) on loopback, whose user approves everything:
// dynamic registration, client metadata documents, authorization code with PKCE, resource
// indicators, JWT access tokens. Its keys can be rotated, and it can be made unavailable at
// the same address.
import { createServer } from 'node:http';
import { request } from 'node:https';
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, verify } from 'node:crypto';
import Provider from 'oidc-provider';

URL.parse ??= (text, base) => { try { return new URL(text, base); } catch { return null; } }; // before Node 22

let made = 0;
const newKey = () => ({ ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid: `key-${++made}`, use: 'sig', alg: 'RS256' });

const grantExchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const typeAccessToken = 'urn:ietf:params:oauth:token-type:access_token';

// claimsOf returns the claims of a token that was signed with one of the keys.
export function claimsOf(token, keys) {
  const [head, payload, signature] = token.split('.');
  const { kid } = JSON.parse(Buffer.from(head, 'base64url'));
  const key = keys.find((k) => k.kid === kid);
  const good = key && verify('sha256', Buffer.from(`${head}.${payload}`), createPublicKey({ key, format: 'jwk' }), Buffer.from(signature, 'base64url'));
  const claims = JSON.parse(Buffer.from(payload, 'base64url'));
  return good && claims.exp * 1000 > Date.now() ? claims : undefined;
}

// exchange is the grant of RFC 8693, which the provider lacks: it issues a token for another
// resource in exchange for a user's token.
function exchange(provider, keys, info) {
  provider.registerGrantType(grantExchange, async (ctx) => {
    const { params, client } = ctx.oidc;
    const claims = params.subject_token_type === typeAccessToken && claimsOf(params.subject_token, keys);
    if (!claims) {
      ctx.status = 400;
      ctx.body = { error: 'invalid_grant', error_description: 'planted-description' };
      return;
    }
    const token = new provider.AccessToken({ accountId: claims.sub, client, scope: 'mcp', gty: 'token_exchange' });
    token.resourceServer = new provider.ResourceServer(params.resource, info(params.resource));
    ctx.body = { access_token: await token.save(), token_type: 'Bearer', issued_token_type: typeAccessToken, expires_in: token.expiration };
  }, ['subject_token', 'subject_token_type', 'requested_token_type', 'resource', 'scope']);
}

// startIssuer starts the provider. ca is the CA, in PEM, that it trusts when it fetches client
// metadata documents. With offline it issues refresh tokens, each valid for one use; ttl is
// the lifetime of tokens.
export async function startIssuer(ca, { offline = false, ttl = 3600 } = {}) {
  const http = createServer();
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  const { port } = http.address();
  http.close();
  const url = `http://127.0.0.1:${port}`;
  const keys = [newKey()];
  let server;
  let asked = 0; // number of requests for its keys

  // The provider's fetch, with the test's CA and without its ban on loopback.
  const fetchDocument = (target) => new Promise((done, fail) => {
    request(target, { ca, headers: { accept: 'application/json' } }, async (res) => {
      const chunks = [];
      for await (const chunk of res) chunks.push(chunk);
      done(new Response(Buffer.concat(chunks), { status: res.statusCode, headers: { 'content-type': 'application/json' } }));
    }).on('error', fail).end();
  });

  const info = (resource) => ({
    scope: 'mcp other', audience: resource, accessTokenTTL: ttl, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
  });

  function provider() {
    const p = new Provider(url, {
      jwks: { keys },
      clients: [{ client_id: 'exchanger', client_secret: 'planted-exchanger-secret', grant_types: [grantExchange], redirect_uris: [], response_types: [] },
        { client_id: 'planner', token_endpoint_auth_method: 'none', application_type: 'native', redirect_uris: ['http://127.0.0.1:1/callback'] },
        { client_id: 'machine', client_secret: 'machine-secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
      scopes: ['openid', 'mcp', 'other', ...(offline ? ['offline_access'] : [])],
      ttl: { ClientCredentials: 3600, AccessToken: ttl, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
      claims: { openid: ['sub'] },
      findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
      fetch: fetchDocument,
      cookies: { keys: ['not a secret'] },
      interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
      features: {
        devInteractions: { enabled: false },
        registration: { enabled: true },
        clientCredentials: { enabled: true },
        revocation: { enabled: true },
        clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => undefined,
          useGrantedResource: () => true,
          getResourceServerInfo: (ctx, resource) => info(resource),
        },
      },
    });
    exchange(p, keys, info);
    p.on('server_error', (ctx, err) => console.error(`the provider failed: ${err.stack}`));
    return p;
  }

  // interact logs alice in, or the user in the client's hint, and grants the requested scopes.
  async function interact(p, req, res) {
    const { prompt, params, grantId } = await p.interactionDetails(req, res);
    if (prompt.name === 'login') return p.interactionFinished(req, res, { login: { accountId: params.login_hint ?? 'alice' } });
    const grant = grantId ? await p.Grant.find(grantId) : new p.Grant({ accountId: params.login_hint ?? 'alice', clientId: params.client_id });
    if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(' '));
    for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) grant.addResourceScope(resource, scopes.join(' '));
    return p.interactionFinished(req, res, { consent: { grantId: await grant.save() } });
  }

  const issuer = {
    url, jwksUrl: `${url}/jwks`, keys,
    asked: () => asked,
    start: async () => {
      const p = provider();
      const callback = p.callback();
      server = createServer((req, res) => {
        res.setHeader('connection', 'close'); // no connection may stay open to a provider that ends
        if (req.url === '/jwks') asked++;
        if (!req.url.startsWith('/interaction/')) return callback(req, res);
        return interact(p, req, res).catch((err) => { res.writeHead(500); res.end(String(err)); });
      });
      await new Promise((done) => server.listen(port, '127.0.0.1', done));
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
    // rotate signs with a new key from now on; the old ones stay published if they are kept.
    rotate: async (keep) => {
      await issuer.stop();
      if (keep) keys.unshift(newKey());
      else keys.splice(0, keys.length, newKey());
      await issuer.start();
    },
    // token gets an access token for a program.
    token: async (resource, scope) => {
      const response = await fetch(`${url}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from('machine:machine-secret').toString('base64')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', ...(resource && { resource }), ...(scope && { scope }) }),
      });
      const body = await response.json();
      if (!body.access_token) throw new Error(JSON.stringify(body));
      return body.access_token;
    },
  };
  // userToken gets an access token of a user, as a client with PKCE does.
  issuer.userToken = async (resource, user) => {
    const verifier = randomBytes(32).toString('base64url');
    const redirect = 'http://127.0.0.1:1/callback';
    const asked = new URL(`${url}/auth`);
    asked.search = new URLSearchParams({
      response_type: 'code', client_id: 'planner', redirect_uri: redirect, scope: 'mcp', resource, login_hint: user, state: 's',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
    });
    const back = await approve(asked, redirect);
    const response = await fetch(`${url}/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'authorization_code', client_id: 'planner', code: back.searchParams.get('code'), redirect_uri: redirect, code_verifier: verifier, resource }),
    });
    const body = await response.json();
    if (!body.access_token) throw new Error(JSON.stringify(body));
    return body.access_token;
  };
  await issuer.start();
  return issuer;
}

// approve is the user's browser: it follows an authorization request to the
// client's redirect URI, and returns that.
export async function approve(authorizationUrl, redirectUri) {
  const cookies = new Map();
  let at = new URL(authorizationUrl);
  for (let i = 0; i < 10; i++) {
    const response = await fetch(at, { redirect: 'manual', headers: { cookie: [...cookies].map(([k, v]) => `${k}=${v}`).join('; ') } });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = cookie.match(/^([^=]+)=([^;]*)/);
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (!location) throw new Error(`${at}: ${response.status} ${await response.text()}`);
    at = new URL(location, at);
    if (at.href.startsWith(redirectUri)) return at;
  }
  throw new Error('the authorization goes round in circles');
}
