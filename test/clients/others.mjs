// Third-party tool servers, each a process on a loopback port.
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';

async function freePort() {
  const free = createServer();
  await new Promise((done) => free.listen(0, '127.0.0.1', done));
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  return port;
}

async function start(port, command, args, env) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { log += d; });
  const ended = new Promise((done) => child.on('exit', done));
  const url = `http://127.0.0.1:${port}/mcp`;
  for (let i = 0; ; i++) {
    try {
      await (await fetch(url)).arrayBuffer();
      break;
    } catch { /* not yet */ }
    if (i === 200 || child.exitCode !== null) throw new Error(`${command} ${args} does not answer:\n${log}`);
    await new Promise((done) => setTimeout(done, 50));
  }
  return { url, port, close: () => { child.kill('SIGKILL'); return ended; } };
}

// startEverything runs server-everything from npm, which the conformance suites install.
export async function startEverything(port) {
  const main = join(import.meta.dirname, '../conformance/node_modules/@modelcontextprotocol/server-everything/dist/index.js');
  const at = port ?? await freePort();
  return start(at, process.execPath, [main, 'streamableHttp'], { PORT: String(at) });
}

// startGo runs the conformance server of the Go SDK.
export async function startGo(binary, stateless) {
  const at = await freePort();
  return start(at, binary, ['-http', `127.0.0.1:${at}`, `-stateless=${stateless}`]);
}
