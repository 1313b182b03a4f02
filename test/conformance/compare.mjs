// Compares two runs of a conformance suite for one upstream.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

// readChecks reads the results that the suite saved in a folder: a map from a check to its
// status. A check is identified by scenario, id and name; repeated ones in a scenario are
// numbered. A scenario that was aborted has saved none and counts as failed.
export function readChecks(dir) {
  const checks = new Map();
  for (const folder of readdirSync(dir).sort()) {
    const scenario = folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    const seen = new Map();
    const file = join(dir, folder, 'checks.json');
    if (!existsSync(file)) {
      checks.set(`${scenario}: broke off`, { status: 'FAILURE', scenario });
      continue;
    }
    for (const check of JSON.parse(readFileSync(file, 'utf8'))) {
      const name = `${scenario}: ${check.id} ${check.name}`;
      const n = (seen.get(name) ?? 0) + 1;
      seen.set(name, n);
      checks.set(n === 1 ? name : `${name} (${n})`, { status: check.status, scenario, message: check.errorMessage });
    }
  }
  return checks;
}

// compare finds the checks that pass on one side only. lost contains the checks that pass
// directly and fail, or do not run, through the gateway; won the opposite. except are ids of
// checks that cannot pass through the gateway for a known reason: they are in excepted, or in
// stale if they pass.
export function compare(direct, gateway, except = []) {
  const passes = (checks, name) => checks.get(name)?.status === 'SUCCESS';
  const known = (name) => except.some((id) => name.includes(` ${id} `));
  const gone = [...direct.keys()].filter((name) => passes(direct, name) && !passes(gateway, name));
  return {
    lost: gone.filter((name) => !known(name)),
    excepted: gone.filter(known),
    stale: [...direct.keys()].filter((name) => known(name) && passes(direct, name) && passes(gateway, name)),
    won: [...gateway.keys()].filter((name) => passes(gateway, name) && !passes(direct, name)),
  };
}

// count summarizes one side: checks that passed and failed, and scenarios that ran.
export function count(checks) {
  const all = [...checks.values()];
  return {
    passed: all.filter((c) => c.status === 'SUCCESS').length,
    failed: all.filter((c) => c.status === 'FAILURE').length,
    scenarios: new Set(all.map((c) => c.scenario)).size,
  };
}
