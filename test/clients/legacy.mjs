// A tool server with sessions, on the official TypeScript SDK 1.x. Its tools send requests and
// logs on the standalone stream of the session, as that SDK does when a tool does not name its
// call. Its prompt and its resource send requests on the stream of the call.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';

const text = (value) => ({ content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }] });
const form = (message) => ({ message, requestedSchema: { type: 'object', properties: { ok: { type: 'boolean' } } } });
const sample = { messages: [{ role: 'user', content: { type: 'text', text: 'a word' } }], maxTokens: 10 };
const soon = () => new Promise((done) => setTimeout(done, 100)); // the two streams are two connections

function serve(name, state) {
  const mcp = new McpServer({ name, version: '1' }, { instructions: `How to use ${name}.`, capabilities: { logging: {} } });
  const { server } = mcp;
  const tool = (suffix, run) => mcp.registerTool(suffix, { description: suffix }, run);
  tool('echo', async () => text(name));
  tool('ask', async () => text((await server.elicitInput(form('go on?'))).action));
  tool('twice', async () => text((await Promise.all([server.elicitInput(form('a?')), server.elicitInput(form('b?'))])).map((got) => got.action)));
  tool('visit', async () => text((await server.elicitInput({ mode: 'url', message: 'visit', url: 'https://example.com/', elicitationId: 'e' })).action));
  tool('sample', async () => text((await server.createMessage(sample)).content.text));
  tool('wizard', async () => {
    const given = [];
    for (let i = 0; i < 12; i++) given.push((await server.elicitInput(form(`step ${i}`))).action);
    return text(given);
  });
  tool('logs', async (extra) => {
    for (const data of ['one', 'two']) await server.sendLoggingMessage({ level: 'warning', data }, extra.sessionId);
    await soon();
    return text('done');
  });
  tool('wait', (extra) => new Promise((done) => {
    state.waiting++;
    extra.signal.addEventListener('abort', () => { state.cancelled++; done(text('cancelled')); });
  }));
  const asked = async (extra) => (await extra.sendRequest({ method: 'elicitation/create', params: form('which?') }, ElicitResultSchema)).action;
  mcp.registerPrompt('asks', { description: 'asks' }, async (extra) => ({ messages: [{ role: 'user', content: { type: 'text', text: await asked(extra) } }] }));
  mcp.registerResource('questions', 'test://questions', { mimeType: 'text/plain' }, async (uri, extra) => ({ contents: [{ uri: uri.href, text: await asked(extra) }] }));
  return mcp;
}

// startLegacy serves it on a free loopback port. Responses to calls are streams, or JSON if
// json is set: then its prompt and its resource have no stream for requests.
export async function startLegacy(name, json = false) {
  const sessions = new Map();
  const state = { sessions, waiting: 0, cancelled: 0 };
  const answer = async (req, res) => {
    const id = req.headers['mcp-session-id'];
    if (id && !sessions.has(id)) {
      res.writeHead(404, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }));
      return;
    }
    let transport = sessions.get(id);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(), enableJsonResponse: json,
        onsessioninitialized: (made) => sessions.set(made, transport), onsessionclosed: (made) => sessions.delete(made),
      });
      await serve(name, state).connect(transport);
    }
    await transport.handleRequest(req, res);
  };
  const http = createServer((req, res) => answer(req, res).catch((err) => {
    if (!res.destroyed) console.error(`${name}: ${err.stack}`);
    res.destroy();
  }));
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  return {
    state, url: `http://127.0.0.1:${http.address().port}/mcp`,
    close: async () => {
      http.closeAllConnections();
      await new Promise((done) => http.close(done));
    },
  };
}
