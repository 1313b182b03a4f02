package otlp

import (
	"container/list"
	"sync"
)

// maxParts bounds the number of remembered parts. At 512 spans every five
// seconds that is ten minutes; a forgotten part may be counted twice.
const maxParts = 65_536

// parts remembers the usage of the parts of partial traces, and evicts the
// oldest trace first. It is in memory only: after a restart, tokens of
// requests in flight may be counted twice; none are lost.
type parts struct {
	mu     sync.Mutex
	max    int
	count  int
	traces map[partKey]*list.Element // of *partial
	order  *list.List                // oldest in front
}

type partKey struct {
	tenant string
	trace  traceID
}

type partial struct {
	key  partKey
	used map[spanID]usage
}

func newParts(limit int) *parts {
	return &parts{max: limit, traces: make(map[partKey]*list.Element), order: list.New()}
}

// add remembers a part. Adding the same part again, from a repeated request,
// changes nothing.
func (p *parts) add(tenant string, trace traceID, id spanID, u usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := partKey{tenant, trace}
	e, ok := p.traces[key]
	if !ok {
		e = p.order.PushBack(&partial{key, make(map[spanID]usage)})
		p.traces[key] = e
	}
	used := e.Value.(*partial).used
	if _, ok := used[id]; !ok {
		used[id] = u
		p.count++
	}
	for p.count > p.max && p.order.Len() > 0 {
		oldest := p.order.Remove(p.order.Front()).(*partial)
		p.count -= len(oldest.used)
		delete(p.traces, oldest.key)
	}
}

// sum returns the usage of the remembered parts of a trace, except the one
// with the span id.
func (p *parts) sum(tenant string, trace traceID, id spanID) usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	var total usage
	if e, ok := p.traces[partKey{tenant, trace}]; ok {
		for part, u := range e.Value.(*partial).used {
			if part != id {
				total.input += u.input
				total.output += u.output
				total.cacheRead += u.cacheRead
				total.cacheCreation += u.cacheCreation
				total.cost += u.cost
			}
		}
	}
	return total
}
