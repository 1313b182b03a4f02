package gateway

import (
	"net/http"
	"time"

	"svc/gateway/answers"
	"svc/gateway/audit"
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/quality"
	"svc/gateway/refusal"
	"svc/gateway/report"
	"svc/gateway/verdict"
)

// input is what the messages of this exchange are judged by.
func (ex *exchange) input(way policy.Direction) verdict.Input {
	return verdict.Input{
		Context: ex.ctx, Direction: way, Caller: &ex.who.Principal, Limits: ex.g.limits, Now: ex.g.now,
		Asked: &ex.msg, HasAsked: ex.hasMsg, Decided: ex.decision.Action, Policies: ex.governed.set,
		Modern: ex.dialect.Modern, Resumed: ex.r.Method == http.MethodGet, Translated: ex.rec.UpstreamDialect != "",
	}
}

// answers are what becomes of the messages of upstreams in answer to this request.
func (ex *exchange) answers() answers.Request {
	return answers.Request{
		Input: ex.input(policy.ServerToClient), Method: ex.r.Method, Allowed: ex.g.versions,
		Sessions: ex.g.sessions, Callouts: ex.g.callouts,
	}
}

// judgeRequest judges what the client sends, and takes what was rewritten as the
// message from here on.
func (ex *exchange) judgeRequest() *refusal.Refusal {
	ex.judgedFrom = ex.now()
	in := ex.input(policy.ClientToServer)
	in.Snapshot, in.Host = &ex.live.verdict, requestHost{ex}
	j := verdict.Judge(&in, &ex.msg)
	ex.decision = j.Decision
	ex.asking.request = j.Said.Latency
	ex.governed.fired, ex.governed.changed = j.Governed.Fired, j.Governed.Changed
	ex.governed.scan += j.Governed.Scan
	ex.judging = ex.now().Sub(ex.judgedFrom) - j.Said.Latency - j.Governed.Scan - ex.governed.awaited
	j.Count(ex.g.callouts)
	j.Note(&ex.rec, policy.Allow)
	if ex.rec.Action == "" {
		ex.rec.Action = audit.ActionAllow
	}
	return j.Refused
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

// grade scores the answer to a tool call against the output schema that its tool
// declares, for the trace.
func (ex *exchange) grade(m *mcp.Message) {
	if ex.g.quality == nil || ex.up == nil {
		return
	}
	listed := ex.up.Name // the upstream whose lists declare the schemas
	if ex.g.federation != nil {
		listed = ex.g.defaultUpstream
	}
	began := ex.now()
	if score, ok := ex.g.quality.Grade(listed, &ex.msg, m, ex.g.background); ok {
		ex.rec.QualityScores = append(ex.rec.QualityScores, audit.QualityScore{Scorer: quality.Scorer, Score: score})
		ex.graded = ex.now().Sub(began)
	}
}

// awaitGovernance bounds how long a request waits for the first answer of the
// control plane, while no policies were ever known.
const awaitGovernance = 3 * time.Second

// agent is the name that traces of the caller are filed under, and that policies
// call it by.
func (ex *exchange) agent() string {
	return report.AgentName(ex.live.cfg.ControlPlane.AgentOf(ex.who.Value))
}

// underPolicies finds the policies of the caller's agent: one bundle for all of
// the request. While none was ever known nothing passes, unless the file says so.
func (ex *exchange) underPolicies() *refusal.Refusal {
	if ex.g.governance == nil {
		return nil
	}
	bundle := ex.g.governance.Bundle()
	if bundle == nil {
		began := ex.now()
		bundle = ex.g.governance.Await(ex.ctx, awaitGovernance)
		ex.governed.awaited = ex.now().Sub(began)
		if bundle == nil {
			if ex.live.cfg.ControlPlane.Governance.FailOpen {
				return nil
			}
			return &refusal.GovernanceUnavailable
		}
	}
	ex.governed.set = bundle.For(ex.agent())
	return nil
}
