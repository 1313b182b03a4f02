package policy

import (
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"svc/gateway/mcp"
)

// errRedactInvalid is wrapped by the errors of [Rule.Redact]: the message must
// not be forwarded.
var errRedactInvalid = errors.New("the redacted message is not usable")

// substitution is a compiled entry of redact.
type substitution struct {
	re    *regexp.Regexp
	parts []part
	// groups is set when the replacement needs more of a match than its bounds. Then
	// atStart and atNext match at a known start of a match: the start of the text, or
	// after its first character.
	groups          bool
	atStart, atNext *regexp.Regexp
	// unknown lists groups of the replacement that the expression does not define.
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

// Redact applies the substitutions of a [Redact] rule to a message, in order, and parses
// the result into out. String escapes are first normalized to their shortest form, so
// that an escape cannot hide text from an expression; when no expression matches, the
// message is unchanged, byte for byte.
//
// d is the direction of the message. The result must be accepted by [Rewritten]; else the
// error wraps errRedactInvalid. The error never contains text of the message.
func (r *Rule) Redact(d Direction, m, out *mcp.Message) error {
	body := mcp.Canonicalize(nil, m.Body)
	changed := false
	for _, s := range r.substitutions {
		next, hit, ok := s.apply(body, mcp.MaxBody)
		if !ok {
			return fmt.Errorf("%w: the result is longer than %d bytes", errRedactInvalid, mcp.MaxBody)
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
		return fmt.Errorf("%w: %w", errRedactInvalid, err)
	}
	return nil
}

// Rewritten parses body into out as the new form of the message m, after a redaction or a
// guardrail's mask. The body must pass [mcp.Scan] and have at most [mcp.MaxBody] bytes.
// The error never contains text of the message.
//
// From client to server, body must keep the kind, id, method, tool or prompt name, uri,
// task id, declared versions, result type and subscription: the rules decided on these,
// and are not evaluated again. From server to client, it must keep the parts that client
// and gateway correlate the message by: kind, id, method, subscription, and the task ids,
// states and cursors that the client sends back.
func Rewritten(d Direction, m, out *mcp.Message, body []byte) error {
	if len(body) > mcp.MaxBody {
		return fmt.Errorf("the result is longer than %d bytes", mcp.MaxBody)
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

// changedEnvelope returns the name of a part that differs and must not differ in either
// direction, "" when there is none.
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

// changedReference returns the name of a changed part that the client sends back later,
// "" when there is none.
func changedReference(a, b *mcp.Message) string {
	if !mcp.SameReferences(a, b) {
		return "task id, request state or cursor"
	}
	return ""
}

// changedPart returns the name of a changed part that the rules decided on, "" when there
// is none.
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

// RedactParam returns the decoded value for a header that mirrors an argument
// (Mcp-Param-...), after [Rule.Redact] changed the message to redacted. keep is false
// when the value is no longer in the arguments and its substitute cannot be determined:
// the header must be dropped, because it would reveal the redacted value.
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

// unquote returns the value of a text that should be one JSON string.
func unquote(quoted []byte) (string, bool) {
	if !mcp.ValidString(quoted) {
		return "", false
	}
	return mcp.StringValue(quoted)
}

// apply replaces every match in src. hit reports whether there was a match; ok is false
// when the result would be longer than limit. The bound is checked before each
// replacement is written.
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
			ok = false // match is not a slice of src
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

// expand appends the replacement for the match of src from start to end, if the
// replacement is not longer than room.
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

// locate returns the bounds of the groups of the match of src from start to end, relative
// to offset. The text is first cut to the match and one character on each side, because
// an expression can look at no more than that outside of its match. If this finds another
// match, as an anchor at the cut may, locate uses the whole rest.
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
