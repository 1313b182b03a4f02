// The gateway starts third-party tool servers itself, on stdio, and clients use them through
// one URL with the same results as directly: the same tools, the same results, the same server
// requests, the same progress. A server gets nothing of the gateway's environment or files,
// and no process outlives the gateway, however the gateway ends.
//
//   node stdio.mjs SVC_BINARY
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { check, expect, finish } from '../clients/checks.mjs';
import { eventually, eventuallyListed, startGateway } from '../clients/gateway.mjs';

const [binary] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node stdio.mjs SVC_BINARY');
  process.exit(2);
}

const files = mkdtempSync(join(tmpdir(), 'svc-stdio-'));
writeFileSync(join(files, 'note.txt'), 'one line\nanother\n');
const of = (name) => join(import.meta.dirname, 'node_modules/@modelcontextprotocol', name, 'dist/index.js');
const commands = {
  every: [process.execPath, of('server-everything')],
  files: [process.execPath, of('server-filesystem'), files],
  memory: [process.execPath, of('server-memory')],
  think: [process.execPath, of('server-sequential-thinking')],
};
const keys = {
  every: 'sharing: session, max_per_principal: 8',
  files: 'sharing: principal',
  memory: `sharing: all, env: {MEMORY_FILE_PATH: ${join(files, 'memory.jsonl')}}`,
  think: 'sharing: none, max_processes: 16, max_per_principal: 8',
};
const planted = 'planted-secret-of-the-gateway-41b7';
const gateway = await startGateway(binary,
  Object.fromEntries(Object.entries(commands).map(([name, command]) => [name, { command, keys: `prefix: ${name}_, ${keys[name]}` }])),
  '', '', { federation: '{enabled: true}', env: { PLANTED: planted } });
await eventuallyListed(gateway, []);

// connect opens a client that responds to server requests.
const asked = [];
async function connect(transport) {
  const client = new Client({ name: 'test', version: '1' }, { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } });
  client.setRequestHandler(CreateMessageRequestSchema, async () => {
    asked.push('sampling');
    return { model: 'm', role: 'assistant', content: { type: 'text', text: 'sampled' } };
  });
  client.setRequestHandler(ElicitRequestSchema, async () => { asked.push('elicitation'); return { action: 'decline' }; });
  client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: `file://${files}`, name: 'files' }] }));
  await client.connect(transport);
  return client;
}
const throughGateway = () => connect(new StreamableHTTPClientTransport(gateway.url, { requestInit: { headers: gateway.headers } }));
const directly = (name) => connect(new StdioClientTransport({
  command: commands[name][0], args: commands[name].slice(1), stderr: 'ignore',
  env: { ...process.env, MEMORY_FILE_PATH: join(files, 'direct.jsonl') },
}));

const calls = {
  every: [['echo', { message: 'hällo\n"' }], ['get-sum', { a: 2, b: 40 }], ['get-structured-content', { location: 'New York' }], ['get-tiny-image', {}],
    ['trigger-sampling-request', { prompt: 'p', maxTokens: 10 }], ['trigger-elicitation-request', {}], ['get-sum', { a: 'no number' }]],
  files: [['read_text_file', { path: join(files, 'note.txt') }], ['list_directory', { path: files }], ['read_text_file', { path: '/etc/passwd' }]],
  memory: [['create_entities', { entities: [{ name: 'svc', entityType: 'program', observations: ['governs'] }] }], ['read_graph', {}]],
  think: [['sequentialthinking', { thought: 't', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }]],
};
const outcome = async (call) => {
  try {
    return { result: await call() };
  } catch (err) {
    return { error: String(err?.message ?? err) };
  }
};
const plain = (value, prefix) => JSON.parse(JSON.stringify(value).replaceAll(prefix, ''));

const client = await throughGateway();
const { tools } = await client.listTools();
for (const name of Object.keys(commands)) {
  const direct = await directly(name);
  await check(`${name}: the same tools`, async () => {
    // A tool that is listed only for clients with roots is not listed for all clients.
    const want = (await direct.listTools()).tools.filter((t) => t.name !== 'get-roots-list');
    const got = tools.filter((t) => t.name.startsWith(`${name}_`));
    expect(want.length > 0 && isDeepStrictEqual(plain(got, `${name}_`), plain(want, `${name}_`)), `${JSON.stringify(got)}\nbut directly\n${JSON.stringify(want)}`);
  });
  for (const [tool, args] of calls[name]) {
    await check(`${name}: ${tool} ${JSON.stringify(args).slice(0, 40)}`, async () => {
      asked.length = 0;
      const want = await outcome(() => direct.callTool({ name: tool, arguments: args }));
      const questions = [...asked];
      asked.length = 0;
      const got = await outcome(() => client.callTool({ name: `${name}_${tool}`, arguments: args }));
      expect(isDeepStrictEqual(plain(got, `${name}_`), plain(want, `${name}_`)), `${JSON.stringify(got)}\nbut directly\n${JSON.stringify(want)}`);
      expect(isDeepStrictEqual(asked, questions), `asked ${asked}, directly ${questions}`);
    });
  }
  await direct.close();
}

await check('progress arrives during a call', async () => {
  const steps = [];
  await client.callTool({ name: 'every_trigger-long-running-operation', arguments: { duration: 0.4, steps: 4 } }, undefined, { onprogress: (p) => steps.push(p.progress) });
  expect(isDeepStrictEqual(steps, [1, 2, 3, 4]), JSON.stringify(steps));
});
await check('a call that is canceled ends at the server too, and the session works on', async () => {
  const stop = new AbortController();
  const call = outcome(() => client.callTool({ name: 'every_trigger-long-running-operation', arguments: { duration: 60, steps: 60 } }, undefined, { signal: stop.signal, onprogress: () => stop.abort('enough') }));
  expect((await call).error?.includes('enough'), JSON.stringify(await call));
  expect((await client.callTool({ name: 'every_echo', arguments: { message: 'on' } })).content[0].text === 'Echo: on', 'no echo');
});
await check('many clients use the servers at once', async () => {
  const many = await Promise.all(Array.from({ length: 6 }, throughGateway));
  await Promise.all(many.flatMap((c, i) => Array.from({ length: 5 }, async (_, j) => {
    const [echo, text, thought] = await Promise.all([
      c.callTool({ name: 'every_echo', arguments: { message: `${i} ${j}` } }),
      c.callTool({ name: 'files_read_text_file', arguments: { path: join(files, 'note.txt') } }),
      j === 0 ? c.callTool({ name: 'memory_read_graph', arguments: {} }) : { content: [{ text: 'svc' }] },
    ]);
    expect(echo.content[0].text === `Echo: ${i} ${j}`, JSON.stringify(echo));
    expect(text.content[0].text.startsWith('one line'), JSON.stringify(text));
    expect(thought.content[0].text.includes('svc'), JSON.stringify(thought));
  })));
  await Promise.all(many.map(async (c) => { await c.transport.terminateSession(); await c.close(); }));
});

// descendants returns the processes below one, including those in other process groups and
// sessions.
const stat = (pid) => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`).toString();
    const [state, parent] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { state, parent: Number(parent) };
  } catch {
    return { state: 'gone' };
  }
};
const descendants = (root) => {
  const all = readdirSync('/proc').filter((n) => /^\d+$/.test(n)).map((pid) => ({ pid: Number(pid), ...stat(pid) }));
  const below = (pid) => all.filter((p) => p.parent === pid).flatMap((p) => [p.pid, ...below(p.pid)]);
  return below(root);
};
const runs = (pid) => !['gone', 'Z'].includes(stat(pid).state);

await check('a secret of the gateway is nowhere but in the gateway', async () => {
  const env = await client.callTool({ name: 'every_get-env', arguments: {} });
  const names = Object.keys(JSON.parse(env.content[0].text)).sort();
  expect(isDeepStrictEqual(names, ['HOME', 'LANG', 'PATH', 'TMPDIR']), JSON.stringify(names));
  expect(readFileSync(`/proc/${gateway.pid()}/environ`).toString().includes(planted), 'the gateway does not have it');
  const key = gateway.headers.Authorization.slice('Bearer '.length);
  const all = descendants(gateway.pid());
  expect(all.length >= 8, `only ${all.length} processes`);
  for (const pid of all) {
    for (const file of ['environ', 'cmdline']) {
      let text;
      try {
        text = readFileSync(`/proc/${pid}/${file}`).toString();
      } catch {
        continue; // it has ended
      }
      expect(!text.includes(planted) && !text.includes(key), `${file} of ${pid}`);
    }
  }
  for (const [what, text] of [['log', gateway.log()], ['audit file', gateway.audit()]]) {
    expect(!text.includes(planted) && !text.includes(key), what);
  }
});
await check('every call has its audit line with its upstream', async () => {
  const lines = gateway.audit().trim().split('\n').map((line) => JSON.parse(line)).filter((l) => l.method === 'tools/call' && l.kind === 'request');
  expect(lines.length >= Object.values(calls).flat().length, `${lines.length} lines`);
  for (const l of lines) expect(l.tool.startsWith(`${l.upstream}_`), JSON.stringify(l));
});
await client.close();
await check('the gateway ends in order, and its servers with it', async () => {
  const all = descendants(gateway.pid());
  expect(await gateway.stop() === 0, gateway.log());
  expect(all.length > 0 && !all.some(runs), `${all.filter(runs)} still run`);
});
await check('nothing runs 2 s after a SIGKILL of the gateway, twenty times', async () => {
  for (let i = 0; i < 20; i++) {
    await gateway.start();
    await eventually('the servers are not started', () => descendants(gateway.pid()).length >= 8);
    const all = descendants(gateway.pid());
    await gateway.kill();
    await new Promise((done) => setTimeout(done, 2000));
    expect(!all.some(runs), `round ${i}: ${all.filter(runs)} still run`);
  }
});
gateway.remove();
rmSync(files, { recursive: true, force: true });
finish();
