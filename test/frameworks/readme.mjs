// The README's commands for common servers and clients, run as printed: the servers of Cursor
// become upstreams, a probe checks them, and the file that svc connect writes for Claude Code
// connects a client to all of them. The servers are real ones from npm.
//
//   node readme.mjs SVC_BINARY
//
// With SVC_TEST_NPX=1 the servers are started with npx, as users do, which downloads them;
// otherwise the ones installed in this folder are used.
import { execFileSync, spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { check, expect, finish } from '../clients/checks.mjs';

const [binary] = process.argv.slice(2);
if (!binary) {
  console.error('usage: node readme.mjs SVC_BINARY');
  process.exit(2);
}
const dir = mkdtempSync(join(tmpdir(), 'svc-readme-'));
const home = join(dir, 'home');
const files = mkdtempSync(join(tmpdir(), 'svc-readme-files-'));
writeFileSync(join(files, 'note.txt'), 'one line\n');
mkdirSync(join(home, '.cursor'), { recursive: true });
mkdirSync(join(dir, 'work'));
symlinkSync(resolve(binary), join(dir, 'work', 'svc'));
const free = createServer();
await new Promise((done) => free.listen(0, '127.0.0.1', done));
const address = `127.0.0.1:${free.address().port}`;
await new Promise((done) => free.close(done));

// A Cursor file: with comments, trailing commas, secrets in env and in args, the gateway
// itself, and a server with the old transport.
const cache = execFileSync('npm', ['config', 'get', 'cache']).toString().trim();
const versions = JSON.parse(readFileSync(join(import.meta.dirname, 'package.json'))).dependencies;
const server = (name, main, args = [], env = {}, npx = process.env.SVC_TEST_NPX) => JSON.stringify(npx
  ? { command: 'npx', args: ['-y', '--prefer-offline', `${name}@${versions[name]}`, ...args], env: { npm_config_cache: cache, ...env } }
  : { command: process.execPath, args: [join(import.meta.dirname, 'node_modules', name, main), ...args], env });
const mcp = '@modelcontextprotocol/server-';
writeFileSync(join(home, '.cursor', 'mcp.json'), `{
  // what the team uses
  "mcpServers": {
    "filesystem": ${server(`${mcp}filesystem`, 'dist/index.js', [files])},
    "memory": ${server(`${mcp}memory`, 'dist/index.js', [], { MEMORY_FILE_PATH: join(files, 'memory.jsonl'), MEMORY_TOKEN: 'planted-in-env-5d1c' })},
    "everything": ${server(`${mcp}everything`, 'dist/index.js', ['stdio', '--api-key', 'planted-in-args-9e02'])},
    "thinking": ${server(`${mcp}sequential-thinking`, 'dist/index.js')},
    "playwright": ${server('@playwright/mcp', 'cli.js', ['--headless', '--isolated'])},
    "svc": {"type": "http", "url": "http://127.0.0.1:8090/mcp"}, // the gateway, from an earlier run
    "old": {"type": "sse", "url": "http://127.0.0.1:9/sse"},
    "shell": {"url": "npx -y something"},
  },
}
`);
const carried = ['filesystem', 'memory', 'everything', 'thinking', 'playwright'];

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');
const [, block] = /### The servers and clients that you have\n.*?```console\n(.*?)```/s.exec(readme);
const commands = block.trim().split('\n').map((line) => {
  if (!line.startsWith('$ ')) throw new Error(`no command: ${line}`);
  return line.slice(2);
});
// Only the port differs from the README: 8090 may be in use here.
const script = ['set -e'];
for (const command of commands) {
  script.push(`printf '%s\\n' ${JSON.stringify(`== ${command.replaceAll('$', '')}`)}`);
  if (command.endsWith('&')) {
    script.push(command.replace(/&$/, '>gateway.log 2>&1 &'), 'echo $! >gateway.pid', `until curl -sf http://${address}/readyz >/dev/null; do kill -0 $!; sleep 0.1; done`);
  } else {
    script.push(command.includes('svc connect') ? command.replace('--write', `--url http://${address}/mcp --write`) : command);
  }
  if (command.includes('svc import')) script.push(`sed -i 's/^listen: 127.0.0.1:8090$/listen: ${address}/' team.yaml`);
}
const work = join(dir, 'work');
const ran = await new Promise((done) => {
  const child = spawn('bash', ['-c', script.join('\n')], { cwd: work, env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: home }, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { text += d; });
  child.on('exit', (code) => done({ code, text }));
});
const read = (name) => readFileSync(join(work, name), 'utf8');
const parsed = (text) => Object.fromEntries([...text.matchAll(/^(\w+)='(.*)'$/gm)].map(([, name, value]) => [name, value]));

await check('the commands of the README end well', async () => {
  expect(ran.code === 0, ran.text);
  for (const name of carried) expect(new RegExp(`^upstream +${name} +ok +20\\S+ +[1-9]`, 'm').test(ran.text), `${name}\n${ran.text}`);
  for (const why of ['svc is not: its URL is that of this gateway', 'old is not: ', 'shell is not: its URL is invalid']) expect(ran.text.includes(why), `${why}\n${ran.text}`);
});
await check('secrets are in the file of variables alone, which others cannot read', async () => {
  for (const name of ['team.env', 'client.env']) expect((statSync(join(work, name)).mode & 0o777) === 0o600, name);
  expect(['planted-in-env-5d1c', 'planted-in-args-9e02'].every((secret) => read('team.env').includes(secret)), read('team.env'));
  for (const text of [ran.text, read('team.yaml'), read('.mcp.json')]) expect(!/planted|svc_gw_/.test(text), text);
});
let client;
await check("what svc connect wrote for Claude Code leads a client to the tools of all servers", async () => {
  const { SVC_GATEWAY_KEY } = parsed(read('client.env'));
  const entry = JSON.parse(read('.mcp.json').replaceAll('${SVC_GATEWAY_KEY}', SVC_GATEWAY_KEY)).mcpServers.svc;
  expect(entry.type === 'http', entry.type);
  client = new Client({ name: 'claude-code', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(entry.url), { requestInit: { headers: entry.headers } }));
  let missing;
  for (let i = 0; i < 300; i++) {
    const { tools } = await client.listTools();
    missing = carried.filter((name) => !tools.some((t) => t.name.startsWith(`${name}_`)));
    if (missing.length === 0) break;
    await new Promise((done) => setTimeout(done, 200));
  }
  expect(missing.length === 0, `no tools of ${missing}\n${read('gateway.log')}`);
});
await check('a call reaches each server', async () => {
  const text = async (name, args) => (await client.callTool({ name, arguments: args })).content.map((c) => c.text).join('\n');
  expect((await text('filesystem_list_directory', { path: files })).includes('note.txt'), 'filesystem');
  await text('memory_create_entities', { entities: [{ name: 'svc', entityType: 'program', observations: ['governs'] }] });
  expect((await text('memory_read_graph', {})).includes('governs'), 'memory');
  expect(await text('everything_echo', { message: 'hello' }) === 'Echo: hello', 'everything');
  expect((await text('thinking_sequentialthinking', { thought: 't', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 })).includes('thoughtNumber'), 'thinking');
  // Without a browser the tool fails, with a result that says so.
  expect((await text('playwright_browser_tabs', { action: 'list' })).length > 0, 'playwright');
});
await check('each secret is in the process of its own server, and in no answer, log or audit line', async () => {
  const { SVC_GATEWAY_KEY, SVC_CLIENT_HASH } = parsed(read('client.env'));
  const env = await client.callTool({ name: 'everything_get-env', arguments: {} });
  const answers = JSON.stringify(env);
  for (const text of [answers, read('gateway.log'), read('audit.jsonl')]) {
    for (const secret of ['planted', SVC_GATEWAY_KEY, SVC_CLIENT_HASH]) expect(!text.includes(secret), `${secret} in ${text.slice(0, 2000)}`);
  }
  const holders = { environ: [], cmdline: [] };
  const gateway = Number(read('gateway.pid'));
  const parents = new Map(readdirSync('/proc').filter((n) => /^\d+$/.test(n)).map((pid) => {
    try { return [Number(pid), Number(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ')[1])]; } catch { return [Number(pid), 0]; }
  }));
  const below = (pid) => { for (let p = parents.get(pid); p > 1; p = parents.get(p)) if (p === gateway) return true; return false; };
  for (const pid of [...parents.keys()].filter(below)) {
    let args;
    let all;
    try { [args, all] = [readFileSync(`/proc/${pid}/cmdline`, 'utf8'), readFileSync(`/proc/${pid}/environ`, 'utf8')]; } catch { continue; }
    expect(!args.includes(SVC_GATEWAY_KEY) && !all.includes(SVC_GATEWAY_KEY), `the key of the client is in ${args}`);
    if (all.includes('planted-in-env')) holders.environ.push(args);
    if (args.includes('planted-in-args')) holders.cmdline.push(args);
  }
  expect(holders.environ.length > 0 && holders.environ.every((args) => args.includes('server-memory')), JSON.stringify(holders));
  expect(holders.cmdline.length > 0 && holders.cmdline.every((args) => args.includes('server-everything')), JSON.stringify(holders));
});
await client?.close();
try { process.kill(Number(read('gateway.pid')), 'SIGTERM'); } catch { /* it did not start */ }
for (let i = 0; i < 100; i++) {
  try { process.kill(Number(read('gateway.pid')), 0); } catch { break; }
  await new Promise((done) => setTimeout(done, 100));
}
for (const left of [dir, files]) rmSync(left, { recursive: true, force: true });
finish();
