// What of the suites passes through a gateway that federates the server with another one,
// what cannot, with the reasons, and the page of the documentation that shows it.

const everything = 'npm server-everything';
const modernAlone = 'Go SDK, 2026-07-28 alone';
const noSuchTool = 'the server lacks the tool that the suite calls, and says so in a result, which the check takes for that of the tool. The gateway answers 404 `no_route` for a tool that no server has';

// cannot are the checks that cannot pass: servers, scenario, ids, reason.
const cannot = [
  [['Go SDK, stateful', 'Go SDK, stateless', modernAlone, everything], 'server-sse-multiple-streams', ['server-sse-streams-functional'],
    'the suite asks for `tools/list` several times at once, and looks at answers that are event streams alone. The gateway answers all of them, as JSON'],
  [[everything], 'tools-call-simple-text', ['tools-call-simple-text'], noSuchTool],
  [[everything], 'tools-call-error', ['tools-call-error'], noSuchTool],
  [[everything], 'server-sse-polling', ['server-sse-priming-event'], noSuchTool],
  [['Go SDK, stateless', modernAlone], 'server-stateless', ['sep-2575-server-sends-tools-list-changed-on-subscription'],
    'the suite changes the tools three times, and the server adds the same tool each time. Clients are notified when a list that they see changes, which is before the check'],
  [[modernAlone], 'server-sse-polling', ['server-sse-retry-field'], '2026-07-28 has no event ids and nothing to resume'],
];

// federated compares the runs of rows. It returns the entries of cannot, and what
// contradicts them: missing are checks that pass directly and should pass, stale those that
// no run loses any more.
export function federated(rows) {
  const missing = [];
  const lost = new Set();
  const ran = new Set();
  const entry = (server, scenario, id) => cannot.find(([servers, at, ids]) => servers.includes(server) && at === scenario && ids.includes(id));
  for (const row of rows) {
    row.explained = 0;
    const key = (name) => name.match(/^(\S+): (\S+)/).slice(1);
    for (const [name, check] of row.checks.direct) if (check.status === 'SUCCESS') ran.add([row.upstream.name, ...key(name)].join(' '));
    for (const name of row.lost) {
      lost.add([row.upstream.name, ...key(name)].join(' '));
      if (entry(row.upstream.name, ...key(name))) row.explained++;
      else missing.push(`${row.upstream.name}, ${row.run.suite.version} ${row.run.title}: ${name}: ${row.why(name)}`);
    }
  }
  const stale = cannot.flatMap(([servers, scenario, ids]) => servers.flatMap((server) => ids.map((id) => [server, scenario, id].join(' '))))
    .filter((check) => ran.has(check) && !lost.has(check)).map((check) => `${check} passes: it is no exception any more`);
  return { cannot, missing, stale };
}

// federatedPage is the page of the documentation.
export function federatedPage({ suites, rows, cannot, everything, sdk }) {
  const [released, next] = suites;
  const table = rows.map((r) => `| ${r.upstream.name} | ${r.upstream.beside} | ${r.run.suite.version} | ${r.run.title} | ${r.direct.passed}/${r.direct.failed} | ${r.gateway.passed}/${r.gateway.failed} | ${r.lost.length - r.explained} | ${r.explained} | ${r.won.length} |`);
  return `# Conformance with federation

<!-- Made by test/conformance/run.mjs --federated --write. -->

The official MCP conformance suites (\`@modelcontextprotocol/conformance\` ${released.version} and ${next.version}) run against tool servers
directly, and once more through a gateway with \`federation\`, behind which another server stands beside the one that the suite looks for. The
names of the first stay as they are, those of the other have a prefix; no \`default_upstream\` and no routes are configured. Servers and
gateway are started anew for each run. The rule: no check
that passes directly may fail through the gateway, but for those that are listed below. The pages of [one upstream](conformance.md) have the
same suites without federation.

The servers are the conformance server of the Go SDK ${sdk} (stateful and stateless), npm \`@modelcontextprotocol/server-everything\`
${everything}, and \`test/conformance/tasks-upstream.mjs\` for the tasks extension. *2026-07-28 alone* is a server that the gateway speaks that
revision to (\`protocol\`). Figures are checks passed/failed. *Cannot* counts checks that pass directly alone and are in the list below, *lost*
others, *won* those that pass through the gateway alone.

| server | beside | suite | scenarios | directly | through the gateway | lost | cannot | won |
|---|---|---|---|---|---|---|---|---|
${table.join('\n')}

Checks that cannot pass, and why; the run fails when one passes, or another one does not:

| server | scenario | checks | why |
|---|---|---|---|
${cannot.map(([servers, scenario, ids, why]) => `| ${servers.join(', ')} | ${scenario} | ${ids.map((id) => `\`${id}\``).join(', ')} | ${why} |`).join('\n')}
`;
}
