package streaming

import (
	"fmt"
	"net/http"

	"svc/gateway/answers"
	"svc/gateway/audit"
	"svc/gateway/exchange"
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/policy"
	"svc/gateway/refusal"
	"svc/gateway/snapshot"
	"svc/gateway/streams"
	"svc/gateway/transport"
	"svc/gateway/verdict"
)

// frames decides about the frames of one upstream. The handlers of a merged stream
// share the exchange: they only read fields that were set before they began.
type frames struct {
	ex      *exchange.Exchange
	client  *streams.Client
	up      *transport.Upstream
	session mcp.Session // the session at that upstream
	answers answers.Request
	// final is set while the response to the request is evaluated.
	final bool
}

// Judge evaluates a frame with the current snapshot, and writes its audit line.
func (f *frames) Judge(m *mcp.Message, dialect string, replaced int) (body []byte, final bool, err error) {
	ex, live := f.ex, f.ex.Services.Live.Load()
	if ex.Services.Federation.Announced(f.up.Name, m) { // clients get a notification when the merged list changes
		return nil, false, nil
	}
	f.final = f.answers.IsAnswer(m)
	t := f.answers.Frame(answers.Moment{Snapshot: &live.Verdict, Host: f, Upstream: f.up}, m)
	if ex.HTTP.Method == http.MethodPost && !t.Final { // otherwise several upstreams share the exchange
		ex.NoteGoverned(&t.Result)
	}
	if err := f.record(live, &t.Result, m, dialect, replaced); err != nil {
		return nil, false, err
	}
	if t.Final {
		ex.NoteAnswer(&t.Result, m)
	}
	return t.Body, t.Final, nil
}

// record writes the audit line of a frame: for each frame that a rule matched, for
// each frame of a listen stream, and with audit.frames for all. A frame whose line
// cannot be written is not forwarded.
func (f *frames) record(l *snapshot.Snapshot, j *verdict.Result, m *mcp.Message, dialect string, replaced int) error {
	ex := f.ex
	if j.Action == "" && ex.Message.Method != mcp.MethodListen && l.Config.Audit.Frames != audit.FramesAll {
		return nil
	}
	rec := audit.Record{
		Kind: audit.KindFrame, Time: ex.Services.Now(), RPC: m.Kind.String(), Direction: directionDown,
		UpstreamDialect: dialect, BytesOut: int64(len(m.Body)), ReplacedSurrogates: replaced, SubscriptionID: m.SubscriptionID,
	}
	ex.Fill(&rec, m, f.up)
	j.NoteAnswer(&rec, policy.Allow, m)
	if rec.Action == "" {
		rec.Action = audit.ActionAllow
	}
	if err := ex.Services.Audit.Write(ex.Context, &rec); err != nil {
		ex.Services.Log.Error("audit line of a frame was not written", "request_id", rec.RequestID, "error", err)
		return fmt.Errorf("%w: %w", streams.ErrAudit, err)
	}
	return nil
}

// directionDown is the direction of a frame in its audit line.
const directionDown = "server_to_client"

// Withhold withholds a frame from the client.
func (f *frames) Withhold(m *mcp.Message) []byte {
	body, denial := answers.Withheld(m, f.ex.Record.RequestID)
	if denial != nil {
		caller := f.ex.Session.Caller()
		f.ex.Services.Sessions.Reject(f.up, multiplex.Rejection{
			RequestID: f.ex.Record.RequestID, Hops: f.ex.Session.Hops, Caller: &caller, Session: multiplex.Always(f.session), Body: denial,
		})
	}
	return body
}

// Answer records the request.
func (f *frames) Answer(c streams.Counts) error {
	host{f.ex}.note(c)
	return f.ex.Account(http.StatusOK, c.Sent)
}

// Policies returns the policies for the evaluation of a frame, from the current
// bundle. If none is known, the config has fail_open, because otherwise the stream
// would not have begun.
func (f *frames) Policies() (*govern.Set, *refusal.Refusal) {
	return f.ex.Services.Governance.Of(f.ex.Agent()), nil
}

// Score scores the response to the request.
func (f *frames) Score(m *mcp.Message) {
	if f.final {
		f.ex.Grade(m)
	}
}

// BeforeWait flushes before a limit or a guardrail is called for the next frame, so
// that no frame waits in the buffer.
func (f *frames) BeforeWait() { f.client.FlushPending() }
