// What the servers of the official TypeScript SDKs, 1.x and 2.x, answer to the requests with which the
// gateway's own endpoint is compared: gateway/e2e/testdata/own_answers.json has the requests and the
// answers, and TestOwnAnswersAreThoseOfTheGoSDK asks the Go SDK's server and the gateway.
//
//   node answers.mjs [--update]
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { McpServer as McpServer1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { McpServer as McpServer2, WebStandardStreamableHTTPServerTransport, createMcpHandler, fromJsonSchema } from '@modelcontextprotocol/server';
import { check, expect, finish } from './checks.mjs';

const file = join(import.meta.dirname, '../../gateway/e2e/testdata/own_answers.json');
const probes = JSON.parse(readFileSync(file));
const update = process.argv.includes('--update');

const text = async () => ({ content: [] });
const read = async (uri) => ({ contents: [{ uri: uri.href, text: '' }] });
const say = async () => ({ messages: [] });
// filled has the tool, the prompt and the resource of the Go SDK's server.
const filled = (server, schema) => {
  server.registerTool('a', schema ? { inputSchema: schema } : {}, text);
  server.registerPrompt('p', {}, say);
  server.registerResource('r', 'a://r', {}, read);
  return server;
};
const one = () => filled(new McpServer1({ name: 'one', version: '1' }));
const two = () => filled(new McpServer2({ name: 'two', version: '1' }), fromJsonSchema({ type: 'object' }));

// sessions serves 2025 clients with one transport for each session. A request of no known session
// goes to a transport without a session, which answers it by the rules of the SDK.
function sessions(open, handle) {
  const known = new Map();
  return async (req, res, body) => {
    let transport = known.get(req.headers['mcp-session-id']);
    transport ??= await open({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => known.set(id, transport), onsessionclosed: (id) => known.delete(id) });
    await handle(transport, req, res, body);
  };
}
const asRequest = (req, body) => new Request(`http://127.0.0.1${req.url}`, { method: req.method, headers: req.headers, body: body.length ? body : undefined });
const send = async (res, got) => {
  res.writeHead(got.status, Object.fromEntries(got.headers));
  res.flushHeaders();
  for await (const chunk of got.body ?? []) res.write(chunk);
  res.end();
};
const modern = createMcpHandler(two, { legacy: 'reject' });
const handlers = {
  ts1: { 2025: sessions(async (options) => {
    const transport = new StreamableHTTPServerTransport(options);
    await one().connect(transport);
    return transport;
  }, (transport, req, res) => transport.handleRequest(req, res)) },
  ts2: {
    2025: sessions(async (options) => {
      const transport = new WebStandardStreamableHTTPServerTransport(options);
      await two().connect(transport);
      return transport;
    }, async (transport, req, res, body) => send(res, await transport.handleRequest(asRequest(req, body)))),
    2026: async (req, res, body) => send(res, await modern.fetch(asRequest(req, body))),
  },
};

// listen serves a handler on a free loopback port.
async function listen(handler) {
  const server = createServer(async (req, res) => {
    try {
      const chunks = [];
      if (handler !== handlers.ts1[2025]) for await (const chunk of req) chunks.push(chunk);
      await handler(req, res, Buffer.concat(chunks));
    } catch (err) {
      if (!res.headersSent) res.writeHead(500, { 'content-type': 'text/plain' });
      res.end(String(err));
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { port: server.address().port, close: () => { server.closeAllConnections(); server.close(); } };
}

// ask sends one request, as it is: fetch would add headers. A stream that stays open is ended.
const ask = (port, method, headers, body, open) => new Promise((done, fail) => {
  const usual = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  for (const [name, value] of Object.entries(headers)) {
    if (value) usual[name.toLowerCase()] = value;
    else delete usual[name.toLowerCase()];
  }
  const req = request({ port, host: '127.0.0.1', method, path: '/', headers: { ...usual, 'content-length': Buffer.byteLength(body) } }, (res) => {
    if (res.statusCode === 200 && method === 'GET') {
      open?.push(req);
      if (!open) req.destroy();
      done({ res, text: '' });
      return;
    }
    let got = '';
    res.on('data', (d) => { got += d; });
    res.on('end', () => done({ res, text: got }));
  });
  req.on('error', (err) => { if (!req.destroyed) fail(err); });
  req.setTimeout(5000, () => fail(new Error(`${method} ${body}: no answer`)));
  req.end(body);
});

// kind describes a body as the test of the Go SDK does.
function kind(got) {
  const event = /^data: (\{.*)$/m.exec(got);
  let m;
  try { m = JSON.parse(event ? event[1] : got); } catch { return ' text'; }
  if (Array.isArray(m)) return ' batch';
  return m.error ? ` ${m.error.code}` : ' result';
}

async function answer(probe, port) {
  let headers = {};
  const open = [];
  const hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}';
  if (probe.session) headers = { 'mcp-session-id': 'nobody', 'mcp-protocol-version': '2025-11-25' };
  if (probe.session && probe.session !== 'unknown') {
    headers['mcp-session-id'] = (await ask(port, 'POST', {}, hello)).res.headers['mcp-session-id'];
    if (probe.session !== 'opened') await ask(port, 'POST', headers, '{"jsonrpc":"2.0","method":"notifications/initialized"}');
    if (probe.session === 'streaming') await ask(port, 'GET', headers, '', open);
    if (probe.session === 'deleted') await ask(port, 'DELETE', headers, '');
  }
  for (const [name, value] of Object.entries(probe.headers)) headers[name.toLowerCase()] = value;
  const { res, text: got } = await ask(port, probe.method, headers, probe.body);
  for (const req of open) req.destroy();
  let what = String(res.statusCode);
  if (res.statusCode === 200 && probe.method === 'GET') what += ' stream';
  else if (got) what += kind(got);
  const id = res.headers['mcp-session-id'];
  if (id && id !== headers['mcp-session-id']) what += ' session';
  if (res.headers.allow) what += ` Allow: ${res.headers.allow}`;
  if (res.headers['www-authenticate']) what += ` WWW-Authenticate: ${res.headers['www-authenticate']}`;
  return what;
}

for (const [sdk, generations] of Object.entries(handlers)) {
  for (const [generation, handler] of Object.entries(generations)) {
    const server = await listen(handler);
    await check(`the server of ${sdk}, ${generation}`, async () => {
      const wrong = [];
      for (const probe of probes.filter((p) => p.generation === generation)) {
        const got = await answer(probe, server.port);
        if (update) probe[sdk] = got;
        if (got !== probe[sdk]) wrong.push(`${probe.name}: ${got}, not ${probe[sdk]}`);
      }
      expect(wrong.length === 0, wrong.join('\n'));
    });
    server.close();
  }
}
if (update) writeFileSync(file, `[\n${probes.map((p) => JSON.stringify(p)).join(',\n')}\n]\n`);
finish();
