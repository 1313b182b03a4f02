package server

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc/store"
	"svc/store/api"
)

// exportFormats are the formats of an export, the default first.
var exportFormats = []string{"ndjson", "csv"}

// exportTraces serves GET /api/traces/export: all traces that pass the filters, newest
// first, written as they are read. When an export fails after it began, or its key was
// deleted, the connection is aborted, so that the client does not take the export for
// complete.
func (s *Server) exportTraces(c *call) error {
	q := c.query()
	filter, format := traceFilter(q), q.enum("format", exportFormats[0], exportFormats)
	if err := q.err(); err != nil {
		return err
	}
	write, kind := writeNDJSON, "application/x-ndjson"
	if format == "csv" {
		write, kind = writeCSV, "text/csv; charset=utf-8"
	}
	connection := http.NewResponseController(c.w)
	page := store.Page{Limit: api.MaxLimit}
	for first := true; ; first = false {
		traces, err := s.exportPage(c, filter, page)
		if err != nil && first {
			return err
		}
		if err != nil {
			s.log.Error("export of traces cut off", "request_id", c.id, "tenant", c.tenant.ID(), "error", err)
			panic(http.ErrAbortHandler)
		}
		if first {
			h := c.w.Header()
			h.Set("Content-Type", kind)
			h.Set("Content-Disposition", `attachment; filename="traces.`+format+`"`)
			c.w.WriteHeader(http.StatusOK)
		}
		var b bytes.Buffer
		if err := write(&b, traces, first); err != nil {
			s.log.Error("export of traces cut off", "request_id", c.id, "tenant", c.tenant.ID(), "error", err)
			panic(http.ErrAbortHandler)
		}
		_ = connection.SetWriteDeadline(time.Now().Add(answerGrace + time.Duration(b.Len())*time.Second/answerRate))
		if _, err := c.w.Write(b.Bytes()); err != nil {
			return nil // the client has disconnected
		}
		if len(traces) < page.Limit {
			return nil
		}
		last := &traces[len(traces)-1]
		page.After = store.Place{ID: last.ID, At: last.CreatedAt}
	}
}

// exportPage reads one page of an export, in one of the slots for long pages. The client
// decides how long the pages before it and the wait for a slot take, so the key is checked
// for each page.
func (s *Server) exportPage(c *call, f store.TraceFilter, page store.Page) ([]store.Trace, error) {
	release, err := s.longPageSlot(c)
	if err != nil {
		return nil, err
	}
	defer release()
	if page.After != (store.Place{}) {
		if err := s.stillAuthorized(c); err != nil {
			return nil, err
		}
	}
	traces, _, err := c.traces.ListTraces(c.Context(), f, page)
	return traces, err
}

// writeNDJSON writes each trace on a line, in the form of lists.
func writeNDJSON(b *bytes.Buffer, traces []store.Trace, _ bool) error {
	for i := range traces {
		b.Write(encode(wireTraceItem(traces[i])))
		b.WriteByte('\n')
	}
	return nil
}

// exportColumns are the columns of a CSV export.
var exportColumns = []string{"id", "createdAt", "agentId", "agentName", "status", "blocked", "environment", "sessionId",
	"modelProvider", "modelName", "toolName", "inputTokens", "outputTokens", "costUsd", "durationMs", "injectionScore",
	"piiDetected", "policiesFired", "requestId", "principal", "ruleId", "reason", "errorKind",
	"cacheReadTokens", "cacheCreationTokens", "client", "clientVersion",
	"approval", "approvalId", "approvedBy", "labels", "sets"}

// writeCSV writes each trace as a CSV record (RFC 4180), after a record with the
// column names. Lists are joined with semicolons.
func writeCSV(b *bytes.Buffer, traces []store.Trace, first bool) error {
	w := csv.NewWriter(b)
	w.UseCRLF = true
	if first {
		if err := w.Write(exportColumns); err != nil {
			return err
		}
	}
	for i := range traces {
		t := wireTraceItem(traces[i])
		fired := make([]string, len(t.PoliciesFired))
		for j, p := range t.PoliciesFired {
			fired[j] = p.Name
			if p.Name == "" {
				fired[j] = p.ID
			}
		}
		number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
		err := w.Write([]string{
			cell(t.ID), t.CreatedAt.Format(time.RFC3339Nano), cell(t.AgentID), cell(t.AgentName), t.Status, strconv.FormatBool(t.Blocked),
			cell(t.Environment), cell(t.SessionID), cell(t.ModelProvider), cell(t.ModelName), cell(t.ToolName),
			strconv.FormatInt(t.InputTokens, 10), strconv.FormatInt(t.OutputTokens, 10), number(t.CostUSD), number(t.DurationMs),
			number(t.InjectionScore), cell(strings.Join(t.PIIDetected, ";")), cell(strings.Join(fired, ";")),
			cell(t.RequestID), cell(t.Principal), cell(t.RuleID), cell(t.Reason), cell(t.ErrorKind),
			strconv.FormatInt(t.CacheReadTokens, 10), strconv.FormatInt(t.CacheCreationTokens, 10),
			cell(t.Client.Name), cell(t.Client.Version), t.Approval.Status, cell(t.Approval.ID), cell(t.Approval.By),
			cell(strings.Join(t.Labels, ";")), cell(strings.Join(t.Sets, ";")),
		})
		if err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// cell returns the text of a CSV cell. Text that a spreadsheet would run as a formula
// gets an apostrophe in front, because the texts of traces are not trusted.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
