package gateway

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"svc/gateway/policy"
)

// decisionSlots bounds the memory of decisions: tool names come from outside.
const decisionSlots = 16384

// maxRemembered bounds the texts of one remembered request, in bytes.
const maxRemembered = 256

// decisions remembers what the rules of one snapshot said of requests that look
// the same to them, so that rules with expressions cost nothing for the calls
// that come again and again. Each request has one slot, chosen by a hash under a
// secret seed, and the last one in it stays: no lock, no eviction, and a stranger
// cannot find names that collide.
//
// The whole request is compared, so a slot never answers for another one.
// Callers with claims are always decided anew: claims are no small set.
type decisions struct {
	seed  maphash.Seed
	slots [decisionSlots]atomic.Pointer[remembered]
}

type remembered struct {
	method, tool, resultType string
	direction                policy.Direction
	hasTool                  bool
	decision                 policy.Decision
	observed                 []*policy.Rule
}

func newDecisions() *decisions { return &decisions{seed: maphash.MakeSeed()} }

// decide returns what rules say of q.
func (d *decisions) decide(rules *policy.Set, q *policy.Request) policy.Decision {
	decision, _ := d.observe(rules, q)
	return decision
}

// observe returns what rules say of q, and which rules that are not enforced
// would have had a say before. The list must not be changed.
func (d *decisions) observe(rules *policy.Set, q *policy.Request) (policy.Decision, []*policy.Rule) {
	if q.Claims != nil || len(q.Method)+len(q.Tool)+len(q.ResultType) > maxRemembered {
		decision := rules.Decide(q)
		return decision, rules.Observed(q, decision)
	}
	h := maphash.String(d.seed, q.Tool) ^ maphash.String(d.seed, q.Method)<<1
	slot := &d.slots[h%decisionSlots]
	if r := slot.Load(); r != nil && r.tool == q.Tool && r.method == q.Method && r.hasTool == q.HasTool &&
		r.direction == q.Direction && r.resultType == q.ResultType {
		return r.decision, r.observed
	}
	decision := rules.Decide(q)
	observed := rules.Observed(q, decision)
	slot.Store(&remembered{ // q's texts belong to the request's buffer
		method: strings.Clone(q.Method), tool: strings.Clone(q.Tool), resultType: strings.Clone(q.ResultType),
		direction: q.Direction, hasTool: q.HasTool, decision: decision, observed: observed,
	})
	return decision, observed
}
