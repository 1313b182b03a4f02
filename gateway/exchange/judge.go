package exchange

import (
	"net/http"

	"svc/gateway/answers"
	"svc/gateway/audit"
	"svc/gateway/catalog"
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/quality"
	"svc/gateway/refusal"
	"svc/gateway/report"
	"svc/gateway/toolsearch"
	"svc/gateway/transport"
	"svc/gateway/verdict"
)

// input returns the input of the verdict on a message of this exchange.
func (ex *Exchange) input(way policy.Direction) verdict.Input {
	return verdict.Input{
		Context: ex.Context, Direction: way, Caller: &ex.Who.Principal, Limits: ex.Services.Limits, Now: ex.Services.Now,
		Asked: &ex.Message, HasAsked: ex.HasMessage, Decided: ex.Decision.Action, Policies: ex.Governed.Set,
		Modern: ex.Dialect.Modern, Resumed: ex.HTTP.Method == http.MethodGet, Translated: ex.Record.UpstreamDialect != "",
	}
}

// Answers returns the handler of upstream messages that answer this request.
func (ex *Exchange) Answers() answers.Request {
	return answers.Request{
		Input: ex.input(policy.ServerToClient), Method: ex.HTTP.Method, Allowed: ex.Services.Versions,
		Sessions: ex.Services.Sessions, Names: ex.Services.Names, Callouts: ex.Services.Callouts, Pins: ex.Services.Pins.For(ex.Session.Client().Caller), Seen: ex.Services.Federation,
	}
}

// Judge applies rules and policies to the client's message, and replaces the message by the
// rewritten one.
func (ex *Exchange) Judge() *refusal.Refusal {
	ex.JudgedFrom = ex.Now()
	in := ex.input(policy.ClientToServer)
	in.Snapshot, in.Host = &ex.Live.Verdict, requestHost{ex}
	if in.Snapshot.Rules.UsesUpstream() {
		ex.Upstream, in.Upstream = ex.Services.ToJudge(ex.Context, &ex.Session)
	}
	j := verdict.Judge(&in, &ex.Message)
	ex.Decision = j.Decision
	ex.Asked.Request = j.Said.Latency
	ex.Governed.Fired, ex.Governed.Changed, ex.Governed.ByArguments = j.Governed.Fired, j.Governed.Changed, j.Governed.ByArguments
	ex.Scan += j.Governed.Scan
	ex.Judging = ex.Now().Sub(ex.JudgedFrom) - j.Said.Latency - j.Governed.Scan - ex.Governed.Awaited
	j.Count(ex.Services.Callouts)
	j.Note(&ex.Record, policy.Allow)
	if ex.Record.Action == "" {
		ex.Record.Action = audit.ActionAllow
	}
	if j.Refused != nil || !ex.Services.Search.Calls(&ex.Message) {
		return j.Refused
	}
	// An mcp_call is judged as the call of the other tool too.
	if refused := toolsearch.Unwrap(&ex.Message); refused != nil {
		return refused
	}
	ex.Record.Via, ex.Record.Action, ex.Record.RuleID = toolsearch.CallName, "", ""
	return ex.Judge()
}

// NoteGoverned records the findings of policies in a message of an upstream.
func (ex *Exchange) NoteGoverned(j *verdict.Result) {
	ex.Scan += j.Governed.Scan
	ex.Governing += j.Governed.All
	ex.Judging += j.Governed.All - j.Governed.Scan
	j.Governed.Note(&ex.Record)
}

// NoteAnswer records the verdict on the answer.
func (ex *Exchange) NoteAnswer(j *verdict.Result, m *mcp.Message) {
	ex.NoteGoverned(j)
	ex.Asked.Answer += j.Said.Latency
	j.NoteAnswer(&ex.Record, ex.Decision.Action, m)
}

// requestHost is the verdict.Host of a request.
type requestHost struct{ *Exchange }

func (h requestHost) Policies() (*govern.Set, *refusal.Refusal) {
	refused := h.UnderPolicies()
	if !h.Governed.Set.Empty(govern.Request) {
		h.ScanFrom = h.Now()
	}
	return h.Governed.Set, refused
}

func (requestHost) Score(*mcp.Message) {}
func (requestHost) BeforeWait()        {}

// AnswerHost is the verdict.Host of a plain response.
type AnswerHost struct{ *Exchange }

func (h AnswerHost) Policies() (*govern.Set, *refusal.Refusal) { return h.Governed.Set, nil }
func (h AnswerHost) Score(m *mcp.Message)                      { h.Grade(m) }
func (AnswerHost) BeforeWait()                                 {}

// Grade scores the answer to a tool call against the output schema of its tool, for the trace.
func (ex *Exchange) Grade(m *mcp.Message) {
	if ex.Services.Quality == nil || ex.Upstream == nil {
		return
	}
	listed := ex.Upstream.Name // the upstream whose lists have the schemas
	if ex.Services.Federation != nil {
		listed = ex.Services.DefaultUpstream
	}
	began := ex.Now()
	if score, ok := ex.Services.Quality.Grade(listed, &ex.Message, m, ex.Services.Background); ok {
		ex.Record.QualityScores = append(ex.Record.QualityScores, audit.QualityScore{Scorer: quality.Scorer, Score: score})
		ex.Graded = ex.Now().Sub(began)
	}
}

// Agent returns the agent name of the caller in traces and policies.
func (ex *Exchange) Agent() string {
	return report.AgentName(ex.Live.Config.ControlPlane.AgentOf(ex.Who.Value))
}

// UnderPolicies sets the policies of the caller's agent, from one bundle for the whole request.
// Before the first bundle is fetched requests are refused, unless fail_open is set.
func (ex *Exchange) UnderPolicies() *refusal.Refusal {
	if ex.Services.Governance == nil {
		return nil
	}
	bundle, awaited := ex.Services.Governance.Known(ex.Context)
	ex.Governed.Awaited = awaited
	switch {
	case bundle != nil:
		ex.Governed.Set = bundle.For(ex.Agent())
	case !ex.Live.Config.ControlPlane.Governance.FailOpen:
		return &refusal.GovernanceUnavailable
	}
	return nil
}

// MayAsk reports whether the current rules and policies let a client request an item of an
// upstream's list.
func (s *Services) MayAsk(c *transport.Caller, kind catalog.Kind, upstream, visible string) bool {
	l := s.Live.Load()
	if !l.Verdict.FilterLists || c == nil {
		return true
	}
	if kind != catalog.Tool {
		visible = ""
	}
	policies := s.Governance.Of(report.AgentName(l.Config.ControlPlane.AgentOf(c.Principal.Value)))
	return l.Verdict.MayAsk(c.Principal, policies, upstream, mcp.MethodOf(kind.Method()).Element, visible)
}
