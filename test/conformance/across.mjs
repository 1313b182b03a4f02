// The checks of a suite that pass for a server of the other generation through the gateway,
// and those that cannot, with the reasons.
//
// Each server of one generation is compared with the same server of the other generation:
// every check that passes there directly must pass here through the gateway, except those that
// cannot. server-everything exists in one generation only; it is compared with the checks that
// it passes directly in 2025-11-25.

// Each server of one generation stands beside the same server that has the other one:
// every check that passes there directly passes here through the gateway, but for those
// that cannot. server-everything has no other generation; what counts there are the checks
// that it passes directly in 2025-11-25.
const beside = {
  'Go SDK, stateful': { other: 'Go SDK, stateless', modern: true },
  'Go SDK, 2026-07-28 alone': { other: 'Go SDK, stateful', modern: false },
  'npm server-everything': { other: 'npm server-everything', modern: true, title: '2025-11-25' },
};

const sessions = 'Go SDK, stateful';
const stateless = 'Go SDK, 2026-07-28 alone';
const asksInSession = 'the tool of this server asks in a session alone: where it is spoken to in 2026-07-28, it does not ask, and fails directly too';
const oneAtATime = 'a server with sessions asks one question at a time, which has no key: the gateway calls it `question`';

// cannot are the checks that no translation can make pass: server, scenario, ids, reason.
const cannot = [
  [sessions, 'http-custom-header-server-validation', ['sep-2243-server-validate-param-match', 'sep-2243-server-reject-param-mismatch'],
    'a server with sessions does not read `Mcp-Param-*`: a header that is missing has no effect there, and the call is performed'],
  [sessions, 'input-required-result-basic-elicitation', ['sep-2322-elicitation-incomplete', 'sep-2322-elicitation-complete'], `${oneAtATime}, and the scenario looks for another key`],
  [sessions, 'input-required-result-ignore-extra-params', ['sep-2322-ignore-unexpected-params'], `${oneAtATime}, and the scenario answers with another key`],
  [sessions, 'input-required-result-multi-round', ['sep-2322-multi-round-r2', 'sep-2322-multi-round-r3'], `${oneAtATime}, and the scenario answers with another key`],
  [sessions, 'input-required-result-multiple-input-requests', ['sep-2322-multiple-inputs-incomplete', 'sep-2322-multiple-inputs-complete'], oneAtATime],
  [sessions, 'input-required-result-basic-list-roots', ['sep-2322-list-roots-incomplete', 'sep-2322-list-roots-complete'], 'sessions of a pool never declare roots'],
  [sessions, 'server-stateless', ['sep-2575-missing-capability-http-400'], 'the server answers the call with a stream, whose status is 200 before its error comes'],
  [stateless, 'tools-call-elicitation', ['tools-call-elicitation'], asksInSession],
  [stateless, 'tools-call-sampling', ['tools-call-sampling'], asksInSession],
  [stateless, 'elicitation-sep1034-defaults', ['string', 'integer', 'number', 'enum', 'boolean'].map((kind) => `elicitation-sep1034-${kind}-default`), asksInSession],
  [stateless, 'elicitation-sep1330-enums', ['untitled-single', 'titled-single', 'legacy-enumnames', 'untitled-multi', 'titled-multi'].map((kind) => `elicitation-sep1330-${kind}`), asksInSession],
  [stateless, 'server-sse-polling', ['server-sse-retry-field'], '2026-07-28 has no event ids and nothing to resume'],
];

// reason returns why a check cannot pass; undefined for one that can.
function reason(server, name) {
  const [, scenario, id] = name.match(/^(\S+): (\S+)/);
  return cannot.find(([s, at, ids]) => s === server && at === scenario && ids.includes(id));
}

// across compares the runs of rows. It returns the lines of the table, the entries of cannot,
// and the contradictions: missing are checks that should pass, stale are entries that are not
// needed.
export function across(rows) {
  const lines = [];
  const missing = [];
  const used = new Set();
  for (const row of rows.filter((r) => r.behind === 1 && beside[r.upstream.name])) {
    const { other, modern, title = row.run.title } = beside[row.upstream.name];
    if (/2026-07-28/.test(row.run.title) !== modern) continue;
    const yardstick = rows.find((r) => r.upstream.name === other && r.behind === 1 && r.run.suite === row.run.suite && r.run.title === title);
    const wanted = [...yardstick.checks.direct].filter(([name, check]) => check.status === 'SUCCESS' && (title === row.run.title || row.checks.gateway.has(name))).map(([name]) => name);
    const left = wanted.filter((name) => row.checks.gateway.get(name)?.status !== 'SUCCESS');
    let explained = 0;
    for (const name of left) {
      const entry = reason(row.upstream.name, name);
      if (entry) {
        explained++;
        used.add(`${row.upstream.name} ${name.match(/^\S+: \S+/)[0]}`);
      } else missing.push(`${row.upstream.name}, ${row.run.suite.version} ${row.run.title}: ${name}: ${row.why(name)}`);
    }
    lines.push({ server: row.upstream.name, suite: row.run.suite.version, title: row.run.title, other: `${other}, ${title}`, wanted: wanted.length, passed: wanted.length - left.length, explained });
  }
  const stale = cannot.flatMap(([server, scenario, ids]) => ids.filter((id) => !used.has(`${server} ${scenario}: ${id}`)).map((id) => `${server}: ${scenario}: ${id} is no exception any more`));
  return { lines, cannot, missing, stale };
}
