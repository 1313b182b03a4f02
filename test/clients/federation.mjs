// Official TypeScript clients of both generations use several servers through one gateway with
// federation: they list and call everything that the servers offer, and get the same results
// as directly, with the prefix of the server. One server is unavailable, one has cursors in a
// cycle, one announces changes without end.
//
//   node federation.mjs SVC_BINARY
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpServer as LegacyServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport as LegacyServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { check, expect, failures, finish } from './checks.mjs';
import { eventually, startGateway } from './gateway.mjs';
import { startEverything } from './others.mjs';
import { startUpstream } from './upstream.mjs';

const binary = process.argv[2];
if (!binary) {
  console.error('usage: node federation.mjs SVC_BINARY');
  process.exit(2);
}
const info = { name: 'svc-check', version: '1.0.0' };

// A minimal server for behavior that no SDK has. answer returns the result of a method;
// standing gets the response of the GET stream.
async function startPlain(answer, standing) {
  const http = createServer(async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    if (req.method === 'GET' && standing) {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      standing(res);
      return;
    }
    const message = req.method === 'POST' ? JSON.parse(Buffer.concat(chunks)) : {};
    if (message.id === undefined) {
      res.writeHead(req.method === 'POST' ? 202 : 405).end();
      return;
    }
    const result = message.method === 'initialize'
      ? { protocolVersion: '2025-11-25', capabilities: { tools: { listChanged: true } }, serverInfo: info, instructions: 'A plain server.' }
      : answer(message);
    const body = result ? { result } : { error: { code: -32601, message: 'method not found' } };
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...body }));
  });
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${http.address().port}/mcp`, close: () => { http.closeAllConnections(); http.close(); } };
}

const tool = (name) => ({ name, description: name, inputSchema: { type: 'object' } });
const said = (text) => ({ content: [{ type: 'text', text }] });

const alpha = await startUpstream('alpha');
const beta = await startUpstream('beta');
const everything = await startEverything();
const circle = await startPlain(({ method, params }) => ({
  'tools/list': { tools: [tool(`page${params?.cursor ?? 0}`)], nextCursor: params?.cursor === '1' ? '2' : '1' },
  'tools/call': said(`circle ${params?.name}`),
})[method]);
let listed = 0;
const flood = await startPlain(({ method, params }) => {
  if (method === 'tools/list') listed++;
  return { 'tools/list': { tools: [tool('drop')] }, 'tools/call': said(`flood ${params?.name}`) }[method];
}, (res) => {
  const timer = setInterval(() => res.write('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'), 5);
  res.on('close', () => clearInterval(timer));
});
const down = 'http://127.0.0.1:1/mcp';

const federation = '{enabled: true}';
const denied = "{id: no-beta-sample, action: deny, when: {tool_name: beta_sample}}";
const mixed = await startGateway(binary, {
  alpha: { url: alpha.url, keys: 'prefix: alpha_' },
  everything: { url: everything.url, keys: 'prefix: every_, tools: {deny: ["get-env"], rename: {get-sum: add}}' },
  circle: { url: circle.url, keys: 'prefix: circle_' },
  flood: { url: flood.url, keys: 'prefix: flood_' },
  down: { url: down, keys: 'prefix: down_' },
}, '', '', { federation, yaml: 'views: [{name: few, upstreams: [alpha, everything], tools: [alpha_alpha_echo, "every_e*", page0], prompts: none}]' });
const stateless = await startGateway(binary, {
  alpha: { url: alpha.url, keys: 'prefix: one_' },
  beta: { url: beta.url },
  down: { url: down, keys: 'prefix: down_' },
}, '', denied, { federation });
const searched = await startGateway(binary, {
  everything: { url: everything.url, keys: 'prefix: every_' },
  beta: { url: beta.url, keys: 'prefix: beta_' },
}, '', "{id: no-env, action: deny, when: {tool_name: every_get-env}}", { federation, yaml: `tool_search: {enabled: true, mode: synthesize}
views: [{name: beta, upstreams: [beta]}]` });

const one = () => ({ client: new LegacyClient(info, { capabilities: {} }), Transport: LegacyTransport });
const two = (versionNegotiation) => () => ({ client: new Client(info, { capabilities: {}, versionNegotiation }), Transport: StreamableHTTPClientTransport });
const clients = {
  'sdk 1.x, 2025 session': one,
  'client 2.x, 2025 session': two(undefined),
  'client 2.x, 2026-07-28 stateless': two({ mode: { pin: '2026-07-28' } }),
  'client 2.x, negotiated': two({ mode: 'auto' }),
};

async function connect(make, { url, headers }) {
  const { client, Transport } = make();
  client.onerror = () => {};
  const transport = new Transport(new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  return { client, close: async () => { await transport.terminateSession?.(); await client.close(); } };
}

// all reads every page of a list; a list that a server does not offer is empty.
async function all(client, method, member) {
  const out = [];
  let cursor;
  do {
    const page = await client[method](cursor ? { cursor } : undefined);
    out.push(...page[member]);
    cursor = page.nextCursor;
  } while (cursor);
  return out;
}

const lists = { listTools: 'tools', listPrompts: 'prompts', listResources: 'resources', listResourceTemplates: 'resourceTemplates' };
const needs = { listTools: 'tools', listPrompts: 'prompts', listResources: 'resources', listResourceTemplates: 'resources' };

function same(what, got, want) {
  expect(isDeepStrictEqual(got, want), `${what}:\n${JSON.stringify(got)}\nwant\n${JSON.stringify(want)}`);
}

// everythingCalls are calls with the same result each time.
const everythingCalls = {
  echo: { message: 'hello' },
  'get-sum': { a: 2, b: 40 },
  'get-annotated-message': { messageType: 'error', includeImage: true },
  'get-structured-content': { location: 'Chicago' },
  'get-tiny-image': {},
  'get-resource-links': { count: 3 },
};

for (const [name, make] of Object.entries(clients)) {
  for (const [title, gateway] of Object.entries({ mixed, stateless })) {
    const upstreams = gateway === mixed
      ? { alpha_: alpha.url, every_: everything.url }
      : { one_: alpha.url, '': beta.url };
    let connected;
    await check(`${name}, ${title}: connect`, async () => { connected = await connect(make, gateway); });
    if (!connected) continue;
    const { client } = connected;
    // A server that has only sessions is called in its own generation when it is called
    // directly.
    const modern = /negotiated|stateless/.test(name);
    const makeDirect = (prefix) => (modern && prefix === 'every_' ? clients['client 2.x, 2025 session'] : make);
    const direct = {};
    for (const [prefix, url] of Object.entries(upstreams)) {
      await check(`${name}, ${title}: connect to ${prefix || 'the server without prefix'} directly`, async () => { direct[prefix] = await connect(makeDirect(prefix), { url }); });
    }
    for (const [method, member] of Object.entries(lists)) {
      await check(`${name}, ${title}: ${member} are those of all servers`, async () => {
        const want = [];
        for (const [prefix, { client: other }] of Object.entries(direct)) {
          if (!other.getServerCapabilities()[needs[method]]) continue;
          for (const item of await all(other, method, member)) {
            const renamed = { ...item };
            // 2026-07-28 has no tasks of this form: servers of both generations, whose lists
            // are read with that revision, omit these tools, and its clients drop the member.
            if (prefix !== 'every_' && item.execution?.taskSupport === 'required') continue;
            if (modern || prefix !== 'every_') delete renamed.execution;
            if (member === 'tools' && item.name === 'get-env') continue; // denied
            if (member === 'tools' && item.name === 'get-sum') renamed.name = 'add';
            if (member === 'tools' || member === 'prompts') renamed.name = prefix + renamed.name;
            want.push(renamed);
          }
        }
        if (gateway === mixed && member === 'tools') want.push(...['page0', 'page1', 'page2'].map((n) => ({ ...tool(n), name: `circle_${n}` })), { ...tool('drop'), name: 'flood_drop' });
        // The gateway declares elicitation and sampling when it reads the lists; these clients
        // do not.
        const got = (await all(client, method, member)).filter((i) => !/^every_trigger-(elicitation|sampling)-request$/.test(i.name));
        const wanted = want.filter((i) => i.name !== 'beta_sample' || gateway !== stateless);
        const names = (items) => items.map((i) => i.name ?? i.uri ?? i.uriTemplate);
        same('names', names(got), names(wanted));
        got.forEach((item, i) => same(item.name, item, wanted[i]));
      });
    }
    await check(`${name}, ${title}: what is listed says that a server is down`, async () => {
      const { _meta } = await client.listTools();
      same('_meta', _meta?.['svc/unavailable'], ['down']);
    });
    for (const prefix of Object.keys(upstreams)) {
      await check(`${name}, ${title}: calls at ${prefix || 'the server without prefix'} are answered as without the gateway`, async () => {
        const calls = prefix === 'every_' ? everythingCalls : { [prefix === '' ? 'beta_echo' : 'alpha_echo']: {} };
        for (const [tool, args] of Object.entries(calls)) {
          const visible = prefix + (tool === 'get-sum' ? 'add' : tool);
          const got = await client.callTool({ name: visible, arguments: args });
          const want = await direct[prefix].client.callTool({ name: tool, arguments: args });
          same(visible, got, want);
        }
      });
    }
    if (gateway === mixed) {
      await check(`${name}, ${title}: prompts, resources and completion`, async () => {
        const other = direct.every_.client;
        for (const prompt of await all(other, 'listPrompts', 'prompts')) {
          const args = Object.fromEntries((prompt.arguments ?? []).map((a) => [a.name, a.name === 'resourceId' ? '1' : a.name === 'resourceType' ? 'Text' : 'x']));
          const [got, want] = await Promise.all([client.getPrompt({ name: `every_${prompt.name}`, arguments: args }), other.getPrompt({ name: prompt.name, arguments: args })]);
          // The generated resource contains the time.
          same(prompt.name, JSON.stringify(got).replace(/\d+:\d+:\d+/g, ''), JSON.stringify(want).replace(/\d+:\d+:\d+/g, ''));
        }
        for (const { uri } of await all(other, 'listResources', 'resources')) {
          const [got, want] = await Promise.all([client.readResource({ uri }), other.readResource({ uri })]);
          // docs/generations.md: members that 2026-07-28 requires of a result and a server
          // with sessions does not send.
          same(uri, got, modern ? { ttlMs: 0, cacheScope: 'private', ...want } : want);
        }
        const uri = 'demo://resource/dynamic/text/1';
        const read = await client.readResource({ uri });
        expect(read.contents[0].uri === uri, JSON.stringify(read));
        const ask = (named) => ({ ref: { type: 'ref/prompt', name: named }, argument: { name: 'department', value: '' } });
        same('completion', await client.complete(ask('every_completable-prompt')), await other.complete(ask('completable-prompt')));
      });
      for (const [visible, want] of [['circle_page2', 'circle page2'], ['flood_drop', 'flood drop']]) {
        await check(`${name}, ${title}: ${visible} can be called`, async () => {
          const got = await client.callTool({ name: visible, arguments: {} });
          expect(got.content[0].text === want, JSON.stringify(got));
        });
      }
    }
    if (gateway === mixed) {
      await check(`${name}, ${title}: hear of a change at a server whose lists are private`, async () => {
        let changes = 0;
        const count = () => { changes++; };
        client instanceof LegacyClient
          ? client.setNotificationHandler(ToolListChangedNotificationSchema, count)
          : client.setNotificationHandler('notifications/tools/list_changed', count);
        const listening = modern ? await client.listen({ toolsListChanged: true }) : undefined;
        let n = 0;
        await eventually('no notification arrived', () => {
          if (n++ % 20 === 0) alpha.toolsChanged(); // the stream may still be opening
          return changes > 0;
        });
        await listening?.close();
      });
    }
    const refused = gateway === mixed
      ? { echo: 'no_route', page1: 'no_route', 'every_get-env': 'no_route', 'every_get-sum': 'no_route', down_x: 'upstream_unreachable' }
      : { alpha_echo: 'no_route', one_: 'no_route', beta_sample: 'policy_denied', down_x: 'upstream_unreachable' };
    for (const [visible, why] of Object.entries(refused)) {
      await check(`${name}, ${title}: ${visible} is refused as ${why}`, async () => {
        let got;
        try {
          got = await client.callTool({ name: visible, arguments: {} });
        } catch (err) {
          expect(`${err.message} ${JSON.stringify(err.data ?? '')}`.includes(why), `${err.message} ${JSON.stringify(err.data ?? '')}`);
          return;
        }
        throw new Error(`it was answered: ${JSON.stringify(got)}`);
      });
    }
    await check(`${name}, ${title}: close`, async () => {
      await connected.close();
      for (const { close } of Object.values(direct)) await close();
    });
  }
}

for (const [name, make] of Object.entries(clients)) {
  await check(`${name}: a view has its part of the lists, and calls that alone`, async () => {
    const { client, close } = await connect(make, { ...mixed, url: `${mixed.url}/v/few` });
    same('tools', (await all(client, 'listTools', 'tools')).map((t) => t.name), ['alpha_alpha_echo', 'every_echo']);
    same('prompts', await all(client, 'listPrompts', 'prompts'), []);
    const uris = (await all(client, 'listResources', 'resources')).map((r) => r.uri);
    expect(uris.some((uri) => uri.startsWith('demo://')), JSON.stringify(uris));
    same('echo', await client.callTool({ name: 'every_echo', arguments: { message: 'hello' } }), { content: said('Echo: hello').content });
    for (const visible of ['every_add', 'circle_page0', 'page0', 'flood_drop', 'nothing']) {
      const err = await client.callTool({ name: visible, arguments: {} }).then(JSON.stringify, (e) => `${e.message} ${JSON.stringify(e.data ?? '')}`);
      expect(err.includes('no_route'), `${visible}: ${err}`);
    }
    await close();
  });
  for (const [where, url] of [['', `${searched.url}`], [' at a view', `${searched.url}/v/beta`]]) {
    await check(`${name}: what a search finds is called by mcp_call${where}`, async () => {
      const { client, close } = await connect(make, { ...searched, url });
      same('tools', (await client.listTools()).tools.map((t) => t.name), ['mcp_search', 'mcp_call']);
      const found = await client.callTool({ name: 'mcp_search', arguments: { query: 'echo' } });
      const names = found.structuredContent.tools.map((t) => t.name);
      expect(names.includes('beta_beta_echo') && names.includes('every_echo') === (where === ''), JSON.stringify(names));
      const call = (named, args) => client.callTool({ name: 'mcp_call', arguments: { name: named, arguments: args } }).then(JSON.stringify, (e) => `${e.message} ${JSON.stringify(e.data ?? '')}`);
      const echoed = await call('every_echo', { message: 'hello' });
      expect(echoed.includes(where === '' ? 'Echo: hello' : 'no_route'), echoed);
      const own = await call('beta_beta_echo', {});
      expect(own.includes('"content"'), own);
      for (const [named, why] of [['every_get-env', 'policy_denied'], ['mcp_call', 'call_name_invalid'], ['nothing', 'no_route']]) {
        const refused = await call(named, {});
        expect(refused.includes(why), `${named}: ${refused}`);
      }
      await close();
    });
  }
}

await check('a question on the standalone stream of a new session arrives, in 40 sessions of 40', async () => {
  const sessions = new Map();
  const http = createServer(async (req, res) => {
    const known = sessions.get(req.headers['mcp-session-id']);
    if (known) return known.handleRequest(req, res);
    const server = new LegacyServer({ name: 'asking', version: '1' });
    // Without relatedRequestId the question is sent on the GET stream, and is lost while that is not open.
    server.registerTool('ask', {}, async () => said((await server.server.elicitInput({ message: 'go on?', requestedSchema: { type: 'object', properties: { ok: { type: 'boolean' } } } })).action));
    const transport = new LegacyServerTransport({ sessionIdGenerator: () => randomUUID(), onsessioninitialized: (id) => sessions.set(id, transport) });
    await server.connect(transport);
    return transport.handleRequest(req, res);
  });
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  const gateway = await startGateway(binary, { asking: { url: `http://127.0.0.1:${http.address().port}/mcp`, keys: 'prefix: asking_' } }, '', '', { federation: '{enabled: true}' });
  let lost = 0;
  for (let i = 0; i < 40; i++) {
    const client = new LegacyClient(info, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: {} }));
    await client.connect(new LegacyTransport(gateway.url, { requestInit: { headers: gateway.headers } }));
    const got = await client.callTool({ name: 'asking_ask', arguments: {} }, undefined, { timeout: 2000 }).catch(() => undefined);
    if (got?.content[0].text !== 'accept') lost++;
    await client.close();
  }
  expect(await gateway.stop() === 0, gateway.log());
  gateway.remove();
  http.closeAllConnections();
  http.close();
  expect(lost === 0, `${lost} of 40 questions were lost`);
});
await check('the audit line of a renamed tool has its own name', async () => {
  const lines = mixed.audit().trim().split('\n').map((l) => JSON.parse(l));
  const line = lines.find((l) => l.tool === 'every_add' && l.kind === 'request');
  expect(line?.upstream === 'everything' && line?.upstream_tool === 'get-sum', JSON.stringify(line));
});
await check('a server that announces changes without end is read every 5 s on average, and ten times at first', async () => {
  const { client, close } = await connect(one, mixed);
  await client.callTool({ name: 'flood_drop', arguments: {} }); // this opens a session there
  const before = listed;
  const from = Date.now();
  const again = () => eventually('the lists were not read again', () => listed > before);
  await again().catch(again);
  await new Promise((done) => setTimeout(done, 6000));
  const most = 12 + Math.floor((Date.now() - from) / 5000);
  expect(listed - before <= most, `${listed - before} readings in ${Date.now() - from} ms, at most ${most}`);
  await client.listTools();
  await close();
});
for (const [title, gateway] of Object.entries({ mixed, stateless, searched })) {
  await check(`the ${title} gateway ends in order`, async () => {
    const code = await gateway.stop();
    expect(code === 0, `exit code ${code}:\n${gateway.log()}`);
  });
  if (failures()) console.log(gateway.log());
  gateway.remove();
}
for (const up of [alpha, beta, everything, circle, flood]) await up.close();
finish();
