package server

import (
	"math"
	"net/http"

	"svc/store"
	"svc/store/api"
)

// wireTraceItem converts a trace to the form of lists and streams: without quality
// scores and spans.
func wireTraceItem(t store.Trace) api.TraceItem {
	return api.TraceItem{
		ID: t.ID, AgentID: t.AgentID, AgentName: t.AgentName, Status: string(t.Status),
		Environment: t.Environment, SessionID: t.SessionID,
		ModelProvider: t.ModelProvider, ModelName: t.ModelName,
		InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, CacheReadTokens: t.CacheReadTokens, CacheCreationTokens: t.CacheCreationTokens,
		CostUSD: t.Cost.USD(), DurationMs: milliseconds(t.Duration), InjectionScore: t.InjectionScore,
		PIIDetected:   t.PIIDetected,
		PoliciesFired: each(t.PoliciesFired, func(p store.PolicyFired) api.PolicyFired { return api.PolicyFired(p) }),
		ToolName:      t.ToolName, Blocked: t.Blocked, CreatedAt: t.CreatedAt.UTC(),
		RequestID: t.RequestID, Principal: t.Principal, Client: api.TraceClient{Name: t.ClientName, Version: t.ClientVersion},
		RuleID: t.RuleID, Reason: t.Reason, ErrorKind: t.ErrorKind, Approval: api.TraceApproval(t.Approval), Labels: t.Labels, Sets: t.Sets,
	}
}

// wireTrace converts a trace to the form of its single read.
func wireTrace(t store.Trace) api.Trace {
	return api.Trace{
		TraceItem:     wireTraceItem(t),
		QualityScores: each(t.QualityScores, func(q store.QualityScore) api.QualityScore { return api.QualityScore(q) }),
		Spans: each(t.Spans, func(s store.Span) api.Span {
			return api.Span{Stage: s.Stage, DurationMs: milliseconds(s.Duration)}
		}),
	}
}

// traceFilter parses the filters that the list, the stream and the export of traces
// share.
func traceFilter(q *query) store.TraceFilter {
	f := store.TraceFilter{
		AgentID:           q.text("agentId"),
		Status:            store.TraceStatus(q.enum("status", "", api.TraceOutcomes)),
		Environment:       q.text("environment"),
		MinCost:           q.money("minCostUsd"),
		MaxCost:           q.money("maxCostUsd"),
		MinInjectionScore: q.number("minInjectionScore", 0, 1),
		SessionID:         q.text("sessionId"),
		ModelName:         q.text("modelName"),
		ToolName:          q.text("toolName"),
		RuleID:            q.text("ruleId"),
		PolicyID:          q.text("policyId"),
		PII:               q.text("pii"),
		Principal:         q.text("principal"),
		Client:            q.text("client"),
		RequestID:         q.text("requestId"),
	}
	if name := q.text("agentName"); name != "" {
		f.AgentName = api.CleanAgentName(name) // the names in traces are cleaned in the same way
	}
	if ms := q.number("minDurationMs", 0, api.MaxDurationMs); ms != nil {
		f.MinDuration = duration(*ms)
	}
	if t := q.timestamp("startDate", false); t != nil {
		f.Start = *t
	}
	if t := q.timestamp("endDate", true); t != nil {
		f.End = *t
	}
	if !f.Start.IsZero() && !f.End.IsZero() && f.Start.After(f.End) {
		q.bad("startDate", "must not be after endDate")
	}
	if f.MinCost != nil && f.MaxCost != nil && *f.MinCost > *f.MaxCost {
		q.bad("minCostUsd", "must not be above maxCostUsd")
	}
	return f
}

// money returns an amount in dollars; nil when not given.
func (q *query) money(name string) *store.NanoUSD {
	usd := q.number(name, 0, store.MaxUSD)
	if usd == nil {
		return nil
	}
	n := store.NanoUSD(math.Round(*usd * 1e9))
	return &n
}

// Pages of more than longPage traces can have many MiB, and a page beyond
// longOffset makes the store read many more traces than it returns. A semaphore
// bounds how many of them run at one time, and so the memory that they take.
const (
	longPage     = 100
	longOffset   = 100_000
	maxLongPages = 4
)

// longPageSlot waits for a slot for long pages, and returns the function that
// releases it. After a wait it checks whether the key is still valid.
func (s *Server) longPageSlot(c *call) (release func(), err error) {
	release = func() { <-s.largePageSlots }
	select {
	case s.largePageSlots <- struct{}{}:
		return release, nil
	default:
	}
	select {
	case s.largePageSlots <- struct{}{}:
		if err := s.stillAuthorized(c); err != nil {
			release()
			return nil, err
		}
		return release, nil
	case <-c.Context().Done():
		return nil, c.Context().Err()
	}
}

// listTraces serves GET /api/traces.
func (s *Server) listTraces(c *call) error {
	q := c.query()
	page, filter := q.cursorPage(tracesList, api.DefaultLimit), traceFilter(q)
	if err := q.err(); err != nil {
		return err
	}
	if page.Limit > longPage || page.Offset > longOffset {
		release, err := s.longPageSlot(c)
		if err != nil {
			return err
		}
		defer release()
	}
	traces, total, atLeast, err := c.countedTraces(filter, page)
	if err != nil {
		return err
	}
	traces, next := cutPage(page, traces, func(t *store.Trace) store.Place { return store.Place{ID: t.ID, At: t.CreatedAt} })
	if page.Offset > longOffset {
		c.linkNext(next)
	}
	return c.writeJSON(http.StatusOK, api.Page[api.TraceItem]{
		Data: each(traces, wireTraceItem), Total: total, Limit: page.Limit, Offset: page.Offset, Next: next, TotalIsLowerBound: atLeast,
	})
}

// countedTraces reads a page and one item more. When the store did not count the
// total, it is raised to the position of that item.
func (c *call) countedTraces(f store.TraceFilter, page cursorPage) (traces []store.Trace, total int, atLeast bool, err error) {
	if uncounted, ok := c.traces.(store.UncountedTraces); ok {
		return uncounted.ListUncounted(c.Context(), f, page.withOneMore())
	}
	traces, total, err = c.traces.ListTraces(c.Context(), f, page.withOneMore())
	return traces, total, false, err
}

// getTrace serves GET /api/traces/:id.
func (s *Server) getTrace(c *call) error {
	id, err := c.pathID("trace")
	if err != nil {
		return err
	}
	t, err := c.traces.GetTrace(c.Context(), id)
	if err != nil {
		return err
	}
	return c.data(http.StatusOK, wireTrace(t))
}
