package audit

import "bytes"

// FastLine holds the fields that [FastLine.Read] finds in the line of a request, as
// slices of the line; absent fields are empty. Strings are without quotes, numbers are
// the text of the line. A reader of every line, such as the reporter, scans each line
// once and copies nothing.
type FastLine struct {
	Time, Kind, RequestID, Action, RuleID, ErrorKind, RPC, Method, Tool []byte
	Principal, ClientName, ClientVersion                                []byte
	Agent, Environment, Session, Status, Duration, InjectionScore       []byte
	IsError                                                             bool

	// Spans are the spans of the line; the first NumSpans elements are set.
	Spans    [8]FastSpan
	NumSpans int
}

// FastSpan is a stage of a request and its duration in milliseconds.
type FastSpan struct{ Stage, Duration []byte }

// Read scans the line, which may end in a line feed. It returns false for every line that
// is not of the common form: a line with an escaped character, with a list other than
// spans, or not written by the encoder. Use [Decode] for these lines. Where both accept a
// line they return the same values; Read does not validate the members that it skips.
func (g *FastLine) Read(line []byte) bool {
	*g = FastLine{}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' || bytes.IndexByte(line, '\\') >= 0 {
		return false
	}
	in := cursor{line[1 : len(line)-1]}
	for {
		name, ok := in.text()
		if !ok || !in.take(':') || len(in.rest) == 0 {
			return false
		}
		switch in.rest[0] {
		case '"':
			value, ok := in.text()
			if !ok {
				return false
			}
			if field := g.text(name); field != nil {
				*field = value
			}
		case '[':
			if string(name) != "spans" || !g.spans(&in) {
				return false
			}
		case '{':
			if string(name) != "client" || !g.client(&in) {
				return false
			}
		default:
			g.scalar(name, in.scalar())
		}
		if len(in.rest) == 0 {
			return true
		}
		if !in.take(',') {
			return false
		}
	}
}

// text returns the field of a member that is a string.
func (g *FastLine) text(name []byte) *[]byte {
	switch string(name) {
	case "ts":
		return &g.Time
	case "kind":
		return &g.Kind
	case "request_id":
		return &g.RequestID
	case "action":
		return &g.Action
	case "rule_id":
		return &g.RuleID
	case "error_kind":
		return &g.ErrorKind
	case "rpc":
		return &g.RPC
	case "method":
		return &g.Method
	case "tool":
		return &g.Tool
	case "principal":
		return &g.Principal
	case "agent":
		return &g.Agent
	case "environment":
		return &g.Environment
	case "session":
		return &g.Session
	}
	return nil
}

// scalar stores a member that is a number or a boolean.
func (g *FastLine) scalar(name, value []byte) {
	switch string(name) {
	case "status":
		g.Status = value
	case "duration_ms":
		g.Duration = value
	case "injection_score":
		g.InjectionScore = value
	case "is_error":
		g.IsError = string(value) == "true"
	}
}

// spans parses the list of spans.
func (g *FastLine) spans(in *cursor) bool {
	for in.rest = in.rest[1:]; ; g.NumSpans++ {
		if g.NumSpans == len(g.Spans) || !in.skip(`{"stage":`) {
			return false
		}
		stage, ok := in.text()
		if !ok || !in.skip(`,"duration_ms":`) {
			return false
		}
		s := &g.Spans[g.NumSpans]
		s.Stage, s.Duration = stage, in.scalar()
		if !in.take('}') {
			return false
		}
		if in.take(']') {
			g.NumSpans++
			return true
		}
		if !in.take(',') {
			return false
		}
	}
}

// client parses the name and the version of the client.
func (g *FastLine) client(in *cursor) (ok bool) {
	if !in.skip(`{"name":`) {
		return false
	}
	if g.ClientName, ok = in.text(); !ok || !in.skip(`,"version":`) {
		return false
	}
	g.ClientVersion, ok = in.text()
	return ok && in.take('}')
}

// cursor scans a line that contains no escapes.
type cursor struct{ rest []byte }

func (c *cursor) take(b byte) bool {
	if len(c.rest) == 0 || c.rest[0] != b {
		return false
	}
	c.rest = c.rest[1:]
	return true
}

func (c *cursor) skip(s string) bool {
	if len(c.rest) < len(s) || string(c.rest[:len(s)]) != s {
		return false
	}
	c.rest = c.rest[len(s):]
	return true
}

// text skips a string and returns the bytes between its quotes.
func (c *cursor) text() ([]byte, bool) {
	if len(c.rest) < 2 || c.rest[0] != '"' {
		return nil, false
	}
	n := bytes.IndexByte(c.rest[1:], '"')
	if n < 0 {
		return nil, false
	}
	s := c.rest[1 : n+1]
	c.rest = c.rest[n+2:]
	return s, true
}

// scalar skips a number or a literal.
func (c *cursor) scalar() []byte {
	n := 0
	for n < len(c.rest) && c.rest[n] != ',' && c.rest[n] != '}' && c.rest[n] != ']' {
		n++
	}
	s := c.rest[:n]
	c.rest = c.rest[n:]
	return s
}
