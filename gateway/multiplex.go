package gateway

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strings"
	"sync"

	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// Where a session has several upstreams, three kinds of names that upstreams
// choose can collide: the ids of their requests to the client, the progress
// tokens in those, and the ids of events. On the way to the client each is
// rewritten to a tag that names its upstream; on the way back the tag says where
// the message goes, and is taken off again. The tag holds all there is to know,
// so that nothing is lost when the gateway restarts. With one upstream nothing
// is rewritten.

// idTag says on which kind of stream an event id was given out: a client that
// resumes behind it wants that stream to go on.
type idTag byte

const (
	tagNone     idTag = 0
	tagPost     idTag = 'p' // the answer to a POST
	tagStanding idTag = 'g' // the standalone stream of GET, merged of several
)

const (
	tagMark      = "svc"
	tagSeparator = "~"
)

// tagFor returns the tag of a stream of this exchange: none where the session
// has one upstream.
func (ex *exchange) tagFor(t idTag) idTag {
	if ex.hasHandle && len(ex.g.targets) > 1 {
		return t
	}
	return tagNone
}

// tagEvent turns an upstream's event id into the client's. On an answer to a POST
// it names the upstream. On the merged stream it holds how far the client has
// come at each of the upstreams, because the one id that a client resumes by
// must not lose what the others sent meanwhile.
func (src *source) tagEvent(id []byte) []byte {
	switch src.tag {
	case tagPost:
		return []byte(string(rune(tagPost)) + tagSeparator + src.up.name + tagSeparator + string(id))
	case tagStanding:
		return []byte(string(rune(tagStanding)) + tagSeparator + src.at.move(src.up.name, string(id)))
	}
	return id
}

// untagPost reads the event id of an answer to a POST.
func untagPost(id string) (upstream, rest string, ok bool) {
	after, ok := strings.CutPrefix(id, string(rune(tagPost))+tagSeparator)
	if !ok {
		return "", "", false
	}
	return strings.Cut(after, tagSeparator)
}

// positions are the last event ids of the upstreams of a merged stream.
type positions struct {
	mu sync.Mutex
	at url.Values
}

// maxPositions bounds the text of positions in bytes: it travels in a header.
const maxPositions = 4 << 10

// untagStanding reads the event id of a merged stream; any other text is no
// position at all.
func untagStanding(id string) *positions {
	p := &positions{at: url.Values{}}
	after, ok := strings.CutPrefix(id, string(rune(tagStanding))+tagSeparator)
	if !ok || len(after) > maxPositions {
		return p
	}
	if at, err := url.ParseQuery(after); err == nil {
		p.at = at
	}
	return p
}

// of returns the position at one upstream; empty where there is none.
func (p *positions) of(upstream string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at.Get(upstream)
}

// move sets the position at one upstream and returns the text of all. Where
// that would be too long the others are left out.
func (p *positions) move(upstream, id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at.Set(upstream, id)
	text := p.at.Encode()
	if len(text) > maxPositions {
		text = url.Values{upstream: {id}}.Encode()
	}
	return text
}

// tagMessage names the upstream in what a server's message lets the client
// refer to. body is the message m as it goes on.
func (src *source) tagMessage(m *mcp.Message, body []byte) []byte {
	if src.tag == tagNone || m.Kind == mcp.Response {
		return body
	}
	var edits []mcp.Edit
	tag := func(at mcp.Span) {
		if at.Present() {
			edits = append(edits, mcp.Edit{At: at, With: tagValue(src.up.name, at.Of(body))})
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

// tagValue returns a JSON string that names the upstream and holds the value
// as it was written.
func tagValue(upstream string, raw []byte) []byte {
	return mcp.AppendString(nil, tagMark+tagSeparator+upstream+tagSeparator+string(raw))
}

// untagValue reads what tagValue made.
func untagValue(raw []byte) (upstream string, value []byte, ok bool) {
	if !bytes.HasPrefix(raw, []byte(`"`+tagMark+tagSeparator)) {
		return "", nil, false
	}
	text, ok := mcp.StringValue(raw)
	if !ok {
		return "", nil, false
	}
	upstream, rest, ok := strings.Cut(text[len(tagMark+tagSeparator):], tagSeparator)
	return upstream, []byte(rest), ok && rest != ""
}

// follow finds the upstream of a client's message that belongs to one before
// it: the answer to a server's request, the progress of one, the cancellation of
// the client's own. Tags are taken off; what was judged is otherwise what is
// sent. Without a trace of the one before it is for the default upstream.
func (ex *exchange) follow() (*target, *refusal) {
	if ex.tagFor(tagPost) == tagNone {
		return nil, nil
	}
	m := &ex.msg
	var at mcp.Span
	switch {
	case m.Kind == mcp.Response:
		at = m.Spans.ID
	case m.Method == mcp.NotificationProgress:
		at = m.Spans.ProgressToken
	case m.Method == mcp.NotificationCancelled:
		return ex.targetOfCall(m.Spans.RequestID.Of(m.Body)), nil
	default:
		return nil, nil
	}
	name, value, ok := untagValue(at.Of(m.Body))
	if !ok {
		return nil, nil
	}
	t, ok := ex.g.targets[name]
	if !ok {
		return nil, &refuseNoRoute
	}
	body := mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: value})
	if err := mcp.Scan(body, m); err != nil {
		return nil, refuseScan(err)
	}
	return t, nil
}

// postHeader is the header of a POST that the gateway makes by itself.
// hops is the value of upstream.HeaderHops.
func postHeader(s session.Opened, hops string) upstream.Header {
	h := upstream.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Accept", Value: "application/json, text/event-stream"},
	}
	return append(h, sessionHeader(s, hops)...)
}

// sessionHeader is the header that names a session and its revision.
func sessionHeader(s session.Opened, hops string) upstream.Header {
	return appendSession(upstream.Header{{Name: upstream.HeaderHops, Value: hops}}, s)
}

func appendSession(h upstream.Header, s session.Opened) upstream.Header {
	if s.ID != "" {
		h.Add(mcp.HeaderSession, s.ID)
	}
	if s.Version != "" {
		h.Add(mcp.HeaderProtocolVersion, s.Version)
	}
	return h
}
