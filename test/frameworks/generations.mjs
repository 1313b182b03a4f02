// Agent frameworks of any protocol generation use a server that supports only 2026-07-28
// through the gateway. A framework that does not declare elicitation gets the server's error;
// one that does (Mastra) gets the request, and cancels it.
//
//   node generations.mjs SVC_BINARY [Mastra] [mcp-use]
import { check, expect, finish } from '../clients/checks.mjs';
import { eventuallyListed, startGateway } from '../clients/gateway.mjs';
import { startModern } from '../clients/modern.mjs';
import { adapters, aisdk, more } from './adapters.mjs';
import { startFast } from './servers.mjs';

const [binary, ...extra] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node generations.mjs SVC_BINARY [Mastra] [mcp-use]');
  process.exit(2);
}
for (const name of extra) adapters[name] = more[name];
const modern = await startModern('modern');
const fast = await startFast();
const gateway = await startGateway(binary, { modern: { url: modern.url, keys: 'prefix: modern_' }, fast: { url: fast.url, keys: 'prefix: fast_' } }, '', '', { federation: '{enabled: true}' });
await eventuallyListed(gateway, []);

// outcome is the agent's result, or the text of its error.
const outcome = async (call) => {
  try {
    return JSON.stringify(await call() ?? null);
  } catch (err) {
    return String(err?.message ?? err);
  }
};
for (const [framework, open] of Object.entries(adapters)) {
  await check(`${framework}: a server of 2026-07-28`, async () => {
    const through = await open(gateway.url.href, gateway.headers);
    for (const [tool, args, want] of [['echo', { message: 'hä' }, /Echo: hä/], ['structured', {}, /a\W+1/], ['fail', {}, /it failed/], ['ask', {}, /do not declare the required capability|elicit\W+action\W+cancel/]]) {
      const got = await outcome(() => through.call(`modern_${tool}`, args));
      expect(want.test(got), `${tool}: ${got}`);
    }
    await through.close();
  });
}
await check('some of it was translated, some was not', async () => {
  const lines = gateway.audit().trim().split('\n').map((line) => JSON.parse(line)).filter((l) => l.method === 'tools/call' && l.kind === 'request');
  const ways = new Set(lines.map((l) => `${l.dialect} ${l.upstream_dialect ?? ''}`.trim()));
  expect(ways.has('2025-11-25 2026-07-28') && ways.has('2026-07-28'), [...ways].join());
});
await check('AI SDK: fastmcp asks on the standalone stream, which the client opens before initialize', async () => {
  for (let i = 0; i < 5; i++) {
    const through = await aisdk(gateway.url.href, gateway.headers, () => ({ action: 'accept', content: { ok: true } }));
    const late = new Promise((_, fail) => setTimeout(fail, 5000, new Error(`session ${i}: the question did not arrive`)).unref());
    const got = await Promise.race([outcome(() => through.call('fast_ask', {})), late]);
    expect(/accept/.test(got), got);
    await through.close();
  }
});
await check('the gateway ends in order', async () => expect(await gateway.stop() === 0, gateway.log()));
gateway.remove();
await modern.close();
fast.close();
finish();
