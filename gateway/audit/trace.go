package audit

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc/store/api"
)

// unnamed is the agent of a request whose line has neither an agent nor a principal.
const unnamed = "unknown"

// mapper maps audit lines to traces.
type mapper struct {
	cfg         ControlPlaneConfig
	reason      Reason
	listenEnded func(*Record) bool
}

// Reason returns the data.reason that the client of a request got, by the action and the
// error_kind of its audit line: refusal.ReasonOf.
type Reason func(action, kind string) string

// TraceOf returns the trace of an audit line with the settings of a default reporter, for
// commands that read audit files; false when the line has no trace. A stream has one
// trace, at its end. A request that was denied before it was read, such as one with a wrong
// key, has a trace here, because a reader of the file looks for it. listenEnded is that of NewSummary.
func TraceOf(r *Record, reason Reason, listenEnded func(*Record) bool) (api.TraceInput, bool) {
	m := mapper{reason: reason, listenEnded: listenEnded}
	unread := r.Kind == KindRequest && r.RPC == "" && r.ErrorKind != "" && denied(r)
	if r.Kind == KindOpen || !m.wanted(r) && !unread {
		return api.TraceInput{}, false
	}
	return m.trace(r), true
}

// wanted reports whether the request of the line becomes a trace: a JSON-RPC request with
// an id, including denied ones, except ping; control_plane.traces.methods restricts it
// further. A request that was refused before it was read has no method and no trace.
func (m *mapper) wanted(r *Record) bool {
	return (r.Kind == KindRequest || r.Kind == KindOpen) &&
		r.RPC == RPCRequest && r.Method != "" && r.Method != "ping" &&
		(len(m.cfg.Traces.Methods) == 0 || slices.Contains(m.cfg.Traces.Methods, r.Method))
}

// trace returns the trace of a line. The duration of a stream that was opened to listen is that of its
// opening, because durations are counted as latencies, and a client that closes it is no error; the
// time that it was open is a span.
func (m *mapper) trace(r *Record) api.TraceInput {
	open, listens := listened(r)
	t := api.TraceInput{
		ID:             traceID(r),
		AgentName:      m.agent(r),
		Status:         "success",
		Environment:    line(first(r.Environment, m.cfg.Environment)),
		SessionID:      line(r.Session),
		DurationMs:     millis(r.Duration - open),
		InjectionScore: min(max(r.InjectionScore, 0), 1),
		CreatedAt:      r.Time,
		ToolName:       line(r.Tool),
		Blocked:        Blocked(r),
		Principal:      line(r.Principal),
		RuleID:         line(r.RuleID),
		Reason:         m.reason(r.Action, r.ErrorKind),
		ErrorKind:      line(r.ErrorKind),
	}
	t.Client.Name, t.Client.Version = cutLine(r.ClientName, api.MaxClientName), cutLine(r.ClientVersion, api.MaxClientVersion)
	if slices.Contains(api.TraceApprovals, r.Approval) {
		t.Approval = api.TraceApproval{Status: r.Approval, By: line(r.ApprovedBy)}
		if api.ValidID(r.ApprovalID) {
			t.Approval.ID = r.ApprovalID
		}
	}
	t.Labels, t.Sets = api.ValidLabels(r.Labels), api.ValidLabels(r.Sets)
	if api.ValidID(r.RequestID) {
		t.RequestID = r.RequestID
	}
	failed := r.ErrorKind != "" || r.IsError
	if listens {
		failed = !m.listenEnded(r)
	}
	if t.Blocked || failed || r.Status >= 400 || denied(r) {
		t.Status = "error"
	}
	for _, e := range r.PIIDetected {
		if api.ValidID(e) && len(t.PIIDetected) < api.MaxEntities {
			t.PIIDetected = append(t.PIIDetected, e)
		}
	}
	for _, p := range r.PoliciesFired {
		if api.ValidID(p.ID) && slices.Contains(api.Actions, p.Action) && len(t.PoliciesFired) < api.MaxFired {
			t.PoliciesFired = append(t.PoliciesFired, api.PolicyFired{ID: p.ID, Name: line(p.Name), Action: p.Action})
		}
	}
	for _, q := range r.QualityScores {
		if api.ValidID(q.Scorer) && len(t.QualityScores) < api.MaxSpans {
			t.QualityScores = append(t.QualityScores, api.QualityScore{Scorer: q.Scorer, Score: q.Score})
		}
	}
	for _, s := range r.Spans {
		if len(t.Spans) < api.MaxSpans && strings.TrimSpace(s.Stage) != "" {
			t.Spans = append(t.Spans, api.Span{Stage: line(s.Stage), DurationMs: millis(s.Duration)})
		}
	}
	return t
}

// agent returns control_plane.agents of the principal, else control_plane.agent, else the
// principal. An agent in the line takes precedence.
func (m *mapper) agent(r *Record) string {
	return AgentName(first(r.Agent, m.cfg.AgentOf(r.Principal)))
}

// AgentName returns the name of an agent in traces: one line of printable text, of
// bounded length, and never the name that means all agents.
func AgentName(agent string) string {
	name := strings.TrimSpace(line(agent))
	if name == "" || name == api.AllAgents {
		return unnamed
	}
	return name
}

// denied reports whether a rule or a limit blocked the request, or whether no decision
// was possible.
func denied(r *Record) bool { return r.Action == "deny" || r.Action == "rate_limit_blocked" }

// Blocked reports whether a rule of the gateway or a policy of the control plane blocked
// the request. Other failures (no route, bad version) are errors that are not blocks. A
// notification that a policy withheld does not block its request.
func Blocked(r *Record) bool {
	return denied(r) && (r.RuleID != "" || len(r.PoliciesFired) > 0)
}

// traceID returns the request's id, so that a trace that is posted twice is stored once.
// For a line without a usable id it is made of the line's sequence number and time.
func traceID(r *Record) string {
	if api.ValidID(r.RequestID) {
		return r.RequestID
	}
	return "line-" + strconv.FormatUint(r.Seq, 10) + "-" + strconv.FormatInt(r.Time.UnixMicro(), 36)
}

func millis(d time.Duration) float64 {
	return min(max(float64(d.Microseconds()), 0)/1000, api.MaxDurationMs)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// line converts a string to a name: one line of printable text, bounded.
func line(s string) string { return cutLine(s, api.MaxName) }

// cutLine is line for texts of up to most bytes.
func cutLine(s string, most int) string {
	clean := utf8.ValidString(s) && len(s) <= most &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	if clean {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(s, "\uFFFD"))
	for len(s) > most {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
