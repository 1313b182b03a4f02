// The processes of a conformance run: upstreams, gateways and the suite itself. All are ended
// when the run ends.
import { spawn, execFileSync } from 'node:child_process';
import { createServer } from 'node:net';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const running = new Set();

// stop ends all started processes and waits for them.
export async function stop(...children) {
  await Promise.all((children.length ? children : [...running]).map((child) => {
    if (!running.has(child)) return undefined;
    child.kill('SIGTERM');
    const hard = setTimeout(() => child.kill('SIGKILL'), 5000);
    return child.ended.finally(() => clearTimeout(hard));
  }));
}

function start(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  child.log = '';
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { child.log = (child.log + d).slice(-100_000); });
  running.add(child);
  child.ended = new Promise((done) => {
    child.on('error', (err) => { child.log += err.stack; running.delete(child); done(-1); });
    child.on('exit', (code) => { running.delete(child); done(code); });
  });
  return child;
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

async function answers(child, url) {
  for (let i = 0; i < 200; i++) {
    if (!running.has(child)) break;
    try {
      await (await fetch(url)).arrayBuffer();
      return;
    } catch { /* not yet */ }
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`${child.spawnargs.join(' ')} does not answer:\n${child.log}`);
}

// startUpstream runs the command that make returns for a port.
export async function startUpstream(make) {
  const port = await freePort();
  const { command, args, env } = make(port);
  const child = start(command, args, { env: { ...process.env, ...env } });
  await answers(child, `http://127.0.0.1:${port}/`);
  return { child, url: `http://127.0.0.1:${port}/mcp` };
}

// startGateway runs the gateway with upstreams. Without other the first is the default, and
// tools are routed to the last. With the URL of another server the gateway federates the two:
// the names of the first are unchanged, those of the other have a prefix. protocol is the
// configured revision of the upstreams, except the other.
export async function startGateway(binary, dir, urls, protocol, other) {
  mkdirSync(dir, { recursive: true });
  const run = (...args) => execFileSync(binary, args, { stdio: 'pipe' });
  run('license', 'keygen', '--out', dir);
  run('license', 'issue', '--key', join(dir, 'license.key'), '--subject', 'conformance', '--days', '1', '--grace-days', '1', '--out', join(dir, 'license.jwt'));
  const port = await freePort();
  const names = urls.map((_, i) => `up${i}`);
  const one = urls.map((url, i) => `  - {name: ${names[i]}, url: "${url}", protocol: "${protocol}"}`);
  const servers = other ? `
federation: {enabled: true}
upstreams:
${one.join('\n')}
  - {name: other, url: "${other}", prefix: other_}` : `
default_upstream: ${names[0]}
upstreams:
${one.join('\n')}
routes:
  - {match: {tool_name: "*"}, upstream: ${names.at(-1)}}`;
  writeFileSync(join(dir, 'svc.yaml'), `
listen: 127.0.0.1:${port}
license: {path: ${join(dir, 'license.jwt')}, public_key_file: ${join(dir, 'license.pub')}}${servers}
policy:
  default_action: allow
  rules:
    - {id: no-danger, action: deny, when: {tool_prefix: danger_}}
    - {id: no-secrets, action: redact, when: {tool_name: never}, redact: [{regex: 'AKIA[0-9A-Z]{16}', replacement: '[KEY]'}]}
    - {id: no-roots, action: deny, when: {direction: server_to_client, method: notifications/never}}
audit: {path: ${join(dir, 'audit.jsonl')}, frames: all}
shutdown: {grace: 1s}
`);
  const child = start(binary, ['gateway', '--config', join(dir, 'svc.yaml')]);
  await answers(child, `http://127.0.0.1:${port}/readyz`);
  return { child, url: `http://127.0.0.1:${port}/mcp` };
}

// runSuite runs the suite and returns its output. The suite exits with 1 when a check failed,
// which is left to the comparison.
export async function runSuite(node, args) {
  const child = start(node, args);
  const code = await child.ended;
  if (code !== 0 && code !== 1) throw new Error(`${args.join(' ')} ended with ${code}:\n${child.log}`);
  return child.log;
}
