package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is the state of the gateway's parts at a scrape.
type State struct {
	// Ready is the state of /readyz.
	Ready bool
	// LicenseDays is the number of days until the license expires, including its grace
	// period.
	LicenseDays float64
	// RestartPending counts the fields that a reload could not change.
	RestartPending int
	// Buckets counts the rate-limit buckets in memory; 0 with a shared store.
	Buckets int
	// Sessions counts the client sessions whose upstream sessions are stored;
	// MergedStreams the open streams of several upstreams.
	Sessions, MergedStreams int

	// AuditWritable reports whether lines can be written; AuditLost counts lines that
	// could not be written, AuditDropped lines that a remote sink did not get,
	// AuditQueued lines that wait for a remote sink.
	AuditWritable           bool
	AuditLost, AuditDropped uint64
	AuditQueued             int

	// StateWritable reports whether files can be written in state_dir. DiskFree is the free
	// space in bytes by directory, "audit" and "state"; a directory whose space is not known is
	// left out.
	StateWritable bool
	DiskFree      map[string]float64
	// ClockJumps counts the steps of the clock that were logged.
	ClockJumps uint64

	// KeysComputed, KeysRemembered and KeysBusy count argon2id computations, wrong
	// keys refused from memory, and requests refused because too many waited.
	KeysComputed, KeysRemembered, KeysBusy uint64

	// Labels is nil if no labels are declared.
	Labels *LabelState
	// Store is nil if the rate-limit buckets are in memory.
	Store *StoreState
	// Issuer is nil if no bearer tokens are accepted.
	Issuer *IssuerState
	// Reporter is nil if no traces are reported.
	Reporter *ReporterState
	// Governance is nil if policies of the control plane are not enforced.
	Governance *GovernanceState
	// BreakersOpen maps the name of a guardrail to whether its breaker is open or
	// half-open.
	BreakersOpen map[string]bool
	// Upstreams are the connection pools.
	Upstreams []UpstreamState
	// ToolLists are the states of the tool search's lists, by upstream.
	ToolLists []ToolListState
	// Pins are the states of the upstreams with pin_tools or pin_skills.
	Pins []PinState
	// Federation is the state of the lists of each upstream with federation.
	Federation []FederationState
	// Pipelines are the states of a Tracer's pipelines.
	Pipelines []Stats
}

// LabelState is the state of the memory of data-flow labels.
type LabelState struct {
	// Callers and Addresses are remembered; Full counts labels for which there was no room, and Unstored those
	// that could not be stored.
	Callers, Addresses int
	Full, Unstored     uint64
}

// StoreState is the state of a shared rate-limit store.
type StoreState struct {
	// Allowed and Refused count decisions, Failed calls without a decision,
	// ShortCircuited calls that were not made because of an earlier failure.
	Allowed, Refused, Failed, ShortCircuited uint64
	// Failing is set while a server of the store has not responded since its last
	// failure.
	Failing bool
}

// IssuerState is the state of the keys of the token issuer.
type IssuerState struct {
	// Keys is the number of known keys.
	Keys int
	// Fetched is when the issuer last responded with keys; zero for never.
	Fetched time.Time
	// Fetches counts attempts, Signatures the signature checks of tokens.
	Fetches, Signatures uint64
	// NoGroups counts verified tokens without groups by the reason.
	NoGroups map[string]uint64
	// Failing is set when the last attempt failed.
	Failing bool
}

// ReporterState counts the results of traces at the control plane.
type ReporterState struct {
	Posted, Duplicates, Failures, Quarantined, Dropped uint64
	// Failing is set while the control plane accepts no traces.
	Failing bool
}

// GovernanceState is the state of the policies of the control plane.
type GovernanceState struct {
	// Known is set when there are policies to enforce; Policies is their number.
	Known    bool
	Policies int
	// Fetched is when the control plane last confirmed them; zero for never.
	Fetched time.Time
	// Failures counts fetches that failed, Rejected bundles that could not be enforced;
	// Failing is set while there is no success since.
	Failures, Rejected uint64
	Failing            bool
}

// UpstreamState is the connection pool of one upstream.
type UpstreamState struct {
	Name                string
	Open, Idle, Waiting int
	Dials               uint64
	// InFlight counts the requests in flight, if the configuration limits them.
	InFlight int64
	// BreakerOpen is set while the breaker of the upstream is open or half-open.
	BreakerOpen bool
	// Processes, ProcessStarts and ProcessExits count the running processes of a
	// program, all that were started, and those that failed.
	Processes                   int
	ProcessStarts, ProcessExits uint64
	// Dropped counts what carried no message and was not forwarded.
	Dropped uint64
}

// ToolListState is the state of the list of tools of one upstream: the number of
// searchable tools, failed lists and changed definitions, and whether the last list
// failed.
type ToolListState struct {
	Upstream          string
	Tools             int
	Failures, Changed uint64
	BackingOff        bool
}

// FederationState is the state of the lists of one upstream with federation.
type FederationState struct {
	Upstream string
	// Items counts the items that clients can see; LeftOut those that they cannot.
	Items, LeftOut int
	// Failures counts readings that failed; Unavailable is set while the last one did.
	Failures    uint64
	Unavailable bool
}

// PinState compares the last list of an upstream with pin_tools with the approved
// definitions.
type PinState struct {
	Upstream string
	// Approved, Changed and New count tools, prompts and instructions.
	Approved, Changed, New int
	// Passed and Refused count calls of definitions that are not approved.
	Passed, Refused uint64
}

// stateCollector converts a State to metrics.
type stateCollector struct {
	state func() State
	descs map[string]*prometheus.Desc
}

// stateMetrics are the names, with the label that some have.
var stateMetrics = []struct{ name, label, help string }{
	{"svc_gateway_ready", "", "1 when /readyz answers 200."},
	{"svc_gateway_license_days_left", "", "Days that the license still works, its grace period included; 0 when it does not verify."},
	{"svc_gateway_restart_pending", "", "Fields of the configuration that a reload changed and only a restart applies."},
	{"svc_gateway_rate_limit_buckets", "", "Rate-limit buckets in memory."},
	{"svc_gateway_sessions", "", "Client sessions whose upstream sessions are remembered."},
	{"svc_gateway_merged_streams", "", "Open event streams that merge several upstreams."},
	{"svc_gateway_audit_writable", "", "1 when audit lines can be written."},
	{"svc_gateway_state_writable", "", "1 when files can be written in state_dir; tried every 30 s."},
	{"svc_gateway_disk_free_bytes", "directory", "Free space of the disk with the directory: audit for that of the audit file, state for state_dir."},
	{"svc_gateway_clock_jumps_total", "", "Times that the clock moved by 5 s or more against the time that passed: it was set, or the machine was suspended."},
	{"svc_gateway_audit_lost_records_total", "", "Audit lines that could not be written."},
	{"svc_gateway_audit_sink_dropped_records_total", "", "Audit lines that a remote sink did not get."},
	{"svc_gateway_audit_sink_queued_records", "", "Audit lines that wait for a remote sink."},
	{"svc_gateway_auth_computations_total", "", "argon2id computations."},
	{"svc_gateway_auth_remembered_total", "", "Wrong keys that were refused from memory."},
	{"svc_gateway_auth_busy_total", "", "Requests refused because too many keys waited to be checked."},
	{"svc_gateway_labeled_callers", "kind", "Callers whose data-flow labels are remembered: by their principal or session, or by their address alone. When 65,536 and 16,384 are, others count as having every label."},
	{"svc_gateway_labels_full_total", "", "Labels that were set for callers for whom there was no room."},
	{"svc_gateway_labels_unstored_total", "", "Labels that could not be stored, so that the messages that set them were withheld."},
	{"svc_gateway_rate_limit_store_allowed_total", "", "Decisions of the shared rate-limit store that let a request pass."},
	{"svc_gateway_rate_limit_store_refused_total", "", "Decisions of the shared rate-limit store that refused one."},
	{"svc_gateway_rate_limit_store_failed_total", "", "Calls of the shared rate-limit store that brought no decision in time."},
	{"svc_gateway_rate_limit_store_skipped_total", "", "Calls that were not made because the store failed less than a second before."},
	{"svc_gateway_rate_limit_store_failing", "", "1 while a server of the shared rate-limit store does not answer; fail_open decides."},
	{"svc_gateway_oauth_keys", "", "Usable keys of the token issuer."},
	{"svc_gateway_oauth_keys_fetched_timestamp_seconds", "", "When the token issuer last answered with usable keys; 0 for never."},
	{"svc_gateway_oauth_key_fetches_total", "", "Attempts to fetch the keys of the token issuer."},
	{"svc_gateway_oauth_failing", "", "1 while the token issuer does not answer with usable keys; those known last stay in use."},
	{"svc_gateway_oauth_signature_checks_total", "", "Signature checks of bearer tokens that were not remembered."},
	{"svc_gateway_oauth_tokens_without_groups_total", "reason", "Verified tokens that gave their callers no groups: absent (no such claim), form (neither a text nor a list of texts), elsewhere (too many for a token, which only refers to them)."},
	{"svc_gateway_traces_posted_total", "", "Traces that the control plane stored."},
	{"svc_gateway_traces_duplicates_total", "", "Traces that the control plane knew before."},
	{"svc_gateway_traces_post_failures_total", "", "Posts to the control plane that failed and were tried again."},
	{"svc_gateway_traces_quarantined_total", "", "Traces that the control plane refused as bad."},
	{"svc_gateway_traces_dropped_total", "", "Traces that were lost before they could be posted."},
	{"svc_gateway_traces_failing", "", "1 when the control plane takes no traces at present."},
	{"svc_gateway_governance_known", "", "1 when there are policies of the control plane to enforce; without them nothing passes, unless fail_open."},
	{"svc_gateway_governance_policies", "", "Policies of the control plane in force."},
	{"svc_gateway_governance_fetched_timestamp_seconds", "", "When the control plane last confirmed its policies; 0 for never."},
	{"svc_gateway_governance_fetch_failures_total", "", "Fetches of policies that failed."},
	{"svc_gateway_governance_rejected_total", "", "Bundles of policies that could not be enforced."},
	{"svc_gateway_governance_failing", "", "1 when the control plane gives no policies at present; those known last stay in force."},
	{"svc_gateway_guardrail_breaker_open", "guardrail", "1 while the breaker of a guardrail is open or half-open."},
	{"svc_gateway_upstream_connections", "upstream", "Open connections to an upstream."},
	{"svc_gateway_upstream_idle_connections", "upstream", "Open connections that wait for a request."},
	{"svc_gateway_upstream_waiting_requests", "upstream", "Requests that wait for a connection."},
	{"svc_gateway_upstream_dials_total", "upstream", "Connections made or tried."},
	{"svc_gateway_upstream_in_flight", "upstream", "Messages that wait for an upstream with max_in_flight or a breaker."},
	{"svc_gateway_upstream_breaker_open", "upstream", "1 while the breaker of an upstream is open or half-open."},
	{"svc_gateway_upstream_processes", "upstream", "Processes of an upstream that is a program."},
	{"svc_gateway_upstream_process_starts_total", "upstream", "Processes that were started."},
	{"svc_gateway_upstream_process_exits_total", "upstream", "Processes that ended by themselves, or did not start."},
	{"svc_gateway_upstream_dropped_events_total", "upstream", "Events of event streams, and lines of programs, that carried no message and were not forwarded."},
	{"svc_gateway_tool_search_tools", "upstream", "Tools of an upstream that a search can find."},
	{"svc_gateway_tool_search_failures_total", "upstream", "Lists of tools that could not be had."},
	{"svc_gateway_tool_search_backing_off", "upstream", "1 while the last list of an upstream's tools failed."},
	{"svc_gateway_federation_items", "upstream", "Items of an upstream in the merged lists that all callers share."},
	{"svc_gateway_federation_left_out", "upstream", "Items of an upstream that are left out of the merged lists."},
	{"svc_gateway_federation_failures_total", "upstream", "Readings of the lists of an upstream that failed."},
	{"svc_gateway_federation_unavailable", "upstream", "1 while the last reading of the lists of an upstream failed."},
	{"svc_gateway_pins_approved", "upstream", "Tools, prompts, instructions and skills in the last list of an upstream whose definition is the approved one."},
	{"svc_gateway_pins_changed", "upstream", "Tools, prompts, instructions and skills in the last list of an upstream whose definition is another than the approved one."},
	{"svc_gateway_pins_new", "upstream", "Tools, prompts, instructions and skills in the last list of an upstream of which no definition was approved."},
	{"svc_gateway_pins_passed_total", "upstream", "Calls of changed or new tools and prompts, and messages with changed or new skills, that passed (pin_tools and pin_skills: warn)."},
	{"svc_gateway_pins_refused_total", "upstream", "Calls of changed or new tools and prompts, and messages with changed or new skills, that were refused (pin_tools and pin_skills: block)."},
	{"svc_gateway_tool_definition_changed_total", "upstream", "Tool definitions that were not what they had been."},
	{"svc_gateway_spans_queued", "pipeline", "Requests whose spans wait for their export."},
	{"svc_gateway_spans_exported_total", "pipeline", "Requests whose spans were exported."},
	{"svc_gateway_spans_dropped_total", "pipeline", "Requests whose spans found the queue full."},
	{"svc_gateway_spans_failed_total", "pipeline", "Requests whose spans were given up after failed exports."},
	{"svc_gateway_spans_rejected_total", "pipeline", "Spans that the endpoint took a batch without."},
}

func newStateCollector(state func() State) *stateCollector {
	c := &stateCollector{state: state, descs: make(map[string]*prometheus.Desc, len(stateMetrics))}
	for _, m := range stateMetrics {
		var labels []string
		if m.label != "" {
			labels = []string{m.label}
		}
		c.descs[m.name] = prometheus.NewDesc(m.name, m.help, labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	s := c.state()
	gauge := func(name string, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, v, labels...)
	}
	count := func(name string, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue, float64(v), labels...)
	}
	gauge("svc_gateway_ready", boolGauge(s.Ready))
	gauge("svc_gateway_license_days_left", s.LicenseDays)
	gauge("svc_gateway_restart_pending", float64(s.RestartPending))
	gauge("svc_gateway_rate_limit_buckets", float64(s.Buckets))
	gauge("svc_gateway_sessions", float64(s.Sessions))
	gauge("svc_gateway_merged_streams", float64(s.MergedStreams))
	gauge("svc_gateway_audit_writable", boolGauge(s.AuditWritable))
	gauge("svc_gateway_state_writable", boolGauge(s.StateWritable))
	for directory, free := range s.DiskFree {
		gauge("svc_gateway_disk_free_bytes", free, directory)
	}
	count("svc_gateway_clock_jumps_total", s.ClockJumps)
	count("svc_gateway_audit_lost_records_total", s.AuditLost)
	count("svc_gateway_audit_sink_dropped_records_total", s.AuditDropped)
	gauge("svc_gateway_audit_sink_queued_records", float64(s.AuditQueued))
	count("svc_gateway_auth_computations_total", s.KeysComputed)
	count("svc_gateway_auth_remembered_total", s.KeysRemembered)
	count("svc_gateway_auth_busy_total", s.KeysBusy)
	if l := s.Labels; l != nil {
		gauge("svc_gateway_labeled_callers", float64(l.Callers), "caller")
		gauge("svc_gateway_labeled_callers", float64(l.Addresses), "address")
		count("svc_gateway_labels_full_total", l.Full)
		count("svc_gateway_labels_unstored_total", l.Unstored)
	}
	if st := s.Store; st != nil {
		count("svc_gateway_rate_limit_store_allowed_total", st.Allowed)
		count("svc_gateway_rate_limit_store_refused_total", st.Refused)
		count("svc_gateway_rate_limit_store_failed_total", st.Failed)
		count("svc_gateway_rate_limit_store_skipped_total", st.ShortCircuited)
		gauge("svc_gateway_rate_limit_store_failing", boolGauge(st.Failing))
	}
	if i := s.Issuer; i != nil {
		gauge("svc_gateway_oauth_keys", float64(i.Keys))
		gauge("svc_gateway_oauth_keys_fetched_timestamp_seconds", seconds(i.Fetched))
		count("svc_gateway_oauth_key_fetches_total", i.Fetches)
		gauge("svc_gateway_oauth_failing", boolGauge(i.Failing))
		count("svc_gateway_oauth_signature_checks_total", i.Signatures)
		for reason, n := range i.NoGroups {
			count("svc_gateway_oauth_tokens_without_groups_total", n, reason)
		}
	}
	if r := s.Reporter; r != nil {
		count("svc_gateway_traces_posted_total", r.Posted)
		count("svc_gateway_traces_duplicates_total", r.Duplicates)
		count("svc_gateway_traces_post_failures_total", r.Failures)
		count("svc_gateway_traces_quarantined_total", r.Quarantined)
		count("svc_gateway_traces_dropped_total", r.Dropped)
		gauge("svc_gateway_traces_failing", boolGauge(r.Failing))
	}
	if g := s.Governance; g != nil {
		gauge("svc_gateway_governance_known", boolGauge(g.Known))
		gauge("svc_gateway_governance_policies", float64(g.Policies))
		gauge("svc_gateway_governance_fetched_timestamp_seconds", seconds(g.Fetched))
		count("svc_gateway_governance_fetch_failures_total", g.Failures)
		count("svc_gateway_governance_rejected_total", g.Rejected)
		gauge("svc_gateway_governance_failing", boolGauge(g.Failing))
	}
	for name, open := range s.BreakersOpen {
		gauge("svc_gateway_guardrail_breaker_open", boolGauge(open), name)
	}
	for _, u := range s.Upstreams {
		gauge("svc_gateway_upstream_connections", float64(u.Open), u.Name)
		gauge("svc_gateway_upstream_idle_connections", float64(u.Idle), u.Name)
		gauge("svc_gateway_upstream_waiting_requests", float64(u.Waiting), u.Name)
		count("svc_gateway_upstream_dials_total", u.Dials, u.Name)
		gauge("svc_gateway_upstream_in_flight", float64(u.InFlight), u.Name)
		gauge("svc_gateway_upstream_breaker_open", boolGauge(u.BreakerOpen), u.Name)
		gauge("svc_gateway_upstream_processes", float64(u.Processes), u.Name)
		count("svc_gateway_upstream_process_starts_total", u.ProcessStarts, u.Name)
		count("svc_gateway_upstream_process_exits_total", u.ProcessExits, u.Name)
		count("svc_gateway_upstream_dropped_events_total", u.Dropped, u.Name)
	}
	for _, l := range s.ToolLists {
		gauge("svc_gateway_tool_search_tools", float64(l.Tools), l.Upstream)
		count("svc_gateway_tool_search_failures_total", l.Failures, l.Upstream)
		gauge("svc_gateway_tool_search_backing_off", boolGauge(l.BackingOff), l.Upstream)
		count("svc_gateway_tool_definition_changed_total", l.Changed, l.Upstream)
	}
	for _, l := range s.Federation {
		gauge("svc_gateway_federation_items", float64(l.Items), l.Upstream)
		gauge("svc_gateway_federation_left_out", float64(l.LeftOut), l.Upstream)
		count("svc_gateway_federation_failures_total", l.Failures, l.Upstream)
		gauge("svc_gateway_federation_unavailable", boolGauge(l.Unavailable), l.Upstream)
	}
	for _, p := range s.Pins {
		gauge("svc_gateway_pins_approved", float64(p.Approved), p.Upstream)
		gauge("svc_gateway_pins_changed", float64(p.Changed), p.Upstream)
		gauge("svc_gateway_pins_new", float64(p.New), p.Upstream)
		count("svc_gateway_pins_passed_total", p.Passed, p.Upstream)
		count("svc_gateway_pins_refused_total", p.Refused, p.Upstream)
	}
	for _, p := range s.Pipelines {
		gauge("svc_gateway_spans_queued", float64(p.Queued), p.Name)
		count("svc_gateway_spans_exported_total", p.Exported, p.Name)
		count("svc_gateway_spans_dropped_total", p.Dropped, p.Name)
		count("svc_gateway_spans_failed_total", p.Failed, p.Name)
		count("svc_gateway_spans_rejected_total", p.Rejected, p.Name)
	}
}

// seconds returns a time as Unix seconds; 0 for never.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
