import { test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, mkdirSync, writeFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compare, count, readChecks } from './compare.mjs';

const side = (checks) => new Map(Object.entries(checks).map(([name, status]) => [name, { status, scenario: name[0] }]));

test('a check that fails, is skipped or does not run through the gateway is lost', () => {
  const direct = side({ a: 'SUCCESS', b: 'SUCCESS', c: 'SUCCESS', d: 'SUCCESS', e: 'FAILURE' });
  const gateway = side({ a: 'SUCCESS', b: 'FAILURE', c: 'SKIPPED', e: 'FAILURE' });
  assert.deepEqual(compare(direct, gateway), { lost: ['b', 'c', 'd'], excepted: [], stale: [], won: [] });
});

test('an exception is for one check, and is stale when the check passes', () => {
  const direct = side({ 's: a A': 'SUCCESS', 's: ab AB': 'SUCCESS', 's: c C': 'SUCCESS' });
  const gateway = side({ 's: a A': 'FAILURE', 's: ab AB': 'FAILURE', 's: c C': 'SUCCESS' });
  assert.deepEqual(compare(direct, gateway, ['a', 'c']), { lost: ['s: ab AB'], excepted: ['s: a A'], stale: ['s: c C'], won: [] });
});

test('a check that passes through the gateway alone is won', () => {
  assert.deepEqual(compare(side({ a: 'FAILURE' }), side({ a: 'SUCCESS', b: 'SUCCESS' })), { lost: [], excepted: [], stale: [], won: ['a', 'b'] });
});

test('saved checks are read by scenario, and those that come twice are kept apart', () => {
  const dir = mkdtempSync(join(tmpdir(), 'checks-'));
  const folder = join(dir, 'server-server-initialize-2026-01-02T03-04-05-678Z');
  mkdirSync(folder);
  writeFileSync(join(folder, 'checks.json'), JSON.stringify([
    { id: 'x', name: 'X', status: 'SUCCESS' }, { id: 'x', name: 'X', status: 'FAILURE' },
  ]));
  mkdirSync(join(dir, 'server-ping-2026-01-02T03-04-05-678Z'));
  const checks = readChecks(dir);
  rmSync(dir, { recursive: true });
  assert.deepEqual([...checks.keys()], ['ping: broke off', 'server-initialize: x X', 'server-initialize: x X (2)']);
  assert.deepEqual(count(checks), { passed: 1, failed: 2, scenarios: 2 });
});
