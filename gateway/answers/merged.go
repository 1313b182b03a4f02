package answers

import (
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// ofParts takes an answer m that the gateway made of what several upstreams sent. Each part
// is judged as the answer of its own upstream: one that is refused is left out, and the
// others stay. What is the gateway's own in the answer is not judged (decision FED30).
func (r *Request) ofParts(at Moment, m *mcp.Message, parts func() *upstream.Parts, note func(*verdict.Result, *mcp.Message)) Taken {
	if at.Snapshot.Rules.JudgesServers() || !r.Input.Policies.Empty(govern.Response) {
		if mcp.Scan(r.join(at, parts(), note), m) != nil { // spliced of what was scanned: cannot happen
			return Taken{Result: verdict.Unreadable(), Final: true}
		}
	}
	at.Host.Score(m)
	t := Taken{Final: true, Body: m.Body}
	if r.Input.Asked.Method == mcp.MethodDiscover {
		t.Body, _ = r.Allowed.FilterSupported(m)
	}
	return t
}

// join judges the parts, and returns the answer made of what is left.
func (r *Request) join(at Moment, parts *upstream.Parts, note func(*verdict.Result, *mcp.Message)) []byte {
	one := *r
	one.Pins = nil // the upstreams' lists were compared when they were read
	one.Input.Filtered = true
	left := make([][]byte, len(parts.List))
	for i := range parts.List {
		part := &parts.List[i]
		body := append([]byte(`{"jsonrpc":"2.0","id":`), r.Input.Asked.ID...)
		body = append(append(append(body, `,"result":`...), part.Result...), '}')
		var m mcp.Message
		if mcp.Scan(body, &m) != nil {
			continue // it was scanned when it was read: cannot happen
		}
		one.Input.Upstream = part.Upstream
		t := one.take(Moment{Snapshot: at.Snapshot, Host: partHost{at.Host}}, &m, false, true, false)
		if t.Refused == nil {
			left[i] = m.Spans.Result.Of(m.Body)
		} else { // which does not deny the request
			t.LeaveOut(part.Upstream)
		}
		note(&t.Result, &m)
	}
	return parts.Join(left)
}

// partHost performs for a part of an answer: only the whole is scored.
type partHost struct{ verdict.Host }

func (partHost) Score(*mcp.Message) {}
