// How much of a public benchmark of attacks by agents is stopped by the gateway, and by which part
// of its configuration: labels, approvals, conditions on arguments, templates of policies, pinned
// definitions. The MCP messages of the cases are sent through a gateway to a server that records
// what it received. The benchmark is read from a checkout and never copied:
//
//   git clone https://github.com/luckyPipewrench/agent-egress-bench
//   node test/egress/egress.mjs SVC_BINARY CHECKOUT >table.md
//
// It prints Markdown: a table of all cases with MCP messages, and counts by category. Exit code 1:
// a call that the gateway refused has reached the server, or one that it let pass has not.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [binary, checkout] = process.argv.slice(2);
if (!checkout) {
  console.error('usage: node egress.mjs SVC_BINARY CHECKOUT');
  process.exit(2);
}
const dir = mkdtempSync(join(tmpdir(), 'svc-egress-'));
const children = [];
let wrong = 0;

// What an operator of a coding agent writes without default deny. Nothing of it is taken from a
// case but the folder in which the agent works. The first word of an id is the layer of the rule.
const tools = {
  sends: '(fetch|http|web|browse|send|post|upload|publish|email|notify)(_.*)?', // to whom the caller chooses
  shell: '(shell|bash|exec|execute|run|terminal)(_.*)?',
  reads: '(read|list|get|find|query)_.*',
  writes: '(write|edit|append|create)_.*',
};
const rules = [
  `{id: label-no-exfiltration, action: deny, when: {tool_regex: "${tools.sends}", labels_all: [untrusted, private]}}`,
  '{id: argument-workspace, action: deny, when: {tool_regex: "(read|write|edit|append|delete|list)_(file|directory)", arguments: {/path: {not: {path_within: /home/user/project}}}}}',
  `{id: argument-plain-command, action: deny, when: {tool_regex: "${tools.shell}", arguments: {/command: {not: {regex: "[A-Za-z0-9 ._/:=@+-]*"}}}}}`,
  `{id: approval-harmless, action: allow, when: {tool_regex: "${tools.shell}", arguments: {/command: {regex: "(ls|pwd|whoami|git (status|diff|log))( [A-Za-z0-9._/-]+)*"}}}}`,
  `{id: label-send, action: allow, approval: {}, when: {tool_regex: "${tools.sends}", labels_any: [private, suspicious]}}`,
  `{id: label-run, action: allow, approval: {}, when: {tool_regex: "${tools.shell}", labels_any: [untrusted, written, suspicious]}}`,
  `{id: approval-run, action: allow, approval: {}, when: {tool_regex: "${tools.shell}"}}`,
  '{id: approval-message, action: allow, approval: {}, when: {tool_regex: "(send|post|email|notify)_.*"}}',
];
const labels = `
    - {name: untrusted, tool_regex: "(fetch|http|web|browse|search)(_.*)?"}
    - {name: private, tool_regex: "${tools.reads}|${tools.shell}"}
    - {name: written, tool_regex: "${tools.writes}"}
    - {name: suspicious, injection_score: 0.5}`;
const templates = ['prompt-injection-defense', 'secrets-leak-prevention', 'pii-protection'];
const layers = ['label', 'approval', 'argument', 'template', 'pin'];

const cases = readdirSync(join(checkout, 'cases')).flatMap((folder) => readdirSync(join(checkout, 'cases', folder))
  .map((file) => JSON.parse(readFileSync(join(checkout, 'cases', folder, file))))).sort((a, b) => (a.id < b.id ? -1 : 1));
const ours = cases.filter((c) => c.input_type.startsWith('mcp_'));

// A tool that the cases call, or one as it was before its definition changed.
const plain = (name) => ({ name, description: 'A tool.', inputSchema: { type: 'object' } });
const called = [...new Set(ours.flatMap((c) => c.payload.jsonrpc_messages.map((m) => m.params?.name).filter(Boolean)))];
const definitions = (c) => c.payload.jsonrpc_messages.flatMap((m) => m.result?.tools ?? []);
// What the server lists when the operator approves it: definitions that are malicious from the
// start, and those that change later before they do.
const approved = [...called, 'look_up'].map(plain).concat(ours.flatMap((c) => (c.requires.includes('mcp_tool_baseline') ? definitions(c).map((t) => plain(t.name)) : definitions(c))));

// The server. Case and step are told in a header that the gateway passes on.
const server = { tools: approved, result: undefined, received: [] };
const upstream = createServer(async (req, res) => {
  let body = '';
  for await (const part of req) body += part;
  const m = body ? JSON.parse(body) : {};
  const result = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'recorder', version: '1' } },
    'tools/list': { tools: server.tools },
    'tools/call': server.result ?? { content: [{ type: 'text', text: 'done' }] },
  }[m.method];
  if (m.method === 'tools/call') server.received.push(JSON.stringify(m.params));
  if (m.id === undefined) res.writeHead(req.method === 'POST' ? 202 : 405).end();
  else res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id: m.id, result }));
});
await new Promise((done) => upstream.listen(0, '127.0.0.1', done));

async function freePort() {
  const free = createServer();
  await new Promise((done) => free.listen(0, '127.0.0.1', done));
  const { port } = free.address();
  await new Promise((done) => free.close(done));
  return port;
}

// run starts a server of the program and waits until it is ready.
async function run(port, ...args) {
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const out of [child.stdout, child.stderr]) out.on('data', (d) => { log += d; });
  children.push(child);
  for (let i = 0; ; i++) {
    try {
      if ((await fetch(`http://127.0.0.1:${port}/readyz`)).ok) return child;
    } catch { /* not yet */ }
    if (i === 200 || child.exitCode !== null) throw new Error(`${args[0]} does not start:\n${log}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// The control plane.
const planePort = await freePort();
const plane = `http://127.0.0.1:${planePort}`;
await run(planePort, 'serve', '--listen', `127.0.0.1:${planePort}`, '--data-dir', join(dir, 'plane'));
const env = { ...process.env, SVC_URL: plane, SVC_API_KEY: readFileSync(join(dir, 'plane/bootstrap-key')).toString().trim() };
const svc = (...args) => execFileSync(binary, args, { env, stdio: 'pipe' }).toString();
const ingest = JSON.parse(svc('keys', 'create', 'gateway', '--scope', 'ingest', '-o', 'json')).key;
for (const name of templates) svc('policies', 'add-template', name);
svc('license', 'keygen', '--out', dir);
svc('license', 'issue', '--key', join(dir, 'license.key'), '--subject', 'test', '--days', '1', '--grace-days', '1', '--out', join(dir, 'license.jwt'));

// judge runs all cases through a gateway that has some of the layers, and returns for each the
// layer that stopped it, how, and at which message.
async function judge(layersOn) {
  const port = await freePort();
  const folder = mkdtempSync(join(dir, 'gateway-'));
  writeFileSync(join(folder, 'svc.yaml'), `
listen: 127.0.0.1:${port}
license: {path: ${dir}/license.jwt, public_key_file: ${dir}/license.pub}
upstreams: [{name: tools, url: "http://127.0.0.1:${upstream.address().port}/mcp", pin_tools: ${layersOn.includes('pin') ? 'block' : 'off'}}]
default_upstream: tools
routes: [{match: {tool_name: "*"}, upstream: tools}]
trusted_proxies: [127.0.0.1/32]
control_plane: {url: "${plane}", ingest_key: "${ingest}", governance: {enabled: ${layersOn.includes('template')}}}
${layersOn.includes('label') ? `data_flow:\n  labels:${labels}` : ''}
policy:
  default_action: allow
  rules: [${rules.filter((r) => layersOn.includes(/id: (\w+)-/.exec(r)[1])).join(',\n    ')}]
audit: {path: ${folder}/audit.jsonl}
shutdown: {grace: 1s}
`);
  server.tools = approved;
  const child = await run(port, 'gateway', '--config', join(folder, 'svc.yaml'));
  let caller = 0;
  const post = async (body, address) => {
    const res = await fetch(`http://127.0.0.1:${port}/mcp`, {
      method: 'POST', body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'x-forwarded-for': address },
    });
    const text = await res.text();
    return { status: res.status, body: text.startsWith('{') ? JSON.parse(text) : {}, text };
  };
  await post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, '10.9.9.9'); // what is listed first is approved
  const line = (id) => readFileSync(join(folder, 'audit.jsonl')).toString().split('\n').filter(Boolean).map((l) => JSON.parse(l)).find((l) => l.request_id === id && l.kind === 'request');
  const result = {};
  for (const c of ours) {
    const address = `10.0.${caller >> 8}.${caller++ & 255}`; // a caller of its own
    server.tools = approved.filter((t) => !definitions(c).some((d) => d.name === t.name)).concat(definitions(c));
    for (const [step, message] of c.payload.jsonrpc_messages.entries()) {
      const call = message.method === 'tools/call';
      const listed = message.result?.tools?.map((t) => t.name);
      server.result = call || listed ? undefined : message.result;
      server.received = [];
      const request = call ? message : { jsonrpc: '2.0', id: message.id, method: listed ? 'tools/list' : 'tools/call', params: listed ? undefined : { name: 'look_up', arguments: {} } };
      const got = await post(request, address);
      const refused = got.status !== 200 || got.body.error !== undefined;
      const arrived = server.received.length > 0;
      if (call && arrived === refused || arrived && call && JSON.stringify(message.params) !== server.received[0]) {
        console.error(`${c.id}: ${refused ? 'was refused and has arrived' : 'has not arrived as it was sent'}: ${got.text}`);
        wrong++;
      }
      let by = refused && layer(line(got.body.error?.data?.request_id), got);
      if (!refused && listed && !listed.every((name) => got.body.result.tools.some((t) => t.name === name))) by = { layer: 'pin', how: 'left out' };
      if (!refused && !listed && message.result && JSON.stringify(got.body.result) !== JSON.stringify(message.result)) by = { layer: 'template', how: 'rewritten' };
      if (by) {
        result[c.id] = { ...by, step: step + 1 };
        break;
      }
    }
  }
  child.kill();
  await once(child, 'exit');
  return result;
}

// layer names the part of the configuration that refused a request.
function layer(record, got) {
  if (!record) throw new Error(`no audit line for ${got.text}`);
  const how = got.body.error.data?.reason === 'approval_required' ? 'asks a person' : 'denied';
  if (record.rule_id) return { layer: record.rule_id.split('-')[0], how };
  if (record.error_kind === 'tool_changed') return { layer: 'pin', how };
  if (record.policies_fired?.length) return { layer: 'template', how };
  throw new Error(`who refused ${JSON.stringify(record)}?`);
}

try {
  const alone = {};
  for (const one of layers) alone[one] = await judge([one]);
  const all = await judge(layers);
  const table = (head, rows) => `${[head, head.map(() => '---'), ...rows].map((r) => `| ${r.join(' | ')} |`).join('\n')}\n`;
  const verdict = (c) => all[c.id]?.layer ?? (c.expected_verdict === 'block' ? 'missed' : 'passes');
  const count = (list, ok) => list.filter(ok).length;
  const categories = [...new Set(ours.map((c) => c.category))].sort();
  for (const [title, expected, end] of [['Attacks', 'block', 'missed'], ['Benign cases', 'allow', 'passes']]) {
    const those = ours.filter((c) => c.expected_verdict === expected);
    const row = (name, list) => [name, list.length, ...layers.map((l) => count(list, (c) => verdict(c) === l)), count(list, (c) => all[c.id]?.how === 'asks a person'), count(list, (c) => verdict(c) === end)];
    console.log(`## ${title}\n`);
    console.log(table(['category', 'cases', ...layers, 'of these, asks a person', end], [...categories.map((name) => [name, those.filter((c) => c.category === name)]).filter(([, list]) => list.length)
      .map(([name, list]) => row(name, list)), row('all', those), ['each layer alone', those.length, ...layers.map((l) => count(those, (c) => alone[l][c.id])), '', '']]));
    console.log(table(['case', 'stopped by', 'how', 'at message', 'also stopped by, alone'], those.map((c) => [`\`${c.id}\``, verdict(c), all[c.id]?.how ?? '', all[c.id] ? `${all[c.id].step} of ${c.payload.jsonrpc_messages.length}` : '',
      layers.filter((l) => l !== all[c.id]?.layer && alone[l][c.id]).join(', ')])));
  }
  const other = cases.filter((c) => !ours.includes(c));
  console.log(`${cases.length} cases; ${other.length} have no MCP message: ${[...new Set(other.map((c) => c.input_type))].map((t) => `${t} ${count(other, (c) => c.input_type === t)}`).join(', ')}.`);
} finally {
  for (const child of children) child.kill('SIGKILL');
  upstream.close();
  rmSync(dir, { recursive: true, force: true });
}
process.exit(wrong ? 1 : 0);
