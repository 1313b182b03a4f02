// Agent frameworks use four third-party tool servers through one gateway: each sees every tool
// of each server with the server's prefix and the same description as directly, and a call has
// the same result as a direct call. A fifth server is unavailable. Tools that a server lists
// only for clients with elicitation or sampling are listed for all clients.
//
//   node frameworks.mjs SVC_BINARY [Mastra] [mcp-use]
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { check, expect, finish } from '../clients/checks.mjs';
import { eventuallyListed, startGateway } from '../clients/gateway.mjs';
import { adapters, more } from './adapters.mjs';
import { startServers } from './servers.mjs';

const [binary, ...extra] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node frameworks.mjs SVC_BINARY [Mastra] [mcp-use]');
  process.exit(2);
}
for (const name of extra) adapters[name] = more[name];

const { servers, dir, close } = await startServers();
const gateway = await startGateway(binary, {
  ...Object.fromEntries(Object.entries(servers).map(([name, s]) => [name, { url: s.url, keys: `prefix: ${name}_` }])),
  down: { url: 'http://127.0.0.1:1/mcp', keys: 'prefix: down_' },
}, '', '{id: no-moves, action: deny, when: {tool_name: files_move_file}}', { federation: '{enabled: true}' });

// A bridged server may take seconds for its first list on a busy machine.
await eventuallyListed(gateway, ['down']);

const calls = {
  every: [['echo', { message: 'hello' }], ['get-sum', { a: 2, b: 40 }], ['get-structured-content', { location: 'New York' }]],
  files: [['read_text_file', { path: join(dir, 'note.txt') }], ['list_directory', { path: dir }], ['read_text_file', { path: '/etc/passwd' }]],
  memory: [['create_entities', { entities: [{ name: 'svc', entityType: 'program', observations: ['governs'] }] }], ['read_graph', {}]],
  fast: [['join', { words: ['a', 'b'], by: '-' }], ['refuse', {}]],
};
// Results that differ with each call: create_entities returns the entities that did not exist.
const changes = new Set(['create_entities']);
// Tools that server-everything lists only for clients with a capability.
const conditional = ['every_trigger-elicitation-request', 'every_trigger-sampling-request'];
// Tools that are not visible through the gateway: one that a rule denies, and one that is
// listed only for clients with roots (docs/federation.md).
const unlisted = new Set(['files_move_file', 'every_get-roots-list']);

// outcome is the agent's result, or the text of its error.
const outcome = async (call) => {
  try {
    return { result: JSON.parse(JSON.stringify(await call() ?? null)) };
  } catch (err) {
    return { error: String(err?.message ?? err) };
  }
};
// without removes the prefix from texts that name the tool, and random ids.
const without = (value, prefix) => JSON.parse(JSON.stringify(value)
  .replaceAll(prefix, '').replace(/"(id|tool_call_id|lc_id)":"[^"]*"/g, '"$1":"-"'));

for (const [framework, open] of Object.entries(adapters)) {
  let through;
  await check(`${framework}: connects`, async () => { through = await open(gateway.url.href, gateway.headers); });
  if (!through) continue;
  const seen = new Set();
  for (const [name, server] of Object.entries(servers)) {
    const prefix = `${name}_`;
    let direct;
    await check(`${framework}: sees the tools of ${name}`, async () => {
      direct = await open(server.url, {});
      const want = Object.keys(direct.tools).filter((t) => !unlisted.has(prefix + t));
      expect(want.length > 0, 'a direct connection sees no tool');
      for (const tool of want) {
        expect(through.tools[prefix + tool], `${prefix}${tool} is not among ${Object.keys(through.tools)}`);
        seen.add(prefix + tool);
        const [a, b] = [through.tools[prefix + tool], direct.tools[tool]].map((t) => JSON.parse(JSON.stringify(t)));
        expect(isDeepStrictEqual(without(a, prefix), without(b, prefix)), `${tool}:\n${JSON.stringify(a)}\nbut directly\n${JSON.stringify(b)}`);
      }
    });
    for (const [tool, args] of calls[name]) {
      await check(`${framework}: ${prefix}${tool} ${JSON.stringify(args).slice(0, 60)}`, async () => {
        const got = await outcome(() => through.call(prefix + tool, args));
        const want = await outcome(() => direct.call(tool, args));
        if (changes.has(tool)) {
          expect(got.result !== undefined, JSON.stringify(got));
          return;
        }
        expect(isDeepStrictEqual(without(got, prefix), without(want, prefix)), `${JSON.stringify(got)}\nbut directly\n${JSON.stringify(want)}`);
      });
    }
    await direct?.close();
  }
  await check(`${framework}: sees nothing else`, async () => {
    const rest = Object.keys(through.tools).filter((tool) => !seen.has(tool) && !conditional.includes(tool));
    expect(rest.length === 0, `no server has ${rest}`);
  });
  await through.close();
}
await check('every call has its audit line', async () => {
  const lines = gateway.audit().trim().split('\n').map((line) => JSON.parse(line)).filter((l) => l.method === 'tools/call' && l.kind === 'request');
  const want = Object.keys(adapters).length * Object.values(calls).flat().length;
  expect(lines.length === want, `${lines.length} lines of tools/call, want ${want}`);
});
await check('the gateway ends in order', async () => expect(await gateway.stop() === 0, gateway.log()));
gateway.remove();
close();
finish();
