package policy

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"svc/gateway/policy/flow"
)

// memorySlots bounds the number of cached decisions, because tool names are arbitrary
// input.
const memorySlots = 16384

// maxRemembered bounds the size of the strings of one cached request, in bytes.
const maxRemembered = 256

// Memory caches the decisions of a Set by the request's key, so that repeated calls do
// not evaluate expressions again. Each key has one slot, chosen by a hash with a random
// seed, and the last key written to a slot stays: there is no lock and no eviction, and a
// client cannot construct keys that collide.
//
// Decisions for callers with claims are not cached, because the number of distinct claims
// is not bounded; nor are decisions about the URI that a client asks for, where rules look at it, decisions for which arguments were read, or for messages into which
// values were put back.
type Memory struct {
	rules *Set
	seed  maphash.Seed
	slots [memorySlots]atomic.Pointer[remembered]
}

// requestKey contains all parts of a request that a decision depends on. A slot is used
// only for requests with an equal key.
type requestKey struct {
	Direction  Direction
	Method     string
	Tool       string
	HasTool    bool
	ResultType string
	Upstream   string
	Labels     flow.Labels // those that rules look at
}

// keyOf returns the key of a request for the rules of a Set; ok is false for a request that is not cached.
func (s *Set) keyOf(q *Request) (key requestKey, ok bool) {
	if (q.URI != "" || q.Template) && s.usesURI || q.Claims != nil || q.AnyArguments || q.Restored != nil || len(q.Method)+len(q.Tool)+len(q.ResultType) > maxRemembered {
		return requestKey{}, false
	}
	return requestKey{Direction: q.Direction, Method: q.Method, Tool: q.Tool, HasTool: q.HasTool, ResultType: q.ResultType, Upstream: q.Upstream,
		Labels: q.Labels & s.labels}, true
}

// clone copies the strings of the key, because the strings of a request point into the
// buffer of its message.
func (k requestKey) clone() requestKey {
	k.Method, k.Tool, k.ResultType = strings.Clone(k.Method), strings.Clone(k.Tool), strings.Clone(k.ResultType)
	k.Upstream = strings.Clone(k.Upstream)
	return k
}

type remembered struct {
	key      requestKey
	decision Decision
	observed []Observed
}

// NewMemory returns an empty cache for the decisions of a Set.
func NewMemory(rules *Set) *Memory { return &Memory{rules: rules, seed: maphash.MakeSeed()} }

// UsesUpstream is [Set.UsesUpstream].
func (m *Memory) UsesUpstream() bool { return m.rules.UsesUpstream() }

// UsesLabels is [Set.UsesLabels].
func (m *Memory) UsesLabels() bool { return m.rules.UsesLabels() }

// UsesURI is [Set.UsesURI].
func (m *Memory) UsesURI() bool { return m.rules.UsesURI() }

// DecideFlow is [Set.DecideFlow].
func (m *Memory) DecideFlow(q *Request) *Rule { return m.rules.DecideFlow(q) }

// JudgesServers is [Set.JudgesServers].
func (m *Memory) JudgesServers() bool { return m.rules.JudgesServers() }

// Decide returns the decision for q.
func (m *Memory) Decide(q *Request) Decision {
	decision, _ := m.Observe(q)
	return decision
}

// Observe returns the decision for q, and the rules in mode observe that would have
// decided before. The list must not be changed.
func (m *Memory) Observe(q *Request) (Decision, []Observed) {
	key, ok := m.rules.keyOf(q)
	if !ok {
		decision := m.rules.decide(q)
		return decision, m.rules.Observed(q, decision)
	}
	h := maphash.String(m.seed, key.Tool) ^ maphash.String(m.seed, key.Method)<<1
	if key.Upstream != "" {
		h ^= maphash.String(m.seed, key.Upstream) << 2
	}
	h ^= uint64(key.Labels) << 32
	slot := &m.slots[h%memorySlots]
	if r := slot.Load(); r != nil && r.key == key {
		return r.decision, r.observed
	}
	decision := m.rules.decide(q)
	observed := m.rules.Observed(q, decision)
	if decision.ByArguments || q.readArguments {
		// The next request with this key may have other arguments. Which rules are
		// evaluated before the first that reads arguments is the same for all of them.
		return decision, observed
	}
	slot.Store(&remembered{key: key.clone(), decision: decision, observed: observed})
	return decision, observed
}
