// A tool server of the 2026-07-28 revision with the tasks extension
// (io.modelcontextprotocol/tasks), which no official SDK implements yet. It has the tools that
// the tasks scenarios of the conformance suite need.
//
//   node tasks-upstream.mjs PORT [NAME] [--events]
//
// NAME is contained in results, so that a test sees where a task ran. With --events the
// response to tools/call is an event stream.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const REVISION = '2026-07-28';
const TASKS = 'io.modelcontextprotocol/tasks';
const META = 'io.modelcontextprotocol/';

class RpcError extends Error {
  constructor(status, code, message, data) {
    super(message);
    Object.assign(this, { status, code, data });
  }
}

const text = (value) => ({ resultType: 'complete', content: [{ type: 'text', text: value }] });
const schema = (properties = {}) => ({ type: 'object', properties });
const ask = (field) => ({
  method: 'elicitation/create',
  params: { mode: 'form', message: `${field}?`, requestedSchema: { type: 'object', properties: { [field]: { type: 'string' } } } },
});

// tasksUpstream listens on a loopback port; 0 uses a free one.
export async function tasksUpstream({ port = 0, name = 'tasks', events = false } = {}) {
  const tasks = new Map();
  const listeners = new Set();
  const state = { tasks, requests: [] };

  function view(task) {
    const { taskId, status, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs, inputRequests, result, error } = task;
    return {
      taskId, status, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs,
      ...(status === 'input_required' ? { inputRequests } : {}),
      ...(status === 'completed' ? { result } : {}),
      ...(status === 'failed' ? { error } : {}),
    };
  }
  function settle(task, status, more = {}) {
    if (['completed', 'failed', 'cancelled'].includes(task.status)) return;
    clearTimeout(task.timer);
    Object.assign(task, { status, lastUpdatedAt: new Date().toISOString(), ...more });
    for (const l of listeners) if (l.taskIds.includes(task.taskId)) l.send('notifications/tasks', view(task));
  }
  function create(ms, end) {
    const now = new Date().toISOString();
    const task = { taskId: randomUUID(), status: 'working', createdAt: now, lastUpdatedAt: now, ttlMs: 60_000, pollIntervalMs: 50 };
    tasks.set(task.taskId, task);
    if (end) task.timer = setTimeout(() => settle(task, ...end), ms).unref();
    return task;
  }
  function wait(inputRequests) {
    const task = create();
    Object.assign(task, { status: 'input_required', inputRequests, answers: {} });
    return task;
  }
  const created = (task) => {
    const { taskId, status, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs } = task;
    return { resultType: 'task', taskId, status, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs };
  };

  // The tools: their arguments, whether they work without tasks, and their function.
  const tools = {
    greet: { input: { name: { type: 'string' } }, run: (a) => text(`Hello, ${a.name}!`) },
    slow_compute: {
      input: { seconds: { type: 'number' }, label: { type: 'string' } },
      run: (a) => text(`${name}: ${a.label ?? ''} done`),
      task: (a) => create((a.seconds ?? 0) * 1000, ['completed', { result: text(`${name}: ${a.label ?? ''} done`) }]),
    },
    failing_job: { required: true, task: () => create(100, ['completed', { result: { ...text('the job failed'), isError: true } }]) },
    protocol_error_job: { required: true, task: () => create(50, ['failed', { error: { code: -32603, message: 'internal error' } }]) },
    confirm_delete: { required: true, input: { filename: { type: 'string' } }, task: () => wait({ confirm: ask('confirm') }) },
    multi_input: { required: true, task: () => wait({ first: ask('name'), second: ask('name') }) },
    test_tool_with_task: {
      required: true,
      task: (_, params) => {
        const answer = params.inputResponses?.user_name;
        if (!answer) return { resultType: 'input_required', inputRequests: { user_name: ask('name') }, requestState: 'round-1' };
        return create(50, ['completed', { result: text(`Hello, ${answer.content?.name}!`) }]);
      },
    },
  };

  function taskOf(params) {
    const task = tasks.get(params.taskId);
    if (!task) throw new RpcError(400, -32602, `no task ${params.taskId} at ${name}`);
    return task;
  }
  const methods = {
    'server/discover': () => ({
      supportedVersions: [REVISION], ttlMs: 0, cacheScope: 'public',
      capabilities: { tools: {}, extensions: { [TASKS]: {} } }, _meta: { [`${META}serverInfo`]: { name, version: '1' } },
    }),
    'tools/list': () => ({
      tools: Object.entries(tools).map(([tool, t]) => ({ name: tool, inputSchema: schema(t.input) })), ttlMs: 0, cacheScope: 'public',
    }),
    'tools/call': (params, declared) => {
      const tool = tools[params.name];
      if (!tool) throw new RpcError(400, -32602, `no tool ${params.name}`);
      if (!tool.task || (!declared && !tool.required)) return tool.run(params.arguments ?? {});
      if (!declared) missing();
      const made = tool.task(params.arguments ?? {}, params);
      return made.taskId ? created(made) : made;
    },
    'tasks/get': (params) => view(taskOf(params)),
    'tasks/update': (params) => {
      const task = taskOf(params);
      for (const [key, answer] of Object.entries(params.inputResponses ?? {})) {
        if (!(key in (task.inputRequests ?? {}))) continue;
        task.answers[key] = answer;
        delete task.inputRequests[key];
      }
      if (task.status === 'input_required' && Object.keys(task.inputRequests).length === 0) {
        settle(task, 'completed', { result: text(`${name}: confirmed`) });
      }
      return {};
    },
    'tasks/cancel': (params) => { settle(taskOf(params), 'cancelled'); return {}; },
  };
  function missing() {
    throw new RpcError(400, -32021, 'the tasks extension is required', { requiredCapabilities: { extensions: { [TASKS]: {} } } });
  }

  // The rules of the revision, in the order in which it checks them.
  function validate(req, m) {
    const version = req.headers['mcp-protocol-version'];
    const meta = m.params?._meta ?? {};
    if (version && version !== REVISION) {
      throw new RpcError(400, -32022, 'unsupported protocol version', { supported: [REVISION], requested: version });
    }
    const mirrored = { 'tools/call': m.params?.name, 'tasks/get': m.params?.taskId, 'tasks/update': m.params?.taskId, 'tasks/cancel': m.params?.taskId }[m.method];
    if (req.headers['mcp-method'] !== m.method || (mirrored !== undefined && req.headers['mcp-name'] !== mirrored)) {
      throw new RpcError(400, -32020, 'headers do not match the body');
    }
    if (meta[`${META}protocolVersion`] !== version || !meta[`${META}clientCapabilities`]) {
      throw new RpcError(400, -32602, 'params._meta is incomplete');
    }
    return Boolean(meta[`${META}clientCapabilities`].extensions?.[TASKS]);
  }

  function listen(res, m) {
    const taskIds = m.params.notifications?.taskIds ?? [];
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (method, params) => res.write(`event: message\ndata: ${JSON.stringify({
      jsonrpc: '2.0', method, params: { ...params, _meta: { [`${META}subscriptionId`]: m.id } },
    })}\n\n`);
    const listener = { taskIds, send };
    listeners.add(listener);
    res.on('close', () => listeners.delete(listener));
    send('notifications/subscriptions/acknowledged', { notifications: { taskIds } });
  }

  async function serve(req, res) {
    const json = (status, body) => res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (req.method !== 'POST') return res.writeHead(405, { allow: 'POST' }).end();
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const m = JSON.parse(Buffer.concat(chunks).toString());
    state.requests.push({ method: m.method, params: m.params });
    if (m.id === undefined) return res.writeHead(202).end();
    try {
      const declared = validate(req, m);
      if (m.method === 'subscriptions/listen') return listen(res, m);
      if (!methods[m.method]) throw new RpcError(404, -32601, `no method ${m.method}`);
      if (m.method.startsWith('tasks/') && !declared) missing();
      const answer = { jsonrpc: '2.0', id: m.id, result: { resultType: 'complete', ...methods[m.method](m.params ?? {}, declared) } };
      if (!events || m.method !== 'tools/call') return json(200, answer);
      res.writeHead(200, { 'content-type': 'text/event-stream' }).end(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
    } catch (err) {
      if (!(err instanceof RpcError)) throw err;
      json(err.status, { jsonrpc: '2.0', id: m.id, error: { code: err.code, message: err.message, data: err.data } });
    }
  }

  const http = createServer((req, res) => serve(req, res).catch((err) => {
    console.error(err.stack);
    if (!res.headersSent) res.writeHead(500).end();
  }));
  await new Promise((done) => http.listen(port, '127.0.0.1', done));
  return { ...state, http, url: `http://127.0.0.1:${http.address().port}/mcp` };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [port, name] = process.argv.slice(2);
  await tasksUpstream({ port: Number(port), name, events: process.argv.includes('--events') });
}
