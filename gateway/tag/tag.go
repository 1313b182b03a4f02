// Package tag rewrites what upstreams choose as names, where a session has several of
// them, so that each name leads back to its upstream.
package tag

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"sync"

	"svc/gateway/mcp"
)

// Where a session has several upstreams, three kinds of names that upstreams
// choose can collide: the ids of their requests to the client, the progress
// tokens in those, and the ids of events. On the way to the client each is
// rewritten to a tag that names its upstream; on the way back the tag says where
// the message goes, and is taken off again. The tag holds all there is to know,
// so that nothing is lost when the gateway restarts. With one upstream nothing
// is rewritten.

// Kind says on which kind of stream an event id was given out: a client that
// resumes behind it wants that stream to go on.
type Kind byte

const (
	None     Kind = 0
	Post     Kind = 'p' // the answer to a POST
	Standing Kind = 'g' // the standalone stream of GET, merged of several
)

const (
	mark      = "svc"
	separator = "~"
)

// Stream tags what one upstream sends on a stream.
type Stream struct {
	Kind     Kind
	Upstream string
	At       *Positions // of a merged stream
}

// Event turns an upstream's event id into the client's. On an answer to a POST
// it names the upstream. On the merged stream it holds how far the client has
// come at each of the upstreams, because the one id that a client resumes by
// must not lose what the others sent meanwhile.
func (s Stream) Event(id []byte) []byte {
	switch s.Kind {
	case Post:
		return []byte(string(rune(Post)) + separator + name(s.Upstream) + separator + string(id))
	case Standing:
		return []byte(string(rune(Standing)) + separator + s.At.move(s.Upstream, string(id)))
	}
	return id
}

// UntagPost reads the event id of an answer to a POST.
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

// maxPositions bounds the text of positions in bytes: it travels in a header.
const maxPositions = 4 << 10

// UntagStanding reads the event id of a merged stream; any other text is no
// position at all.
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

// Of returns the position at one upstream; empty where there is none.
func (p *Positions) Of(upstream string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at.Get(upstream)
}

// move sets the position at one upstream and returns the text of all. Where
// that would be too long the others are left out.
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

// Message names the upstream in what a server's message lets the client
// refer to. body is the message m as it goes on.
func (s Stream) Message(m *mcp.Message, body []byte) []byte {
	if s.Kind == None || m.Kind == mcp.Response {
		return body
	}
	var edits []mcp.Edit
	tag := func(at mcp.Span) {
		if mcp.ValidID(at.Of(body)) { // nothing else comes back
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

// name is the name of an upstream as tags contain it: without the
// separator.
func name(upstream string) string {
	if !strings.ContainsAny(upstream, "%"+separator) {
		return upstream
	}
	return names.Replace(upstream)
}

var names = strings.NewReplacer("%", "%25", separator, "%7E")

// untagName reads what tagName made.
func untagName(text string) (upstream string, ok bool) {
	upstream, err := url.PathUnescape(text)
	return upstream, err == nil && upstream != ""
}

// Value returns a JSON string that names the upstream and holds the value
// as it was written.
func Value(upstream string, raw []byte) []byte {
	return mcp.AppendString(nil, mark+separator+name(upstream)+separator+string(raw))
}

// UntagValue reads what tagValue made. tagged is set for every string that begins
// like a tag; ok is false when the gateway cannot have issued that tag, because it
// holds something else than one whole string or integer. Only a value that is ok
// may be put back into a message.
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
