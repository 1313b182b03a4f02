// A legacy client of the official TypeScript SDK works through one gateway with two stateful
// upstreams: each tool runs at its own upstream, a server request from the second reaches the
// client and the response the second, a stream that breaks is resumed by reconnecting, and
// DELETE ends the session at both.
//
//   node sessions.mjs SVC_BINARY
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { check, expect, failures, finish } from './checks.mjs';
import { eventually, startGateway } from './gateway.mjs';
import { Events } from './upstream.mjs';

const binary = process.argv[2];
if (!binary) {
  console.error('usage: node sessions.mjs SVC_BINARY');
  process.exit(2);
}

// A stateful upstream with one tool, which sends an elicitation.
async function upstream(tool) {
  const sessions = new Map();
  const state = { sessions, resumed: 0, deleted: 0 };
  const make = async () => {
    const server = new McpServer({ name: tool, version: '1' }, { capabilities: { logging: {} } });
    server.registerTool(tool, { description: `the tool of ${tool}` }, async (extra) => {
      await server.server.sendLoggingMessage({ level: 'info', data: `working at ${tool}` }, extra.sessionId);
      const answer = await server.server.elicitInput({
        message: `may ${tool} go on?`,
        requestedSchema: { type: 'object', properties: { ok: { type: 'boolean' } } },
      }, { relatedRequestId: extra.requestId });
      return { content: [{ type: 'text', text: `${tool}: ${answer.action}` }] };
    });
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      eventStore: new Events(),
      onsessioninitialized: (id) => sessions.set(id, { transport, server }),
      onsessionclosed: (id) => { state.deleted++; sessions.delete(id); },
    });
    await server.connect(transport);
    return transport;
  };
  const http = createServer(async (req, res) => {
    try {
      if (req.method === 'GET' && req.headers['last-event-id']) state.resumed++;
      const id = req.headers['mcp-session-id'];
      if (id && !sessions.has(id)) {
        res.writeHead(404, { 'content-type': 'application/json' });
        res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }));
        return;
      }
      const transport = id ? sessions.get(id).transport : await make();
      await transport.handleRequest(req, res);
    } catch (err) {
      console.error(`${tool}: ${err.stack}`);
      if (!res.headersSent) res.writeHead(500).end();
    }
  });
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  return { ...state, state, url: `http://127.0.0.1:${http.address().port}/mcp`, http };
}

const first = await upstream('first_tool');
const second = await upstream('second_tool');
const gateway = await startGateway(binary, { first: first.url, second: second.url },
  '  - {match: {tool_prefix: first_}, upstream: first}\n  - {match: {tool_prefix: second_}, upstream: second}');

const asked = [];
const logged = [];
const client = new Client({ name: 'svc-check', version: '1' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message);
  return { action: 'accept', content: { ok: true } };
});
client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => { logged.push(n.params.data); });
// Wraps the transport's fetch, so that the test can break a stream.
const streams = [];
const transport = new StreamableHTTPClientTransport(gateway.url, {
  requestInit: { headers: gateway.headers },
  reconnectionOptions: { initialReconnectionDelay: 50, maxReconnectionDelay: 200, reconnectionDelayGrowFactor: 1.5, maxRetries: 10 },
  fetch: async (url, init) => {
    const cut = new AbortController();
    const signal = init.signal ? AbortSignal.any([init.signal, cut.signal]) : cut.signal;
    const response = await fetch(url, { ...init, signal });
    if ((response.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
      streams.push({ method: init.method ?? 'GET', cut, lastEventId: new Headers(init.headers).get('last-event-id') });
    }
    return response;
  },
});
transport.onerror = () => {};
client.onerror = () => {};

await check('connect, with a session', async () => {
  await client.connect(transport);
  expect(transport.sessionId, 'no session id');
});
for (const tool of ['first_tool', 'second_tool', 'second_tool']) {
  await check(`${tool} runs at its upstream and its question is answered there`, async () => {
    const before = asked.length;
    const result = await client.callTool({ name: tool });
    expect(result.content[0].text === `${tool}: accept`, JSON.stringify(result));
    expect(asked.length === before + 1 && asked.at(-1) === `may ${tool} go on?`, JSON.stringify(asked));
  });
}
await check('one session at each upstream', async () => {
  expect(first.sessions.size === 1 && second.sessions.size === 1, `${first.sessions.size} and ${second.sessions.size}`);
});
await check('notifications of both upstreams over the one standing stream', async () => {
  await eventually('no standing stream', () => streams.some((s) => s.method === 'GET'));
  for (const up of [first, second]) {
    const { server } = [...up.sessions.values()][0];
    const text = `hello from ${up.url}`;
    await server.server.sendLoggingMessage({ level: 'info', data: text });
    await eventually(`${text} did not arrive`, () => logged.includes(text));
  }
});
await check('a standing stream that breaks is resumed, and nothing is lost', async () => {
  const standing = streams.findLast((s) => s.method === 'GET');
  standing.cut.abort();
  const { server } = [...second.sessions.values()][0];
  await server.server.sendLoggingMessage({ level: 'info', data: 'while away' });
  await eventually('the client did not reconnect', () => streams.findLast((s) => s.method === 'GET') !== standing);
  expect(streams.findLast((s) => s.method === 'GET').lastEventId, 'the client did not resume');
  await eventually(`"while away" did not arrive: ${JSON.stringify(logged)}`, () => logged.includes('while away'));
  expect(second.state.resumed > 0, 'the upstream was not asked to resume');
});
await check('DELETE ends the session at both upstreams', async () => {
  await transport.terminateSession();
  await eventually(`sessions left: ${first.sessions.size} and ${second.sessions.size}`, () => first.sessions.size === 0 && second.sessions.size === 0);
  await client.close();
});
await check('the gateway ends in order', async () => {
  const code = await gateway.stop();
  expect(code === 0, `exit code ${code}:\n${gateway.log()}`);
});
if (failures()) console.log(`${gateway.log()}\n${gateway.audit()}`);
gateway.remove();
for (const up of [first, second]) {
  up.http.closeAllConnections();
  up.http.close();
}
finish();
