package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"svc/server/otlp"
	"svc/store"
	"svc/store/api"
)

// ingestBody is the body of POST /api/traces: one trace, or several in the member
// traces. The single trace is nil when the body has no member of a trace.
type ingestBody struct {
	*api.TraceInput
	Traces *api.TraceList `json:"traces"`
}

// Validate checks the single trace, or all traces of the batch.
func (b *ingestBody) Validate() map[string]string {
	if b.Traces == nil {
		return b.one().Validate()
	}
	if b.TraceInput != nil {
		return map[string]string{"traces": "must be the only member: a body is one trace or a batch of them"}
	}
	batch := api.TraceBatch{Traces: *b.Traces}
	return batch.Validate()
}

// one returns the single trace; an empty one when the body has no members.
func (b *ingestBody) one() *api.TraceInput {
	if b.TraceInput == nil {
		return &api.TraceInput{}
	}
	return b.TraceInput
}

// ingestTraces serves POST /api/traces. It answers after all traces of the batch
// are durable; on an error none is stored.
func (s *Server) ingestTraces(c *call) error {
	if err := plainBody(c); err != nil {
		return err
	}
	body, err := c.payload(api.MaxIngestBody)
	if err != nil {
		return err
	}
	var in ingestBody
	if err := decodeNew(body, &in); err != nil {
		return err
	}
	if wrong := in.Validate(); len(wrong) > 0 {
		return invalid(wrong)
	}
	var inputs []api.TraceInput
	if in.Traces != nil {
		inputs = *in.Traces
	} else {
		inputs = []api.TraceInput{*in.one()}
	}
	id, err := batchID(c.Header)
	if err != nil {
		return err
	}
	result, err := s.storeTraces(c.Context(), c.traces, id, inputs)
	if err != nil {
		var se *store.Error
		if in.Traces == nil && errors.As(err, &se) {
			err = stripBatchIndex(se)
		}
		return err
	}
	if err := toolsChanged(c, inputs); err != nil {
		return err // the sender sends the traces again, which count once
	}
	if id != "" {
		result.Store = s.restored.describe(c.Context(), s.records, s.now())
	}
	return c.data(http.StatusCreated, result)
}

const (
	reasonToolChanged = "tool_changed"
	// toolEvery is the least time between two messages about a tool, maxToolMarks how many tools
	// are remembered for that.
	toolEvery    = time.Hour
	maxToolMarks = 1000
)

// toolsChanged queues messages about tools whose calls a gateway refused because their definitions
// are not the approved ones.
func toolsChanged(c *call, inputs []api.TraceInput) error {
	refused := map[string]*api.TraceInput{}
	for i := range inputs {
		if in := &inputs[i]; in.ToolName != "" && (in.Reason == reasonToolChanged || in.ErrorKind == reasonToolChanged) && refused[in.ToolName] == nil {
			refused[in.ToolName] = in
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return c.tenant.NotifyOnce(c.Context(), "tools", func(mark string) (string, []store.Event) {
		last := map[string]time.Time{}
		_ = json.Unmarshal([]byte(mark), &last) // empty at first
		maps.DeleteFunc(last, func(_ string, at time.Time) bool { return c.now.Sub(at).Abs() >= toolEvery })
		var events []store.Event
		for _, tool := range slices.Sorted(maps.Keys(refused)) {
			if _, known := last[tool]; !known && len(last) < maxToolMarks {
				in := refused[tool]
				last[tool] = c.now.UTC()
				events = append(events, store.ToolChangedEvent(tool, in.AgentID, in.AgentName, in.Environment, in.RequestID))
			}
		}
		if len(events) == 0 {
			return mark, nil
		}
		next, _ := json.Marshal(last, json.Deterministic(true))
		return string(next), events
	})
}

// restoredEvery is how long a server may go on answering with the last restore that it read.
const restoredEvery = 5 * time.Second

// lastRestore is the last restore of a backup into the store, as it was read last. It is safe for
// concurrent use.
type lastRestore struct {
	known atomic.Pointer[restoreRead]
}

type restoreRead struct {
	store.Restored
	read time.Time
}

// describe returns the state of the store at a time; nil when it cannot be read: the traces are
// stored, and the answer to a later batch has it.
func (l *lastRestore) describe(ctx context.Context, m store.Marks, now time.Time) *api.IngestStore {
	r := l.known.Load()
	if r == nil || now.Sub(r.read).Abs() >= restoredEvery {
		last, err := store.RestoredOf(ctx, m)
		if err != nil {
			return nil
		}
		r = &restoreRead{last, now}
		l.known.Store(r)
	}
	return &api.IngestStore{Now: now.UTC(), Restored: r.At, Before: r.Before, Backup: r.Backup}
}

// plainBody rejects a compressed body on endpoints that do not support
// compression.
func plainBody(c *call) error {
	if e := c.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return invalidField("Content-Encoding", "is not supported on this endpoint; send plain JSON")
	}
	return nil
}

// stripBatchIndex renames the fields in the error of a single trace: its sender
// did not send a batch with indexes.
func stripBatchIndex(e *store.Error) *store.Error {
	out := &store.Error{Kind: e.Kind, Message: e.Message, Fields: make(map[string]string, len(e.Fields))}
	for field, problem := range e.Fields {
		out.Fields[strings.TrimPrefix(field, "traces[0].")] = problem
	}
	return out
}

// ingestOTLP serves POST /api/otlp/v1/traces for OpenTelemetry exporters, which
// need only the endpoint and a header with the key. The traces of one request may
// be committed in several transactions. They are idempotent by their ids, so an
// exporter that repeats a request after an error stores nothing twice.
func (s *Server) ingestOTLP(c *call) error {
	format, err := otlp.ParseContentType(c.Header.Get("Content-Type"))
	if err != nil {
		return badOTLP(err)
	}
	packed, err := c.payload(api.MaxIngestBody)
	if err != nil {
		return err
	}
	body, err := c.unpack(packed)
	if err != nil {
		return err
	}
	batch, err := otlp.Decode(format, body)
	if err != nil {
		return badOTLP(err)
	}
	result := s.otlp.Assemble(c.tenant.ID(), batch)
	if _, err := s.storeTraces(c.Context(), c.traces, "", result.Traces); err != nil {
		return err
	}
	s.metrics.droppedSpans(result.Dropped)
	c.raw(http.StatusOK, format.ContentType(), otlp.Response(format, result.Rejected, result.Why(batch.Spans)))
	return nil
}

// unpack decodes the Content-Encoding of an OTLP request.
func (c *call) unpack(packed []byte) ([]byte, error) {
	encoding := c.Header.Get("Content-Encoding")
	if otlp.Plain(encoding) {
		return packed, nil
	}
	r, err := otlp.Unpack(encoding, packed)
	if err != nil {
		return nil, badOTLP(err)
	}
	body, err := c.readBody(r, -1, api.MaxIngestBody)
	var f *failure
	switch {
	case errors.Is(err, errBodyTooLarge):
		return nil, badOTLP(fmt.Errorf("the body has more than %d bytes unpacked", api.MaxIngestBody))
	case err != nil && !errors.As(err, &f):
		return nil, badOTLP(fmt.Errorf("the body is not gzip: %w", err))
	}
	return body, err
}

// badOTLP returns a 400. Errors are JSON on every endpoint; exporters only
// evaluate the status and log the text.
func badOTLP(err error) error {
	return &failure{http.StatusBadRequest, err.Error(), nil}
}

// raw sends a response whose body is not a JSON type of the API.
func (c *call) raw(status int, contentType string, body []byte) {
	h := c.w.Header()
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // the client has disconnected
}

// batchIDHeader carries the id of a batch of traces, which is the same on every
// retry.
const batchIDHeader = "Svc-Batch-Id"

// maxBatchID bounds a batch id, in bytes, so that it stays below store.MaxBatchID
// when a suffix is appended.
const maxBatchID = 400

// batchID returns the id that the sender gave the batch; empty when there is none.
func batchID(h http.Header) (string, error) {
	values := h.Values(batchIDHeader)
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", invalidField(batchIDHeader, "is given more than once")
	case len(values[0]) > maxBatchID:
		return "", invalidField(batchIDHeader, "must have at most %d characters", maxBatchID)
	}
	for i := range len(values[0]) {
		if b := values[0][i]; b < ' ' || b > '~' {
			return "", invalidField(batchIDHeader, "must be printable ASCII")
		}
	}
	return values[0], nil
}

// storeTraces stores checked traces, in parts of the size that the store accepts.
// When the batch has an id, each part has an id derived from it.
func (s *Server) storeTraces(ctx context.Context, t store.TenantTraces, id string, inputs []api.TraceInput) (api.IngestResult, error) {
	var total api.IngestResult
	stored := 0
	for len(inputs) > 0 {
		n := min(len(inputs), store.MaxIngestBatch)
		batch := make([]store.Trace, n)
		for i := range batch {
			s.fromWire(&batch[i], &inputs[i])
			if batch[i].Cost > api.MaxCostUSD*1e9 { // the cost comes from the price table: a cost in the request was checked before
				field := fmt.Sprintf("traces[%d].costUsd", stored+i)
				return total, store.FieldError(store.Invalid, "invalid input", field, costTooHigh)
			}
		}
		part := store.Batch{ID: id, Traces: batch}
		if id != "" && stored > 0 {
			part.ID = fmt.Sprintf("%s from %d", id, stored)
		}
		inputs, stored = inputs[n:], stored+n
		r, err := t.Ingest(ctx, part)
		if err != nil {
			return total, err
		}
		total.Accepted += r.Accepted
		total.Duplicates += r.Duplicates
		total.Expired += r.Expired
		s.metrics.ingested(r)
	}
	return total, nil
}

// costTooHigh returns the reason why a trace that was priced here is rejected.
var costTooHigh = fmt.Sprintf("by the price table its tokens cost more than %d dollars, the most that one trace may", api.MaxCostUSD)

// fromWire converts the input to a trace. A trace without a cost is priced; a
// trace that a policy blocked has status error.
func (s *Server) fromWire(t *store.Trace, in *api.TraceInput) {
	*t = store.Trace{
		ID: in.ID, AgentID: in.AgentID, AgentName: in.AgentName,
		Status: store.TraceStatus(in.Status), Blocked: in.Blocked,
		Environment: in.Environment, SessionID: in.SessionID,
		ModelProvider: in.ModelProvider, ModelName: in.ModelName, ToolName: in.ToolName,
		InputTokens: in.InputTokens, OutputTokens: in.OutputTokens,
		CacheReadTokens: in.CacheReadTokens, CacheCreationTokens: in.CacheCreationTokens,
		Duration:       duration(in.DurationMs),
		InjectionScore: in.InjectionScore,
		PIIDetected:    in.PIIDetected,
		CreatedAt:      in.CreatedAt.UTC(),
		RequestID:      in.RequestID, Principal: in.Principal,
		ClientName: in.Client.Name, ClientVersion: in.Client.Version, RuleID: in.RuleID, Reason: in.Reason, ErrorKind: in.ErrorKind, Approval: store.TraceApproval(in.Approval),
		Labels: in.Labels, Sets: in.Sets,
	}
	if in.Blocked {
		t.Status = store.TraceError
	}
	if in.AgentName != "" {
		if t.AgentName = api.CleanAgentName(in.AgentName); t.AgentName != in.AgentName {
			t.AgentNameSent = in.AgentName
		}
	}
	if in.CreatedAt.IsZero() {
		t.CreatedAt = time.Time{}
	}
	if in.CostUSD != nil {
		t.Cost, _ = store.DollarsToNano(*in.CostUSD) // checked by Validate
	} else if nano, ok := s.prices.Cost(in.ModelProvider, in.ModelName, in.InputTokens, in.OutputTokens, in.CacheReadTokens, in.CacheCreationTokens); ok {
		t.Cost = store.NanoUSD(nano)
	}
	if len(in.PoliciesFired) > 0 {
		t.PoliciesFired = make([]store.PolicyFired, len(in.PoliciesFired))
		for i, p := range in.PoliciesFired {
			t.PoliciesFired[i] = store.PolicyFired(p)
		}
	}
	if len(in.QualityScores) > 0 {
		t.QualityScores = make([]store.QualityScore, len(in.QualityScores))
		for i, q := range in.QualityScores {
			t.QualityScores[i] = store.QualityScore(q)
		}
	}
	if len(in.ToolCalls) > 0 {
		t.ToolCalls = make([]store.ToolCalls, len(in.ToolCalls))
		for i, c := range in.ToolCalls {
			t.ToolCalls[i] = store.ToolCalls(c)
		}
	}
	if len(in.Spans) > 0 {
		t.Spans = make([]store.Span, len(in.Spans))
		for i, sp := range in.Spans {
			t.Spans[i] = store.Span{Stage: sp.Stage, Duration: duration(sp.DurationMs)}
		}
	}
}

// duration converts milliseconds of the wire, which Validate has bounded.
func duration(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

// milliseconds converts a duration to the unit of the wire.
func milliseconds(d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond)
}
