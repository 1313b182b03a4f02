package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"svc/store/api"
)

// TraceFilter filters GET /api/traces and its stream; zero fields do not filter.
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
	// Typed are parameters as a person typed them, by their names in the query string: they replace the fields, and the
	// control plane checks them.
	Typed url.Values
}

func (f TraceFilter) add(q query) query {
	q.set("agentId", f.AgentID).set("status", f.Status).set("environment", f.Environment).
		moment("startDate", f.Start).moment("endDate", f.End).
		number("minCostUsd", f.MinCostUSD).number("maxCostUsd", f.MaxCostUSD).
		number("minInjectionScore", f.MinInjectionScore).number("minDurationMs", f.MinDurationMs).
		set("sessionId", f.SessionID).set("agentName", f.AgentName).set("modelName", f.ModelName).
		set("toolName", f.ToolName).set("ruleId", f.RuleID).set("policyId", f.PolicyID).set("pii", f.PII).
		set("principal", f.Principal).set("client", f.Client).set("requestId", f.RequestID)
	maps.Copy(q, query(f.Typed))
	return q
}

// TraceQuery selects a page of a filtered list of traces.
type TraceQuery struct {
	Page
	TraceFilter
}

// ListTraces calls GET /api/traces.
func (c *Client) ListTraces(ctx context.Context, q TraceQuery) (api.Page[api.TraceItem], error) {
	return bare[api.Page[api.TraceItem]](ctx, c, "GET", path("traces"), q.add(q.query()), nil)
}

// ExportTraces calls GET /api/traces/export and copies the response to w as it
// arrives, as "ndjson" or "csv". After an error the written export is incomplete. It
// ends with ctx; the client's timeout does not apply.
func (c *Client) ExportTraces(ctx context.Context, f TraceFilter, format string, w io.Writer) error {
	body, err := c.openExport(ctx, f, format)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("read the export of traces: %w", err)
	}
	return nil
}

// EachTrace calls GET /api/traces/export, one request however many traces there are, and do
// with each trace in the order of the export. It ends with ctx, with the first error of do, and
// with an error when no data came for 45 s.
func (c *Client) EachTrace(ctx context.Context, f TraceFilter, do func(api.TraceItem) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := fmt.Errorf("the export of traces received no data: %w", context.DeadlineExceeded)
	quiet := time.AfterFunc(c.silence, func() { cancel(silent) })
	defer quiet.Stop()
	because := func(err error) error {
		if errors.Is(context.Cause(ctx), silent) {
			return silent
		}
		return err
	}
	body, err := c.openExport(ctx, f, "ndjson")
	if err != nil {
		return because(err)
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent) // the same trace as in an event of the stream
	for lines.Scan() {
		quiet.Reset(c.silence)
		var t api.TraceItem
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return fmt.Errorf("a line of the export is not a trace (is %s the control plane?): %w", c.planes.base(), err)
		}
		if err := do(t); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return because(fmt.Errorf("read the export of traces: %w", err))
	}
	return nil
}

// openExport sends the request of an export and returns the body of its response.
func (c *Client) openExport(ctx context.Context, f TraceFilter, format string) (io.ReadCloser, error) {
	r, err := c.request(ctx, "GET", path("traces", "export"), f.add(query{}).set("format", format), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.open(r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// GetTrace calls GET /api/traces/:id.
func (c *Client) GetTrace(ctx context.Context, id string) (api.Trace, error) {
	return single[api.Trace](ctx, c, "GET", path("traces", id), nil)
}

// StatsQuery has the parameters of GET /api/traces/stats; zero fields mean the
// server's defaults. Period and Start exclude each other.
type StatsQuery struct {
	Period     string
	Start, End time.Time // inclusive
	Parts      int       // at most api.MaxStatsParts
	AgentID    string
	GroupBy    string
}

// TraceStats calls GET /api/traces/stats.
func (c *Client) TraceStats(ctx context.Context, q StatsQuery) (api.TraceStats, error) {
	values := query{}.set("period", q.Period).moment("startDate", q.Start).moment("endDate", q.End).set("agentId", q.AgentID).set("groupBy", q.GroupBy)
	if q.Parts > 0 {
		values.set("parts", strconv.Itoa(q.Parts))
	}
	return bare[api.TraceStats](ctx, c, "GET", path("traces", "stats"), values, nil)
}

// traceSize is the approximate size of a gateway's trace in a batch, in bytes.
const traceSize = 384

// PostTraces calls POST /api/traces with a batch of at most api.MaxTraceBatch. When it
// returns nil the batch is durable. Traces with ids may be posted again after any
// error: a trace that is already stored counts as a duplicate.
func (c *Client) PostTraces(ctx context.Context, traces []api.TraceInput) (api.IngestResult, error) {
	batch := api.TraceBatch{Traces: traces}
	body, err := batch.AppendJSON(make([]byte, 0, traceSize*(len(traces)+1)))
	if err != nil {
		return api.IngestResult{}, fmt.Errorf("encode request: %w", err)
	}
	return c.PostTraceBatch(ctx, "", body)
}

// PostTraceBatch is PostTraces for the JSON of an api.TraceBatch. id identifies the
// batch: it must be the same, for the same traces, whenever the batch is sent again.
// After an error the transport may still read the body for a while, so it must not be
// modified then.
func (c *Client) PostTraceBatch(ctx context.Context, id string, body []byte) (api.IngestResult, error) {
	return single[api.IngestResult](ctx, c, "POST", path("traces"), encoded(body), func(r *http.Request) {
		if id != "" {
			r.Header.Set("Svc-Batch-Id", id)
		}
	})
}

// Governance calls GET /api/governance. With the etag of an earlier response, it
// returns nil and the same etag when the bundle has not changed.
func (c *Client) Governance(ctx context.Context, etag string) (*api.Governance, string, error) {
	return c.governance(ctx, etag, nil)
}

// GatewayKeyID calls GET /api/governance for the id of the key that the name of a gateway is bound to; it is empty
// if the name is not bound.
func (c *Client) GatewayKeyID(ctx context.Context, gateway string) (id string, err error) {
	var out api.Governance
	err = c.doHeader(ctx, "GET", path("governance"), query{}.set("gateway", gateway), nil, &out, func(h http.Header) { id = h.Get(api.GatewayKeyHeader) })
	return id, err
}

// AwaitGovernance is Governance as a long poll: the response is sent when the bundle
// differs from the one of etag, or when wait is over. The client's timeout begins
// after wait.
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

// OpenAPI calls GET /api/openapi.json and returns the document unchanged.
func (c *Client) OpenAPI(ctx context.Context) ([]byte, error) {
	return bare[[]byte](ctx, c, "GET", path("openapi.json"), nil, nil)
}
