package policy

import (
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"svc/gateway/mcp"
)

// ErrRedactInvalid is wrapped by the errors of [Rule.Redact]: the message must
// not be forwarded.
var ErrRedactInvalid = errors.New("the redacted message is not usable")

// substitution is a compiled entry of redact.
type substitution struct {
	re    *regexp.Regexp
	parts []part
	// groups tells that the replacement needs more of a match than its
	// bounds. Then atStart and atNext match where a match is known to begin:
	// at the start of the text, or after its first character.
	groups          bool
	atStart, atNext *regexp.Regexp
	// unknown lists groups that the replacement names and the expression does
	// not have.
	unknown []string
}

// newSubstitution compiles an entry of redact.
func newSubstitution(c Substitution) (*substitution, error) {
	if c.JSONPath != nil {
		return nil, errors.New("jsonpath is reserved and not supported")
	}
	if c.Regex == "" {
		return nil, errors.New("the substitution has no regex")
	}
	return compileSubstitution(c)
}

// compileSubstitution compiles the expression and replacement of an entry.
func compileSubstitution(c Substitution) (*substitution, error) {
	re, err := regexp.Compile(c.Regex)
	if err != nil {
		return nil, err
	}
	s := &substitution{re: re}
	s.parts, s.unknown = parseTemplate(re, c.Replacement)
	for _, p := range s.parts {
		if p.group > 0 {
			s.groups = true
		}
	}
	if s.groups {
		if s.atStart, err = regexp.Compile(`\A(?:` + c.Regex + `)`); err != nil {
			return nil, err
		}
		if s.atNext, err = regexp.Compile(`\A(?s:.)(?:` + c.Regex + `)`); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Redact applies the substitutions of a [Redact] rule to a message, in order,
// and reads the result into out. String escapes are first rewritten to their
// shortest form, so that an escape cannot hide what an expression looks for;
// when no expression matches, the message stays as it was, byte for byte.
//
// d is the direction of the message. The result must be one that [Rewritten] takes;
// else the error wraps [ErrRedactInvalid]. It never holds text of the message.
func (r *Rule) Redact(d Direction, m, out *mcp.Message) error {
	body := mcp.Canonicalize(nil, m.Body)
	changed := false
	for _, s := range r.substitutions {
		next, hit, ok := s.apply(body, mcp.MaxBody)
		if !ok {
			return fmt.Errorf("%w: it is longer than %d bytes", ErrRedactInvalid, mcp.MaxBody)
		}
		if hit {
			body, changed = next, true
		}
	}
	if !changed {
		*out = *m
		return nil
	}
	if err := Rewritten(d, m, out, body); err != nil {
		return fmt.Errorf("%w: %w", ErrRedactInvalid, err)
	}
	return nil
}

// Rewritten reads body into out as what became of the message m, after a
// redaction or at the hands of a guardrail. It must pass [mcp.Scan] and be of at
// most [mcp.MaxBody] bytes. The error never holds text of the message.
//
// On its way up it must keep the kind, id, method, tool or prompt name, uri, task
// id, declared versions, result type and subscription: those were judged, and a
// rewriting does not go through the rules again. On its way down it must keep what
// client and gateway correlate it by: kind, id, method, subscription, and the task
// ids, states and cursors that the client sends back.
func Rewritten(d Direction, m, out *mcp.Message, body []byte) error {
	if len(body) > mcp.MaxBody {
		return fmt.Errorf("it is longer than %d bytes", mcp.MaxBody)
	}
	if err := mcp.Scan(body, out); err != nil {
		return err
	}
	what := changedEnvelope(m, out)
	switch {
	case what != "":
	case d == ServerToClient:
		what = changedReference(m, out)
	default:
		what = changedPart(m, out)
	}
	if what != "" {
		return fmt.Errorf("the %s changed", what)
	}
	return nil
}

// changedEnvelope names a part that differs and must not in either direction, ""
// when none does.
func changedEnvelope(a, b *mcp.Message) string {
	switch {
	case a.Kind != b.Kind || a.IsError != b.IsError:
		return "kind"
	case !mcp.SameID(a.ID, b.ID):
		return "id"
	case a.Method != b.Method:
		return "method"
	case a.SubscriptionID != b.SubscriptionID:
		return "subscription id"
	}
	return ""
}

// changedReference names what a client could no longer send back, "" when nothing
// is lost.
func changedReference(a, b *mcp.Message) string {
	if !mcp.SameReferences(a, b) {
		return "task id, request state or cursor"
	}
	return ""
}

// changedPart names a part of what was judged that differs, "" when none does.
func changedPart(a, b *mcp.Message) string {
	switch {
	case a.Name != b.Name || a.HasName != b.HasName:
		return "name"
	case a.URI != b.URI:
		return "uri"
	case a.TaskID != b.TaskID:
		return "task id"
	case a.ProtocolVersion != b.ProtocolVersion || a.InitializeVersion != b.InitializeVersion:
		return "protocol version"
	case a.ResultType != b.ResultType:
		return "result type"
	}
	return ""
}

// RedactParam returns the value for a header that mirrors an argument
// (Mcp-Param-...), decoded, after [Rule.Redact] made redacted of a message. keep
// is false when the value is gone from the arguments and what took its place
// cannot be told: the header must be dropped, or it would carry what was
// redacted.
func (r *Rule) RedactParam(redacted *mcp.Message, value string) (result string, keep bool) {
	quoted := mcp.AppendString(nil, value)
	for _, s := range r.substitutions {
		next, hit, ok := s.apply(quoted, mcp.MaxBody)
		if !ok {
			return "", false
		}
		if hit {
			quoted = next
		}
	}
	if plain, ok := unquote(quoted); ok && mcp.HasScalar(redacted.Body, redacted.Spans.Arguments, plain) {
		return plain, true
	}
	return value, mcp.HasScalar(redacted.Body, redacted.Spans.Arguments, value)
}

// unquote returns the value of what should be one JSON string.
func unquote(quoted []byte) (string, bool) {
	if !mcp.ValidString(quoted) {
		return "", false
	}
	return mcp.StringValue(quoted)
}

// apply replaces every match in src. hit tells whether there was one; ok is
// false when the result would be longer than limit. The bound holds while the
// result grows: no replacement is written before it is known to fit.
func (s *substitution) apply(src []byte, limit int) (out []byte, hit, ok bool) {
	room, end := limit, 0 // end of the last match
	var scratch []byte
	ok = true
	out = s.re.ReplaceAllFunc(src, func(match []byte) []byte {
		hit = true
		if !ok {
			return nil
		}
		start := cap(src) - cap(match)
		if start < end || start+len(match) > len(src) {
			ok = false // match is not a part of src
			return nil
		}
		room -= start - end
		end = start + len(match)
		scratch, ok = s.expand(scratch[:0], src, start, end, room)
		room -= len(scratch)
		return scratch
	})
	return out, hit, ok && (!hit || room >= len(src)-end)
}

// expand appends the replacement for the match of src from start to end, when
// that is not longer than room.
func (s *substitution) expand(dst, src []byte, start, end, room int) ([]byte, bool) {
	loc := []int(nil)
	offset := 0
	if s.groups {
		if loc, offset = s.locate(src, start, end); loc == nil {
			return dst, false
		}
	}
	for _, p := range s.parts {
		text := p.text
		var group []byte
		switch {
		case p.group == 0:
			group = src[start:end]
		case p.group > 0 && loc[2*p.group] >= 0:
			group = src[offset+loc[2*p.group] : offset+loc[2*p.group+1]]
		}
		if len(text)+len(group) > room-len(dst) {
			return dst, false
		}
		dst = append(append(dst, text...), group...)
	}
	return dst, true
}

// locate returns the bounds of the groups of the match of src from start to
// end, relative to offset. The text around the match is cut down to one
// character on each side, which is all that an expression can look at outside
// its match; when that finds another match, as an anchor at the cut may, the
// whole rest is taken.
func (s *substitution) locate(src []byte, start, end int) (loc []int, offset int) {
	re := s.atStart
	if start > 0 {
		_, n := utf8.DecodeLastRune(src[:start])
		re, offset = s.atNext, start-n
	}
	_, n := utf8.DecodeRune(src[end:])
	for _, to := range [...]int{end + n, len(src)} {
		loc = re.FindSubmatchIndex(src[offset:to])
		if loc != nil && offset+loc[1] == end {
			return loc, offset
		}
	}
	return nil, 0
}
