// Drives the official TypeScript MCP clients through a gateway: connect, list,
// call, a denied call, progress, close; for each generation of the protocol
// that the client libraries speak.
//
//   node check.mjs GATEWAY_URL GATEWAY_KEY [SVC_BINARY]
//
// With SVC_BINARY the same checks run over 'svc connect --stdio' too, started as a
// program by each client's own stdio transport.
//
// Prints a line a check and "N passed, M failed"; exits 1 when one failed.
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, expect, finish } from './checks.mjs';

const [url, key, binary] = process.argv.slice(2);
if (!url || !key) {
  console.error('usage: node check.mjs GATEWAY_URL GATEWAY_KEY [SVC_BINARY]');
  process.exit(2);
}
const info = { name: 'svc-check', version: '1.0.0' };
const headers = { Authorization: `Bearer ${key}` };

// The clients under test: each entry connects a client of one protocol generation.
const clients = {
  'sdk 1.x, 2025 session': async () => {
    const client = new LegacyClient(info, { capabilities: {} });
    const transport = new LegacyTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    return { client, transport };
  },
  'client 2.x, 2025 session': async () => {
    const client = new Client(info, { capabilities: {} });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    return { client, transport };
  },
  'client 2.x, 2026-07-28 stateless': async () => {
    const client = new Client(info, { capabilities: {}, versionNegotiation: { mode: { pin: '2026-07-28' } } });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    return { client, transport };
  },
  'client 2.x, negotiated': async () => {
    const client = new Client(info, { capabilities: {}, versionNegotiation: { mode: 'auto' } });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    return { client, transport };
  },
};

if (binary) {
  const dir = mkdtempSync(join(tmpdir(), 'svc-stdio-'));
  process.on('exit', () => rmSync(dir, { recursive: true }));
  const keyFile = join(dir, 'key');
  writeFileSync(keyFile, key, { mode: 0o600 });
  const program = { command: binary, args: ['connect', '--stdio', '--url', url, '--key-file', keyFile] };
  const over = (Made, Transport, options) => async () => {
    const client = new Made(info, { capabilities: {}, ...options });
    const transport = new Transport(program);
    await client.connect(transport);
    return { client, transport };
  };
  Object.assign(clients, {
    'sdk 1.x over stdio': over(LegacyClient, LegacyStdio),
    'client 2.x over stdio, 2025 session': over(Client, StdioClientTransport),
    'client 2.x over stdio, 2026-07-28': over(Client, StdioClientTransport, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
    'client 2.x over stdio, negotiated': over(Client, StdioClientTransport, { versionNegotiation: { mode: 'auto' } }),
  });
}

const textOf = (result) => result.content.filter((c) => c.type === 'text').map((c) => c.text).join('\n');

for (const [name, connect] of Object.entries(clients)) {
  let connected;
  await check(`${name}: connect`, async () => { connected = await connect(); });
  if (!connected) continue;
  const { client, transport } = connected;
  await check(`${name}: list tools`, async () => {
    const { tools } = await client.listTools();
    expect(tools.length >= 6, `${tools.length} tools`);
  });
  await check(`${name}: call a tool that is allowed`, async () => {
    const result = await client.callTool({ name: 'shop_get_order', arguments: { orderId: 'O-5004' } });
    expect(textOf(result).includes('O-5004'), JSON.stringify(result));
  });
  await check(`${name}: call a tool that is denied`, async () => {
    try {
      await client.callTool({ name: 'shop_delete_customer', arguments: { customerId: 'C-1001' } });
    } catch (err) {
      const text = `${err.message} ${JSON.stringify(err.data ?? '')}`;
      expect(/policy_denied/.test(text), text);
      return;
    }
    throw new Error('the call was answered');
  });
  await check(`${name}: a call after a denied one`, async () => {
    const result = await client.callTool({ name: 'shop_search_orders', arguments: { limit: 3 } });
    expect(textOf(result).includes('O-'), JSON.stringify(result));
  });
  await check(`${name}: progress of a long call`, async () => {
    let seen = 0;
    const call = { name: 'shop_run_sales_report', arguments: { months: 3 } };
    const options = { onprogress: () => { seen++; } };
    // The 1.x client takes a result schema in between; both accept undefined there or nothing.
    const result = client instanceof LegacyClient
      ? await client.callTool(call, undefined, options)
      : await client.callTool(call, options);
    expect(textOf(result).length > 0, JSON.stringify(result));
    expect(seen === 3, `${seen} progress notifications`);
  });
  await check(`${name}: close`, async () => {
    await transport.terminateSession?.();
    await client.close();
  });
}
finish();
