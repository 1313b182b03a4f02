// Runs the official conformance suites against upstreams directly and through the gateway, and
// compares the results: no check that passes directly may fail through the gateway. It needs
// Node 22 or newer; npm ci installs it.
//
//   node run.mjs --svc BINARY --go-server BINARY [--federated] [--short | --write FILE | --check FILE] [--keep DIR]
//
// --go-server is the conformance server of the Go SDK. --write writes the page with the table;
// --check fails if the page differs. --federated runs the suites through a gateway that
// federates the server with another one; --short uses one run of each protocol generation. Exits with 1 on a regression, or if an expected run is missing.
import { parseArgs } from 'node:util';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { across } from './across.mjs';
import { compare, count, readChecks } from './compare.mjs';
import { federated, federatedPage } from './federated.mjs';
import { runSuite, startGateway, startUpstream, stop } from './processes.mjs';
import { page } from './page.mjs';

const { values: flags } = parseArgs({ options: {
  svc: { type: 'string' }, 'go-server': { type: 'string' }, write: { type: 'string' }, check: { type: 'string' }, keep: { type: 'string' },
  federated: { type: 'boolean' }, short: { type: 'boolean' },
} });
if (!flags.svc || !flags['go-server'] || (flags.short && (flags.write || flags.check))) {
  console.error('usage: node run.mjs --svc BINARY --go-server BINARY [--federated] [--short | --write FILE | --check FILE] [--keep DIR]');
  process.exit(2);
}
const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, 'node_modules');
const node = process.execPath;
const version = (name) => JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8')).version;

const go = (stateless) => (port) => ({ command: flags['go-server'], args: ['-http', `127.0.0.1:${port}`, `-stateless=${stateless}`] });
const everything = (port) => ({
  command: node, args: [join(modules, '@modelcontextprotocol/server-everything/dist/index.js'), 'streamableHttp'], env: { PORT: String(port) },
});
const tasks = (port) => ({ command: node, args: [join(here, 'tasks-upstream.mjs'), String(port), `tasks-${port}`, '--events'] });

// 2026-07-28 has no event ids and no resumption, so that a client with sessions gets no retry
// time for resuming a stream.
const polling = ['server-sse-retry-field'];

// Each upstream, its runs with --short, and the number of its instances behind the gateway. With two, messages
// without a tool name go to the first and every tool call to the second.
const single = [
  { name: 'Go SDK, stateful', make: go(false), behind: [1, 2], short: ['2025-11-25'] },
  { name: 'Go SDK, stateless', make: go(true), behind: [1, 2], short: ['2026-07-28'] },
  // The gateway uses 2026-07-28 with it for all clients, as with a server that supports only
  // that.
  { name: 'Go SDK, 2026-07-28 alone', make: go(true), behind: [1], protocol: '2026-07-28', excepted: polling },
  { name: 'npm server-everything', make: everything, behind: [1] },
  { name: 'tasks extension', make: tasks, behind: [1, 2], tasks: true },
];

// With federation each is federated with another server. short are the runs with --short.
const beside = { npm: { beside: 'npm server-everything', other: everything }, go: { beside: 'Go SDK, stateful', other: go(false) } };
const federations = [
  { name: 'Go SDK, stateful', make: go(false), ...beside.npm, short: ['2025-11-25'] },
  { name: 'Go SDK, stateless', make: go(true), ...beside.npm, short: ['2026-07-28'] },
  { name: 'Go SDK, 2026-07-28 alone', make: go(true), protocol: '2026-07-28', ...beside.npm, short: [] },
  { name: 'npm server-everything', make: everything, ...beside.go, short: [] },
  { name: 'tasks extension', make: tasks, tasks: true, ...beside.npm, short: [] },
].map((up) => ({ behind: [1], ...up }));
const upstreams = (flags.federated ? federations : single).filter((up) => !flags.short || up.short?.length);

// If tools run at the second upstream, and subscriptions are at the first, changes by a tool
// are not announced there: these checks cannot pass.
const apart = [
  'sep-2575-server-sends-prompts-list-changed-on-subscription',
  'sep-2575-server-sends-tools-list-changed-on-subscription',
];

// listed asks a suite for its server scenarios, with the revisions of each.
async function listed(suite) {
  const out = await runSuite(node, [suite.main, 'list', '--server']);
  const scenarios = [...out.matchAll(/^ +- (\S+) \[([^\]]*)\]/gm)].map(([, name, revisions]) => ({ name, revisions: revisions.split(',') }));
  const revisions = [...new Set(scenarios.flatMap((s) => s.revisions))].filter((r) => /^\d{4}-\d\d-\d\d$/.test(r)).sort();
  if (!revisions.length) throw new Error(`${suite.name} lists no scenarios:\n${out}`);
  return { scenarios, revisions };
}

// The runs of a suite: all scenarios, each revision that it offers, and each set of
// requirements.
async function runsOf(suite) {
  const { scenarios, revisions } = await listed(suite);
  const runs = revisions.map((revision) => ({ suite, title: revision, args: ['--suite', 'all', '--spec-version', revision] }));
  const requirements = join(dirname(dirname(suite.main)), 'requirements');
  for (const set of suite.requirements ? readdirSync(requirements).sort() : []) {
    const revision = set.replace(/\.yaml$/, '');
    runs.push({ suite, title: `requirements of ${revision}`, args: ['--requirements', revision] });
  }
  const extension = scenarios.filter((s) => s.name.startsWith('tasks-'));
  return { runs, extension: extension.map((s) => ({ suite, title: s.name, args: ['--scenario', s.name] })) };
}

async function main(dir) {
  const suites = [
    { name: 'released', main: join(modules, 'conformance-released/dist/index.js'), version: version('conformance-released') },
    { name: 'next', main: join(modules, 'conformance-next/dist/index.js'), version: version('conformance-next'), requirements: true },
  ];
  const all = [];
  const extensions = [];
  for (const suite of suites) {
    const { runs, extension } = await runsOf(suite);
    all.push(...runs);
    extensions.push(...extension);
  }
  if (!extensions.length) throw new Error('no suite has scenarios of the tasks extension');

  const rows = [];
  let made = 0;
  // side starts what a suite asks, and returns the checks of each run. With federation it
  // does so for each run: a list that a run has changed would not change in the next one.
  const side = async (make, behind, runs, protocol = 'auto', other = undefined) => {
    if (behind && other && runs.length > 1) {
      const results = [];
      for (const run of runs) results.push(...await side(make, behind, [run], protocol, other));
      return results;
    }
    const where = join(dir, String(made++));
    const ups = [];
    for (let i = 0; i < Math.max(1, behind); i++) ups.push(await startUpstream(make));
    if (behind && other) ups.push(await startUpstream(other));
    const gateway = behind ? await startGateway(flags.svc, join(where, 'gateway'), ups.slice(0, behind).map((u) => u.url), protocol, other && ups[behind].url) : undefined;
    const results = [];
    for (const [i, run] of runs.entries()) {
      const saved = join(where, `run-${i}`);
      const out = await runSuite(node, [run.suite.main, 'server', '--url', (gateway ?? ups[0]).url, '-o', saved, ...run.args]);
      writeFileSync(`${saved}.log`, out);
      results.push(readChecks(saved));
    }
    await stop(...[gateway?.child, ...ups.map((u) => u.child)].filter(Boolean));
    return results;
  };
  // merged combines the scenarios of the tasks extension into one result.
  const merged = (results) => [new Map(results.flatMap((checks) => [...checks]))];
  await Promise.all(upstreams.map(async (up) => {
    const wanted = flags.short ? all.filter((run) => run.suite === suites[1] && up.short.includes(run.title)) : all;
    if (flags.short && wanted.length !== up.short.length) throw new Error(`${up.name}: the suite does not have all of the runs ${up.short}`);
    const runs = up.tasks ? extensions : wanted;
    const join = up.tasks ? merged : (r) => r;
    const titles = up.tasks ? [{ suite: suites[1], title: 'scenarios of the extension' }] : wanted;
    const direct = join(await side(up.make, 0, runs));
    for (const behind of up.behind) {
      const through = join(await side(up.make, behind, runs, up.protocol, up.other));
      titles.forEach((run, i) => rows.push({
        upstream: up, behind, run, direct: count(direct[i]), gateway: count(through[i]), checks: { direct: direct[i], gateway: through[i] }, ...compare(direct[i], through[i], behind > 1 ? apart : up.excepted ?? []),
        why: (name) => through[i].get(name)?.message ?? 'did not run',
      }));
    }
  }));
  const at = (row) => [upstreams.indexOf(row.upstream), row.behind, all.indexOf(row.run)];
  rows.sort((a, b) => at(a).reduce((order, v, i) => order || v - at(b)[i], 0));
  return { suites, rows, go: goVersion() };
}

const goVersion = () => readFileSync(join(here, '../../go.mod'), 'utf8').match(/modelcontextprotocol\/go-sdk (\S+)/)[1];

const dir = flags.keep ?? mkdtempSync(join(tmpdir(), 'svc-conformance-'));
let failed = false;
const fail = (text) => { failed = true; console.log(`FAIL  ${text}`); };
try {
  const { suites, rows, go: sdk } = await main(dir);
  for (const row of rows) {
    const title = `${row.upstream.name} ×${row.behind}, ${row.run.suite.version} ${row.run.title}`;
    console.log(`${title}: directly ${row.direct.passed}/${row.direct.failed}, through the gateway ${row.gateway.passed}/${row.gateway.failed}`);
    if (!flags.federated) for (const name of row.lost) fail(`${title}: ${name}: ${row.why(name)}`);
    for (const name of row.won) console.log(`      only the gateway passes: ${name}`);
    for (const name of row.excepted) console.log(`      not comparable here: ${name}`);
    for (const name of row.stale) fail(`${title}: ${name} passes: it is no exception any more`);
    if (!row.direct.scenarios || row.gateway.scenarios !== row.direct.scenarios) fail(`${title}: ${row.gateway.scenarios} scenarios ran through the gateway, ${row.direct.scenarios} directly`);
  }
  // Across the generations all runs are compared, which --short does not have.
  const judged = flags.federated ? federated(rows) : flags.short ? { missing: [], stale: [] } : across(rows);
  const where = flags.federated ? 'federated' : 'across generations';
  for (const line of [...judged.missing, ...judged.stale]) fail(`${where}: ${line}`);
  const versions = { suites, rows, everything: version('@modelcontextprotocol/server-everything'), sdk };
  const text = flags.short ? '' : flags.federated ? federatedPage({ ...versions, cannot: judged.cannot }) : page({ ...versions, across: judged, apart, polling });
  if (flags.write) writeFileSync(flags.write, text);
  if (flags.check && readFileSync(flags.check, 'utf8') !== text) {
    fail(`${flags.check} is not what this run gives: write it again with --write`);
    writeFileSync(join(dir, 'page.md'), text);
    console.log(text);
  }
  console.log(failed ? 'conformance: FAILED' : `conformance: ${rows.length} runs compared, no check lost${flags.federated ? ' but for those that cannot pass' : ''}`);
} catch (err) {
  fail(err.stack);
} finally {
  await stop();
  if (!flags.keep) rmSync(dir, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
