package request

import (
	"sync"

	"svc/gateway/mcp"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/plane"
	"svc/gateway/request/verdict"
	"svc/gateway/upstream"
)

// ofParts handles an answer m that the gateway assembled from several upstreams' answers. Each
// part is judged as the answer of its own upstream: a refused part is omitted, and the others
// remain. The gateway's own content is not judged (decision FED30).
func (r *Answered) ofParts(at Moment, m *mcp.Message, parts func() *upstream.Parts, note func(*verdict.Result, *mcp.Message)) Taken {
	t := Taken{Final: true}
	labels := at.Flow != nil && (at.Flow.Scores() || r.Input.Asked.Method == mcp.MethodResourcesList || r.Input.Asked.Method == mcp.MethodSkillsList) // other lists set none
	if labels || at.Snapshot.Rules.JudgesServers() || !r.Input.Policies.Empty(plane.Response) {
		var body []byte
		body, t.Sets = r.join(at, parts(), note)
		if mcp.Scan(body, m) != nil { // assembled from scanned parts: cannot happen
			return Taken{Result: verdict.Unreadable(), Final: true}
		}
	}
	at.Host.Score(m)
	t.Body = m.Body
	if r.Input.Asked.Method == mcp.MethodDiscover {
		t.Body, _ = r.Allowed.FilterSupported(m)
	}
	return t
}

// maxAtOnce bounds the parts of one answer that wait for guardrails concurrently.
const maxAtOnce = 32

// part is one part of an answer and its verdict.
type part struct {
	upstream string
	message  mcp.Message
	taken    Taken
	scanned  bool
	failure  any // a panic of the goroutine that judged the part
}

// join judges the parts, and returns the answer assembled from those that remain. Parts that wait
// for guardrails are judged concurrently, all others one after the other, so that rate limits are
// taken in the order of the parts. note is called in that order, and the answer has it. sets are the
// labels of the parts that remain.
func (r *Answered) join(at Moment, parts *upstream.Parts, note func(*verdict.Result, *mcp.Message)) (body []byte, sets flow.Labels) {
	one := *r
	one.Pins = nil // the upstreams' lists were compared when they were read
	one.Input.Filtered = true
	one.Input.Snapshot = at.Snapshot
	all := make([]part, len(parts.List))
	var waiting sync.WaitGroup
	slots := make(chan struct{}, maxAtOnce)
	for i := range all {
		p := &all[i]
		p.upstream = parts.List[i].Upstream
		body := append([]byte(`{"jsonrpc":"2.0","id":`), r.Input.Asked.ID...)
		body = append(append(append(body, `,"result":`...), parts.List[i].Result...), '}')
		if p.scanned = mcp.Scan(body, &p.message) == nil; !p.scanned {
			continue // the part was scanned when it was read: cannot happen
		}
		of := one.of(p)
		if !of.Input.AwaitsGuardrail(&p.message) {
			of.judge(at, p)
			continue
		}
		slots <- struct{}{}
		waiting.Go(func() {
			defer func() {
				p.failure = recover()
				<-slots
			}()
			of.judge(at, p)
		})
	}
	waiting.Wait()
	left := make([][]byte, len(all))
	for i := range all {
		p := &all[i]
		if p.failure != nil {
			panic(p.failure) // panics in the goroutine of the request, which recovers it
		}
		if !p.scanned {
			continue
		}
		if p.taken.Refused == nil {
			sets |= p.taken.Sets
			left[i] = p.message.Spans.Result.Of(p.message.Body)
		} else { // a refused part does not deny the request
			p.taken.LeaveOut(p.upstream)
		}
		note(&p.taken.Result, &p.message)
	}
	return parts.Join(left), sets
}

// of returns the request for a part, with the part's upstream.
func (r *Answered) of(p *part) *Answered {
	one := *r
	one.Input.Upstream = p.upstream
	return &one
}

// judge judges a part.
func (r *Answered) judge(at Moment, p *part) {
	p.taken = r.take(Moment{Snapshot: at.Snapshot, Host: partHost{at.Host}, Flow: at.Flow}, &p.message, false, true, false)
}

// partHost is the host for a part of an answer: only the whole answer is scored.
type partHost struct{ verdict.Host }

func (partHost) Score(*mcp.Message) {}
