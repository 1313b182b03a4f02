package govern

import (
	"errors"

	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// ErrUnredactable is the error for a match that cannot be redacted: in a member name or a
// number (decision GOV5).
var ErrUnredactable = errors.New("a match is in a member name or a number, which cannot be redacted")

// redact rewrites the string values in which policies found matches. Where several
// policies match the same text, the oldest decides the strategy (decision GOV7).
func (s *Set) redact(phase Phase, m *mcp.Message, found []finding, v *Verdict) error {
	var edits []mcp.Edit
	by := redactorsOf(v.Fired, v.Entities)
	for i := range found {
		f := &found[i]
		text, changed := s.rewrite(f, &by)
		if !changed {
			continue
		}
		if f.text.Kind != mcp.TextString {
			return ErrUnredactable
		}
		edits = append(edits, mcp.Edit{At: f.text.At, With: mcp.AppendString(nil, string(text))})
	}
	if len(edits) == 0 {
		return nil
	}
	body := mcp.Splice(make([]byte, 0, len(m.Body)+64*len(edits)), m.Body, edits...)
	way := policy.ClientToServer
	if phase == Response {
		way = policy.ServerToClient
	}
	if err := policy.Rewritten(way, m, &v.Redacted, body); err != nil {
		return err
	}
	v.Changed = true
	return nil
}

// injection is the entity name of a whole text that is redacted for its score (decision
// GOV6).
const injection = "INJECTION"

// redactors are the policies that redact: those that redact whole texts by their score,
// oldest first, and for each entity the oldest policy that covers it.
type redactors struct {
	scores   []*Policy
	entities map[string]*Policy
}

// redactorsOf returns the redactors of the fired policies.
func redactorsOf(fired []*Policy, entities []string) redactors {
	by := redactors{entities: make(map[string]*Policy, len(entities))}
	for _, p := range fired {
		switch {
		case p.Action != Redact:
		case p.condition == injectionScore:
			by.scores = append(by.scores, p)
		default:
			for _, e := range entities {
				if by.entities[e] == nil && p.covers(e) {
					by.entities[e] = p
				}
			}
		}
	}
	return by
}

// rewrite redacts one text.
func (s *Set) rewrite(f *finding, by *redactors) (text []byte, changed bool) {
	for _, p := range by.scores {
		if f.score >= p.threshold && len(f.value) > 0 {
			whole := []Match{{Entity: injection, Start: 0, End: len(f.value)}}
			return s.detectors.Redact(nil, f.value, whole, p.strategy, s.key), true
		}
	}
	from := 0
	for i := range f.matches {
		match := f.matches[i]
		p := by.entities[match.Entity]
		if p == nil || match.Start < from || match.End > len(f.value) || match.End <= match.Start {
			continue
		}
		text = append(text, f.value[from:match.Start]...)
		part := f.value[match.Start:match.End]
		one := []Match{{Entity: match.Entity, Start: 0, End: len(part)}}
		text = s.detectors.Redact(text, part, one, p.strategy, s.key)
		from, changed = match.End, true
	}
	if !changed {
		return nil, false
	}
	return append(text, f.value[from:]...), true
}

// RedactValue redacts a single value in a phase, when the fired policies redacted a part
// of its message.
func (s *Set) RedactValue(phase Phase, value string, fired []*Policy) string {
	f := finding{value: []byte(value)}
	if side := &s.sides[phase]; side.scanner != nil {
		f.matches = side.scanner.Scan(nil, "", f.value)
	}
	if s.sides[phase].injection {
		f.score = s.detectors.Injection(f.value)
	}
	var entities []string
	for _, m := range f.matches {
		entities = append(entities, m.Entity)
	}
	by := redactorsOf(fired, entities)
	if text, changed := s.rewrite(&f, &by); changed {
		return string(text)
	}
	return value
}
