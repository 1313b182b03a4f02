// Third-party tool servers, each a process on a free loopback port.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const modules = join(import.meta.dirname, 'node_modules');

export async function freePort() {
  const free = createServer();
  await new Promise((done) => free.listen(0, '127.0.0.1', done));
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  return port;
}

// start runs a node program in a process group of its own, so that close ends its children
// too, and waits until url responds.
async function start(url, args, env = {}) {
  const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let log = '';
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { log += d; });
  for (let i = 0; ; i++) {
    try {
      await (await fetch(url, { signal: AbortSignal.timeout(1000) })).body?.cancel();
      break;
    } catch { /* not yet */ }
    if (i === 300 || child.exitCode !== null) throw new Error(`${args.join(' ')} does not answer:\n${log}`);
    await new Promise((done) => setTimeout(done, 100));
  }
  return { url, close: () => { try { process.kill(-child.pid, 'SIGKILL'); } catch { /* has ended */ } } };
}

// bridged puts a stdio program behind supergateway.
export async function bridged(program, env) {
  const port = await freePort();
  const command = program.map((word) => `'${word}'`).join(' ');
  return start(`http://127.0.0.1:${port}/mcp`, [join(modules, 'supergateway/dist/index.js'), '--stdio', command,
    '--outputTransport', 'streamableHttp', '--stateful', '--port', String(port), '--logLevel', 'none'], env);
}

// startFast starts a server on fastmcp.
export async function startFast() {
  const port = await freePort();
  return start(`http://127.0.0.1:${port}/mcp`, [join(import.meta.dirname, 'fastserver.mjs'), String(port)]);
}

// startServers returns the servers by name; folder is the folder that files serves.
export async function startServers() {
  const dir = mkdtempSync(join(tmpdir(), 'svc-frameworks-'));
  writeFileSync(join(dir, 'note.txt'), 'one line\nanother\n');
  const of = (name, main = 'dist/index.js') => join(modules, '@modelcontextprotocol', name, main);
  const everything = await freePort();
  const servers = Object.fromEntries(await Promise.all(Object.entries({
    every: start(`http://127.0.0.1:${everything}/mcp`, [of('server-everything'), 'streamableHttp'], { PORT: String(everything) }),
    files: bridged([process.execPath, of('server-filesystem'), dir]),
    memory: bridged([process.execPath, of('server-memory')], { MEMORY_FILE_PATH: join(dir, 'memory.jsonl') }),
    fast: startFast(),
  }).map(async ([name, started]) => [name, await started])));
  return { servers, dir, close: () => { Object.values(servers).forEach((s) => s.close()); rmSync(dir, { recursive: true, force: true }); } };
}
