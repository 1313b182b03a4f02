// A tool server that supports only 2026-07-28, on the official TypeScript SDK. It sends server
// requests in all forms of the revision, from tools, a prompt and a resource.
import { createServer } from 'node:http';
import { McpServer, ResourceTemplate, createMcpHandler, fromJsonSchema, inputRequired, inputResponse } from '@modelcontextprotocol/server';

const text = (value) => ({ content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }] });
const object = (properties = {}) => fromJsonSchema({ type: 'object', properties });
const form = (message) => inputRequired.elicit({ message, requestedSchema: { type: 'object', properties: { ok: { type: 'boolean' } } } });
const words = () => inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'a word' } }], maxTokens: 10 });
const taken = (ctx, key) => {
  const got = inputResponse(ctx.mcpReq.inputResponses, key);
  // The order of the members is the one of the client's library.
  return got.kind === 'sampling' ? got.result.content.text : got;
};
const missing = (ctx, ...keys) => keys.some((key) => inputResponse(ctx.mcpReq.inputResponses, key).kind === 'missing');

function serve(name, state) {
  const server = new McpServer({ name, version: '1' }, {
    instructions: `How to use ${name}.`,
    capabilities: { logging: {}, completions: {}, tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true } },
  });
  // The lists change with the revision.
  const revised = (name) => (state.revision ? `${name}, revision ${state.revision}` : name);
  const tool = (suffix, properties, run, more = {}) => server.registerTool(suffix, { description: suffix, inputSchema: object(properties), ...more }, run);
  const asking = (suffix, requests, more = {}) => tool(suffix, {}, async (_, ctx) => (missing(ctx, ...Object.keys(requests()))
    ? inputRequired({ inputRequests: requests(), ...more })
    : text(Object.keys(requests()).map((key) => taken(ctx, key)))));
  tool('echo', { message: { type: 'string' } }, async ({ message }) => text(`Echo: ${message}`));
  tool('structured', {}, async () => ({ ...text('{"a":1}'), structuredContent: { a: 1 } }), { outputSchema: object({ a: { type: 'number' } }) });
  tool('fail', {}, async () => { throw new Error('it failed'); });
  tool('mirrored', { region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer', 'x-mcp-header': 'Level' } }, async (args) => text(args));
  tool('steps', {}, async (_, ctx) => {
    const token = ctx.mcpReq._meta?.progressToken;
    for (let i = 1; i <= 3; i++) {
      await ctx.mcpReq.log(i === 1 ? 'debug' : 'warning', `step ${i}`);
      if (token !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken: token, progress: i, total: 3 } });
    }
    return text('done');
  });
  asking('ask', () => ({ a: form('go on?') }));
  asking('visit', () => ({ a: inputRequired.elicitUrl({ message: 'visit', url: 'https://example.com/' }) }));
  asking('sample', () => ({ a: words() }));
  asking('roots', () => ({ a: inputRequired.listRoots() }));
  asking('several', () => ({ a: form('a?'), b: words(), c: inputRequired.listRoots() }), { requestState: 'st' });
  tool('forever', {}, async () => inputRequired({ inputRequests: { a: form('again?') } }));
  tool('many', {}, async () => inputRequired({ inputRequests: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`q${i}`, form(String(i))])) }));
  tool('wait', {}, (_, ctx) => new Promise((done) => {
    state.waiting++;
    ctx.mcpReq.signal.addEventListener('abort', () => { state.cancelled++; done(text('cancelled')); });
  }), { description: revised('wait') });
  const asked = (ctx, result) => (missing(ctx, 'a') ? inputRequired({ inputRequests: { a: form('which?') } }) : result(JSON.stringify(taken(ctx, 'a'))));
  server.registerPrompt('asks', { description: revised('asks') }, async (ctx) => asked(ctx, (t) => ({ messages: [{ role: 'user', content: { type: 'text', text: t } }] })));
  server.registerResource('note', 'test://note', { mimeType: 'text/plain' }, async (uri) => ({ contents: [{ uri: uri.href, text: 'a note' }] }));
  server.registerResource('asks', 'test://asks', { mimeType: 'text/plain' }, async (uri, ctx) => asked(ctx, (t) => ({ contents: [{ uri: uri.href, text: t }] })));
  const complete = { id: (value) => ['one', 'two'].filter((v) => v.startsWith(value)) };
  server.registerResource('named', new ResourceTemplate('test://named/{id}', { list: undefined, complete }), {}, async (uri, { id }) => ({ contents: [{ uri: uri.href, text: id }] }));
  return server;
}

// startModern serves it on a loopback port, a free one if none is given. state counts the
// waiting calls, and the canceled ones; with another revision the lists of tools and prompts differ.
export async function startModern(name, port = 0) {
  const state = { waiting: 0, cancelled: 0, revision: 0 };
  const handler = createMcpHandler(() => serve(name, state), { legacy: 'reject' });
  const answer = async (req, res) => {
    const gone = new AbortController();
    res.on('close', () => gone.abort());
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const got = await handler.fetch(new Request(`http://127.0.0.1${req.url}`, {
      method: req.method, headers: req.headers, signal: gone.signal, body: chunks.length ? Buffer.concat(chunks) : undefined,
    }));
    res.writeHead(got.status, Object.fromEntries(got.headers));
    for await (const chunk of got.body ?? []) res.write(chunk);
    res.end();
  };
  const http = createServer((req, res) => answer(req, res).catch((err) => {
    if (!res.destroyed) console.error(`${name}: ${err.stack}`);
    res.destroy();
  }));
  await new Promise((done) => http.listen(port, '127.0.0.1', done));
  return {
    state, notify: handler.notify, port: http.address().port, url: `http://127.0.0.1:${http.address().port}/mcp`,
    close: async () => {
      await handler.close();
      http.closeAllConnections();
      await new Promise((done) => http.close(done));
    },
  };
}
