import { test } from 'node:test';
import assert from 'node:assert/strict';
import { federated } from './federated.mjs';

const run = { title: '2025-11-25', suite: { version: '1' } };
const check = 'server-sse-multiple-streams: server-sse-streams-functional ServerSSEStreamsFunctional';
const row = (name, direct, lost) => ({
  upstream: { name }, run, checks: { direct: new Map(direct.map((c) => [c, { status: 'SUCCESS' }])) }, lost, why: () => 'because',
});

test('a check that is lost is an error, unless it is one of those that cannot pass at that server', () => {
  const rows = [row('Go SDK, stateful', [check, 's: a A'], [check, 's: a A']), row('tasks extension', [check], [check])];
  const { missing, stale } = federated(rows);
  assert.deepEqual(missing, ['Go SDK, stateful, 1 2025-11-25: s: a A: because', `tasks extension, 1 2025-11-25: ${check}: because`]);
  assert.deepEqual([stale, rows[0].explained, rows[1].explained], [[], 1, 0]);
});

test('one that cannot pass is stale when no run loses it, and not where it did not run', () => {
  assert.deepEqual(federated([row('Go SDK, stateful', [check], []), row('Go SDK, stateless', [], [])]).stale,
    ['Go SDK, stateful server-sse-multiple-streams server-sse-streams-functional passes: it is no exception any more']);
});
