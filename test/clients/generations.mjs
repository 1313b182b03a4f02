// Official TypeScript clients of both generations use all features through one gateway with
// two upstreams: connect, list, call at either, progress, logs, elicitation, sampling,
// cancellation, list changes, tasks, close.
//
//   node generations.mjs SVC_BINARY
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema, LoggingMessageNotificationSchema, ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient, resultFromTaskOutcome, toolDeclarationFromMcpTool } from '@modelcontextprotocol/ext-tasks/client';
import { check, expect, failures, finish } from './checks.mjs';
import { eventually, startGateway } from './gateway.mjs';
import { startUpstream } from './upstream.mjs';
import { tasksUpstream } from '../conformance/tasks-upstream.mjs';

const binary = process.argv[2];
if (!binary) {
  console.error('usage: node generations.mjs SVC_BINARY');
  process.exit(2);
}
const TASKS = 'io.modelcontextprotocol/tasks';
const info = { name: 'svc-check', version: '1.0.0' };
const capabilities = { elicitation: {}, sampling: {} };
const first = await startUpstream('first');
const second = await startUpstream('second');
const gateway = await startGateway(binary, { first: first.url, second: second.url },
  '  - {match: {tool_prefix: first_}, upstream: first}\n  - {match: {tool_prefix: second_}, upstream: second}');

const answers = {
  elicitation: async () => ({ action: 'accept', content: { ok: true } }),
  sampling: async () => ({ role: 'assistant', model: 'none', content: { type: 'text', text: 'a word' } }),
};

// over creates the transport of a client: the client's own, or 'svc connect --stdio', which it
// starts as a program.
function over(Transport, Stdio, stdio, { url, headers }) {
  if (!stdio) return new Transport(url, { requestInit: { headers } });
  const key = headers.Authorization.replace('Bearer ', '');
  return new Stdio({ command: binary, args: ['connect', '--stdio', '--url', url.href], env: { PATH: process.env.PATH, SVC_GATEWAY_KEY: key } });
}

// Each entry connects one client and wraps the few calls that differ.
const legacyOne = (stdio) => (through = gateway) => {
  const client = new LegacyClient(info, { capabilities });
  const transport = over(LegacyTransport, LegacyStdio, stdio, through);
  return {
    client, transport, session: true,
    answer: () => {
      client.setRequestHandler(ElicitRequestSchema, answers.elicitation);
      client.setRequestHandler(CreateMessageRequestSchema, answers.sampling);
    },
    onLog: (take) => client.setNotificationHandler(LoggingMessageNotificationSchema, take),
    onTools: (take) => client.setNotificationHandler(ToolListChangedNotificationSchema, take),
    call: (params, options) => client.callTool(params, CallToolResultSchema, options),
    task: async (name) => {
      for await (const message of client.experimental.tasks.callToolStream({ name }, CallToolResultSchema, { task: { ttl: 60_000 } })) {
        if (message.type === 'result') return message.result;
        if (message.type === 'error') throw message.error;
      }
      throw new Error('the task gave no result');
    },
  };
};
function two(versionNegotiation, session, stdio) {
  return (through = gateway) => {
    const client = new Client(info, { capabilities, versionNegotiation });
    const transport = over(StreamableHTTPClientTransport, StdioClientTransport, stdio, through);
    return {
      client, transport, session,
      answer: () => {
        client.setRequestHandler('elicitation/create', answers.elicitation);
        client.setRequestHandler('sampling/createMessage', answers.sampling);
      },
      onLog: (take) => client.setNotificationHandler('notifications/message', take),
      onTools: (take) => client.setNotificationHandler('notifications/tools/list_changed', take),
      call: (params, options) => client.callTool(params, options),
      task: session ? async (name) => {
        const tasks = createTaskSessionFromClient(client, { endpointId: 'svc' });
        // Only the tools of the default upstream are listed, so the tool is declared here.
        const declaration = toolDeclarationFromMcpTool({ name, inputSchema: { type: 'object' }, execution: { taskSupport: 'required' } });
        const { outcome } = await (await tasks.callTool(name, {}, { declaration })).settle();
        return resultFromTaskOutcome(outcome);
      } : undefined,
    };
  };
}
const clients = {
  'sdk 1.x, 2025 session': legacyOne(false),
  'client 2.x, 2025 session': two(undefined, true),
  'client 2.x, 2026-07-28 stateless': two({ mode: { pin: '2026-07-28' } }, false),
  'client 2.x, negotiated': two({ mode: 'auto' }, false),
  'sdk 1.x over stdio, 2025 session': legacyOne(true),
  'client 2.x over stdio, 2025 session': two(undefined, true, true),
  'client 2.x over stdio, 2026-07-28': two({ mode: { pin: '2026-07-28' } }, false, true),
  'client 2.x over stdio, negotiated': two({ mode: 'auto' }, false, true),
};
const textOf = (result) => result.content.filter((c) => c.type === 'text').map((c) => c.text).join('\n');

for (const [name, make] of Object.entries(clients)) {
  const { client, transport, session, answer, onLog, onTools, call, task } = make();
  const logged = [];
  let changes = 0;
  answer();
  onLog((n) => { logged.push(n.params.data); });
  onTools(() => { changes++; });
  client.onerror = () => {};
  let connected = false;
  await check(`${name}: connect`, async () => { await client.connect(transport); connected = true; });
  if (!connected) continue;
  // The second upstream does not know a later client's generation yet.
  if (session) {
    await check(`${name}: set the level of logs before the second upstream is known`, () => client.setLoggingLevel('debug'));
  }
  await check(`${name}: list`, async () => {
    const { tools } = await client.listTools();
    expect(tools.some((t) => t.name === 'first_echo') && tools.every((t) => t.name.startsWith('first_')), JSON.stringify(tools.map((t) => t.name)));
  });
  for (const at of ['first', 'second', 'first']) {
    await check(`${name}: call at the ${at} upstream`, async () => {
      const result = await call({ name: `${at}_echo` });
      expect(textOf(result) === at, JSON.stringify(result));
    });
  }
  await check(`${name}: progress and logs of the second upstream`, async () => {
    let steps = 0;
    logged.length = 0;
    const _meta = session ? undefined : { 'io.modelcontextprotocol/logLevel': 'debug' };
    const result = await call({ name: 'second_steps', _meta }, { onprogress: () => { steps++; } });
    expect(textOf(result) === 'done', JSON.stringify(result));
    // The clients handle a response before the notifications that they read together with it,
    // and discard the progress handler then: on a pipe that may affect all of them.
    const enough = name.includes('stdio') ? () => logged.length === 3 : () => steps === 3 && logged.length === 3;
    await eventually(() => `${steps} progress notifications, logs ${JSON.stringify(logged)}`, enough);
    expect(logged.every((l) => l.startsWith('second step')), JSON.stringify(logged));
  });
  await check(`${name}: questions of both upstreams`, async () => {
    for (const at of ['second', 'first']) {
      const result = await call({ name: `${at}_ask` });
      expect(textOf(result) === 'accept', JSON.stringify(result));
    }
  });
  await check(`${name}: sampling for the second upstream`, async () => {
    const result = await call({ name: 'second_sample' });
    expect(textOf(result) === 'a word', JSON.stringify(result));
  });
  await check(`${name}: cancel a call at the second upstream`, async () => {
    const { waiting, cancelled } = second.state;
    const stop = new AbortController();
    const calling = call({ name: 'second_wait' }, { signal: stop.signal }).then(() => 'answered', () => 'stopped');
    await eventually('the call did not arrive', () => second.state.waiting === waiting + 1);
    stop.abort();
    expect(await calling === 'stopped', 'the call was answered');
    await eventually('the upstream was not told', () => second.state.cancelled === cancelled + 1);
  });
  await check(`${name}: hear of changes`, async () => {
    const heard = async (up) => {
      const before = changes;
      let n = 0;
      await eventually('no notification arrived', () => {
        if (n++ % 20 === 0) up.toolsChanged(); // the stream may still be opening
        return changes > before;
      });
    };
    if (session) {
      await heard(first);
      await heard(second);
      return;
    }
    for (let again = 0; again < 2; again++) {
      const listening = await client.listen({ toolsListChanged: true });
      expect(listening.honoredFilter.toolsListChanged, JSON.stringify(listening.honoredFilter));
      await heard(first);
      await listening.close();
      expect(await listening.closed === 'local', await listening.closed);
    }
  });
  if (task) {
    await check(`${name}: a task of the second upstream`, async () => {
      await call({ name: 'second_echo' });
      const result = await task('second_task');
      expect(textOf(result) === 'a task of second', JSON.stringify(result));
    });
  }
  await check(`${name}: a call after all that`, async () => {
    expect(textOf(await call({ name: 'second_echo' })) === 'second', 'the wrong answer');
  });
  await check(`${name}: close`, async () => {
    await transport.terminateSession?.();
    await client.close();
    await eventually(() => `sessions left: ${first.state.sessions.size} and ${second.state.sessions.size}`, () => first.state.sessions.size === 0 && second.state.sessions.size === 0);
  });
}

// If only a few revisions are allowed, a client that supports one of them can connect with it,
// independent of its first choice; a client that requires another one is refused.
const lists = {
  '2025-06-18': ['sdk 1.x, 2025 session', 'client 2.x, 2025 session', 'client 2.x, negotiated', 'sdk 1.x over stdio, 2025 session', 'client 2.x over stdio, 2025 session', 'client 2.x over stdio, negotiated'],
  '2026-07-28': ['client 2.x, 2026-07-28 stateless', 'client 2.x, negotiated', 'client 2.x over stdio, 2026-07-28', 'client 2.x over stdio, negotiated'],
};
for (const [revision, welcome] of Object.entries(lists)) {
  const strict = await startGateway(binary, { first: first.url }, '  - {match: {tool_name: "*"}, upstream: first}', '', { yaml: `allowed_protocol_versions: ["${revision}"]` });
  for (const [name, make] of Object.entries(clients)) {
    await check(`${revision} alone is served: ${name} is ${welcome.includes(name) ? 'welcome' : 'refused'}`, async () => {
      const { client, transport, call } = make(strict);
      client.onerror = () => {};
      let served;
      let refused;
      try {
        await client.connect(transport);
        served = textOf(await call({ name: 'first_echo' }));
      } catch (err) {
        refused = `${err.message} ${JSON.stringify(err.data ?? '')}`;
      }
      await transport.terminateSession?.().catch(() => {});
      await client.close();
      if (welcome.includes(name)) expect(served === 'first', refused);
      else expect(/unsupported.protocol.version/i.test(refused), `${served} ${refused}`);
    });
  }
  await strict.stop();
  strict.remove();
}

// Tasks of 2026-07-28: the official client of the extension, with two servers of it. The host
// sends its requests, because no SDK client supports them.
const one = await tasksUpstream({ name: 'one' });
const other = await tasksUpstream({ name: 'other', events: true });
const tasksGateway = await startGateway(binary, { one: one.url, other: other.url }, '  - {match: {tool_name: "*"}, upstream: other}');
{
  const client = new Client(info, { capabilities: { ...capabilities, extensions: { [TASKS]: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  let next = 1000;
  const rawDispatch = async (request, options) => {
    const name = request.params.taskId ?? request.params.name;
    const response = await fetch(tasksGateway.url, {
      method: 'POST', signal: options?.signal, body: JSON.stringify({ ...request, jsonrpc: '2.0', id: next++ }),
      headers: {
        ...tasksGateway.headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28', 'mcp-method': request.method, ...(name ? { 'mcp-name': name } : {}),
      },
    });
    const body = await response.text();
    return JSON.parse(body.match(/^data: (.*)$/m)?.[1] ?? body);
  };
  let tasks;
  await check('tasks extension: connect', async () => {
    await client.connect(new StreamableHTTPClientTransport(tasksGateway.url, { requestInit: { headers: tasksGateway.headers } }));
    tasks = createTaskSessionFromClient(client, {
      endpointId: 'svc', rawDispatch, v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo: info, clientCapabilities: { elicitation: {} } },
    });
  });
  await check('tasks extension: a task is followed to the upstream that made it', async () => {
    const { outcome } = await (await tasks.callTool('slow_compute', { seconds: 0.2, label: 'job' })).settle();
    const result = resultFromTaskOutcome(outcome);
    expect(textOf(result) === 'other: job done', JSON.stringify(result));
  });
  await check('tasks extension: a task is cancelled where it runs', async () => {
    const execution = await tasks.callTool('slow_compute', { seconds: 60, label: 'long' });
    const settled = execution.settle().catch((err) => err);
    const running = () => [...other.tasks.values()].find((t) => t.status === 'working');
    await eventually('no task runs', running);
    const { taskId } = running();
    await tasks.cancelTask(taskId);
    await eventually('the task was not cancelled', () => other.tasks.get(taskId).status === 'cancelled');
    await settled;
  });
  await check('tasks extension: the other upstream was asked about none', async () => {
    const asked = one.requests.filter((r) => r.method?.startsWith('tasks/'));
    expect(asked.length === 0, JSON.stringify(asked));
    expect(other.requests.some((r) => r.method === 'tasks/get') && other.requests.some((r) => r.method === 'tasks/cancel'), JSON.stringify(other.requests.map((r) => r.method)));
  });
  await check('tasks extension: close', async () => { await tasks?.close(); await client.close(); });
}
for (const g of [gateway, tasksGateway]) {
  await check('the gateway ends in order', async () => {
    const code = await g.stop();
    expect(code === 0, `exit code ${code}:\n${g.log()}`);
  });
  if (failures()) console.log(`${g.log()}\n${g.audit()}`);
  g.remove();
}
await first.close();
await second.close();
for (const { http } of [one, other]) { http.closeAllConnections(); http.close(); }
finish();
