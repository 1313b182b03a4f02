package policycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"svc/cli/command"
	"svc/gateway/audit"
	"svc/gateway/policy/flow"
	"svc/server/client"
	"svc/store/api"
)

// labelCall is the last call before a request that set a label which its caller had. Only Label is set
// when no such call was found.
type labelCall struct {
	Label    string    `json:"label"`
	Request  string    `json:"requestId,omitempty"`
	At       time.Time `json:"createdAt,omitzero"`
	Method   string    `json:"method,omitempty"` // only in audit lines
	Tool     string    `json:"tool,omitempty"`
	Upstream string    `json:"upstream,omitempty"` // only in audit lines
}

func (l *labelCall) String() string {
	if l.At.IsZero() {
		return l.Label + ": no earlier call of the caller that set it was found"
	}
	text := l.Label + ": " + cmp.Or(l.Tool, l.Method, "a message")
	if l.Upstream != "" {
		text += " of " + l.Upstream
	}
	return fmt.Sprintf("%s, %s, request %s", text, command.Stamp(l.At), cmp.Or(l.Request, "not known"))
}

const (
	// longestWindow is the longest window of data_flow, for when no configuration is named.
	longestWindow = 7 * 24 * time.Hour
	// maxLabelPages bounds the pages of traces that are searched for calls that set a label.
	maxLabelPages = 20
	labelPage     = 100
)

// setBy finds the calls that set the labels of the caller, in the audit files or among the caller's traces.
// Without a configuration the window is the longest and labels belong to the caller.
func (o *whyOptions) setBy(ctx context.Context, q *decidedRequest, c *flow.Config) error {
	if len(q.Labels) == 0 {
		return nil
	}
	s := labelSearch{q: q, from: q.At.Add(-longestWindow)}
	if c != nil {
		s.from, s.bySession = q.At.Add(-c.Window), c.Scope == flow.ScopeSession && q.Session != ""
	}
	for _, name := range q.Labels {
		q.SetBy = append(q.SetBy, labelCall{Label: name})
	}
	if len(o.audit) == 0 {
		return o.searchTraces(ctx, &s)
	}
	for _, path := range o.audit {
		if err := s.readLines(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// labelSearch is a search for the calls that set the labels of q.
type labelSearch struct {
	q         *decidedRequest
	from      time.Time
	bySession bool
}

// add looks at a call. It reports whether a call was found for each label.
func (s *labelSearch) add(c *decidedRequest) (complete bool) {
	q := s.q
	same := c.Principal == q.Principal && c.Kind == q.Kind
	if s.bySession {
		same = c.Session == q.Session
	}
	complete = true
	for i := range q.SetBy {
		l := &q.SetBy[i]
		if same && c.Request != q.Request && !c.At.After(q.At) && c.At.After(s.from) && c.At.After(l.At) && slices.Contains(c.Sets, l.Label) {
			*l = labelCall{l.Label, c.Request, c.At, c.Method, c.Tool, c.Upstream}
		}
		complete = complete && !l.At.IsZero()
	}
	return complete
}

// readLines looks at the lines of an audit log.
func (s *labelSearch) readLines(ctx context.Context, path string) error {
	reader := audit.NewReader(path, audit.Position{})
	defer reader.Close()
	for ctx.Err() == nil {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return command.Usage(err, "")
		}
		var r audit.Record
		if audit.Decode(line.Bytes, &r) == nil && len(r.Sets) > 0 {
			s.add(ofLine(&r))
		}
	}
	return ctx.Err()
}

// searchTraces looks at the newest traces of the caller before the request.
func (o *whyOptions) searchTraces(ctx context.Context, s *labelSearch) error {
	c, err := o.rest.Client()
	if err != nil {
		return err
	}
	f := client.TraceFilter{Start: s.from, End: s.q.At, Principal: s.q.Principal}
	if s.bySession {
		f.Principal, f.SessionID = "", s.q.Session
	}
	page := client.Page{Limit: labelPage}
	for range maxLabelPages {
		got, err := c.ListTraces(ctx, client.TraceQuery{Page: page, TraceFilter: f})
		if err != nil {
			return o.rest.Explain(err)
		}
		for i := range got.Data {
			if s.add(ofTrace(&api.Trace{TraceItem: got.Data[i]})) {
				return nil
			}
		}
		if page.After = got.Next; page.After == "" {
			return nil
		}
	}
	return nil
}
