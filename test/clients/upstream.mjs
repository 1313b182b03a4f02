// A tool server of both generations, on the official TypeScript SDKs: the 2025 revisions with
// sessions, resumable streams and tasks (sdk 1.x), and 2026-07-28 (server 2.x), on one
// endpoint. Its tools exercise a client: echo, progress and logs, elicitation, sampling,
// waiting, a task.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { McpServer as LegacyServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { McpServer, createMcpHandler, inputRequired, inputResponse } from '@modelcontextprotocol/server';

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const question = (name) => ({ message: `may ${name} go on?`, requestedSchema: { type: 'object', properties: { ok: { type: 'boolean' } } } });
const prompt = (name) => ({ messages: [{ role: 'user', content: { type: 'text', text: `a word from ${name}` } }], maxTokens: 10 });

// An event store, so that a client can resume a broken stream.
export class Events {
  events = [];
  async storeEvent(streamId, message) {
    this.events.push({ id: `${streamId}_${this.events.length}`, streamId, message });
    return this.events.at(-1).id;
  }
  async replayEventsAfter(lastEventId, { send }) {
    const at = this.events.findIndex((e) => e.id === lastEventId);
    if (at < 0) return '';
    const { streamId } = this.events[at];
    for (const e of this.events.slice(at + 1)) {
      if (e.streamId === streamId) await send(e.id, e.message);
    }
    return streamId;
  }
}

// startUpstream serves tools with the prefix name on a free loopback port. state has the
// sessions, the waiting and the canceled calls.
export async function startUpstream(name) {
  const sessions = new Map();
  const state = { sessions, deleted: 0, waiting: 0, cancelled: 0, revision: 0 };
  // The list of tools changes with the revision.
  const described = (suffix) => `${suffix} of ${name}${suffix === 'wait' && state.revision ? `, revision ${state.revision}` : ''}`;
  const wait = (signal) => new Promise((done) => {
    state.waiting++;
    signal.addEventListener('abort', () => { state.cancelled++; done(text('cancelled')); });
  });

  async function legacySession() {
    const tasks = new InMemoryTaskStore();
    const server = new LegacyServer({ name, version: '1' }, {
      capabilities: { logging: {}, tools: { listChanged: true }, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
      taskStore: tasks,
    });
    const tool = (suffix, run) => server.registerTool(`${name}_${suffix}`, { description: described(suffix) }, run);
    tool('echo', async () => text(name));
    tool('steps', async (extra) => {
      for (let i = 1; i <= 3; i++) {
        await server.server.sendLoggingMessage({ level: 'debug', data: `${name} step ${i}` }, extra.sessionId);
        if (extra._meta?.progressToken === undefined) continue;
        await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: extra._meta.progressToken, progress: i, total: 3 } });
      }
      return text('done');
    });
    tool('ask', async (extra) => text((await server.server.elicitInput(question(name), { relatedRequestId: extra.requestId })).action));
    tool('sample', async (extra) => text((await server.server.createMessage(prompt(name), { relatedRequestId: extra.requestId })).content.text));
    const waits = tool('wait', (extra) => wait(extra.signal));
    server.experimental.tasks.registerToolTask(`${name}_task`, { description: 'a task', execution: { taskSupport: 'required' } }, {
      createTask: async (extra) => {
        const task = await extra.taskStore.createTask({ ttl: 60_000, pollInterval: 20 });
        setTimeout(() => extra.taskStore.storeTaskResult(task.taskId, 'completed', text(`a task of ${name}`)), 100);
        return { task };
      },
      getTask: async (extra) => extra.taskStore.getTask(extra.taskId),
      getTaskResult: async (extra) => extra.taskStore.getTaskResult(extra.taskId),
    });
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      eventStore: new Events(),
      onsessioninitialized: (id) => sessions.set(id, { transport, change: () => waits.update({ description: described('wait') }) }),
      onsessionclosed: (id) => { state.deleted++; tasks.cleanup(); sessions.delete(id); },
    });
    await server.connect(transport);
    return transport;
  }

  const modern = createMcpHandler(() => {
    const server = new McpServer({ name, version: '1' }, { capabilities: { logging: {}, tools: { listChanged: true } } });
    const tool = (suffix, run) => server.registerTool(`${name}_${suffix}`, { description: described(suffix) }, run);
    const need = (ctx, request, take) => {
      const got = inputResponse(ctx.mcpReq.inputResponses, 'answer');
      return got.kind === 'missing' ? inputRequired({ inputRequests: { answer: request } }) : text(take(got));
    };
    tool('echo', async () => text(name));
    tool('steps', async (ctx) => {
      const token = ctx.mcpReq._meta?.progressToken;
      for (let i = 1; i <= 3; i++) {
        await ctx.mcpReq.log('debug', `${name} step ${i}`);
        if (token !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken: token, progress: i, total: 3 } });
      }
      return text('done');
    });
    tool('ask', async (ctx) => need(ctx, inputRequired.elicit(question(name)), (got) => got.action));
    tool('sample', async (ctx) => need(ctx, inputRequired.createMessage(prompt(name)), (got) => got.result.content.text));
    tool('wait', (ctx) => wait(ctx.mcpReq.signal));
    return server;
  }, { legacy: 'reject' });

  async function serveModern(req, res) {
    const gone = new AbortController();
    res.on('close', () => gone.abort());
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const answer = await modern.fetch(new Request(`http://127.0.0.1${req.url}`, {
      method: req.method, headers: req.headers, signal: gone.signal, body: chunks.length ? Buffer.concat(chunks) : undefined,
    }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    try {
      for await (const chunk of answer.body ?? []) res.write(chunk);
    } catch (err) {
      if (!gone.signal.aborted) throw err;
    }
    res.end();
  }

  async function serve(req, res) {
    if (req.headers['mcp-protocol-version'] === '2026-07-28') return serveModern(req, res);
    const id = req.headers['mcp-session-id'];
    if (id && !sessions.has(id)) {
      res.writeHead(404, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }));
      return undefined;
    }
    return (id ? sessions.get(id).transport : await legacySession()).handleRequest(req, res);
  }

  const http = createServer((req, res) => serve(req, res).catch((err) => {
    if (res.destroyed) return; // the client has disconnected
    console.error(`${name}: ${err.stack}`);
    if (!res.headersSent) res.writeHead(500);
    res.end();
  }));
  await new Promise((done) => http.listen(0, '127.0.0.1', done));
  return {
    state, url: `http://127.0.0.1:${http.address().port}/mcp`,
    // toolsChanged changes the list of tools, and so sends list_changed to all listeners.
    toolsChanged: () => {
      state.revision++;
      modern.notify.toolsChanged();
      for (const { change } of sessions.values()) change();
    },
    close: async () => {
      await modern.close();
      http.closeAllConnections();
      http.close();
    },
  };
}
