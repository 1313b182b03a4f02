package policy

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// memorySlots bounds the memory of decisions: tool names come from outside.
const memorySlots = 16384

// maxRemembered bounds the texts of one remembered request, in bytes.
const maxRemembered = 256

// Memory remembers what a Set decided about requests that look the same to it, so
// that rules with expressions cost nothing for the calls that come again and again.
// Each request has one slot, chosen by a hash under a secret seed, and the last one
// in it stays: no lock, no eviction, and a stranger cannot find names that collide.
//
// Requests of callers with claims are always decided anew: claims are no small set.
type Memory struct {
	rules *Set
	seed  maphash.Seed
	slots [memorySlots]atomic.Pointer[remembered]
}

// requestKey is all of a request that a decision depends on. A slot answers for the
// requests whose keys are equal to its own.
type requestKey struct {
	Direction  Direction
	Method     string
	Tool       string
	HasTool    bool
	ResultType string
}

// keyOf returns the key of a request; ok is false for one that is not remembered.
func keyOf(q *Request) (key requestKey, ok bool) {
	if q.Claims != nil || len(q.Method)+len(q.Tool)+len(q.ResultType) > maxRemembered {
		return requestKey{}, false
	}
	return requestKey{Direction: q.Direction, Method: q.Method, Tool: q.Tool, HasTool: q.HasTool, ResultType: q.ResultType}, true
}

// clone returns the key with texts of its own: those of a request belong to the
// buffer of its message.
func (k requestKey) clone() requestKey {
	k.Method, k.Tool, k.ResultType = strings.Clone(k.Method), strings.Clone(k.Tool), strings.Clone(k.ResultType)
	return k
}

type remembered struct {
	key      requestKey
	decision Decision
	observed []*Rule
}

// NewMemory returns an empty memory of what rules decide.
func NewMemory(rules *Set) *Memory { return &Memory{rules: rules, seed: maphash.MakeSeed()} }

// Decide returns what the rules decide about q.
func (m *Memory) Decide(q *Request) Decision {
	decision, _ := m.Observe(q)
	return decision
}

// Observe returns what the rules decide about q, and which rules that are not
// enforced would have decided before them. The list must not be changed.
func (m *Memory) Observe(q *Request) (Decision, []*Rule) {
	key, ok := keyOf(q)
	if !ok {
		decision := m.rules.Decide(q)
		return decision, m.rules.Observed(q, decision)
	}
	h := maphash.String(m.seed, key.Tool) ^ maphash.String(m.seed, key.Method)<<1
	slot := &m.slots[h%memorySlots]
	if r := slot.Load(); r != nil && r.key == key {
		return r.decision, r.observed
	}
	decision := m.rules.Decide(q)
	observed := m.rules.Observed(q, decision)
	slot.Store(&remembered{key: key.clone(), decision: decision, observed: observed})
	return decision, observed
}
