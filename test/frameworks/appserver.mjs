// A tool server with an app, on the official TypeScript SDK and the official library for apps, in both
// protocol generations. It registers the app for hosts that show apps, and a tool in plain text for all
// others, as the specification of apps advises.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer as LegacyServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { RESOURCE_MIME_TYPE, getUiCapability, registerAppResource, registerAppTool } from '@modelcontextprotocol/ext-apps/server';

// Every server has the same address of its page, and the same names.
const PAGE = 'ui://board/page.html';
const capabilities = { extensions: { 'io.modelcontextprotocol/ui': {} } };
const html = (name) => `<!doctype html><title>The board of ${name}</title>`;

function register(server, name, host, moved) {
  const text = (value) => ({ content: [{ type: 'text', text: `${name}: ${value}` }] });
  if (!getUiCapability(host)?.mimeTypes?.includes(RESOURCE_MIME_TYPE)) {
    server.registerTool('board', { description: 'The board as text' }, async () => text('the board as text'));
    return;
  }
  registerAppTool(server, 'board', { description: 'The board', _meta: { ui: { resourceUri: PAGE } } }, async () => text('the board'));
  registerAppTool(server, 'move', { description: 'Moves a card', _meta: { ui: { resourceUri: PAGE, visibility: ['app'] } } }, async () => {
    moved.push(name);
    return text('moved');
  });
  registerAppResource(server, 'Board', PAGE, {}, async () => ({ contents: [{ uri: PAGE, mimeType: RESOURCE_MIME_TYPE, text: html(name) }] }));
}

// startAppServer serves it on a free loopback port, to clients of one generation.
export async function startAppServer(name, modern) {
  const moved = [];
  const sessions = new Map();
  const session = async (host) => {
    const server = new LegacyServer({ name, version: '1' }, { capabilities });
    register(server, name, host, moved);
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
    await server.connect(transport);
    return transport;
  };
  const answer = async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
    if (!modern) {
      const known = sessions.get(req.headers['mcp-session-id']);
      if (!known && body?.method !== 'initialize') return res.writeHead(req.headers['mcp-session-id'] ? 404 : 400).end();
      return (known ?? await session(body.params.capabilities)).handleRequest(req, res, body);
    }
    const host = body?.params?._meta?.['io.modelcontextprotocol/clientCapabilities'];
    const handler = createMcpHandler(() => {
      const server = new McpServer({ name, version: '1' }, { capabilities });
      register(server, name, host, moved);
      return server;
    }, { legacy: 'reject' });
    const got = await handler.fetch(new Request(`http://127.0.0.1${req.url}`, { method: req.method, headers: req.headers, body: body && JSON.stringify(body) }));
    res.writeHead(got.status, Object.fromEntries(got.headers)).end(Buffer.from(await got.arrayBuffer()));
  };
  const http = createServer((req, res) => answer(req, res).catch((err) => { console.error(`${name}: ${err.stack}`); res.destroy(); }));
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${http.address().port}/mcp`, moved, html: html(name), close: () => { http.closeAllConnections(); http.close(); } };
}
