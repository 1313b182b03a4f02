// One interface for the official TypeScript clients of both generations. The clients respond
// to every server request, and record server requests and notifications.
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as schemas from '@modelcontextprotocol/sdk/types.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const itself = { name: 'svc-check', version: '1.0.0' };
const all = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const kinds = {
  'sdk 1.x, sessions': (capabilities, info) => ({ client: new LegacyClient(info, { capabilities }), Transport: LegacyTransport }),
  'client 2.x, sessions': (capabilities, info) => ({ client: new Client(info, { capabilities }), Transport: StreamableHTTPClientTransport }),
  'client 2.x, 2026-07-28': (capabilities, info) => ({
    client: new Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } }), Transport: StreamableHTTPClientTransport,
  }),
};

// sdk 1.x identifies these by a schema, client 2.x by the method.
const named = {
  'elicitation/create': schemas.ElicitRequestSchema,
  'sampling/createMessage': schemas.CreateMessageRequestSchema,
  'roots/list': schemas.ListRootsRequestSchema,
  'notifications/message': schemas.LoggingMessageNotificationSchema,
  'notifications/tools/list_changed': schemas.ToolListChangedNotificationSchema,
  'notifications/prompts/list_changed': schemas.PromptListChangedNotificationSchema,
  'notifications/resources/updated': schemas.ResourceUpdatedNotificationSchema,
};

// connect connects a client of a kind to a server, or to a gateway with its headers. It
// declares all capabilities except those left out, and info as the client's name and version.
export async function connect(kind, { url, headers = {} }, leftOut, info = itself) {
  const { [leftOut]: _, ...capabilities } = all;
  const { client, Transport } = kinds[kind](capabilities, info);
  const asked = [];
  const logs = [];
  const heard = new Set();
  const on = (method, take) => {
    const name = client instanceof LegacyClient ? named[method] : method;
    if (method.startsWith('notifications/')) client.setNotificationHandler(name, take);
    else client.setRequestHandler(name, take);
  };
  on('elicitation/create', async ({ params: { mode, message, requestedSchema } }) => {
    asked.push([mode ?? 'form', message, requestedSchema]);
    return mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { ok: true, name: 'Ann', username: 'ann', color: 'red', context: 'c' } };
  });
  on('sampling/createMessage', async ({ params: { messages } }) => {
    asked.push(messages);
    return { role: 'assistant', model: 'none', content: { type: 'text', text: 'a word' } };
  });
  if (capabilities.roots) {
    on('roots/list', async () => {
      asked.push('roots');
      return { roots: [{ uri: 'file:///work', name: 'work' }] };
    });
  }
  on('notifications/message', ({ params }) => { logs.push([params.level, params.data]); });
  on('notifications/tools/list_changed', () => { heard.add('tools'); });
  on('notifications/prompts/list_changed', () => { heard.add('prompts'); });
  on('notifications/resources/updated', () => { heard.add('updated'); });
  client.onerror = () => {};
  const transport = new Transport(new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  return {
    client, asked, logs, heard, stateless: kind.endsWith('2026-07-28'),
    call: (params, options) => (client instanceof LegacyClient ? client.callTool(params, undefined, options) : client.callTool(params, options)),
    close: async () => {
      await transport.terminateSession?.().catch(() => {}); // its server may have ended
      await client.close();
    },
  };
}
