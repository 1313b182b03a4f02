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

// input is what the messages of this exchange are judged by.
func (ex *Exchange) input(way policy.Direction) verdict.Input {
	return verdict.Input{
		Context: ex.Context, Direction: way, Caller: &ex.Who.Principal, Limits: ex.Services.Limits, Now: ex.Services.Now,
		Asked: &ex.Message, HasAsked: ex.HasMessage, Decided: ex.Decision.Action, Policies: ex.Governed.Set,
		Modern: ex.Dialect.Modern, Resumed: ex.HTTP.Method == http.MethodGet, Translated: ex.Record.UpstreamDialect != "",
	}
}

// Answers are what becomes of the messages of upstreams in answer to this request.
func (ex *Exchange) Answers() answers.Request {
	return answers.Request{
		Input: ex.input(policy.ServerToClient), Method: ex.HTTP.Method, Allowed: ex.Services.Versions,
		Sessions: ex.Services.Sessions, Names: ex.Services.Names, Callouts: ex.Services.Callouts, Pins: ex.Services.Pins.For(ex.Session.Client().Caller), Seen: ex.Services.Federation,
	}
}

// Judge judges what the client sends, and takes what was rewritten as the
// message from here on.
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
	// What asks for the call of another tool is judged as that call too.
	if refused := toolsearch.Unwrap(&ex.Message); refused != nil {
		return refused
	}
	ex.Record.Via, ex.Record.Action, ex.Record.RuleID = toolsearch.CallName, "", ""
	return ex.Judge()
}

// NoteGoverned adds what policies found in a message that an upstream sent.
func (ex *Exchange) NoteGoverned(j *verdict.Result) {
	ex.Scan += j.Governed.Scan
	ex.Governing += j.Governed.All
	ex.Judging += j.Governed.All - j.Governed.Scan
	j.Governed.Note(&ex.Record)
}

// NoteAnswer adds what was decided about the answer to the request's record.
func (ex *Exchange) NoteAnswer(j *verdict.Result, m *mcp.Message) {
	ex.NoteGoverned(j)
	ex.Asked.Answer += j.Said.Latency
	j.NoteAnswer(&ex.Record, ex.Decision.Action, m)
}

// requestHost performs for the judging of a request what that needs.
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

// AnswerHost does so for a plain answer.
type AnswerHost struct{ *Exchange }

func (h AnswerHost) Policies() (*govern.Set, *refusal.Refusal) { return h.Governed.Set, nil }
func (h AnswerHost) Score(m *mcp.Message)                      { h.Grade(m) }
func (AnswerHost) BeforeWait()                                 {}

// Grade scores the answer to a tool call against the output schema that its tool
// declares, for the trace.
func (ex *Exchange) Grade(m *mcp.Message) {
	if ex.Services.Quality == nil || ex.Upstream == nil {
		return
	}
	listed := ex.Upstream.Name // the upstream whose lists declare the schemas
	if ex.Services.Federation != nil {
		listed = ex.Services.DefaultUpstream
	}
	began := ex.Now()
	if score, ok := ex.Services.Quality.Grade(listed, &ex.Message, m, ex.Services.Background); ok {
		ex.Record.QualityScores = append(ex.Record.QualityScores, audit.QualityScore{Scorer: quality.Scorer, Score: score})
		ex.Graded = ex.Now().Sub(began)
	}
}

// Agent is the name that traces of the caller are filed under, and that policies
// call it by.
func (ex *Exchange) Agent() string {
	return report.AgentName(ex.Live.Config.ControlPlane.AgentOf(ex.Who.Value))
}

// UnderPolicies finds the policies of the caller's agent: one bundle for all of
// the request. While none was ever known nothing passes, unless the file says so.
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

// MayAsk reports whether the rules and policies of this moment let a client ask an
// upstream for an item of a list.
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
