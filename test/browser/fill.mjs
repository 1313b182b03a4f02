// Fills a control plane through its REST API with a tenant whose every text is hostile: markup, scripts,
// characters that change the direction of text or cannot be seen, and texts as long as the API accepts them.
import { createHash } from 'node:crypto';

// executed is what a script in one of the texts would call.
export const executed = 'window.hostile=1';

// marks are texts that must be read on the page as they are.
export const marks = {
  image: `<img src=x onerror=${executed}>`,
  script: `</script><script>${executed}</script>`,
  attribute: `"'><svg onload=${executed}>`,
  template: '{{.Token}} ${7*7} %s %00',
  address: 'javascript:window.hostile=1//',
};

const bidi = '\u202Egnp.exe\u2066\u200F';
const unseen = 'a\u200Bb\uFEFFc\u2060d\u{E0041}\u{E0042}';
const emoji = '👩‍👩‍👧‍👦 🏴‍☠️ ✅';
const marked = 'Z\u0323\u0324\u0325\u0326\u0330\u0331\u0347\u0348\u0349a\u0300\u0301\u0302\u0303\u0304lgo';
const hebrew = 'שלום (abc) <עולם>';

// texts are one-line texts without control characters, of at most n characters.
const texts = (n) => [...Object.values(marks), bidi + marks.image, unseen, emoji, marked, hebrew, 'W'.repeat(n), 'wide 漢字 '.repeat(n), `${'&amp;<b>'.repeat(n)}`]
  .map((s) => [...s].slice(0, n).join('').trim());
const cut = (s, n) => [...s].slice(0, n).join('');
const hex = (s, n) => createHash('sha256').update(String(s)).digest('hex').slice(0, n);

// caller returns a function that calls the API with a key and returns the data of the response.
export const caller = (url, key) => async (method, path, body) => {
  const response = await fetch(url + path, { method, headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 500)}`);
  return text && JSON.parse(text).data;
};

const hour = 3600e3;

// trace returns the n-th trace; the first is the newest.
export function trace(n, at, agents) {
  const of = texts(200);
  const t = (k) => of[(n + k) % of.length];
  const blocked = n % 5 === 1;
  const failed = n % 11 === 3;
  return {
    id: `trace-${n}`, agentName: agents[n % agents.length], status: blocked || failed ? 'error' : 'success', environment: t(1), sessionId: t(2),
    modelProvider: 'anthropic', modelName: n % 3 ? 'claude-sonnet-4-5' : t(3), inputTokens: 1000 + n, outputTokens: 200, costUsd: (n % 17) * 0.013, durationMs: 20 + (n * 37) % 900,
    injectionScore: n % 7 ? 0 : 0.93, piiDetected: n % 4 ? [] : ['EMAIL', 'CREDIT_CARD'],
    policiesFired: n % 6 ? [] : [{ id: 'policy-gone', name: t(4), action: 'redact' }],
    toolName: t(5), requestId: `req-${n}`, principal: `key:${cut(t(6), 190)}`, client: { name: cut(t(7), 64), version: cut(t(0), 32) },
    ...(blocked && { blocked: true, ruleId: t(8), ...(n % 2 ? { reason: 'policy_denied' } : { reason: t(9), errorKind: t(4) }) }),
    ...(failed && { errorKind: t(4), reason: t(1) }),
    ...(n % 13 === 2 && { approval: { status: 'granted', id: 'approval-gone', by: t(2) } }),
    labels: n % 3 ? [] : ['secrets', 'web'], sets: n % 9 ? [] : ['private'],
    qualityScores: [{ scorer: t(3), score: 0.7 }],
    spans: [{ stage: 'admit', durationMs: 0.2 }, { stage: t(0), durationMs: 4 }, { stage: 'upstream', durationMs: 10 + (n * 37) % 900 }],
    createdAt: new Date(at).toISOString(),
  };
}

// fill writes everything and returns what the checks need.
export async function fill({ url, api, ingest, traces, now = Date.now() }) {
  const admin = caller(url, api);
  const gateway = caller(url, ingest);
  const agents = [marks.image, marks.script, marks.attribute, marks.template, emoji, hebrew, 'billing', 'support', 'W'.repeat(200), 'x'.repeat(5000)].map((s) => cut(s, 200));
  // Three days, so that yesterday is in the statistics. The newest is of this minute.
  for (let n = 0; n < traces; n += 1000) {
    await gateway('POST', '/api/traces', { traces: Array.from({ length: Math.min(1000, traces - n) }, (_, i) => trace(n + i, now - 60e3 - (n + i) * 72 * hour / traces, agents)) });
  }
  const team = await admin('POST', '/api/teams', { name: marks.attribute });
  const ids = { trace: 'trace-1' };
  const made = await admin('POST', '/api/agents', { name: `${marks.script} 2`, description: `${marks.image}\n${bidi}${'long '.repeat(700)}`, modelProvider: marks.image, modelName: bidi, environment: unseen, teamId: team.id, configYaml: `# ${marks.script}\nname: ${marks.image}\n${'key: value\n'.repeat(50)}` });
  ids.agent = made.id;
  const policies = [];
  const enabled = [true, false, true, true, true, true];
  const conditions = [{ type: 'tool_name', toolName: marks.image }, { type: 'injection_score', threshold: 0.8 }, { type: 'pii_detected', entities: ['EMAIL'] },
    { type: 'tool_arguments', toolName: '*', arguments: { [`/${marks.script}`]: { equals: marks.image } } }, { type: 'data_flow', labelsAny: ['secrets'] }, { type: 'budget_exceeded' }];
  for (const [i, condition] of conditions.entries()) {
    policies.push(await admin('POST', '/api/policies', { name: cut(`${Object.values(marks)[i % 5]} ${i}`, 200), phase: 'request', condition, action: 'block', message: marks.attribute, enabled: enabled[i] }));
  }
  ids.policy = policies[0].id;
  for (const [i, name] of [marks.image, `${marks.script} ✅ ${hebrew}`, 'W'.repeat(200)].entries()) {
    await admin('POST', '/api/costs/budgets', { name, ...(i ? { scope: 'environment', environment: marks.attribute } : { scope: 'agent', agentId: ids.agent }), period: 'daily', limitUsd: 1 + i, warnAt: [80] });
    await admin('POST', '/api/costs/sla', { name, agentId: ids.agent, p99LatencyMs: 200, errorRatePercent: 1, evaluationPeriod: '24h' });
  }
  ids.gateway = `${marks.image} / ? # %2F`;
  for (const [i, name] of [ids.gateway, 'edge-1', 'edge-2', 'W'.repeat(200)].entries()) {
    await gateway('PUT', `/api/gateways/${encodeURIComponent(name)}`, {
      instance: hex(name, 32), seq: 1, version: marks.script, startedAt: new Date(now - hour).toISOString(), state: 'running', configDigest: hex('config', 16), restartPending: i ? [] : [marks.image],
      governance: { enabled: true, revision: i ? now + hour : 1, policies: 3 },
      upstreams: [{ name: marks.attribute, state: i ? 'ok' : 'open', revision: marks.template }, { name: 'W'.repeat(256), state: 'failing', revision: '' }],
      audit: { writable: i !== 1, lost: i, lastLine: 100 + i }, license: { state: marks.image, daysLeft: 3 }, calls: 1000, blocked: 100, failed: 10,
    });
  }
  ids.approvals = [];
  for (let i = 0; i < 4; i++) {
    const asked = await gateway('POST', '/api/approvals', {
      digest: hex(`call ${i}`, 64), keyTag: '01234567', tool: i ? `${marks.image} ${i}` : cut(`refund ${'x'.repeat(5000)}`, 4096), method: 'tools/call', agentName: agents[i], environment: marks.image, principal: `key:${bidi}${marks.script}`,
      client: emoji, upstream: marks.attribute, view: marks.template, gateway: 'edge-1', requestId: `req-${i}`, persons: [marks.image], validFor: 3600, expires: 86400, notSelf: 'false', show: 'all',
      reasons: [{ ruleId: marks.script, note: marks.image }, { policyId: ids.policy }],
      arguments: [{ pointer: `/${marks.image}`, value: JSON.stringify(marks.script) }, { pointer: '/text', value: JSON.stringify('y'.repeat(20_000)), omitted: 12, restored: 'EMAIL' }, { pointer: '/right', value: JSON.stringify(`${hebrew}${bidi}`) }],
      argumentsBytes: 21_000, truncated: true,
    });
    ids.approvals.push(asked.id);
  }
  return { ids, agents, team };
}
