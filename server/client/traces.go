package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"svc/server/api"
)

// TraceFilter narrows GET /api/traces and its stream; zero fields do not.
type TraceFilter struct {
	AgentID           string
	Status            string
	Environment       string
	Start, End        time.Time // inclusive
	MinCostUSD        *float64
	MaxCostUSD        *float64
	MinInjectionScore *float64
	MinDurationMs     *float64
	SessionID         string
	AgentName         string
	ModelName         string
	ToolName          string
	RuleID            string
	PolicyID          string
	PII               string
	Principal         string
	Client            string
	RequestID         string
}

func (f TraceFilter) add(q query) query {
	return q.set("agentId", f.AgentID).set("status", f.Status).set("environment", f.Environment).
		moment("startDate", f.Start).moment("endDate", f.End).
		number("minCostUsd", f.MinCostUSD).number("maxCostUsd", f.MaxCostUSD).
		number("minInjectionScore", f.MinInjectionScore).number("minDurationMs", f.MinDurationMs).
		set("sessionId", f.SessionID).set("agentName", f.AgentName).set("modelName", f.ModelName).
		set("toolName", f.ToolName).set("ruleId", f.RuleID).set("policyId", f.PolicyID).set("pii", f.PII).
		set("principal", f.Principal).set("client", f.Client).set("requestId", f.RequestID)
}

// TraceQuery is a page of a filtered list of traces.
type TraceQuery struct {
	Page
	TraceFilter
}

// ListTraces asks GET /api/traces.
func (c *Client) ListTraces(ctx context.Context, q TraceQuery) (api.Page[api.TraceItem], error) {
	return bare[api.Page[api.TraceItem]](ctx, c, "GET", path("traces"), q.add(q.query()), nil)
}

// ExportTraces asks GET /api/traces/export and writes what comes to w as it comes, as
// "ndjson" or "csv". An error means that what was written is not the whole export. It
// ends with ctx; no timeout of the client applies.
func (c *Client) ExportTraces(ctx context.Context, f TraceFilter, format string, w io.Writer) error {
	r, err := c.request(ctx, "GET", path("traces", "export"), f.add(query{}).set("format", format), nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answerError(resp)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read the export of traces: %w", err)
	}
	return nil
}

// GetTrace asks GET /api/traces/:id.
func (c *Client) GetTrace(ctx context.Context, id string) (api.Trace, error) {
	return single[api.Trace](ctx, c, "GET", path("traces", id), nil)
}

// StatsQuery is what GET /api/traces/stats takes; zero fields leave the
// server's defaults.
type StatsQuery struct {
	Period  string
	AgentID string
	GroupBy string
}

// TraceStats asks GET /api/traces/stats.
func (c *Client) TraceStats(ctx context.Context, q StatsQuery) (api.TraceStats, error) {
	values := query{}.set("period", q.Period).set("agentId", q.AgentID).set("groupBy", q.GroupBy)
	return bare[api.TraceStats](ctx, c, "GET", path("traces", "stats"), values, nil)
}

// traceSize is about what a trace of a gateway takes in a batch, in bytes.
const traceSize = 384

// PostTraces asks POST /api/traces with a batch of at most api.MaxTraceBatch.
// When it returns nil the batch is durable. Traces that have ids may be posted
// again after any error: what is known already counts as a duplicate.
func (c *Client) PostTraces(ctx context.Context, traces []api.TraceInput) (api.IngestResult, error) {
	batch := api.TraceBatch{Traces: traces}
	body, err := batch.AppendJSON(make([]byte, 0, traceSize*(len(traces)+1)))
	if err != nil {
		return api.IngestResult{}, fmt.Errorf("encode request: %w", err)
	}
	return c.PostTraceBatch(ctx, "", body)
}

// PostTraceBatch asks what PostTraces asks, with the JSON of an api.TraceBatch. An id
// names the batch: it must be the same, and of the same traces, whenever the batch is
// sent again. After an error the body may still be read for a while: leave it as it is
// then.
func (c *Client) PostTraceBatch(ctx context.Context, id string, body []byte) (api.IngestResult, error) {
	return single[api.IngestResult](ctx, c, "POST", path("traces"), encoded(body), func(r *http.Request) {
		if id != "" {
			r.Header.Set("Svc-Batch-Id", id)
		}
	})
}

// Governance asks GET /api/governance. With the etag of an earlier answer, a
// bundle that has not changed comes back as nil with the same etag.
func (c *Client) Governance(ctx context.Context, etag string) (*api.Governance, string, error) {
	return c.governance(ctx, etag, nil)
}

// AwaitGovernance is Governance that is answered when there is another bundle than the
// one of etag, or when wait is over. The client's timeout begins after that.
func (c *Client) AwaitGovernance(ctx context.Context, etag string, wait time.Duration) (*api.Governance, string, error) {
	patient := *c
	if patient.timeout > 0 {
		patient.timeout += wait
	}
	return patient.governance(ctx, etag, query{}.set("wait", wait.String()))
}

func (c *Client) governance(ctx context.Context, etag string, q query) (*api.Governance, string, error) {
	var out api.Governance
	var answered string
	header := func(r *http.Request) {
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
	}
	err := c.doHeader(ctx, "GET", path("governance"), q, nil, &out, func(h http.Header) { answered = h.Get("ETag") }, header)
	if e, ok := err.(*Error); ok && e.Status == http.StatusNotModified {
		return nil, etag, nil
	}
	if err != nil {
		return nil, "", err
	}
	return &out, answered, nil
}

// OpenAPI asks GET /api/openapi.json and returns the document as it is.
func (c *Client) OpenAPI(ctx context.Context) ([]byte, error) {
	return bare[[]byte](ctx, c, "GET", path("openapi.json"), nil, nil)
}
