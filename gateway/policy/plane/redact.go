package plane

import (
	"encoding/json"
	"errors"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/detect"
)

// errUnredactable is the error for a match that cannot be redacted: in a member name, or in a value of which the output schema of the tool takes no redacted form.
var errUnredactable = errors.New("a match is in a member name, or where the tool's output schema takes nothing else, and cannot be redacted")

// edit is a text that is replaced.
type edit struct {
	f    *finding
	with []byte // as written in the message
	form form
}

// redact rewrites the string values in which policies found matches. Where several
// policies match the same text, the oldest decides the strategy.
func (s *Set) redact(phase Phase, in *Input, found []finding, v *Verdict) error {
	m := in.Message
	w := rewriter{set: s, phase: phase, by: redactorsOf(v.Fired, v.Entities), context: in.Tokens.TokenContext}
	if w.by.tokens {
		w.addressing = mcp.Addresses(m, in.Asked)
	}
	var ids []mcp.Span // numbers that name a request to the other side, once they are needed
	var edits []edit
	for i := range found {
		f := &found[i]
		text, changed := w.rewrite(f, asTokens)
		if !changed {
			continue
		}
		e := edit{f: f, with: mcp.AppendString(nil, string(text))}
		switch {
		case f.text.Kind == mcp.TextName:
			return errUnredactable
		case f.text.Kind == mcp.TextNumber:
			if ids == nil {
				ids = numericIDs(m)
			}
			if within(f.text.At, ids) {
				continue
			}
			if !w.fits(in, f) {
				e.form, e.with = asMask, w.maskNumber(asMask, f.value)
			}
		}
		edits = append(edits, e)
	}
	if len(edits) == 0 {
		return nil
	}
	if w.by.tokens && in.Tokens.Misfits != nil {
		if err := w.fit(in, edits); err != nil {
			return err
		}
	}
	splices := make([]mcp.Edit, len(edits))
	for i := range edits {
		splices[i] = mcp.Edit{At: edits[i].f.text.At, With: edits[i].with}
	}
	body := mcp.Splice(make([]byte, 0, len(m.Body)+64*len(edits)), m.Body, splices...)
	way := policy.ClientToServer
	if phase == Response {
		way = policy.ServerToClient
	}
	if err := policy.Rewritten(way, m, &v.Redacted, body); err != nil {
		return err
	}
	v.Changed = true
	for i := range edits {
		if edits[i].form == asTokens {
			w.count(edits[i].f, v)
		}
	}
	return nil
}

// numericIDs are the members with which a message refers to a request. They are left as they are:
// with another number the message would be about another request.
func numericIDs(m *mcp.Message) []mcp.Span {
	return []mcp.Span{mcp.Find(m.Body, m.Spans.Meta, "progressToken"), mcp.Find(m.Body, m.Spans.Params, "progressToken"), mcp.Find(m.Body, m.Spans.Params, "requestId")}
}

// injection is the entity name of a whole text that is redacted for its score.
const injection = "INJECTION"

// redactors are the policies that redact: those that redact whole texts by their score,
// oldest first, and for each entity the oldest policy that covers it.
type redactors struct {
	scores   []*Policy
	entities map[string]*Policy
	tokens   bool // one of entities replaces by tokens
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
					by.tokens = by.tokens || p.strategy == tokenStrategy
				}
			}
		}
	}
	return by
}

// rewriter redacts the texts of one message.
type rewriter struct {
	set        *Set
	phase      Phase
	by         redactors
	context    detect.TokenContext
	addressing []mcp.Span // where no tokens are written
}

// rewrite redacts one text. form is the form of the matches that are replaced by tokens.
func (w *rewriter) rewrite(f *finding, form form) (text []byte, changed bool) {
	s := w.set
	for _, p := range w.by.scores {
		if f.score >= p.threshold && len(f.value) > 0 {
			whole := []Match{{Entity: injection, Start: 0, End: len(f.value)}}
			return s.detectors.Redact(nil, f.value, whole, string(withoutTokens(p.strategy)), s.key), true
		}
	}
	from := 0
	for i := range f.matches {
		match := f.matches[i]
		p := w.by.entities[match.Entity]
		if p == nil || match.Start < from || match.End > len(f.value) || match.End <= match.Start ||
			p.strategy == tokenStrategy && within(f.text.At, w.addressing) {
			continue
		}
		text = append(text, f.value[from:match.Start]...)
		part := f.value[match.Start:match.End]
		one := []Match{{Entity: match.Entity, Start: 0, End: len(part)}}
		switch {
		case p.strategy != tokenStrategy:
			text = s.detectors.Redact(text, part, one, p.strategy, s.key)
		case form == asTokens && w.holds(part):
			text = s.tokens.Append(text, w.context, detect.Entity(match.Entity), part)
		case form == asTokens:
			text = s.detectors.Redact(text, part, one, string(detect.Hash), s.key)
		default:
			text = append(text, form.of(match.Entity, part)...)
		}
		from, changed = match.End, true
	}
	if !changed {
		return nil, false
	}
	return append(text, f.value[from:]...), true
}

// holds reports whether a token can hold a value. The gateway's own answers have no upstream to
// which it could be put back.
func (w *rewriter) holds(value []byte) bool {
	return w.set.tokens != nil && w.context.Upstream != "" && len(value) <= detect.MaxTokenValue
}

// count counts the tokens that replace the matches of a text.
func (w *rewriter) count(f *finding, v *Verdict) {
	from := 0
	for _, match := range f.matches {
		p := w.by.entities[match.Entity]
		if p == nil || match.Start < from || match.End > len(f.value) || match.End <= match.Start {
			continue
		}
		from = match.End
		if p.strategy == tokenStrategy && !within(f.text.At, w.addressing) && w.holds(f.value[match.Start:match.End]) {
			v.Tokens = counted(v.Tokens, match.Entity)
		}
	}
}

// tokenStrategy is the strategy that replaces a match by a token.
const tokenStrategy = string(detect.TokenStrategy)

// withoutTokens returns the strategy for values that no token can hold.
func withoutTokens(strategy string) detect.Strategy {
	if strategy == tokenStrategy {
		return detect.Hash
	}
	return detect.Strategy(strategy)
}

// RedactValue redacts a single value in a phase, when the fired policies redacted a part
// of its message: as a string, or as a number that is written like one.
func (s *Set) RedactValue(phase Phase, value string, number bool, fired []*Policy) string {
	f := finding{value: []byte(value)}
	if number {
		if !json.Valid(f.value) || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
			return value
		}
		f.value = plainNumber(f.value)
	}
	if side := &s.sides[phase]; side.scanner != nil {
		f.matches = side.scanner.Scan(nil, "", f.value)
	}
	if s.sides[phase].injection && !number {
		f.score = s.detectors.Injection(f.value)
	}
	var entities []string
	for _, m := range f.matches {
		entities = append(entities, m.Entity)
	}
	w := rewriter{set: s, phase: phase, by: redactorsOf(fired, entities)}
	switch text, changed := w.rewrite(&f, asTokens); {
	case !changed:
		return value
	case number:
		return string(w.maskNumber(asMask, f.value))
	default:
		return string(text)
	}
}
