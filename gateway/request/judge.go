package request

import (
	"maps"
	"net/http"
	"slices"

	"svc/gateway/audit"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/search"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
	"svc/gateway/request/verdict"
	"svc/gateway/upstream"
)

// input returns the input of the verdict on a message of this exchange.
func (ex *Exchange) input(way policy.Direction) verdict.Input {
	return verdict.Input{
		Context: ex.Context, Direction: way, Caller: &ex.caller.id.Principal, Limits: ex.Services.Limits, Now: ex.Services.Now,
		Asked: &ex.Message, HasAsked: ex.hasMessage, Decided: ex.decision.Action, Policies: ex.governed.set,
		Origin: ex.labels.origin, Belongs: ex.labels.belongs,
		Modern: ex.dialect.Modern, Resumed: ex.HTTP.Method == http.MethodGet, Translated: ex.record.UpstreamDialect != "",
	}
}

// answers returns the handler of upstream messages that answer this request.
func (ex *Exchange) answers() Answered {
	in, sessions := ex.input(policy.ServerToClient), ex.Services.Sessions
	return Answered{
		Replays:  in.Resumed && (ex.HTTP.Header.Get(mcp.HeaderLastEventID) != "" || !ex.Session.Joined || sessions.Forgotten(&ex.Session.Handle)),
		Searched: ex.Services.Search.Takes(&ex.Message), Session: ex.Session.Handle.ID,
		Input: in, Legacy: !in.Modern && (in.Translated || ex.Services.Federation != nil), Method: ex.HTTP.Method, Allowed: ex.Services.Versions,
		Sessions: sessions, Targets: ex.Services.Targets, Names: ex.Services.Names, Addresses: ex.Services.Federation.Addresses(), Metrics: ex.Services.Metrics, Pins: ex.Services.Pins.For(ex.Session.Client().Caller), Seen: ex.Services.Federation,
	}
}

// Judge applies rules and policies to the client's message, and replaces the message by the
// rewritten one.
func (ex *Exchange) Judge() *refusal.Refusal {
	ex.times.judgedFrom = ex.now()
	in := ex.input(policy.ClientToServer)
	in.Snapshot, in.Host = &ex.Live.Verdict, requestHost{ex}
	if in.Snapshot.Rules.UsesUpstream() {
		ex.route.Upstream, in.Upstream = ex.Services.ToJudge(ex.Context, &ex.Session)
	}
	if ex.Live.Flow != nil {
		ex.readLabels(&in)
	}
	if refused := ex.restore(&in); refused != nil {
		return refused
	}
	j := verdict.Judge(&in, &ex.Message)
	ex.decision = j.Decision
	for _, ask := range j.Asks { // an mcp_call is judged twice
		if !slices.Contains(ex.asks, ask) {
			ex.asks = append(ex.asks, ask)
		}
	}
	ex.times.askedRequest = j.Said.Latency
	ex.governed.fired, ex.governed.changed, ex.governed.byArguments = j.Governed.Fired, j.Governed.Changed, j.Governed.ByArguments
	ex.times.scan += j.Governed.Scan
	ex.times.judging = ex.now().Sub(ex.times.judgedFrom) - j.Said.Latency - j.Governed.Scan - ex.governed.awaited
	j.Count(ex.Services.Metrics)
	j.Note(&ex.record, policy.Allow)
	if ex.record.Action == "" {
		ex.record.Action = audit.ActionAllow
	}
	if j.Refused != nil || !ex.Services.Search.Calls(&ex.Message) {
		return j.Refused
	}
	// An mcp_call is judged as the call of the other tool too.
	if refused := search.Unwrap(&ex.Message); refused != nil {
		return refused
	}
	ex.record.Via, ex.record.Action, ex.record.RuleID = search.CallName, "", ""
	return ex.Judge()
}

// restore puts the values of tokens back into the client's message, unless the gateway itself
// answers it.
func (ex *Exchange) restore(in *verdict.Input) *refusal.Refusal {
	s := ex.Services
	if s.Governance == nil || !plane.MayRestore(&ex.Message) || s.Search.Calls(&ex.Message) || s.Search.Takes(&ex.Message) {
		return nil
	}
	if refused := ex.underPolicies(); refused != nil {
		return refused
	}
	if ex.route.Upstream == nil {
		ex.route.Upstream, _ = s.ToJudge(ex.Context, &ex.Session)
	}
	if ex.route.Upstream == nil {
		return nil
	}
	ex.restoring = ex.governed.bundle.Restoring(ex.agent(), ex.route.Upstream.Name, slices.Collect(maps.Keys(s.Targets)), ex.Live.Config.ControlPlane.Governance.RestoreTo)
	return in.Restore(ex.restoring, &ex.Message, &ex.record)
}

// tokens returns whose tokens replace values of an upstream. Answers of the gateway itself have no
// upstream to which values could be put back.
func (ex *Exchange) tokens(upstream string) (t plane.Tokens) {
	t.Agent, t.Upstream = ex.agent(), upstream
	if ex.Services.Federation != nil && upstream == federation.Name {
		t.Upstream = ""
	}
	if listed := ex.listed(); listed != "" {
		t.Misfits = func(content []byte) ([]detect.Misfit, bool) {
			return ex.Services.Quality.Misfits(listed, ex.Message.Name, content)
		}
	}
	return t
}

// noteGoverned counts the time that policies took for a message of an upstream.
func (ex *Exchange) noteGoverned(j *verdict.Result) {
	ex.times.scan += j.Governed.Scan
	ex.times.governing += j.Governed.All
	ex.times.judging += j.Governed.All - j.Governed.Scan
}

// noteAnswer records the verdict on the answer.
func (ex *Exchange) noteAnswer(j *verdict.Result, m *mcp.Message) {
	ex.noteGoverned(j)
	ex.times.askedAnswer += j.Said.Latency
	j.NoteAnswer(&ex.record, ex.decision.Action, m)
	if ex.approval != nil && j.Refused == nil {
		ex.approval.mayContinue(m)
	}
}

// requestHost is the verdict.Host of a request.
type requestHost struct{ ex *Exchange }

func (h requestHost) Policies() (*plane.Set, *refusal.Refusal) {
	refused := h.ex.underPolicies()
	if !h.ex.governed.set.Empty(plane.Request) {
		h.ex.times.scanFrom = h.ex.now()
	}
	return h.ex.governed.set, refused
}

func (h requestHost) Tokens(upstream string) plane.Tokens { return h.ex.tokens(upstream) }
func (requestHost) Score(*mcp.Message)                    {}
func (requestHost) BeforeWait()                           {}

// answerHost is the verdict.Host of a plain response.
type answerHost struct{ ex *Exchange }

func (h answerHost) Policies() (*plane.Set, *refusal.Refusal) { return h.ex.governed.set, nil }
func (h answerHost) Tokens(upstream string) plane.Tokens      { return h.ex.tokens(upstream) }
func (h answerHost) Score(m *mcp.Message)                     { h.ex.grade(m) }
func (answerHost) BeforeWait()                                {}

// grade scores the answer to a tool call against the output schema of its tool, for the trace.
func (ex *Exchange) grade(m *mcp.Message) {
	listed, began := ex.listed(), ex.now()
	if listed == "" {
		return
	}
	if score, ok := ex.Services.Quality.Grade(listed, &ex.Message, m, ex.Services.Background); ok {
		ex.record.QualityScores = append(ex.record.QualityScores, audit.QualityScore{Scorer: detect.Scorer, Score: score})
		ex.times.graded = ex.now().Sub(began)
	}
}

// listed returns the upstream whose lists have the schema of the called tool, "" for none.
func (ex *Exchange) listed() string {
	switch {
	case ex.Services.Quality == nil || ex.route.Upstream == nil:
		return ""
	case ex.Services.Federation != nil:
		return ex.Services.DefaultUpstream
	}
	return ex.route.Upstream.Name
}

// agent returns the agent name of the caller in traces and policies.
func (ex *Exchange) agent() string {
	return audit.AgentName(ex.Live.Config.ControlPlane.AgentOf(ex.caller.id.Value))
}

// underPolicies sets the policies of the caller's agent, from one bundle for the whole request.
// Before the first bundle is fetched requests are refused, unless fail_open is set.
func (ex *Exchange) underPolicies() *refusal.Refusal {
	if ex.Services.Governance == nil {
		return nil
	}
	bundle, awaited := ex.Services.Governance.Known(ex.Context)
	ex.governed.awaited = awaited
	switch {
	case bundle != nil:
		ex.governed.bundle, ex.governed.set = bundle, bundle.For(ex.agent())
	case !ex.Live.Config.ControlPlane.Governance.FailOpen:
		return &refusal.GovernanceUnavailable
	}
	return nil
}

// MayAsk reports whether the current rules and policies let a client request an item of an
// upstream's list.
func (s *Services) MayAsk(c *upstream.Caller, kind mcp.ListKind, upstream, visible string) bool {
	l := s.Live.Load()
	if !l.Verdict.FilterLists || c == nil {
		return true
	}
	policies := s.Governance.Of(audit.AgentName(l.Config.ControlPlane.AgentOf(c.Principal.Value)))
	return l.Verdict.MayAsk(c.Principal, policies, upstream, kind, visible)
}
