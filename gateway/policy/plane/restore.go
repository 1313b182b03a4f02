package plane

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/detect"
)

// Count is a number of findings of an entity.
type Count struct {
	Entity string
	N      int
}

// counted adds one to the count of an entity. The entities are few.
func counted(list []Count, entity string) []Count {
	for i := range list {
		if list[i].Entity == entity {
			list[i].N++
			return list
		}
	}
	return append(list, Count{entity, 1})
}

// maxOpenings bounds the attempts to open the tokens of one message. A token takes one attempt for
// each upstream until that of its value is found; the upstream of the last token is tried first. A
// message that needs more is refused.
const maxOpenings = 40_000

// Restoring puts the values of tokens back into what an agent sends to an upstream. It is used for
// one message and what mirrors it, by one goroutine.
type Restoring struct {
	restoring detect.Restoring
	strict    bool // texts that only look like tokens are refused
	keyless   bool // no token can be opened: what could be one is refused
	put       []putBack
}

// putBack is a text of the message in which values were put back.
type putBack struct {
	at     int // its number among the texts, which later changes of texts leave as it is
	text   string
	values []putValue // in their order
}

type putValue struct{ entity, value string }

// Restoring returns what puts values back into the messages of an agent to an upstream. upstreams
// are the names of all, and to those to which values of any of them may go
// (control_plane.governance.restore_to). The key of tokens needs the bundle: with a nil one the
// result refuses what could be a token.
func (b *Bundle) Restoring(agent, upstream string, upstreams, to []string) *Restoring {
	r := &Restoring{keyless: b == nil}
	if b == nil || b.tokens == nil {
		return r
	}
	r.strict = b.makesTokens
	r.restoring = detect.Restoring{Tokens: b.tokens, Agent: agent, From: []string{upstream}, Left: maxOpenings}
	for _, name := range upstreams {
		switch {
		case name == upstream:
		case slices.Contains(to, upstream):
			r.restoring.From = append(r.restoring.From, name)
		default:
			r.restoring.Others = append(r.restoring.Others, name)
		}
	}
	return r
}

// Restored is what [Restoring.Message] has done.
type Restored struct {
	// Values are the values that were put back, Refused the first token that could not be.
	Values, Refused []Count
	// Fault is the reason for a refusal, empty for none, and Pointer the JSON Pointer of its
	// text in the message. The message must not be sent then.
	Fault   detect.TokenFault
	Pointer string
	// Err is set when the message with the values in it is not usable: it must not be sent.
	Err error
}

// MayRestore reports whether a message may have tokens, quickly.
func MayRestore(m *mcp.Message) bool {
	if m.Kind == mcp.Notification || m.Method == mcp.MethodInitialize {
		return false
	}
	return mayRestore(m.Body)
}

// mayRestore reports whether a part of a message has a tilde, or an escape that could be one.
func mayRestore(raw []byte) bool {
	return bytes.IndexByte(raw, '~') >= 0 || bytes.IndexByte(raw, '\\') >= 0 && bytes.Contains(raw, []byte(`\u007`))
}

// Message puts the values of tokens back into the message of a client, before anything judges it,
// so that rules and policies judge what would be sent. Names, URIs and other members by which the
// protocol addresses keep their tokens, which are refused there; opaque ones (_meta, cursors,
// requestState) are not looked into.
//
// While no policy makes tokens, a text that only looks like one is not refused, and while no
// bundle is known, only a text that could be one.
func (r *Restoring) Message(m *mcp.Message) (out Restored) {
	if r.restoring.Tokens == nil && !r.keyless {
		return out
	}
	inner := m.Spans.Params
	if m.Kind == mcp.Response {
		if inner = m.Spans.Result; m.IsError {
			inner = m.Spans.Error
		}
	}
	opaque := [...]mcp.Span{m.Spans.Meta, mcp.Find(m.Body, inner, "requestState"), mcp.Find(m.Body, inner, "cursor")}
	fixed := [...]mcp.Span{m.Spans.Name, m.Spans.URI, m.Spans.TaskID, mcp.Find(m.Body, inner, "ref")}
	var edits []mcp.Edit
	texts := mcp.TextsIn(m.Body, inner)
	for at := 0; out.Fault == ""; at++ {
		text, ok := texts.Next()
		if !ok {
			break
		}
		raw := text.At.Of(m.Body)
		if text.Kind == mcp.TextNumber || !mayRestore(raw) || within(text.At, opaque[:]) {
			continue
		}
		value, put := mcp.TextValue(raw), []putValue(nil)
		fault := func(f detect.Restored) (more bool) {
			switch {
			case f.Fault == "":
				put = append(put, putValue{string(f.Entity), string(f.Value)})
				out.Values = counted(out.Values, string(f.Entity))
			case r.strict || r.keyless || r.restoring.Left < 0:
				out.Refused = counted(out.Refused, string(f.Entity))
				out.Fault, out.Pointer = f.Fault, pointerTo(m.Body, text.At)
			}
			return out.Fault == "" // nothing is sent after a refusal
		}
		if r.keyless {
			if e, found := detect.HasWholeToken(value); found {
				fault(detect.Restored{Entity: e, Fault: detect.TokenInvalid})
			}
			continue
		}
		if text.Kind == mcp.TextName || within(text.At, fixed[:]) {
			if e, found := detect.HasToken(value); found {
				fault(detect.Restored{Entity: e, Fault: detect.TokenElsewhere})
			}
			continue
		}
		if restored := r.restoring.Restore(nil, value, fault); put != nil {
			r.put = append(r.put, putBack{at, string(restored), put})
			edits = append(edits, mcp.Edit{At: text.At, With: mcp.AppendString(nil, string(restored))})
		}
	}
	if out.Fault != "" {
		out.Values, r.put = nil, nil // nothing is sent
		return out
	}
	if len(edits) > 0 {
		var restored mcp.Message
		body := mcp.Splice(make([]byte, 0, len(m.Body)), m.Body, edits...)
		if out.Err = policy.Rewritten(policy.ClientToServer, m, &restored, body); out.Err == nil {
			*m = restored
		} else {
			r.put = nil
		}
	}
	return out
}

// values returns the values that were put back into texts of the parameters of the message, in
// their order. It may be called on nil.
func (r *Restoring) values(m *mcp.Message) map[mcp.Span][]putValue {
	if r == nil || len(r.put) == 0 {
		return nil
	}
	list, texts := map[mcp.Span][]putValue{}, mcp.TextsIn(m.Body, m.Spans.Params)
	for at, next := 0, 0; next < len(r.put); at++ {
		text, ok := texts.Next()
		if !ok {
			break
		}
		if at == r.put[next].at {
			list[text.At] = r.put[next].values
			next++
		}
	}
	return list
}

// Header puts the values of tokens back into a header field that mirrors a text of the message in
// which [Restoring.Message] put the same values back. Any other field remains as it is, because
// nothing would judge its values. token reports that the field had what looks like a token. It may
// be called on nil.
func (r *Restoring) Header(value string) (restored string, token bool) {
	plain, ok := mcp.DecodeHeader(value)
	if !ok {
		return value, false // nothing opens it
	}
	_, token = detect.HasToken([]byte(plain))
	if !token || r == nil || len(r.put) == 0 {
		return value, token
	}
	opened := string(r.restoring.Restore(nil, []byte(plain), func(detect.Restored) bool { return true }))
	if !slices.ContainsFunc(r.put, func(p putBack) bool { return p.text == opened }) {
		return value, true
	}
	return mcp.EncodeHeader(opened), true
}

// within reports whether a span is inside of one of several.
func within(at mcp.Span, list []mcp.Span) bool {
	return slices.ContainsFunc(list, func(s mcp.Span) bool { return s.Present() && at.Start >= s.Start && at.End <= s.End })
}

// maxPointer bounds the JSON Pointers of refusals, in bytes.
const maxPointer = 512

// pointerTo returns the JSON Pointer of a text in a message: of a value, or of the member whose
// name it is.
func pointerTo(body []byte, target mcp.Span) string {
	path := pathTo(body, mcp.Span{Start: bytes.IndexByte(body, '{'), End: len(body)}, target)
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(name))
	}
	p := b.String()
	return strings.ToValidUTF8(p[:min(len(p), maxPointer)], "")
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pathTo returns the names and indexes that lead from a part of a body to a text in it.
func pathTo(body []byte, at, target mcp.Span) (path []string) {
	for at.Present() && at != target {
		var items mcp.Items
		object := body[at.Start] == '{'
		switch {
		case object:
			items = mcp.Members(body, at)
		case body[at.Start] == '[':
			items = mcp.Elements(body, at)
		default:
			return path
		}
		found := false
		for i := 0; !found && items.Next(); i++ {
			v := items.Value()
			if v.End < target.End {
				continue
			}
			name := strconv.Itoa(i)
			if object {
				name = string(items.Name())
			}
			path = append(path, name)
			if target.Start < v.Start { // it is the name of this member
				return path
			}
			at, found = v, true
		}
		if !found {
			return path
		}
	}
	return path
}
