// mcp-remote, a stdio program that users put in front of a server, works with the gateway in
// all common arrangements: in front of the gateway; in front of svc connect --stdio, which
// supergateway offers over HTTP; and behind the gateway, as a program that the gateway starts.
// Each has the same result as the official client that calls the gateway.
//
//   node remote.mjs SVC_BINARY
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { check, expect, finish } from '../clients/checks.mjs';
import { eventuallyListed, startGateway } from '../clients/gateway.mjs';
import { startModern } from '../clients/modern.mjs';
import { bridged } from './servers.mjs';

const [binary] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node remote.mjs SVC_BINARY');
  process.exit(2);
}
const dir = mkdtempSync(join(tmpdir(), 'svc-remote-'));
const everything = [process.execPath, join(import.meta.dirname, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js')];
const modern = await startModern('modern');
// One server with sessions, and one of 2026-07-28.
const upstreams = { every: { command: everything, keys: 'prefix: every_' }, modern: { url: modern.url, keys: 'prefix: modern_' } };
const rules = '{id: no-sums, action: deny, when: {tool_name: every_get-sum}}';
const inner = await startGateway(binary, upstreams, '', rules, { federation: '{enabled: true}' });
await eventuallyListed(inner, []);
const authorization = inner.headers.Authorization;
writeFileSync(join(dir, 'key'), authorization.replace('Bearer ', ''), { mode: 0o600 });
const program = [binary, 'connect', '--stdio', '--url', inner.url.href, '--key-file', join(dir, 'key')];
const before = (url, ...more) => [process.execPath, join(import.meta.dirname, 'node_modules/mcp-remote/dist/proxy.js'), url, '--allow-http', '--transport', 'http-only', ...more];
const authorized = ['--header', `Authorization:${authorization}`];
const offered = await bridged(program);
const outer = await startGateway(binary, { u: { command: before(inner.url.href, ...authorized), keys: `env: {HOME: ${dir}}, sharing: session` } }, '  - {match: {tool_name: "*"}, upstream: u}');

const stdio = ([command, ...args]) => new StdioClientTransport({ command, args, stderr: 'ignore', env: { ...process.env, HOME: dir } });
const ways = {
  'svc connect --stdio': () => stdio(program),
  'mcp-remote before the gateway': () => stdio(before(inner.url.href, ...authorized)),
  'mcp-remote before svc connect --stdio': () => stdio(before(offered.url)),
  'mcp-remote behind the gateway': () => new StreamableHTTPClientTransport(outer.url, { requestInit: { headers: outer.headers } }),
};

// record exercises a server with one client, and returns the results.
async function record(transport) {
  const client = new Client({ name: 'svc-check', version: '1.0.0' }, { capabilities: { elicitation: {} } });
  const asked = [];
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params.message);
    return { action: 'accept', content: {} };
  });
  await client.connect(transport);
  const outcome = async (run) => {
    try {
      return await run();
    } catch (err) {
      // Over HTTP that client reports the status of a denial as its code.
      return /policy_denied/.test(err.message) ? { denied: true } : { code: err.code };
    }
  };
  const call = (name, args = {}, options) => outcome(() => client.callTool({ name, arguments: args }, undefined, options));
  const got = { tools: (await client.listTools()).tools.map((t) => t.name).sort() };
  got.echo = await call('every_echo', { message: 'hä' });
  got.denied = await call('every_get-sum', { a: 1, b: 2 });
  got.unknown = await call('every_no-such');
  let steps = 0;
  got.long = await call('every_trigger-long-running-operation', { duration: 0.3, steps: 3 }, { onprogress: () => { steps++; } });
  got.steps = steps;
  got.other = await call('modern_echo', { message: 'x' });
  got.asked = [await call('modern_ask'), [...asked]];
  got.prompts = (await client.listPrompts()).prompts.map((p) => p.name).sort();
  got.resource = await outcome(() => client.readResource({ uri: 'demo://resource/static/document/features.md' }));
  await client.close();
  return got;
}

const want = await record(new StreamableHTTPClientTransport(inner.url, { requestInit: { headers: inner.headers } }));
await check('the official client over HTTP has all of it', async () => {
  expect(want.denied.denied && want.steps === 3 && want.tools.length > 10 && want.asked[1].length === 1 && want.resource.contents, JSON.stringify(want));
});
for (const [name, transport] of Object.entries(ways)) {
  await check(`${name}: the same`, async () => {
    const got = await record(transport());
    for (const key of Object.keys(want)) expect(isDeepStrictEqual(got[key], want[key]), `${key}: ${JSON.stringify(got[key])?.slice(0, 600)}\nwant ${JSON.stringify(want[key])?.slice(0, 600)}`);
  });
}
offered.close();
outer.remove();
inner.remove();
await modern.close();
rmSync(dir, { recursive: true, force: true });
finish();
