package telemetry

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d %v %s", w.Code, err, body)
	}
	return string(body)
}

func expose(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestMetricsOfRequests(t *testing.T) {
	m := NewMetrics("1.2.3", func() State { return State{} })
	for range 3 {
		m.Observe(&Request{Action: "allow", Rule: "tools", Upstream: "main", Status: 200, Gateway: 70 * time.Microsecond, UpstreamTime: 3 * time.Millisecond})
	}
	m.Observe(&Request{Action: "deny", Rule: "default_deny", Status: 403, Gateway: time.Millisecond})
	m.Observe(&Request{Action: "allow", Upstream: "main", Status: 200, Stream: true, Gateway: time.Hour, UpstreamTime: time.Hour})
	m.Observe(&Request{Action: "allow", Upstream: "main", Status: 200})
	m.Asked("pii", "pass", 20*time.Millisecond)
	m.Asked("pii", "pass", 20*time.Millisecond)
	m.Reloaded(false)
	expose(t, scrape(t, m),
		`svc_gateway_requests_total{action="allow",rule="tools",status="200",upstream="main"} 3`,
		`svc_gateway_requests_total{action="deny",rule="default_deny",status="403",upstream=""} 1`,
		`svc_gateway_requests_total{action="allow",rule="",status="200",upstream="main"} 2`,
		`svc_gateway_own_duration_seconds_count 5`,
		`svc_gateway_upstream_duration_seconds_bucket{upstream="main",le="0.0025"} 0`,
		`svc_gateway_upstream_duration_seconds_bucket{upstream="main",le="0.005"} 3`,
		`svc_gateway_upstream_duration_seconds_count{upstream="main"} 3`,
		`svc_gateway_guardrail_duration_seconds_count{guardrail="pii",verdict="pass"} 2`,
		`svc_gateway_reloads_total{result="failed"} 1`, `svc_gateway_reloads_total{result="ok"} 0`,
		`svc_gateway_reload_success 0`)
	m.Reloaded(true)
	text := scrape(t, m)
	expose(t, text, `svc_gateway_reload_success 1`)
	if !strings.Contains(text, `svc_gateway_build_info{go="go1`) || !strings.Contains(text, `version="1.2.3"} 1`) {
		t.Error("no build info")
	}
}

// The metrics of the OpenTelemetry conventions: mcp.server.operation.duration of each request
// with a method, mcp.client.operation.duration of those that an upstream was asked for.
func TestOperationDurationOfTheConventions(t *testing.T) {
	m := NewMetrics("", func() State { return State{} })
	asked := Operation{Method: "tools/call", Version: "2025-06-18", Network: "tcp", Host: "tools.example", Port: 8443}
	for range 2 {
		m.Observe(&Request{Action: "allow", Status: 200, Operation: asked, Duration: 70 * time.Millisecond, UpstreamTime: 15 * time.Millisecond})
	}
	m.Observe(&Request{Action: "deny", Status: 403, Operation: Operation{Method: "tools/call", ErrorType: "policy_denied"}, Duration: time.Millisecond})
	m.Observe(&Request{Action: "allow", Status: 200, Operation: Operation{Method: "ping", ErrorType: "503", UpstreamErrorType: "503", Network: "pipe"}, Duration: time.Second, UpstreamTime: time.Second})
	m.Observe(&Request{Action: "deny", Status: 401, Duration: time.Second}) // no method was read
	text := scrape(t, m)
	expose(t, text,
		`mcp_server_operation_duration_seconds_bucket{error_type="",mcp_method_name="tools/call",mcp_protocol_version="2025-06-18",network_transport="tcp",le="0.05"} 0`,
		`mcp_server_operation_duration_seconds_bucket{error_type="",mcp_method_name="tools/call",mcp_protocol_version="2025-06-18",network_transport="tcp",le="0.1"} 2`,
		`mcp_server_operation_duration_seconds_count{error_type="policy_denied",mcp_method_name="tools/call",mcp_protocol_version="",network_transport="tcp"} 1`,
		`mcp_server_operation_duration_seconds_count{error_type="503",mcp_method_name="ping",mcp_protocol_version="",network_transport="tcp"} 1`,
		`mcp_client_operation_duration_seconds_bucket{error_type="",mcp_method_name="tools/call",mcp_protocol_version="2025-06-18",network_transport="tcp",server_address="tools.example",server_port="8443",le="0.02"} 2`,
		`mcp_client_operation_duration_seconds_count{error_type="503",mcp_method_name="ping",mcp_protocol_version="",network_transport="pipe",server_address="",server_port=""} 1`)
	if n := strings.Count(text, "operation_duration_seconds_count{"); n != 5 {
		t.Errorf("%d series, want 3 of the server and 2 of the client", n)
	}
}

// Label sets are bounded for any status of an upstream.
func TestMetricLabelsAreBounded(t *testing.T) {
	m := NewMetrics("", func() State { return State{} })
	for status := range 1000 {
		m.Observe(&Request{Action: "allow", Upstream: "main", Status: status})
	}
	text := scrape(t, m)
	if n := strings.Count(text, "\nsvc_gateway_requests_total{"); n > 80 {
		t.Errorf("%d series", n)
	}
	if !strings.Contains(text, `status="other"`) {
		t.Error("made-up statuses are not together")
	}
}

func TestMetricsOfState(t *testing.T) {
	full := State{
		Ready: true, RestartPending: 2, Buckets: 3, Sessions: 4, MergedStreams: 5, AuditWritable: true, AuditLost: 6, AuditDropped: 7, AuditQueued: 8,
		KeysComputed: 9, KeysRemembered: 10, KeysBusy: 11,
		Store:        &StoreState{Allowed: 31, Refused: 32, Failed: 33, ShortCircuited: 34, Failing: true},
		Issuer:       &IssuerState{Keys: 35, Fetched: time.UnixMilli(36500), Fetches: 37, Signatures: 38, NoGroups: map[string]uint64{"form": 41}, Failing: true},
		Reporter:     &ReporterState{Posted: 12, Duplicates: 13, Failures: 14, Quarantined: 15, Dropped: 16, Failing: true},
		BreakersOpen: map[string]bool{"pii": true, "slow": false},
		Upstreams:    []UpstreamState{{Name: "main", Open: 17, Idle: 18, Waiting: 19, Dials: 20}},
		Governance:   &GovernanceState{Known: true, Policies: 26, Fetched: time.UnixMilli(27500), Failures: 28, Rejected: 29, Failing: true},
		ToolLists:    []ToolListState{{Upstream: "main", Tools: 30, Failures: 31, Changed: 32, BackingOff: true}},
		Pins:         []PinState{{Upstream: "main", Approved: 36, Changed: 37, New: 38, Passed: 39, Refused: 40}},
		Federation:   []FederationState{{Upstream: "main", Items: 33, LeftOut: 34, Failures: 35, Unavailable: true}},
		DiskFree:     map[string]float64{"audit": 41, "state": 42}, StateWritable: true, ClockJumps: 43,
		Labels:    &LabelState{Callers: 51, Addresses: 52, Full: 53, Unstored: 54},
		Pipelines: []Stats{{Name: "customer", Queued: 21, Exported: 22, Dropped: 23, Failed: 24, Rejected: 25}},
	}
	text := scrape(t, NewMetrics("", func() State { return full }))
	expose(t, text,
		`svc_gateway_labeled_callers{kind="caller"} 51`, `svc_gateway_labeled_callers{kind="address"} 52`, "svc_gateway_labels_full_total 53", "svc_gateway_labels_unstored_total 54",
		"svc_gateway_clock_jumps_total 43", "svc_gateway_state_writable 1", `svc_gateway_disk_free_bytes{directory="audit"} 41`, `svc_gateway_disk_free_bytes{directory="state"} 42`,
		`svc_gateway_federation_items{upstream="main"} 33`, `svc_gateway_federation_left_out{upstream="main"} 34`,
		`svc_gateway_pins_approved{upstream="main"} 36`, `svc_gateway_pins_changed{upstream="main"} 37`, `svc_gateway_pins_new{upstream="main"} 38`,
		`svc_gateway_pins_passed_total{upstream="main"} 39`, `svc_gateway_pins_refused_total{upstream="main"} 40`,
		`svc_gateway_federation_failures_total{upstream="main"} 35`, `svc_gateway_federation_unavailable{upstream="main"} 1`,
		"svc_gateway_ready 1", "svc_gateway_restart_pending 2", "svc_gateway_rate_limit_buckets 3", "svc_gateway_sessions 4",
		"svc_gateway_merged_streams 5", "svc_gateway_audit_writable 1", "svc_gateway_audit_lost_records_total 6",
		"svc_gateway_audit_sink_dropped_records_total 7", "svc_gateway_audit_sink_queued_records 8",
		"svc_gateway_auth_computations_total 9", "svc_gateway_auth_remembered_total 10", "svc_gateway_auth_busy_total 11",
		"svc_gateway_traces_posted_total 12", "svc_gateway_traces_duplicates_total 13", "svc_gateway_traces_post_failures_total 14",
		"svc_gateway_traces_quarantined_total 15", "svc_gateway_traces_dropped_total 16", "svc_gateway_traces_failing 1",
		"svc_gateway_governance_known 1", "svc_gateway_governance_policies 26", "svc_gateway_governance_fetched_timestamp_seconds 27.5",
		"svc_gateway_governance_fetch_failures_total 28", "svc_gateway_governance_rejected_total 29", "svc_gateway_governance_failing 1",
		"svc_gateway_rate_limit_store_allowed_total 31", "svc_gateway_rate_limit_store_refused_total 32", "svc_gateway_rate_limit_store_failed_total 33",
		"svc_gateway_rate_limit_store_skipped_total 34", "svc_gateway_rate_limit_store_failing 1",
		"svc_gateway_oauth_keys 35", "svc_gateway_oauth_keys_fetched_timestamp_seconds 36.5", "svc_gateway_oauth_key_fetches_total 37",
		"svc_gateway_oauth_failing 1", "svc_gateway_oauth_signature_checks_total 38",
		`svc_gateway_oauth_tokens_without_groups_total{reason="form"} 41`,
		`svc_gateway_guardrail_breaker_open{guardrail="pii"} 1`, `svc_gateway_guardrail_breaker_open{guardrail="slow"} 0`,
		`svc_gateway_upstream_connections{upstream="main"} 17`, `svc_gateway_upstream_idle_connections{upstream="main"} 18`,
		`svc_gateway_upstream_waiting_requests{upstream="main"} 19`, `svc_gateway_upstream_dials_total{upstream="main"} 20`,
		`svc_gateway_tool_search_tools{upstream="main"} 30`, `svc_gateway_tool_search_failures_total{upstream="main"} 31`,
		`svc_gateway_tool_definition_changed_total{upstream="main"} 32`, `svc_gateway_tool_search_backing_off{upstream="main"} 1`,
		`svc_gateway_spans_queued{pipeline="customer"} 21`, `svc_gateway_spans_exported_total{pipeline="customer"} 22`,
		`svc_gateway_spans_dropped_total{pipeline="customer"} 23`, `svc_gateway_spans_failed_total{pipeline="customer"} 24`,
		`svc_gateway_spans_rejected_total{pipeline="customer"} 25`)
	for _, m := range stateMetrics {
		if !strings.Contains(text, "\n"+m.name) {
			t.Errorf("%s is never exposed", m.name)
		}
	}
	if text := scrape(t, NewMetrics("", func() State { return State{} })); strings.Contains(text, "svc_gateway_traces_") {
		t.Error("a gateway that reports no traces counts them")
	}
}

func TestMetricsCountConcurrently(t *testing.T) {
	m := NewMetrics("", func() State { return State{} })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				m.Observe(&Request{Action: "allow", Rule: fmt.Sprint(j % 10), Upstream: "main", Status: 200 + i%2})
			}
		})
	}
	wg.Wait()
	total := 0
	for _, line := range strings.Split(scrape(t, m), "\n") {
		var n int
		if at := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "svc_gateway_requests_total{") {
			fmt.Sscan(line[at:], &n)
			total += n
		}
	}
	if total != 1600 {
		t.Errorf("%d counted", total)
	}
}

// BenchmarkObserve measures the cost of the metrics for a request.
func BenchmarkObserve(b *testing.B) {
	m := NewMetrics("", func() State { return State{} })
	r := Request{Action: "allow", Rule: "tools", Upstream: "main", Status: 200, Gateway: time.Millisecond, UpstreamTime: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(&r)
	}
}
