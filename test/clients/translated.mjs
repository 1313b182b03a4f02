// Clients of one protocol generation use third-party servers of the other through the gateway,
// alone and in a federation of both: the results are the same as those of a client of the
// server's own generation without a gateway, except for the differences that
// docs/generations.md lists.
//
//   node translated.mjs SVC_BINARY GO_CONFORMANCE_SERVER
import { isDeepStrictEqual } from 'node:util';
import { check, expect, failures, finish } from './checks.mjs';
import { connect } from './face.mjs';
import { eventually, eventuallyListed, startGateway } from './gateway.mjs';
import { startLegacy } from './legacy.mjs';
import { startModern } from './modern.mjs';
import { startEverything, startGo } from './others.mjs';

const [binary, goServer] = process.argv.slice(2);
if (!goServer) {
  console.error('usage: node translated.mjs SVC_BINARY GO_CONFORMANCE_SERVER');
  process.exit(2);
}
const everything = await startEverything();
const modern = await startModern('modern');
const typescript = await startLegacy('typescript');
const inJSON = await startLegacy('json', true);
const stateful = await startGo(goServer, false);
const stateless = await startGo(goServer, true);

const goCalls = [['test_simple_text'], ['test_multiple_content_types'], ['test_error_handling'], ['test_sampling', { prompt: 'p' }], ['test_elicitation', { message: 'm' }],
  ['test_tool_with_logging'], ['test_input_required_result_request_state'], ['no_such_tool']];
const legacy = ['sdk 1.x, sessions', 'client 2.x, sessions'];
const servers = {
  everything: {
    at: everything, own: legacy[0], leftOut: 'roots', other: ['client 2.x, 2026-07-28'],
    calls: [['echo', { message: 'hä' }], ['get-sum', { a: 'x' }], ['get-structured-content', { location: 'Chicago' }], ['trigger-elicitation-request'],
      ['trigger-sampling-request', { prompt: 'p', maxTokens: 10 }], ['trigger-long-running-operation', { duration: 0.1, steps: 3 }], ['no-such-tool'],
      ['trigger-url-elicitation', { url: 'https://example.com/', message: 'm', elicitationId: 'e' }]],
    prompts: ['simple-prompt', 'no-such-prompt'], resources: ['demo://resource/static/document/features.md', 'demo://no-such'],
    complete: [{ type: 'ref/prompt', name: 'completable-prompt' }, { name: 'department', value: 'E' }],
  },
  stateful: { at: stateful, own: legacy[1], other: ['client 2.x, 2026-07-28'], calls: goCalls, prompts: ['test_simple_prompt'], resources: ['test://static-text', 'test://no-such'] },
  // Its requests and logs arrive on the standalone stream of its session.
  typescript: {
    at: typescript, own: legacy[0], other: ['client 2.x, 2026-07-28'],
    calls: [['echo'], ['ask'], ['twice'], ['visit'], ['sample'], ['logs'], ['no-such-tool']], prompts: ['asks'], resources: ['test://questions'],
  },
  json: { at: inJSON, own: legacy[0], other: ['client 2.x, 2026-07-28'], calls: [['echo'], ['ask'], ['twice'], ['sample'], ['logs']], prompts: [], resources: [] },
  stateless: {
    at: stateless, own: 'client 2.x, 2026-07-28', other: legacy, keys: 'protocol: "2026-07-28"',
    calls: [...goCalls.filter(([name]) => !/_(sampling|elicitation)$/.test(name)), ['test_x_mcp_header', { region: 'us west ü' }], ['test_input_required_result_list_roots'], ['test_input_required_result_multi_round'], ['test_input_required_result_multiple_inputs']],
    prompts: ['test_simple_prompt', 'test_input_required_result_prompt'], resources: ['test://static-text', 'test://template/5/data', 'test://no-such'],
  },
  modern: {
    at: modern, own: 'client 2.x, 2026-07-28', other: legacy,
    calls: [['echo', { message: 'hä' }], ['structured'], ['fail'], ['mirrored', { region: ' eu ü', level: 7 }], ['mirrored'], ['steps'], ['ask'], ['visit'], ['sample'], ['roots'], ['several'], ['no-such-tool']],
    prompts: ['asks', 'no-such-prompt'], resources: ['test://note', 'test://asks', 'test://named/5', 'test://no-such'],
    complete: [{ type: 'ref/resource', uri: 'test://named/{id}' }, { name: 'id', value: 'o' }],
  },
};

// outcome is the result of a call, or the code of its error: the texts differ, because the
// libraries add a prefix. An unknown resource has another code in each generation.
const outcome = async (run) => {
  try {
    return { result: await run() };
  } catch (err) {
    return { error: err.code === -32002 ? -32602 : err.code };
  }
};

// record exercises one server like a client, and returns the results, without additions of the
// libraries and without the names of the generation.
async function record({ client, call, asked, logs, stateless: without }, server, prefix) {
  const told = {};
  const note = async (what, run) => {
    asked.length = 0;
    logs.length = 0;
    told[what] = { ...await outcome(run), asked: asked.map((q) => JSON.stringify(q)).sort(), logs: [...logs] };
  };
  if (!without) await client.setLoggingLevel('debug');
  const _meta = without ? { 'io.modelcontextprotocol/logLevel': 'debug' } : undefined;
  for (const [name, args = {}] of server.calls) {
    const steps = [];
    await note(`call ${name} ${JSON.stringify(args)}`, () => call({ name: prefix + name, arguments: args, _meta }, { onprogress: (p) => { if (p.total) steps.push(p); } }));
    Object.assign(told[`call ${name} ${JSON.stringify(args)}`], { steps });
  }
  for (const name of server.prompts) await note(`prompt ${name}`, () => client.getPrompt({ name: prefix + name }));
  // In a federation the gateway itself reports the unknown resource.
  for (const uri of server.resources) if (!prefix || !uri.endsWith('no-such')) await note(`resource ${uri}`, () => client.readResource({ uri }));
  if (server.complete) {
    const [ref, argument] = server.complete;
    await note('complete', () => client.complete({ ref: ref.name ? { ...ref, name: prefix + ref.name } : ref, argument }));
  }
  for (const [method, member] of Object.entries({ listTools: 'tools', listPrompts: 'prompts', listResources: 'resources', listResourceTemplates: 'resourceTemplates' })) {
    if (prefix) break; // federation.mjs compares merged lists
    await note(member, async () => (await client[method]())[member].map(({ execution, ...item }) => item));
  }
  return JSON.parse(JSON.stringify(told, (key, value) => (['_meta', 'resultType', 'ttlMs', 'cacheScope'].includes(key) ? undefined : value)));
}

function same(got, want) {
  for (const [what, value] of Object.entries(want)) expect(isDeepStrictEqual(got[what], value), `${what}:\n${JSON.stringify(got[what])}\nbut directly\n${JSON.stringify(value)}`);
}

const alone = {};
for (const [name, { at, keys = '' }] of Object.entries(servers)) {
  alone[name] = await startGateway(binary, { [name]: { url: at.url, keys } }, `  - {match: {tool_name: "*"}, upstream: ${name}}`);
}
const federated = ['everything', 'modern', 'typescript'];
const both = await startGateway(binary, Object.fromEntries(federated.map((name) => [name, { url: servers[name].at.url, keys: `prefix: ${name}_` }])), '', '', { federation: '{enabled: true}' });
await eventuallyListed(both, []);

for (const [name, server] of Object.entries(servers)) {
  const direct = await connect(server.own, server.at, server.leftOut); // roots are not available to a server with sessions
  const want = await record(direct, server, '');
  await direct.close();
  for (const kind of server.other) {
    for (const [title, gateway, prefix] of [['alone', alone[name], ''], ['in a federation', both, `${name}_`]]) {
      if (gateway === both && !federated.includes(name)) continue;
      await check(`${kind}, ${name} ${title}: as a direct connection of its own generation`, async () => {
        const through = await connect(kind, gateway);
        same(await record(through, server, prefix), prefix ? Object.fromEntries(Object.entries(want).filter(([what]) => /^(call |prompt |complete|resource .*(?<!no-such)$)/.test(what))) : want);
        await through.close();
      });
    }
  }
}

for (const kind of legacy) {
  for (const [title, gateway, prefix] of [['alone', alone.modern, ''], ['in a federation', both, 'modern_']]) {
    const through = await connect(kind, gateway);
    const { client, call, heard } = through;
    await check(`${kind}, ${title}: subscriptions and changes of a server of 2026-07-28`, async () => {
      await client.subscribeResource({ uri: 'test://note' });
      let n = 0;
      await eventually(() => `heard ${[...heard]}`, () => {
        if (n++ % 20 === 0) { // the stream may still be opening
          modern.state.revision++;
          modern.notify.resourceUpdated('test://note');
          modern.notify.toolsChanged();
          modern.notify.promptsChanged();
        }
        return ['updated', 'tools', 'prompts'].every((what) => heard.has(what));
      });
    });
    await check(`${kind}, ${title}: a server that never stops asking, and one that asks 10,000 questions`, async () => {
      for (const [name, why] of [['forever', 'asked 32 times'], ['many', 'too many questions']]) {
        const { content, isError } = await call({ name: prefix + name });
        expect(isError && content[0].text.includes(why) && content[0].text.includes('may have had effects'), JSON.stringify(content));
      }
    });
    await check(`${kind}, ${title}: a call that is cancelled`, async () => {
      const { waiting, cancelled } = modern.state;
      const stop = new AbortController();
      const calling = outcome(() => call({ name: `${prefix}wait` }, { signal: stop.signal }));
      await eventually('the call did not arrive', () => modern.state.waiting > waiting);
      stop.abort();
      await calling;
      await eventually('the server was not told', () => modern.state.cancelled > cancelled);
    });
    await through.close();
    await check(`${kind}, ${title}: the cancelled call is no failure of the upstream`, async () => {
      let line;
      await eventually('no audit line', () => (line = gateway.audit().trim().split('\n').map((l) => JSON.parse(l)).find((l) => l.tool === `${prefix}wait` && l.kind === 'request')));
      expect(line.status === 200 && !line.error_kind, JSON.stringify(line));
    });
  }
}

await check('client 2.x, 2026-07-28: changes of a server with sessions', async () => {
  const through = await connect('client 2.x, 2026-07-28', alone.stateful);
  const listening = await through.client.listen({ toolsListChanged: true, resourceSubscriptions: ['test://watched-resource'] });
  let n = 0;
  await eventually(() => `heard ${[...through.heard]}`, () => {
    if (n++ % 20 === 0) through.call({ name: 'test_trigger_tool_change', arguments: {} }).catch(() => {});
    return through.heard.has('tools') && through.heard.has('updated');
  });
  await listening.close();
  await through.close();
});

// A server is replaced by one of the other generation on the same port, and by one of its own.
// Clients continue, some after a few seconds: the upstream is asked for its revisions at most
// every ten.
const shapes = { everything: startEverything, modern: (port) => startModern('modern', port) };
for (const [from, to] of [['everything', 'everything'], ['everything', 'modern'], ['modern', 'everything']]) {
  let up = await shapes[from]();
  const gateway = await startGateway(binary, { up: up.url }, '  - {match: {tool_name: "*"}, upstream: up}');
  const echo = async ({ call }) => (await call({ name: 'echo', arguments: { message: 'on' } })).content[0].text === 'Echo: on';
  const kinds = ['client 2.x, 2026-07-28', ...(from === to ? [] : legacy)]; // a session of sdk 1.x ends with its server
  const through = await Promise.all(kinds.map((kind) => connect(kind, gateway)));
  for (const one of through) expect(await echo(one), 'no echo');
  await up.close();
  up = await shapes[to](up.port);
  await Promise.all(kinds.map((kind, i) => check(`${kind}: ${from} becomes ${to} in the middle of its work`, async () => {
    let last;
    for (let n = 0; n < 60; n++) {
      try {
        if (await echo(through[i])) return;
      } catch (err) { last = err; }
      await new Promise((done) => setTimeout(done, 250));
    }
    throw last;
  })));
  for (const one of through) await one.close();
  await gateway.stop();
  gateway.remove();
  await up.close();
}
for (const gateway of [...Object.values(alone), both]) {
  await check('a gateway ends in order', async () => {
    const code = await gateway.stop();
    expect(code === 0 && !/panic/.test(gateway.log()), `exit code ${code}:\n${gateway.log()}`);
  });
  if (failures()) console.log(gateway.log());
  gateway.remove();
}
for (const { at } of Object.values(servers)) await at.close();
finish();
