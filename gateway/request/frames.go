package request

import (
	"fmt"
	"net/http"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
	"svc/gateway/request/multiplex"
	"svc/gateway/request/streams"
	"svc/gateway/request/verdict"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// frames decides about the frames of one upstream. The handlers of a merged stream
// share the exchange: they only read fields that were set before they began.
type frames struct {
	ex      *Exchange
	client  *streams.Client
	up      *upstream.Upstream
	session mcp.Session // the session at that upstream
	answers Answered
	// final is set while the response to the request is evaluated.
	final bool
	// round is the questions that were judged before the first of them is sent, by id.
	round map[string]*question
}

// Judge evaluates a frame with the current snapshot, and writes its audit line.
func (f *frames) Judge(m *mcp.Message, dialect string, replaced int) (body []byte, final bool, err error) {
	ex, live := f.ex, f.ex.Services.Live.Load()
	if ex.Services.Federation.Announced(f.up.Name, m) { // clients get a notification when the merged list changes
		return nil, false, nil
	}
	if f.final = false; f.isStray(m) {
		return nil, false, nil
	}
	f.final = f.answers.IsAnswer(m)
	t := f.take(Moment{Snapshot: &live.Verdict, Host: f, Upstream: f.up, Flow: live.Flow}, m)
	sets := ex.label(live.Flow, f.up, &t, m)
	if live.Flow != nil && t.Refused == nil {
		asked, _ := f.answers.origin(f.up.Name, m)
		ex.Session.Asked(ex.Context, m, asked)
	}
	if ex.HTTP.Method == http.MethodPost && !t.Final { // otherwise several upstreams share the exchange
		ex.noteGoverned(&t.Result)
		t.Governed.Note(&ex.record)
	}
	if err := f.record(live, &t.Result, m, sets, dialect, replaced); err != nil {
		return nil, false, err
	}
	if t.Final { // of a POST, whose stream has one upstream
		ex.answered = true
		ex.noteAnswer(&t.Result, m)
	}
	if t.Final && (t.Kind == refusal.Labels.Kind || t.Kind == refusal.SkillChanged.Kind || t.Kind == refusal.SkillRedacted.Kind) {
		return nil, true, &streams.DeniedError{Refused: t.Refused}
	}
	return t.Body, t.Final, nil
}

// isStray reports whether m is a response that answers no request for which its stream can be: on the stream
// of a POST one with the id of another request, and on the stream of a session one that only the federation
// gives. Clients find the request of a response by its id on every stream, so it would pass for the answer to a
// request by whose method nothing has compared it.
func (f *frames) isStray(m *mcp.Message) bool {
	if m.Kind != mcp.Response {
		return false
	}
	if f.ex.HTTP.Method == http.MethodPost {
		return !f.answers.IsAnswer(m)
	}
	return f.ex.Services.Federation.Imitates(f.up.Name, m)
}

// question is a server request that was judged before it arrived.
type question struct {
	message mcp.Message // as it is sent
	taken   Taken
}

// take handles a frame. Several questions of one result, which arrive as a request each, are all
// judged when the first one arrives: if one is denied, the result is, and no question is sent.
func (f *frames) take(at Moment, m *mcp.Message) Taken {
	if m.Kind != mcp.Request {
		return f.answers.Frame(at, m)
	}
	id := string(m.ID)
	if f.round[id] == nil {
		f.round = f.judgeRound(at, id)
	}
	q := f.round[id]
	if q == nil {
		return f.answers.Frame(at, m)
	}
	delete(f.round, id)
	*m = q.message
	return q.taken
}

// judgeRound judges the questions of one result, given the id of the first in JSON; nil if the
// request is the only one. No further question is judged after a denied one.
func (f *frames) judgeRound(at Moment, first string) map[string]*question {
	translator, ok := f.up.Transport.(interface {
		Questions(s session.ID, id []byte) [][]byte
	})
	if !ok {
		return nil
	}
	bodies := translator.Questions(f.ex.Session.Handle.ID, []byte(first))
	if len(bodies) < 2 {
		return nil
	}
	round := make(map[string]*question, len(bodies))
	var denied *verdict.Result
	for _, body := range bodies {
		q := new(question)
		if _, err := mcp.ScanAnswer(body, &q.message); err != nil { // cannot happen: the translator has written it
			q.taken.Result = verdict.Unreadable()
		}
		round[string(q.message.ID)] = q
		if denied == nil && q.taken.Refused == nil {
			q.taken = f.answers.Frame(at, &q.message)
		}
		if denied == nil && q.taken.Refused != nil {
			denied = &q.taken.Result
		}
	}
	if denied == nil {
		return round
	}
	for _, q := range round {
		r := &q.taken.Result
		r.Refused, r.Action, r.Rule, r.Kind, r.Governed.Blocked = denied.Refused, denied.Action, denied.Rule, denied.Kind, denied.Governed.Blocked
		q.taken.Body = nil
	}
	return round
}

// record writes the audit line of a frame that a rule matched, of each frame of a listen stream,
// and with audit.frames of all. A frame whose line cannot be written is not forwarded.
func (f *frames) record(l *Snapshot, j *verdict.Result, m *mcp.Message, sets []string, dialect string, replaced int) error {
	ex := f.ex
	if j.Action == "" && !j.SkillChanged && ex.Message.Method != mcp.MethodListen && l.Config.Audit.Frames != audit.FramesAll {
		return nil
	}
	rec := audit.Record{
		Kind: audit.KindFrame, Time: ex.Services.Now(), RPC: m.Kind.String(), Direction: directionDown,
		UpstreamDialect: dialect, BytesOut: int64(len(m.Body)), ReplacedSurrogates: replaced, SubscriptionID: m.SubscriptionID, Sets: sets,
	}
	ex.fill(&rec, m, f.up)
	j.NoteAnswer(&rec, policy.Allow, m)
	if rec.Action == "" {
		rec.Action = audit.ActionAllow
	}
	if err := ex.Services.Audit.Write(ex.Context, &rec); err != nil {
		ex.Services.logUnwritten(&rec, err)
		return fmt.Errorf("%w: %w", streams.ErrAudit, err)
	}
	return nil
}

// directionDown is the direction of a frame in its audit line.
const directionDown = "server_to_client"

// Withhold withholds a frame from the client.
func (f *frames) Withhold(m *mcp.Message) []byte {
	if f.isStray(m) {
		return nil // an error would end another request of the client
	}
	body, denial := withheld(m, f.ex.record.RequestID)
	if denial != nil {
		caller := f.ex.Session.Caller()
		f.ex.Services.Sessions.Reject(f.up, multiplex.Rejection{
			RequestID: f.ex.record.RequestID, Hops: f.ex.Session.Hops, Caller: &caller, Session: multiplex.Always(f.session), Body: denial,
		})
	}
	return body
}

// Answer records the request.
func (f *frames) Answer(c streams.Counts) error {
	host{f.ex}.note(c)
	return f.ex.account(http.StatusOK, c.Sent)
}

// Policies returns the policies for a frame, from the current bundle. Without one the
// config has fail_open, else the stream would not have begun.
func (f *frames) Policies() (*plane.Set, *refusal.Refusal) {
	return f.ex.Services.Governance.Of(f.ex.agent()), nil
}

// Score scores the response to the request.
func (f *frames) Score(m *mcp.Message) {
	if f.final {
		f.ex.grade(m)
	}
}

// Tokens returns whose tokens replace values of an upstream.
func (f *frames) Tokens(upstream string) plane.Tokens { return f.ex.tokens(upstream) }

// BeforeWait flushes before a limit or a guardrail is called for the next frame, so
// that no frame waits in the buffer.
func (f *frames) BeforeWait() { f.client.FlushPending() }
