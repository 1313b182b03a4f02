// Skills of two servers on the official TypeScript SDKs, one of each protocol generation, with the same
// address, behind one gateway: clients of both SDKs verify every file of both, as the extension requires
// of a host (size, digest, frontmatter).
//
//   node skills.mjs SVC_BINARY
import { createHash, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpServer as LegacyServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { check, expect, finish } from './checks.mjs';
import { eventuallyListed, startGateway } from './gateway.mjs';

const binary = process.argv[2];
if (!binary) {
  console.error('usage: node skills.mjs SVC_BINARY');
  process.exit(2);
}
const SKILLS = 'io.modelcontextprotocol/skills';
const DIRECTORY = 'skill://billing/refunds';
const info = { name: 'svc-check', version: '1.0.0' };

// filesOf returns the files of the skill of a server, by address.
const filesOf = (name) => ({
  [`${DIRECTORY}/SKILL.md`]: Buffer.from(`---\nname: refunds\ndescription: Refunds of ${name}\n---\n# ${name} \u2028 </script> 😀\r\n`),
  [`${DIRECTORY}/scripts/pay.sh`]: Buffer.from(`echo ${name}\n`),
  [`${DIRECTORY}/logo.bin`]: Buffer.from([0, 255, 254, 10]),
});
const frontmatter = (doc) => Object.fromEntries(doc.split('---\n')[1].trim().split('\n').map((line) => line.split(': ')));
const sha256 = (data) => `sha256:${createHash('sha256').update(data).digest('hex')}`;

// startSkills serves a skill on a free loopback port, to clients of one generation.
async function startSkills(name, modern) {
  const files = filesOf(name);
  const entry = {
    uri: `${DIRECTORY}/SKILL.md`, frontmatter: frontmatter(files[`${DIRECTORY}/SKILL.md`].toString()),
    resources: Object.entries(files).map(([uri, data]) => ({ uri, digest: sha256(data), size: data.length })),
  };
  const hints = { resultType: 'complete', ttlMs: 1000, cacheScope: 'public' };
  const answers = {
    'skills/list': () => ({ skills: [entry], ...hints }),
    'skills/get': ({ uri }) => {
      if (uri !== entry.uri) throw Object.assign(new Error('no such skill'), { code: -32602 });
      return { skill: entry, ...hints };
    },
    'resources/directory/read': () => ({ resources: [{ uri: `${DIRECTORY}/scripts`, name: 'scripts', mimeType: 'inode/directory' }], resultType: 'complete' }),
  };
  const options = { capabilities: { resources: {}, extensions: { [SKILLS]: { directoryRead: true } } } };
  const register = (server) => {
    for (const [uri, data] of Object.entries(files)) {
      const contents = uri.endsWith('.bin') ? { uri, blob: data.toString('base64') } : { uri, text: data.toString() };
      server.registerResource(uri, uri, {}, async () => ({ contents: [contents] }));
    }
    for (const [method, answer] of Object.entries(answers)) {
      if (modern) server.server.setRequestHandler(method, { params: z.looseObject({ uri: z.string().optional() }) }, async (params) => answer(params));
      else server.server.setRequestHandler(z.object({ method: z.literal(method), params: z.looseObject({ uri: z.string().optional() }).optional() }), async ({ params }) => answer(params ?? {}));
    }
  };
  const sessions = new Map();
  const handler = modern && createMcpHandler(() => {
    const server = new McpServer({ name, version: '1' }, options);
    register(server);
    return server;
  }, { legacy: 'reject' });
  const serve = async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
    if (modern) {
      const got = await handler.fetch(new Request(`http://127.0.0.1${req.url}`, { method: req.method, headers: req.headers, body: body && JSON.stringify(body) }));
      return res.writeHead(got.status, Object.fromEntries(got.headers)).end(Buffer.from(await got.arrayBuffer()));
    }
    let transport = sessions.get(req.headers['mcp-session-id']);
    if (!transport && body?.method !== 'initialize') return res.writeHead(req.headers['mcp-session-id'] ? 404 : 400).end();
    if (!transport) {
      const server = new LegacyServer({ name, version: '1' }, options);
      register(server);
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
      await server.connect(transport);
    }
    return transport.handleRequest(req, res, body);
  };
  const http = createServer((req, res) => serve(req, res).catch((err) => { console.error(`${name}: ${err.stack}`); res.destroy(); }));
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${http.address().port}/mcp`, entry, files };
}

const servers = { old: await startSkills('old', false), new_one: await startSkills('new_one', true) };
const gateway = await startGateway(binary, { old: { url: servers.old.url, keys: 'prefix: old_' }, new_one: { url: servers.new_one.url, keys: 'prefix: new_, shared_lists: true' } }, '', '', { federation: '{enabled: true}' });
await eventuallyListed(gateway, []);

const hosts = {
  'sdk 1.x': async () => {
    const client = new LegacyClient(info);
    await client.connect(new LegacyTransport(gateway.url, { requestInit: { headers: gateway.headers } }));
    return { client, ask: (method, params = {}) => client.request({ method, params }, z.looseObject({})) };
  },
  'client 2.x, 2025': async () => {
    const client = new Client(info);
    await client.connect(new StreamableHTTPClientTransport(gateway.url, { requestInit: { headers: gateway.headers } }));
    return { client, ask: (method, params = {}) => client.request({ method, params }, z.looseObject({})) };
  },
  'client 2.x, 2026-07-28': async () => {
    const client = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await client.connect(new StreamableHTTPClientTransport(gateway.url, { requestInit: { headers: gateway.headers } }));
    return { client, ask: (method, params = {}) => client.request({ method, params }, z.looseObject({})) };
  },
};

for (const [name, connect] of Object.entries(hosts)) {
  await check(`${name}: every file of the skills of two servers is what its entry says`, async () => {
    const { client, ask } = await connect();
    const list = await ask('skills/list');
    expect(list.skills.length === 2, JSON.stringify(list));
    expect(list.ttlMs !== undefined && list.cacheScope === 'private', JSON.stringify(list));
    for (const [server, { entry, files }] of Object.entries(servers)) {
      const seen = `skill://${server.replace('_', '-')}/billing/refunds`;
      const got = list.skills.find((s) => s.uri === `${seen}/SKILL.md`);
      const want = JSON.parse(JSON.stringify(entry).replaceAll(DIRECTORY, seen));
      expect(isDeepStrictEqual(got, want), JSON.stringify(got));
      expect(isDeepStrictEqual((await ask('skills/get', { uri: got.uri })).skill, got), 'skills/get');
      for (const { uri, digest, size } of got.resources) {
        const { contents: [read] } = await client.readResource({ uri });
        const data = read.blob === undefined ? Buffer.from(read.text) : Buffer.from(read.blob, 'base64');
        expect(read.uri === uri && data.length === size && sha256(data) === digest, `${uri}: ${JSON.stringify(read)}`);
        expect(data.equals(files[uri.replace(seen, DIRECTORY)]), uri);
        if (uri === got.uri) expect(isDeepStrictEqual(frontmatter(data.toString()), got.frontmatter), 'frontmatter');
      }
      const { resources } = await ask('resources/directory/read', { uri: seen });
      expect(resources[0].uri === `${seen}/scripts`, JSON.stringify(resources));
    }
    const said = await ask('skills/get', { uri: 'skill://old/none/SKILL.md' }).then(() => 'it was found', (err) => err.code);
    expect(said === -32602, said);
    await client.close();
  });
}
await gateway.stop();
gateway.remove();
finish();
