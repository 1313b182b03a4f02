package planecmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"svc/gateway/audit"
	"svc/gateway/base/retry"
	"svc/gateway/refusal"
	"svc/store/api"
	"svc/tui"
)

// auditSource converts the requests of an audit file to traces.
type auditSource struct {
	path string
	poll time.Duration
}

// auditPoll is the interval in which the file is checked for new lines.
const auditPoll = 200 * time.Millisecond

// auditBacklog is the number of lines of the file that are shown at first.
const auditBacklog = 2000

func (a auditSource) Open(ctx context.Context, after string) (tui.Stream, error) {
	var from audit.Position
	var err error
	if after == "" {
		from, err = audit.Before(a.path, auditBacklog)
	} else {
		err = json.Unmarshal([]byte(after), &from)
	}
	if err != nil {
		return nil, err
	}
	return &auditStream{ctx: ctx, poll: a.poll, reader: audit.NewReader(a.path, from)}, nil
}

type auditStream struct {
	ctx    context.Context
	poll   time.Duration
	reader *audit.Reader
}

// Next waits for the next line that is a trace.
func (a *auditStream) Next() (tui.Event, error) {
	for {
		line, err := a.reader.Next()
		if errors.Is(err, io.EOF) {
			if !retry.Wait(a.ctx, a.poll) {
				return tui.Event{}, a.ctx.Err()
			}
			continue
		}
		if err != nil {
			return tui.Event{}, err
		}
		if a.ctx.Err() != nil {
			return tui.Event{}, a.ctx.Err()
		}
		var r audit.Record
		if audit.Decode(line.Bytes, &r) != nil {
			continue
		}
		if t, ok := audit.TraceOf(&r, refusal.ReasonOf, refusal.ListenEnded); ok {
			return auditEvent(&r, t), nil
		}
	}
}

func (a *auditStream) Cursor() string {
	b, err := json.Marshal(a.reader.Position())
	if err != nil {
		return ""
	}
	return string(b)
}

func (a *auditStream) Close() error { return a.reader.Close() }

// auditEvent converts a line to an event; members for which a trace has no
// field become notes.
func auditEvent(r *audit.Record, in api.TraceInput) tui.Event {
	t := api.Trace{TraceItem: api.TraceItem{
		ID: in.ID, AgentName: in.AgentName, Status: in.Status, Environment: in.Environment, SessionID: in.SessionID,
		DurationMs: in.DurationMs, InjectionScore: in.InjectionScore, PIIDetected: in.PIIDetected, PoliciesFired: in.PoliciesFired,
		ToolName: in.ToolName, Blocked: in.Blocked, CreatedAt: in.CreatedAt, Labels: in.Labels, Sets: in.Sets,
	}, Spans: in.Spans}
	if t.ToolName == "" {
		t.ToolName = r.Method
	}
	ev := tui.Event{Trace: t}
	note := func(name, value string) {
		if value != "" && value != "0" {
			ev.Notes = append(ev.Notes, tui.Note{Name: name, Value: value})
		}
	}
	note("Method", r.Method)
	note("Action", r.Action)
	note("Rule", r.RuleID)
	note("Failure", r.ErrorKind)
	note("HTTP status", strconv.Itoa(r.Status))
	note("Upstream", r.Upstream)
	note("Caller", r.Principal)
	note("Client", strings.TrimSpace(r.ClientName+" "+r.ClientVersion))
	note("Credential", cmp.Or(r.OAuthClientName, r.KeyID))
	note("Address", r.ClientIP)
	note("Dialect", r.Dialect)
	note("Bytes in", strconv.FormatInt(r.BytesIn, 10))
	note("Bytes out", strconv.FormatInt(r.BytesOut, 10))
	note("Frames", strconv.FormatInt(r.Frames, 10))
	note("Guardrail", joinNote(r.GuardrailName, r.GuardrailVerdict))
	note("Task", r.TaskHandle)
	note("W3C trace", r.TraceID)
	note("Line", strconv.FormatUint(r.Seq, 10))
	return ev
}

func joinNote(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}
