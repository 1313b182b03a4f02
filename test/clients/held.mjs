// 1,000 calls of clients of 2026-07-28 are held for a server request of a server with
// sessions, and the gateway needs less than 72 MiB of additional memory. Then each is
// answered, and continues exactly once.
//
//   node held.mjs SVC_BINARY
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { check, expect, finish } from './checks.mjs';
import { startGateway } from './gateway.mjs';

const binary = process.argv[2];
if (!binary) {
  console.error('usage: node held.mjs SVC_BINARY');
  process.exit(2);
}
const calls = 1000;
const each = 63; // per principal; the limit is 64
const limit = 72; // MiB

// The server sends a request in every call, keeps its stream open until the response, and
// offers a standalone stream.
const waiting = new Map();
let performed = 0;
const server = createServer(async (req, res) => {
  const session = req.headers['mcp-session-id'];
  if (req.method !== 'POST') {
    if (req.method === 'GET') res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    else res.writeHead(204).end();
    return;
  }
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const m = JSON.parse(Buffer.concat(chunks));
  const answer = (result, headers = {}) => res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify({ jsonrpc: '2.0', id: m.id, result }));
  if (m.method === 'initialize') {
    answer({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }, { 'mcp-session-id': randomUUID() });
  } else if (m.method === 'tools/call') {
    performed++;
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(`data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"go on?","requestedSchema":{"type":"object","properties":{}}}}\n\n`);
    waiting.set(session, (text) => res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: m.id, result: { content: [{ type: 'text', text }] } })}\n\n`));
  } else {
    res.writeHead(202).end();
    if (m.result) waiting.get(session)?.(m.result.action);
  }
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const url = `http://127.0.0.1:${server.address().port}/mcp`;

const keys = Array.from({ length: Math.ceil(calls / each) }, (_, i) => JSON.parse(execFileSync(binary, ['keygen', '--id', `k${i}`, '-o', 'json']).toString()));
const gateway = await startGateway(binary, { up: { url, keys: 'protocol: "2025-11-25"' } }, '  - {match: {tool_name: "*"}, upstream: up}', '', {
  keys: keys.map(({ hash }, i) => `{id: k${i}, hash: "${hash}"}`),
});
const resident = () => Number(readFileSync(`/proc/${gateway.pid()}/status`).toString().match(/VmRSS:\s+(\d+) kB/)[1]) / 1024;
const _meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
};
async function post(i, more) {
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${keys[Math.floor(i / each)].key}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'ask',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: i, method: 'tools/call', params: { name: 'ask', arguments: { i }, _meta, ...more } }),
  });
  const text = await response.text();
  const { result } = JSON.parse(text.startsWith('{') ? text : text.match(/^data: (\{.*"result".*)$/m)[1]);
  return result;
}
// A few at a time: a principal may have 4 running calls at a server.
async function all(run) {
  const out = [];
  for (let i = 0; i < calls; i += 50) out.push(...await Promise.all(Array.from({ length: Math.min(50, calls - i) }, (_, j) => run(i + j))));
  return out;
}
const answered = (i, asked) => post(i, { requestState: asked.requestState, inputResponses: { question: { action: 'accept' } } });

let held;
await check(`${calls} calls wait for an answer`, async () => {
  for (let i = 0; i < 60; i++) await answered(i, await post(i)); // memory that every gateway needs
  const before = resident();
  held = await all((i) => post(i));
  const bad = held.find((r) => r?.resultType !== 'input_required');
  expect(!bad, JSON.stringify(bad));
  const more = resident() - before;
  console.log(`      ${more.toFixed(1)} MiB more than the ${before.toFixed(1)} MiB before`);
  expect(more < limit, `${more.toFixed(1)} MiB, want less than ${limit}`);
});
await check('each goes on once', async () => {
  const before = performed;
  const results = await all((i) => answered(i, held[i]));
  const bad = results.find((r) => r?.content?.[0]?.text !== 'accept');
  expect(!bad, JSON.stringify(bad));
  expect(performed === before, `${performed - before} calls began anew`);
});
await check('the gateway ends in order', async () => expect(await gateway.stop() === 0, gateway.log()));
gateway.remove();
server.closeAllConnections();
finish();
