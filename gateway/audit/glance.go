package audit

import "bytes"

// Glance is what [Glance.Read] takes from the line of a request: parts of the
// line, empty where it does not say. Strings are what stands between the
// quotes, numbers as they are written. It lets those that read every line, as
// the reporter does, pass over it once and copy nothing.
type Glance struct {
	Time, Kind, RequestID, Action, RuleID, ErrorKind, RPC, Method, Tool []byte
	Agent, Environment, Session, Status, Duration, InjectionScore       []byte
	IsError                                                             bool

	// Spans are those of the line, the first Spanned of them.
	Spans   [8]GlanceSpan
	Spanned int
}

// GlanceSpan is a stage of a request and its milliseconds.
type GlanceSpan struct{ Stage, Duration []byte }

// Read takes the line apart, which may end in a line feed. It returns false for
// every line that is not quite usual: one with an escaped character, with lists
// beside the spans, of another form than the encoder gives. Those are left to
// [Decode]. From a line that both take they read the same; what Read passes over
// it does not check.
func (g *Glance) Read(line []byte) bool {
	*g = Glance{}
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
			return false
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
func (g *Glance) text(name []byte) *[]byte {
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
	case "agent":
		return &g.Agent
	case "environment":
		return &g.Environment
	case "session":
		return &g.Session
	}
	return nil
}

// scalar takes a member that is a number or a truth value.
func (g *Glance) scalar(name, value []byte) {
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

// spans reads the list of them.
func (g *Glance) spans(in *cursor) bool {
	for in.rest = in.rest[1:]; ; g.Spanned++ {
		if g.Spanned == len(g.Spans) || !in.skip(`{"stage":`) {
			return false
		}
		stage, ok := in.text()
		if !ok || !in.skip(`,"duration_ms":`) {
			return false
		}
		s := &g.Spans[g.Spanned]
		s.Stage, s.Duration = stage, in.scalar()
		if !in.take('}') {
			return false
		}
		if in.take(']') {
			g.Spanned++
			return true
		}
		if !in.take(',') {
			return false
		}
	}
}

// cursor passes over a line in which nothing is escaped.
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

// text passes over a string and returns what stands between its quotes.
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

// scalar passes over a number or a word.
func (c *cursor) scalar() []byte {
	n := 0
	for n < len(c.rest) && c.rest[n] != ',' && c.rest[n] != '}' && c.rest[n] != ']' {
		n++
	}
	s := c.rest[:n]
	c.rest = c.rest[n:]
	return s
}
