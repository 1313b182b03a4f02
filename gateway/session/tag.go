package session

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"sync"

	"svc/gateway/mcp"
)

// In a session with several upstreams, three kinds of identifiers that upstreams
// choose can collide: the ids of their requests to the client, the progress tokens in
// these requests, and the ids of events. On the way to the client each is rewritten
// to a tag that names its upstream; on the way back the tag selects the upstream and
// is removed. The tag contains all data, so that it is still valid after a restart of
// the gateway. With one upstream nothing is rewritten.

// Kind is the kind of stream of an event id: a client that resumes after the id
// continues that stream.
type Kind byte

const (
	None     Kind = 0
	Post     Kind = 'p' // the response to a POST
	Standing Kind = 'g' // the standalone stream of GET, merged of several
)

const (
	mark      = "svc"
	separator = "~"
)

// Stream tags the frames of one upstream on a stream.
type Stream struct {
	Kind     Kind
	Upstream string
	At       *Positions // of a merged stream
}

// Event converts an upstream's event id into the client's. In a response to a POST it
// names the upstream. On the merged stream it contains the positions at all
// upstreams, because the client resumes from a single id, which must not lose frames
// of the other upstreams.
func (s Stream) Event(id []byte) []byte {
	switch s.Kind {
	case Post:
		return []byte(string(rune(Post)) + separator + tagName(s.Upstream) + separator + string(id))
	case Standing:
		return []byte(string(rune(Standing)) + separator + s.At.move(s.Upstream, string(id)))
	}
	return id
}

// UntagPost parses the event id of a response to a POST.
func UntagPost(id string) (upstream, rest string, ok bool) {
	after, ok := strings.CutPrefix(id, string(rune(Post))+separator)
	if !ok {
		return "", "", false
	}
	name, rest, ok := strings.Cut(after, separator)
	if !ok {
		return "", "", false
	}
	upstream, ok = untagName(name)
	return upstream, rest, ok
}

// Positions are the last event ids of the upstreams of a merged stream.
type Positions struct {
	mu sync.Mutex
	at url.Values
}

// maxPositions bounds the text of positions in bytes: it is sent in a header.
const maxPositions = 4 << 10

// UntagStanding parses the event id of a merged stream; any other text yields no
// position.
func UntagStanding(id string) *Positions {
	p := &Positions{at: url.Values{}}
	after, ok := strings.CutPrefix(id, string(rune(Standing))+separator)
	if !ok || len(after) > maxPositions {
		return p
	}
	if at, err := url.ParseQuery(after); err == nil {
		p.at = at
	}
	return p
}

// Of returns the position at one upstream; empty if there is none.
func (p *Positions) Of(upstream string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at.Get(upstream)
}

// move sets the position at one upstream and returns the text of all. If that would
// be too long, the other positions are dropped.
func (p *Positions) move(upstream, id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at.Set(upstream, id)
	text := p.at.Encode()
	if len(text) > maxPositions {
		text = url.Values{upstream: {id}}.Encode()
	}
	return text
}

// Message adds the upstream to the identifiers of a server's message that the client
// sends back. body is the forwarded form of message m.
func (s Stream) Message(m *mcp.Message, body []byte) []byte {
	if s.Kind == None || m.Kind == mcp.Response {
		return body
	}
	var edits []mcp.Edit
	tag := func(at mcp.Span) {
		if mcp.ValidID(at.Of(body)) { // the client sends back no other values
			edits = append(edits, mcp.Edit{At: at, With: Value(s.Upstream, at.Of(body))})
		}
	}
	switch {
	case m.Kind == mcp.Request:
		tag(m.Spans.ID)
		tag(m.Spans.ProgressToken)
	case m.Method == mcp.NotificationCancelled:
		tag(m.Spans.RequestID)
	default:
		return body
	}
	slices.SortFunc(edits, func(a, b mcp.Edit) int { return cmp.Compare(a.At.Start, b.At.Start) })
	return mcp.Splice(nil, body, edits...)
}

// tagName is the name of an upstream as tags contain it: without the
// separator.
func tagName(upstream string) string {
	if !strings.ContainsAny(upstream, "%"+separator) {
		return upstream
	}
	return names.Replace(upstream)
}

var names = strings.NewReplacer("%", "%25", separator, "%7E")

// untagName parses the result of tagName.
func untagName(text string) (upstream string, ok bool) {
	upstream, err := url.PathUnescape(text)
	return upstream, err == nil && upstream != ""
}

// Value returns a JSON string that names the upstream and contains the value as
// written.
func Value(upstream string, raw []byte) []byte {
	return mcp.AppendString(nil, mark+separator+tagName(upstream)+separator+string(raw))
}

// UntagValue parses the result of Value. tagged is set for every string with the
// prefix of a tag; ok is false when the gateway cannot have issued that tag, because
// its content is not exactly one string or integer. The value may be put into a
// message only if ok is true.
func UntagValue(raw []byte) (upstream string, value []byte, tagged, ok bool) {
	text, isString := mcp.StringValue(raw)
	if !isString {
		return "", nil, false, false
	}
	text, tagged = strings.CutPrefix(text, mark+separator)
	if !tagged {
		return "", nil, false, false
	}
	name, rest, found := strings.Cut(text, separator)
	upstream, ok = untagName(name)
	value = []byte(rest)
	return upstream, value, true, found && ok && mcp.ValidID(value)
}
