// A real OpenID provider (panva's oidc-provider) on loopback, whose user says yes
// to everything: dynamic registration, client metadata documents, authorization
// code with PKCE, resource indicators, JWT access tokens. Its keys can be rotated
// and it can be away, at one address.
import { createServer } from 'node:http';
import { request } from 'node:https';
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

URL.parse ??= (text, base) => { try { return new URL(text, base); } catch { return null; } }; // before Node 22

let made = 0;
const newKey = () => ({ ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), kid: `key-${++made}`, use: 'sig', alg: 'RS256' });

// startIssuer starts the provider. ca is what it trusts when it fetches client
// metadata documents, in PEM.
export async function startIssuer(ca) {
  const http = createServer();
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  const { port } = http.address();
  http.close();
  const url = `http://127.0.0.1:${port}`;
  const keys = [newKey()];
  let server;
  let asked = 0; // how often for its keys

  // What the provider fetches, with our CA and without its ban on loopback.
  const fetchDocument = (target) => new Promise((done, fail) => {
    request(target, { ca, headers: { accept: 'application/json' } }, async (res) => {
      const chunks = [];
      for await (const chunk of res) chunks.push(chunk);
      done(new Response(Buffer.concat(chunks), { status: res.statusCode, headers: { 'content-type': 'application/json' } }));
    }).on('error', fail).end();
  });

  function provider() {
    return new Provider(url, {
      jwks: { keys },
      clients: [{ client_id: 'machine', client_secret: 'machine-secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
      scopes: ['openid', 'mcp', 'other'],
      ttl: { ClientCredentials: 3600, AccessToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
      claims: { openid: ['sub'] },
      findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
      fetch: fetchDocument,
      cookies: { keys: ['not a secret'] },
      interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
      features: {
        devInteractions: { enabled: false },
        registration: { enabled: true },
        clientCredentials: { enabled: true },
        clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => undefined,
          useGrantedResource: () => true,
          getResourceServerInfo: (ctx, resource) => ({
            scope: 'mcp other', audience: resource, accessTokenTTL: 3600, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
          }),
        },
      },
    });
  }

  // interact logs alice in and grants what is asked for.
  async function interact(p, req, res) {
    const { prompt, params, grantId } = await p.interactionDetails(req, res);
    if (prompt.name === 'login') return p.interactionFinished(req, res, { login: { accountId: 'alice' } });
    const grant = grantId ? await p.Grant.find(grantId) : new p.Grant({ accountId: 'alice', clientId: params.client_id });
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
        res.setHeader('connection', 'close'); // nobody keeps a connection to a provider that ends
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
    // rotate signs with a new key from now on; the old ones stay published when
    // they are kept.
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
