package gateway

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"svc/gateway/audit"
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/quality"
	"svc/gateway/refusal"
	"svc/gateway/verdict"
)

// asking is how long guardrails were asked about a request, and about its
// answer.
type asking struct{ request, answer time.Duration }

// input is what the messages of this exchange are judged by.
func (ex *exchange) input(l *live, way policy.Direction, host verdict.Host) verdict.Input {
	return verdict.Input{
		Context: ex.ctx, Snapshot: &l.verdict, Direction: way, Caller: &ex.who.Principal,
		Limits: ex.g.limits, Now: ex.g.now, Host: host,
		Asked: &ex.msg, HasAsked: ex.hasMsg, Decided: ex.decision.Action, Policies: ex.governed.set,
		Modern: ex.dialect.Modern, Resumed: ex.r.Method == http.MethodGet,
	}
}

// judgeRequest judges what the client sends, and takes what was rewritten as the
// message from here on.
func (ex *exchange) judgeRequest() *refusal.Refusal {
	ex.judgedFrom = ex.now()
	in := ex.input(ex.live, policy.ClientToServer, requestHost{ex})
	j := verdict.Judge(&in, &ex.msg)
	ex.decision = j.Decision
	ex.asking.request = j.Said.Latency
	ex.governed.fired, ex.governed.changed = j.Governed.Fired, j.Governed.Changed
	ex.governed.scan += j.Governed.Scan
	ex.judging = ex.now().Sub(ex.judgedFrom) - j.Said.Latency - j.Governed.Scan - ex.governed.awaited
	ex.countAsked(&j)
	j.Note(&ex.rec, policy.Allow)
	if ex.rec.Action == "" {
		ex.rec.Action = audit.ActionAllow
	}
	return j.Refused
}

// judgeAnswer judges a plain answer, and notes the result in the request's record. m
// is what goes on.
func (ex *exchange) judgeAnswer(m *mcp.Message) verdict.Result {
	in := ex.input(ex.live, policy.ServerToClient, answerHost{ex})
	j := verdict.Judge(&in, m)
	ex.countAsked(&j)
	ex.noteGoverned(&j)
	ex.noteAnswer(&j, m)
	return j
}

// noteGoverned adds what policies found in a message that an upstream sent.
func (ex *exchange) noteGoverned(j *verdict.Result) {
	ex.governed.scan += j.Governed.Scan
	ex.governed.answer += j.Governed.All
	ex.judging += j.Governed.All - j.Governed.Scan
	j.Governed.Note(&ex.rec)
}

// noteAnswer adds what was decided about the answer to the request's record.
func (ex *exchange) noteAnswer(j *verdict.Result, m *mcp.Message) {
	ex.asking.answer += j.Said.Latency
	j.NoteAnswer(&ex.rec, ex.decision.Action, m)
}

// countAsked counts a callout: a request can make several, of frames too.
func (ex *exchange) countAsked(j *verdict.Result) {
	if m := ex.g.observer.metrics; m != nil && j.Guardrail != "" {
		m.Asked(j.Guardrail, string(j.Said.Verdict), j.Said.Latency)
	}
}

// requestHost performs for the judging of a request what that needs.
type requestHost struct{ *exchange }

func (h requestHost) Policies() (*govern.Set, *refusal.Refusal) {
	refused := h.underPolicies()
	if !h.governed.set.Empty(govern.Request) {
		h.governed.scanFrom = h.now()
	}
	return h.governed.set, refused
}

func (requestHost) Score(*mcp.Message) {}
func (requestHost) BeforeWait()        {}

// answerHost does so for a plain answer.
type answerHost struct{ *exchange }

func (h answerHost) Policies() (*govern.Set, *refusal.Refusal) { return h.governed.set, nil }
func (h answerHost) Score(m *mcp.Message)                      { h.grade(m) }
func (answerHost) BeforeWait()                                 {}

// stageQuality is the stage of a trace in which an answer was scored.
const stageQuality = "quality_score"

// grade scores the answer to a tool call against the output schema that its tool
// declares, for the trace. Schemas are learned from the lists of tools that pass,
// in the background. It does nothing where no traces are reported.
func (ex *exchange) grade(m *mcp.Message) {
	q := ex.g.quality
	if q == nil || ex.msg.Kind != mcp.Request || ex.up == nil {
		return
	}
	listed := ex.up.Name // the upstream whose lists declare the schemas
	if ex.g.federation != nil {
		listed = ex.g.defaultUpstream
	}
	switch ex.msg.Method {
	case mcp.MethodToolsCall:
		began := ex.now()
		if score, ok := q.Score(listed, ex.msg.Name, m); ok {
			ex.rec.QualityScores = append(ex.rec.QualityScores, audit.QualityScore{Scorer: quality.Scorer, Score: score})
			ex.graded = ex.now().Sub(began)
		}
	case mcp.MethodToolsList:
		if q.ShouldLearn(listed, m) {
			result := bytes.Clone(m.Spans.Result.Of(m.Body))
			ex.g.background.Run(func(context.Context) { q.Learn(listed, result) })
		}
	}
}
