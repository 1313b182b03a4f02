package govern

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/mcp"
)

// Input is one message on its way.
type Input struct {
	// Message is the message, scanned.
	Message *mcp.Message
	// Tool is the tool that is called, or whose answer this is; HasTool says that
	// there is one.
	Tool    string
	HasTool bool
	// AnyTool says that nobody knows which tool's answer this is: it is taken for
	// one of any.
	AnyTool bool
	// Now tells the time.
	Now func() time.Time
}

// Verdict is what the policies of an agent say of a message.
type Verdict struct {
	// Fired are the policies whose conditions hold, oldest first.
	Fired []*Policy
	// Block is the oldest of them that blocks; nil when none does.
	Block *Policy
	// Score is the highest injection score of the texts, 0 when none was asked for.
	Score float64
	// Entities are those that were found, in alphabetical order.
	Entities []string
	// Changed says that Redacted takes the place of the message.
	Changed  bool
	Redacted mcp.Message
	// Err says why what was found cannot be taken out: the message must not go on.
	// It never holds text of the message.
	Err      error
	unscored bool // some text was beyond the bound
	// Scan is how long texts were looked at, all how long everything took.
	Scan, All time.Duration
}

// maxScored bounds the text of one message that is scored, in bytes: scoring is
// by far the dearest of what policies ask for.
const maxScored = 4 << 20

// ErrTooMuchText says that a message holds more text than is scored, and that a
// policy would block or redact by the score.
var ErrTooMuchText = errors.New("the message holds more text than can be scored")

// finding is a text with something in it that a policy may ask for.
type finding struct {
	text    mcp.Text
	value   []byte
	matches []Match
	score   float64
}

// Judge asks the policies of a phase about a message: all that match apply, any
// block wins, redactions add up, warnings are told (design, governance). It is
// safe for concurrent use and keeps nothing of the input; a verdict's Redacted
// may share memory with it.
func (s *Set) Judge(phase Phase, in *Input) (v Verdict) {
	if s.Empty(phase) {
		return v
	}
	side := &s.sides[phase]
	began := in.Now()
	var found []finding
	if s.Scans(phase) {
		found = s.look(side, in.Message, &v)
		v.Scan = in.Now().Sub(began)
	}
	redacts := false
	for _, p := range side.policies {
		if !s.holds(p, in, &v) {
			continue
		}
		v.Fired = append(v.Fired, p)
		if p.Action == Block && v.Block == nil {
			v.Block = p
		}
		redacts = redacts || p.Action == Redact
	}
	if redacts && v.Block == nil && len(found) > 0 {
		v.Err = s.redact(phase, in.Message, found, &v)
	}
	if v.unscored && side.mustScore && v.Block == nil && v.Err == nil {
		v.Err = ErrTooMuchText
	}
	v.All = in.Now().Sub(began)
	return v
}

// holds reports whether the condition of a policy holds. Conditions that look at
// nothing of the message spare what keeps a session in order: a ping, and a
// cancellation, which ends work.
func (s *Set) holds(p *Policy, in *Input, v *Verdict) bool {
	switch p.condition {
	case injectionScore:
		return v.Score >= p.threshold
	case piiDetected:
		return slices.ContainsFunc(v.Entities, p.covers)
	case toolName:
		return in.AnyTool || in.HasTool && p.matchesTool(in.Tool)
	}
	if m := in.Message.Method; m == mcp.MethodPing || m == mcp.NotificationCancelled {
		return false
	}
	return p.condition == always || s.overBudget(in.Now())
}

// look looks at every text of a message once, for all policies.
func (s *Set) look(side *side, m *mcp.Message, v *Verdict) []finding {
	var found []finding
	var scratch []Match
	name, meant := "", false // of the member whose value comes; whether it is one of _meta
	scored := 0
	meta := m.Spans.Meta
	inner := m.Spans.Params
	if m.Kind == mcp.Response {
		if inner = m.Spans.Result; m.IsError {
			inner = m.Spans.Error
		}
	}
	// All of the body goes on, so all of it is looked at: members that no revision
	// knows stand beside params and result too.
	for texts := mcp.TextsIn(m.Body, mcp.Span{End: len(m.Body)}); ; {
		text, ok := texts.Next()
		if !ok {
			return found
		}
		f := finding{text: text, value: mcp.TextValue(text.At.Of(m.Body))}
		member := ""
		switch {
		case text.At == m.Spans.ID, text.At == m.Spans.Method, outside(text.At, inner) && envelope(f.value):
			continue
		case text.Kind == mcp.TextName:
			name = mcp.TextAlias(text.At.Of(m.Body)) // for as long as the body is looked at
			meant = text.At.Start >= meta.Start && text.At.End <= meta.End
		case meant && protocolOwn(name, f.value):
			continue
		default:
			member = name
		}
		switch {
		case text.Kind == mcp.TextNumber:
			f.value = plainNumber(f.value)
		case text.At == m.Spans.URI && bytes.IndexByte(f.value, '%') >= 0:
			f.value = plainURI(f.value)
		}
		if side.scanner != nil {
			scratch = side.scanner.Scan(scratch[:0], member, f.value)
			f.matches = slices.Clone(scratch)
			for _, match := range scratch {
				if i, known := slices.BinarySearch(v.Entities, match.Entity); !known {
					v.Entities = slices.Insert(v.Entities, i, match.Entity)
				}
			}
		}
		if side.injection && text.Kind != mcp.TextNumber {
			if scored += len(f.value); scored > maxScored {
				v.unscored = true
			} else {
				f.score = s.detectors.Injection(f.value)
				v.Score = max(v.Score, f.score)
			}
		}
		if len(f.matches) > 0 || f.score > 0 {
			found = append(found, f)
		}
	}
}

// outside reports whether a text does not stand in a part of a body.
func outside(at, part mcp.Span) bool { return at.Start < part.Start || at.End > part.End }

// envelope reports whether a text is one that every message has. Its name comes
// before that of a member that counts, whose own name takes its place.
func envelope(value []byte) bool {
	switch string(value) {
	case "jsonrpc", "2.0", "id", "method", "params", "result", "error":
		return true
	}
	return false
}

// protocolOwn reports whether a member of _meta holds what the protocol puts
// there: digits and letters that mean nothing to a detector, and that must stay.
// A value of another form is one of the sender's own.
func protocolOwn(name string, value []byte) bool {
	switch name {
	case mcp.MetaProtocolVersion:
		return len(value) == len(mcp.Revision20250618) && only(value, "-")
	case "traceparent":
		return len(value) == 55 && only(value, "-")
	case mcp.MetaSubscriptionID, "tracestate":
		return len(value) <= maxOwn && only(value, "-_*/@=,:;.~+%")
	}
	return false
}

// maxOwn bounds what the protocol itself writes into one text, in bytes: a list
// of tracestate is the longest.
const maxOwn = 512

// only reports whether a value is of letters and digits of ASCII, and some other
// characters.
func only(value []byte, others string) bool {
	for _, c := range value {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// plainURI returns a uri without its percent escapes, which hide no more than
// those of JSON do. One that is taken apart is never put together again: a uri
// must stay as it is.
func plainURI(b []byte) []byte {
	if plain, err := url.PathUnescape(string(b)); err == nil {
		return []byte(plain)
	}
	return b
}

// maxPlain bounds a number that is written out.
const maxPlain = 64

// plainNumber returns a number without fraction and exponent where it is an
// integer, so that 4.2e1 does not hide 42; else as it is written.
func plainNumber(b []byte) []byte {
	if !bytes.ContainsAny(b, ".eE") {
		return b
	}
	s := string(b)
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	shift, err := strconv.Atoi("0" + strings.TrimLeft(exponent, "+-"))
	if err != nil || shift > maxPlain {
		return b
	}
	zeros := strings.Repeat("0", shift)
	switch {
	case strings.HasPrefix(exponent, "-"):
		if fraction == "" && strings.HasSuffix(whole, zeros) && len(whole) > shift {
			return []byte(whole[:len(whole)-shift])
		}
	case shift >= len(fraction) && len(whole)+shift <= maxPlain:
		sign, digits := "", whole+fraction+zeros[len(fraction):]
		if digits[0] == '-' {
			sign, digits = "-", digits[1:]
		}
		return []byte(sign + strings.TrimLeft(digits[:len(digits)-1], "0") + digits[len(digits)-1:])
	}
	return b
}
