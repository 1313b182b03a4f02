package api

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// AppendJSON appends the batch byte for byte as encoding/json encodes it, but
// without reflection, because a gateway reports every request. It returns an
// error where encoding/json does, on numbers and times that JSON cannot
// represent, and then returns dst unchanged.
func (b *TraceBatch) AppendJSON(dst []byte) ([]byte, error) {
	if b.Traces == nil {
		return append(dst, `{"traces":null}`...), nil
	}
	e := encoder{b: append(dst, `{"traces":[`...)}
	for i := range b.Traces {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.trace(&b.Traces[i])
		if e.err != nil {
			return dst, fmt.Errorf("traces[%d]: %w", i, e.err)
		}
	}
	return append(e.b, "]}"...), nil
}

// AppendJSON appends the trace as encoding/json encodes it; see
// [TraceBatch.AppendJSON].
func (t *TraceInput) AppendJSON(dst []byte) ([]byte, error) {
	e := encoder{b: dst}
	e.trace(t)
	if e.err != nil {
		return dst, e.err
	}
	return e.b, nil
}

// encoder appends JSON to b and records the first error.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) trace(t *TraceInput) {
	e.open()
	e.optional(`"id":`, t.ID)
	e.optional(`"agentId":`, t.AgentID)
	e.optional(`"agentName":`, t.AgentName)
	e.name(`"status":`)
	e.text(t.Status)
	e.optional(`"environment":`, t.Environment)
	e.optional(`"sessionId":`, t.SessionID)
	e.optional(`"modelProvider":`, t.ModelProvider)
	e.optional(`"modelName":`, t.ModelName)
	e.count(`"inputTokens":`, t.InputTokens)
	e.count(`"outputTokens":`, t.OutputTokens)
	e.count(`"cacheReadTokens":`, t.CacheReadTokens)
	e.count(`"cacheCreationTokens":`, t.CacheCreationTokens)
	if t.CostUSD != nil {
		e.name(`"costUsd":`)
		e.number(*t.CostUSD)
	}
	e.name(`"durationMs":`)
	e.number(t.DurationMs)
	if t.InjectionScore != 0 {
		e.name(`"injectionScore":`)
		e.number(t.InjectionScore)
	}
	list(e, `"piiDetected":`, t.PIIDetected, func(s *string) { e.text(*s) })
	list(e, `"policiesFired":`, t.PoliciesFired, e.fired)
	if !t.CreatedAt.IsZero() {
		e.name(`"createdAt":`)
		e.time(t.CreatedAt)
	}
	list(e, `"qualityScores":`, t.QualityScores, e.score)
	list(e, `"spans":`, t.Spans, e.span)
	e.optional(`"toolName":`, t.ToolName)
	if t.Blocked {
		e.name(`"blocked":true`)
	}
	e.optional(`"requestId":`, t.RequestID)
	e.optional(`"principal":`, t.Principal)
	if c := t.Client; c != (TraceClient{}) {
		e.name(`"client":{"name":`)
		e.text(c.Name)
		e.name(`"version":`)
		e.text(c.Version)
		e.close()
	}
	e.optional(`"ruleId":`, t.RuleID)
	e.optional(`"reason":`, t.Reason)
	e.optional(`"errorKind":`, t.ErrorKind)
	if a := t.Approval; a != (TraceApproval{}) {
		e.name(`"approval":{"status":`)
		e.text(a.Status)
		e.optional(`"id":`, a.ID)
		e.optional(`"by":`, a.By)
		e.close()
	}
	list(e, `"labels":`, t.Labels, func(s *string) { e.text(*s) })
	list(e, `"sets":`, t.Sets, func(s *string) { e.text(*s) })
	e.close()
}

func (e *encoder) fired(p *PolicyFired) {
	e.open()
	e.name(`"id":`)
	e.text(p.ID)
	e.name(`"name":`)
	e.text(p.Name)
	e.name(`"action":`)
	e.text(p.Action)
	e.close()
}

func (e *encoder) score(q *QualityScore) {
	e.open()
	e.name(`"scorer":`)
	e.text(q.Scorer)
	e.name(`"score":`)
	e.number(q.Score)
	e.close()
}

func (e *encoder) span(s *Span) {
	e.open()
	e.name(`"stage":`)
	e.text(s.Stage)
	e.name(`"durationMs":`)
	e.number(s.DurationMs)
	e.close()
}

func (e *encoder) open()  { e.b = append(e.b, '{') }
func (e *encoder) close() { e.b = append(e.b, '}') }

// name begins a member. quoted is the encoded name with the colon.
func (e *encoder) name(quoted string) {
	if e.b[len(e.b)-1] != '{' {
		e.b = append(e.b, ',')
	}
	e.b = append(e.b, quoted...)
}

// optional writes a member unless s is empty.
func (e *encoder) optional(quoted, s string) {
	if s != "" {
		e.name(quoted)
		e.text(s)
	}
}

// count writes a member unless n is zero.
func (e *encoder) count(quoted string, n int64) {
	if n != 0 {
		e.name(quoted)
		e.b = strconv.AppendInt(e.b, n, 10)
	}
}

// list writes a member unless it has no entries.
func list[T any](e *encoder, quoted string, entries []T, entry func(*T)) {
	if len(entries) == 0 {
		return
	}
	e.name(quoted)
	for i := range entries {
		if i == 0 {
			e.b = append(e.b, '[')
		} else {
			e.b = append(e.b, ',')
		}
		entry(&entries[i])
	}
	e.b = append(e.b, ']')
}

// text writes a string. A string that needs escapes is encoded by encoding/json.
func (e *encoder) text(s string) {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			e.other(s)
			return
		}
	}
	e.b = append(e.b, '"')
	e.b = append(e.b, s...)
	e.b = append(e.b, '"')
}

// number writes a number. Numbers with an exponent, and those that encoding/json
// rejects, are encoded by encoding/json.
func (e *encoder) number(f float64) {
	if abs := math.Abs(f); f == 0 || abs >= 1e-6 && abs < 1e21 {
		e.b = strconv.AppendFloat(e.b, f, 'f', -1, 64)
		return
	}
	e.other(f)
}

func (e *encoder) time(t time.Time) {
	e.b = append(e.b, '"')
	b, err := t.AppendText(e.b)
	if err != nil {
		e.fail(err)
		return
	}
	e.b = append(b, '"')
}

// other encodes a value with encoding/json.
func (e *encoder) other(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		e.fail(err)
		return
	}
	e.b = append(e.b, b...)
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}
