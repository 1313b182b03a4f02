// A gateway process for a check: configured with the program's commands, run, and stopped
// gracefully.
import { spawn, execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdtempSync, writeFileSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// startGateway starts the gateway with upstreams (a map from name to URL, or to {url, keys}
// with additional keys of the upstream as YAML, or {command, keys}) and routes (YAML lines).
// The first upstream is the default, unless more.federation contains the section federation.
// more may also contain keys, additional entries of auth.keys as YAML; oauth, the lines of
// auth.oauth as a function of the port; denyAs, policy.deny_as; yaml, additional sections; env,
// additional environment variables.
export async function startGateway(binary, upstreams, routes, rules = '', more = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'svc-clients-'));
  execFileSync(binary, ['license', 'keygen', '--out', dir], { stdio: 'pipe' });
  execFileSync(binary, ['license', 'issue', '--key', join(dir, 'license.key'), '--subject', 'test', '--days', '1', '--grace-days', '1', '--out', join(dir, 'license.jwt')], { stdio: 'pipe' });
  const key = JSON.parse(execFileSync(binary, ['keygen', '--id', 'ts', '-o', 'json']).toString());
  const free = createServer();
  await new Promise((done) => free.listen(0, '127.0.0.1', done));
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  writeFileSync(join(dir, 'svc.yaml'), `
listen: 127.0.0.1:${port}
license: {path: ${join(dir, 'license.jwt')}, public_key_file: ${join(dir, 'license.pub')}}
${more.federation ? `federation: ${more.federation}` : `default_upstream: ${Object.keys(upstreams)[0]}`}
upstreams:
${Object.entries(upstreams).map(([name, up]) => `  - {name: ${name}, ${up.command ? `command: ${JSON.stringify(up.command)}` : `url: "${up.url ?? up}"`}${up.keys ? `, ${up.keys}` : ''}}`).join('\n')}
${routes ? `routes:\n${routes}` : ''}
auth:
  enabled: true
  keys: [{id: ts, hash: "${key.hash}"}${(more.keys ?? []).map((entry) => `, ${entry}`).join('')}]
${more.oauth?.(port) ?? ''}
${more.yaml ?? ''}
policy: {default_action: allow, rules: [${rules}]${more.denyAs ? `, deny_as: ${more.denyAs}` : ''}}
audit: {path: ${join(dir, 'audit.jsonl')}}
shutdown: {grace: 2s}
`);
  let log = '';
  let child;
  let ended;
  const stop = async (signal) => { child.kill(signal); return ended; };
  const start = async () => {
    child = spawn(binary, ['gateway', '--config', join(dir, 'svc.yaml')], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...more.env } });
    child.stdout.on('data', (d) => { log += d; });
    child.stderr.on('data', (d) => { log += d; });
    ended = new Promise((done) => child.on('exit', done));
    for (let i = 0; ; i++) {
      try {
        if ((await fetch(`http://127.0.0.1:${port}/readyz`)).ok) break;
      } catch { /* not yet */ }
      if (i === 100) throw new Error(`the gateway did not start:\n${log}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  await start();
  return {
    url: new URL(`http://127.0.0.1:${port}/mcp`),
    headers: { Authorization: `Bearer ${key.key}` },
    log: () => log,
    audit: () => readFileSync(join(dir, 'audit.jsonl')).toString(),
    // stop ends it with SIGTERM and returns its exit code.
    stop: async () => stop('SIGTERM'),
    // kill ends it with SIGKILL, like a crash.
    kill: async () => stop('SIGKILL'),
    pid: () => child.pid,
    dir,
    // start starts it again after stop.
    start,
    // remove deletes its files, in any state.
    remove: () => { child.kill('SIGKILL'); for (const d of [dir, `${dir}-children`]) rmSync(d, { recursive: true, force: true }); },
  };
}

// eventually waits until ok returns true.
export async function eventually(what, ok) {
  for (let i = 0; !ok(); i++) {
    if (i === 200) throw new Error(typeof what === 'function' ? what() : what);
    await new Promise((done) => setTimeout(done, 25));
  }
}

// eventuallyListed waits until the merged lists lack only the named upstreams.
export async function eventuallyListed({ url, headers }, missing) {
  const request = {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
  };
  for (let i = 0; ; i++) {
    const { result } = await (await fetch(url, request)).json();
    if (String(result?._meta?.['svc/unavailable'] ?? '') === String(missing)) return;
    if (i === 300) throw new Error(`the lists still miss ${result?._meta?.['svc/unavailable']}`);
    await new Promise((done) => setTimeout(done, 200));
  }
}
