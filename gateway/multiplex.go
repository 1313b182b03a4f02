package gateway

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
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
		return []byte(string(rune(tagPost)) + tagSeparator + tagName(src.up.name) + tagSeparator + string(id))
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
	name, rest, ok := strings.Cut(after, tagSeparator)
	if !ok {
		return "", "", false
	}
	upstream, ok = untagName(name)
	return upstream, rest, ok
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
		if mcp.ValidID(at.Of(body)) { // nothing else comes back
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

// tagName is the name of an upstream as it stands in a tag: without the
// separator.
func tagName(upstream string) string {
	if !strings.ContainsAny(upstream, "%"+tagSeparator) {
		return upstream
	}
	return tagNames.Replace(upstream)
}

var tagNames = strings.NewReplacer("%", "%25", tagSeparator, "%7E")

// untagName reads what tagName made.
func untagName(text string) (upstream string, ok bool) {
	upstream, err := url.PathUnescape(text)
	return upstream, err == nil && upstream != ""
}

// tagValue returns a JSON string that names the upstream and holds the value
// as it was written.
func tagValue(upstream string, raw []byte) []byte {
	return mcp.AppendString(nil, tagMark+tagSeparator+tagName(upstream)+tagSeparator+string(raw))
}

// untagValue reads what tagValue made. tagged is set for every string that begins
// like a tag; ok is false when the gateway cannot have issued that tag, because it
// holds something else than one whole string or integer. Only a value that is ok
// may be put back into a message.
func untagValue(raw []byte) (upstream string, value []byte, tagged, ok bool) {
	text, isString := mcp.StringValue(raw)
	if !isString {
		return "", nil, false, false
	}
	text, tagged = strings.CutPrefix(text, tagMark+tagSeparator)
	if !tagged {
		return "", nil, false, false
	}
	name, rest, found := strings.Cut(text, tagSeparator)
	upstream, ok = untagName(name)
	value = []byte(rest)
	return upstream, value, true, found && ok && mcp.ValidID(value)
}

// Error kinds of messages that refer to something that was never issued.
const (
	kindUnknownResponse = "unknown_response" // the answer to a request that no upstream made
	kindUnknownProgress = "unknown_progress" // the progress of such a request
)

// untag finds the upstream of a client's answer to a server request, or of the
// progress of one, and removes the tag. It runs before the rules, so that they
// judge the message that is sent. A tag that was never issued is kept: such a
// message is judged like any other, but goes nowhere (see discard).
func (ex *exchange) untag() *refusal.Refusal {
	ex.untagged = true
	if ex.tagFor(tagPost) == tagNone {
		return nil
	}
	m := &ex.msg
	at, kind := m.Spans.ID, kindUnknownResponse
	switch {
	case m.Kind == mcp.Response:
	case m.Method == mcp.NotificationProgress:
		at, kind = m.Spans.ProgressToken, kindUnknownProgress
	default:
		return nil
	}
	name, value, tagged, ok := untagValue(at.Of(m.Body))
	if !tagged {
		return nil
	}
	t := ex.g.targets[name]
	if !ok || t == nil {
		ex.unknown = kind
		return nil
	}
	body := mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: value})
	if err := mcp.Scan(body, m); err != nil { // one value in the place of another: cannot happen
		return refusal.OfMessage(err)
	}
	ex.follows = t
	return nil
}

// discard acknowledges a message that refers to something that was never issued.
// An upstream would ignore it too, like an answer that comes too late.
func (ex *exchange) discard() *refusal.Refusal {
	ex.rec.ErrorKind = ex.unknown
	if err := ex.account(http.StatusAccepted, 0); err != nil {
		return &refusal.Audit
	}
	ex.w.WriteHeader(http.StatusAccepted)
	return nil
}

// follow finds the upstream of a client's message that belongs to one before it:
// what untag found, or where the request runs that is canceled. Without a trace of
// the one before it is for the default upstream.
func (ex *exchange) follow() *target {
	if ex.follows == nil && ex.msg.Method == mcp.NotificationCancelled && ex.tagFor(tagPost) != tagNone {
		return ex.targetOfCall(ex.msg.Spans.RequestID.Of(ex.msg.Body))
	}
	return ex.follows
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
