// Apps of two servers with the same page address and the same tools behind one gateway: the official
// library for apps on both sides, as servers, as the host of an app, and as the app itself, which runs
// without a browser. At the view of one server its app works; behind the URL of both no tool for apps
// alone is there. A host without apps gets the servers' plain tools. One task of the tasks extension
// runs at a third server.
//
//   node apps.mjs SVC_BINARY
import { Client, InMemoryTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { App } from '@modelcontextprotocol/ext-apps';
import { AppBridge, RESOURCE_MIME_TYPE, getToolUiResourceUri, isToolVisibilityAppOnly } from '@modelcontextprotocol/ext-apps/app-bridge';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';
import { check, expect, finish } from '../clients/checks.mjs';
import { eventuallyListed, startGateway } from '../clients/gateway.mjs';
import { tasksUpstream } from '../conformance/tasks-upstream.mjs';
import { startAppServer } from './appserver.mjs';

const [binary] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node apps.mjs SVC_BINARY');
  process.exit(2);
}
const UI = 'io.modelcontextprotocol/ui';
const TASKS = 'io.modelcontextprotocol/tasks';
const info = { name: 'svc-check', version: '1.0.0' };
const servers = { sales: await startAppServer('sales', false), stock: await startAppServer('stock', true) };
const jobs = await tasksUpstream({ name: 'jobs' });
const gateway = await startGateway(binary, {
  sales: { url: servers.sales.url, keys: 'prefix: sales_' },
  stock: { url: servers.stock.url, keys: 'prefix: stock_, shared_lists: true' },
  jobs: { url: jobs.url, keys: 'prefix: jobs_, shared_lists: true' },
}, '', '', {
  federation: '{enabled: true}',
  yaml: 'views: [{name: sales, upstreams: [sales]}, {name: stock, upstreams: [stock]}]',
});
await eventuallyListed(gateway, []);

const generations = { '2025 session': undefined, '2026-07-28': { mode: { pin: '2026-07-28' } } };
// host connects a client that shows apps, or one that does not.
const host = async (generation, view = '', extensions = { [UI]: { mimeTypes: [RESOURCE_MIME_TYPE] } }) => {
  const client = new Client(info, { capabilities: { extensions }, versionNegotiation: generations[generation] });
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url.href + view), { requestInit: { headers: gateway.headers } }));
  return client;
};
const boards = async (client) => Object.fromEntries((await client.listTools()).tools.filter((t) => !t.name.startsWith('jobs_')).map((t) => [t.name, t]));
const textOf = (result) => result.content[0].text;
const refusal = (call) => call.then((result) => { throw new Error(`it ran: ${JSON.stringify(result)}`); }, (err) => String(err.message));

for (const generation of Object.keys(generations)) {
  await check(`${generation}: pages of two servers have two addresses, and tools for apps alone are not there`, async () => {
    const client = await host(generation);
    const tools = await boards(client);
    expect(Object.keys(tools).sort().join() === 'sales_board,stock_board', Object.keys(tools).join());
    for (const [name, server] of Object.entries(servers)) {
      const tool = tools[`${name}_board`];
      const page = getToolUiResourceUri(tool);
      expect(page === `ui://${name}/board/page.html` && tool._meta['ui/resourceUri'] === page, JSON.stringify(tool));
      const { contents: [read] } = await client.readResource({ uri: page });
      expect(read.uri === page && read.mimeType === RESOURCE_MIME_TYPE && read.text === server.html, JSON.stringify(read));
      expect(textOf(await client.callTool({ name: tool.name })) === `${name}: the board`, tool.name);
      const said = await refusal(client.callTool({ name: `${name}_move` }));
      expect(/policy_denied|Forbidden/.test(said), said);
    }
    expect(JSON.stringify(client.getServerCapabilities()).includes(UI), 'the extension is not declared');
    await client.close();
  });
  await check(`${generation}: an app calls the tools of its server by their own names, at the view of the server`, async () => {
    for (const [name, other] of [['sales', 'stock'], ['stock', 'sales']]) {
      const client = await host(generation, `/v/${name}`);
      const tools = await boards(client);
      expect(Object.keys(tools).sort().join() === `${name}_board,${name}_move` && isToolVisibilityAppOnly(tools[`${name}_move`]), JSON.stringify(tools));
      const bridge = new AppBridge(client, info, { serverTools: {}, serverResources: {} });
      const app = new App({ name: 'board', version: '1' }, {}, { autoResize: false });
      const [there, here] = InMemoryTransport.createLinkedPair();
      await bridge.connect(there);
      await app.connect(here);
      const before = servers[name].moved.length;
      expect(textOf(await app.callServerTool({ name: 'move' })) === `${name}: moved` && servers[name].moved.length === before + 1, 'its own tool');
      expect(textOf(await app.callServerTool({ name: 'board' })) === `${name}: the board`, 'its other tool');
      const page = await app.readServerResource({ uri: getToolUiResourceUri(tools[`${name}_board`]) });
      expect(page.contents[0].text === servers[name].html, JSON.stringify(page));
      const unmoved = servers[other].moved.length;
      await refusal(app.callServerTool({ name: `${other}_move` }));
      await refusal(app.readServerResource({ uri: `ui://${other}/board/page.html` }));
      expect(servers[other].moved.length === unmoved, `the app of ${name} reached ${other}`);
      await bridge.close();
      await client.close();
    }
    const line = gateway.audit().trim().split('\n').map((text) => JSON.parse(text)).find((l) => l.tool === 'sales_move' && l.status === 200);
    expect(line?.upstream_tool === 'move' && line.view === 'sales', JSON.stringify(line));
  });
  await check(`${generation}: an app behind the URL of both servers reaches neither's tools for apps alone`, async () => {
    const client = await host(generation);
    const bridge = new AppBridge(client, info, { serverTools: {} });
    const app = new App({ name: 'board', version: '1' }, {}, { autoResize: false });
    const [there, here] = InMemoryTransport.createLinkedPair();
    await bridge.connect(there);
    await app.connect(here);
    const before = [servers.sales.moved.length, servers.stock.moved.length];
    for (const name of ['move', 'sales_move', 'stock_move']) await refusal(app.callServerTool({ name }));
    expect(String(before) === String([servers.sales.moved.length, servers.stock.moved.length]), 'a tool ran');
    await bridge.close();
    await client.close();
  });
  await check(`${generation}: a host without apps gets plain tools`, async () => {
    for (const view of ['', '/v/sales', '/v/stock']) {
      const client = await host(generation, view, {});
      for (const [name, tool] of Object.entries(await boards(client))) {
        expect(name.endsWith('_board') && !tool._meta?.ui && !tool._meta?.['ui/resourceUri'], `${view}: ${JSON.stringify(tool)}`);
        const said = textOf(await client.callTool({ name }));
        expect(said.endsWith(': the board as text'), `${view}: ${name}: ${said}`);
      }
      await client.close();
    }
  });
}
await check('the log names the servers whose tools are omitted, once', async () => {
  const lines = gateway.log().split('\n').filter((l) => l.includes('tools that are for apps alone'));
  expect(lines.length === 2 && lines.some((l) => l.includes('sales')) && lines.some((l) => l.includes('stock')), lines.join('\n'));
});
await check('a task of the tasks extension', async () => {
  const client = new Client(info, { capabilities: { extensions: { [TASKS]: {} } }, versionNegotiation: generations['2026-07-28'] });
  await client.connect(new StreamableHTTPClientTransport(gateway.url, { requestInit: { headers: gateway.headers } }));
  let next = 1000;
  const rawDispatch = async (request, options) => {
    const response = await fetch(gateway.url, {
      method: 'POST', signal: options?.signal, body: JSON.stringify({ ...request, jsonrpc: '2.0', id: next++ }),
      headers: {
        ...gateway.headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28', 'mcp-method': request.method, 'mcp-name': request.params.taskId ?? request.params.name,
      },
    });
    return response.json();
  };
  const tasks = createTaskSessionFromClient(client, { endpointId: 'svc', rawDispatch, v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo: info, clientCapabilities: {} } });
  const { outcome } = await (await tasks.callTool('jobs_slow_compute', { seconds: 0.1, label: 'job' })).settle();
  expect(textOf(resultFromTaskOutcome(outcome)) === 'jobs: job done', JSON.stringify(outcome));
  await client.close();
});
await check('the gateway ends in order', async () => expect(await gateway.stop() === 0, gateway.log()));
gateway.remove();
for (const server of Object.values(servers)) server.close();
await jobs.close?.();
finish();
