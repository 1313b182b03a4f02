// Writes the page of the documentation about a conformance run.

export function page({ suites, rows, across, apart, polling, everything, sdk }) {
  const [released, next] = suites;
  // By server and check: the scenarios with the check.
  const won = new Map();
  for (const row of rows) {
    for (const name of row.won) {
      const [, scenario, check] = name.match(/^(\S+): (\S+)/);
      const key = `${row.upstream.name}, ${row.behind} behind the gateway: \`${check}\``;
      if (!won.has(key)) won.set(key, new Set());
      won.get(key).add(scenario);
    }
  }
  const table = rows.map((r) => `| ${r.upstream.name} | ${r.behind} | ${r.run.suite.version} | ${r.run.title} | ${r.direct.passed}/${r.direct.failed} | ${r.gateway.passed}/${r.gateway.failed} | ${r.lost.length} | ${r.won.length} |`);
  return `# Conformance

<!-- Made by test/conformance/run.mjs --write; .ci/run checks it. -->

The official MCP conformance suites (\`@modelcontextprotocol/conformance\` ${released.version} and ${next.version}) run against tool servers
directly, and once more through the gateway. The rule: no check that passes directly may fail through the gateway. A server that
lacks a feature fails its checks on both sides; that says nothing about the gateway.

The servers are the conformance server of the Go SDK ${sdk} (stateful and stateless), npm \`@modelcontextprotocol/server-everything\`
${everything}, and \`test/conformance/tasks-upstream.mjs\` for the tasks extension, which no official SDK serves yet. Where two of a server
stand behind the gateway, what has no tool name goes to the first and every tool call to the second, so that sessions are paired,
questions of the second find back to it, and tasks are followed to where they were made.

Figures are checks passed/failed. *Lost* counts checks that pass directly alone, *won* those that pass through the gateway alone.

| server | behind the gateway | suite | scenarios | directly | through the gateway | lost | won |
|---|---|---|---|---|---|---|---|
${table.join('\n')}

Not compared where two stand behind the gateway, because a subscription comes from the first and tools run at the second, so that
nobody announces what a tool changed: ${apart.map((id) => `\`${id}\``).join(', ')}. *2026-07-28 alone* is a server that the gateway
speaks that revision to (\`protocol\`), so that everything is translated for clients with sessions. Not compared there, because 2026-07-28
has no event ids and nothing to resume: ${polling.map((id) => `\`${id}\``).join(', ')}.

## Across the generations

A suite of one generation runs against a server of the *other* one through the gateway. Beside it stands the same server, spoken to
directly in the generation of the suite; \`server-everything\` has one generation alone, so that what counts is what it passes directly in
2025-11-25. *Wanted* are the checks that pass there. Each of them passes through the gateway, or stands in the list below.

| server | suite | scenarios | beside | wanted | passed | cannot pass |
|---|---|---|---|---|---|---|
${across.lines.map((l) => `| ${l.server} | ${l.suite} | ${l.title} | ${l.other} | ${l.wanted} | ${l.passed} | ${l.explained} |`).join('\n')}

Checks that cannot pass, and why; the run fails when one passes, or another one does not:

| server | scenario | checks | why |
|---|---|---|---|
${across.cannot.map(([server, scenario, ids, why]) => `| ${server} | ${scenario} | ${ids.map((id) => `\`${id}\``).join(', ')} | ${why} |`).join('\n')}

## Checks that the gateway adds

${won.size ? `Checks that only the gateway makes pass, and the scenarios:

${[...won].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, scenarios]) => `- ${name} (${[...scenarios].sort().join(', ')})`).join('\n')}
` : 'No check passes through the gateway alone.\n'}`;
}
