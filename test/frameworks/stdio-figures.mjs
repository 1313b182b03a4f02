// The cost of programs as upstreams: the gateway's CPU time of a call over stdio compared with
// that of a small HTTP server and of the gateway with supergateway in front of the same
// program, its memory with many processes, and the processes that remain when it is killed.
//
//   node stdio-figures.mjs SVC_BINARY [SUPERGATEWAY_JS]
//
// ROUNDS (30), CALLS (1000 per round), CHILDREN (200) and KILLS (100) set the amount of work.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startGateway } from '../clients/gateway.mjs';

const [binary, supergateway] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node stdio-figures.mjs SVC_BINARY [SUPERGATEWAY_JS]');
  process.exit(2);
}
const number = (name, otherwise) => Number(process.env[name] ?? otherwise);
const [rounds, calls, children, kills] = [number('ROUNDS', 30), number('CALLS', 1000), number('CHILDREN', 200), number('KILLS', 100)];
const dir = mkdtempSync(join(tmpdir(), 'svc-figures-'));

// A minimal server on stdio: it responds to every call with its argument.
const program = join(dir, 'program.cjs');
writeFileSync(program, `
const answer = (m, tool) => m.method === 'initialize' ? { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }
  : m.method === 'tools/list' ? { tools: [{ name: tool, inputSchema: { type: 'object' } }] }
  : m.method === 'tools/call' ? { content: [{ type: 'text', text: String(m.params.arguments?.text) }] } : undefined;
const reply = (m, tool) => { const result = answer(m, tool); return JSON.stringify(result ? { jsonrpc: '2.0', id: m.id, result } : { jsonrpc: '2.0', id: m.id, error: { code: -32601, message: '?' } }); };
module.exports = reply;
if (require.main === module) require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const m = JSON.parse(line);
  if (m.id !== undefined && m.method) process.stdout.write(reply(m, process.argv[2]) + '\\n');
});
`);
const { default: reply } = await import(program);

// stat returns the fields of /proc/PID/stat after the name.
const stat = (pid) => readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
const cpu = (pid) => { const f = stat(pid); return (Number(f[11]) + Number(f[12])) * 10; }; // ms: a tick is 10 ms
const processes = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number);
function descendants(root) {
  const parents = new Map();
  for (const pid of processes()) {
    try { parents.set(pid, Number(stat(pid)[1])); } catch { /* it has ended */ }
  }
  const found = [root];
  for (let i = 0; i < found.length; i++) for (const [pid, parent] of parents) if (parent === found[i]) found.push(pid);
  return found.slice(1);
}
// helpersOf returns the processes of svc between the gateway and the programs.
const helpersOf = (root) => descendants(root).filter((pid) => Number(stat(pid)[1]) === root);
const memory = (pid) => Number(/Pss:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))[1]) / 1024;

const agent = new Agent({ keepAlive: true, maxSockets: 8 });
const post = (url, headers, body) => new Promise((done, fail) => {
  const req = request(url, { method: 'POST', agent, headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' } }, (res) => {
    let text = '';
    res.on('data', (d) => { text += d; });
    res.on('end', () => done({ status: res.statusCode, text, session: res.headers['mcp-session-id'] }));
  });
  req.on('error', fail);
  req.end(JSON.stringify(body));
});
async function open(url, headers) {
  const { session } = await post(url, headers, { jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'f', version: '1' } } });
  const all = { ...headers, 'mcp-protocol-version': '2025-11-25', ...(session && { 'mcp-session-id': session }) };
  await post(url, all, { jsonrpc: '2.0', method: 'notifications/initialized' });
  return all;
}
let id = 0;
async function call(url, headers, tool) {
  const { status, text } = await post(url, headers, { jsonrpc: '2.0', id: ++id, method: 'tools/call', params: { name: tool, arguments: { text: 'hello' } } });
  if (status !== 200 || !text.includes('hello')) throw new Error(`${tool}: ${status} ${text}`);
}
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

async function costs() {
  const small = createServer(async (req, res) => {
    let body = '';
    for await (const d of req) body += d;
    const m = body && JSON.parse(body);
    if (!m || m.id === undefined) return res.writeHead(202).end();
    res.writeHead(200, { 'content-type': 'application/json' });
    return res.end(reply(m, 'http'));
  });
  await new Promise((done) => small.listen(0, '127.0.0.1', done));
  const upstreams = {
    stdio: { command: [process.execPath, program, 'stdio'], keys: 'sharing: all, protocol: "2025-11-25"' },
    http: { url: `http://127.0.0.1:${small.address().port}/mcp`, keys: 'protocol: "2025-11-25"' },
  };
  let bridge;
  if (supergateway) {
    const free = createServer();
    await new Promise((done) => free.listen(0, '127.0.0.1', done));
    const { port } = free.address();
    await new Promise((done) => free.close(done));
    bridge = spawn(process.execPath, [supergateway, '--stdio', `${process.execPath} ${program} bridge`, '--outputTransport', 'streamableHttp', '--stateful', '--port', String(port), '--logLevel', 'none'], { stdio: 'ignore' });
    upstreams.bridge = { url: `http://127.0.0.1:${port}/mcp`, keys: 'protocol: "2025-11-25"' };
    for (let i = 0; i < 100; i++) {
      if (await fetch(upstreams.bridge.url).then(() => true, () => false)) break;
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  const names = Object.keys(upstreams);
  const gateway = await startGateway(binary, upstreams, names.map((n) => `  - {match: {tool_name: ${n}}, upstream: ${n}}`).join('\n'));
  const headers = await open(gateway.url, gateway.headers);
  for (const name of names) for (let i = 0; i < 200; i++) await call(gateway.url, headers, name);
  // Both variants include the server itself, so it is not counted.
  const helpers = helpersOf(gateway.pid());
  const counted = (name) => [gateway.pid(), ...(name === 'stdio' ? helpers : []), ...(name === 'bridge' ? [bridge.pid] : [])];
  const took = Object.fromEntries(names.map((n) => [n, []]));
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 ? names : [...names].reverse()) {
      const before = counted(name).reduce((sum, pid) => sum + cpu(pid), 0);
      for (let i = 0; i < calls; i += 8) await Promise.all(Array.from({ length: Math.min(8, calls - i) }, () => call(gateway.url, headers, name)));
      took[name].push((counted(name).reduce((sum, pid) => sum + cpu(pid), 0) - before) * 1000 / calls);
    }
  }
  for (const name of names) console.log(`CPU of a call, ${name.padEnd(6)}: median ${median(took[name]).toFixed(0)} µs of ${rounds} rounds of ${calls}`);
  for (const name of names.slice(1)) {
    const ratios = took.stdio.map((us, i) => us / took[name][i]).sort((a, b) => a - b);
    console.log(`stdio / ${name}: median ${median(ratios).toFixed(2)} (${ratios[Math.floor(rounds * 0.1)].toFixed(2)} to ${ratios[Math.floor(rounds * 0.9)].toFixed(2)})`);
  }
  await gateway.stop();
  gateway.remove();
  bridge?.kill();
  small.closeAllConnections();
  small.close();
}

// many opens sessions with a process each. The program is sh: its memory is not counted for
// the gateway.
const shell = (echo) => `while read -r line; do id=\${line#*\\"id\\":}; id=\${id%%,*}; case $line in *initialize\\"*) ${echo}"{\\"jsonrpc\\":\\"2.0\\",\\"id\\":$id,\\"result\\":{\\"protocolVersion\\":\\"2025-11-25\\",\\"capabilities\\":{},\\"serverInfo\\":{\\"name\\":\\"s\\",\\"version\\":\\"1\\"}}}";; *tools/call*) ${echo}"{\\"jsonrpc\\":\\"2.0\\",\\"id\\":$id,\\"result\\":{\\"content\\":[{\\"type\\":\\"text\\",\\"text\\":\\"hello\\"}]}}";; esac; done`;
async function many(n, command) {
  writeFileSync(join(dir, 'program.sh'), command);
  const gateway = await startGateway(binary, { p: { command: ['sh', join(dir, 'program.sh')], keys: `max_processes: ${n}, max_per_principal: ${n}, protocol: "2025-11-25"` } }, '  - {match: {tool_name: x}, upstream: p}');
  return gateway;
}
async function memoryOfMany() {
  const gateway = await many(children, shell('echo '));
  const before = memory(gateway.pid());
  for (let i = 0; i < children; i++) await call(gateway.url, await open(gateway.url, gateway.headers), 'x');
  const helpers = helpersOf(gateway.pid());
  const own = memory(gateway.pid());
  const helped = helpers.reduce((sum, pid) => sum + memory(pid), 0);
  console.log(`${children} processes: the gateway has ${own.toFixed(1)} MiB (${before.toFixed(1)} before the first), its ${helpers.length} helpers ${helped.toFixed(1)} MiB together (Pss)`);
  await gateway.stop();
  gateway.remove();
}

// killed counts the processes that are alive 2 s after a SIGKILL of the gateway, for programs
// that each have a grandchild in a session of its own.
async function killed() {
  const gateway = await many(8, `setsid sleep 1000 & ${shell('echo ')}`);
  let left = 0;
  for (let i = 0; i < kills; i++) {
    if (i > 0) await gateway.start();
    for (let k = 0; k < 2; k++) await call(gateway.url, await open(gateway.url, gateway.headers), 'x');
    const all = descendants(gateway.pid()).map((pid) => [pid, stat(pid)[19]]); // with their start times
    if (all.length < 6) throw new Error(`${all.length} descendants`);
    await gateway.kill();
    agent.destroy();
    await new Promise((done) => setTimeout(done, 2000));
    left += all.filter(([pid, began]) => { try { const f = stat(pid); return f[19] === began && f[0] !== 'Z'; } catch { return false; } }).length;
  }
  console.log(`${kills} kills of the gateway: ${left} descendants are alive after 2 s`);
  gateway.remove();
}

if (rounds > 0) await costs();
if (children > 0) await memoryOfMany();
if (kills > 0) await killed();
rmSync(dir, { recursive: true, force: true });
process.exit(0);
