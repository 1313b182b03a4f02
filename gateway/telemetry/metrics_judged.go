package telemetry

import "github.com/prometheus/client_golang/prometheus"

// newJudgementCounters returns the counters of rules that are not enforced and of
// policies.
func newJudgementCounters() (observed, fired *prometheus.CounterVec) {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_gateway_observed_total",
			Help: "Requests on which a rule in mode observe would have acted, by rule and action.",
		}, []string{"rule", "action"}), prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_gateway_policies_fired_total",
			Help: "Policies of the control plane that fired on requests, by action: block, redact or warn.",
		}, []string{"action"})
}

// Observed counts a rule in mode observe, with the action that it would have had for a
// request.
func (m *Metrics) Observed(rule, action string) { m.observed.WithLabelValues(rule, action).Inc() }

// PolicyFired counts a policy of the control plane that fired on a request.
func (m *Metrics) PolicyFired(action string) { m.fired.WithLabelValues(action).Inc() }

// newApprovalCounter returns the counter of calls that a person has to approve.
func newApprovalCounter() *prometheus.CounterVec {
	approvals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "svc_gateway_approvals_total",
		Help: "Calls that a person has to approve, by result: required, granted, continued, denied, limit, too_large or unavailable.",
	}, []string{"result"})
	for _, result := range []string{"required", "granted", "continued", "denied", "limit", "too_large", "unavailable"} {
		approvals.WithLabelValues(result) // so that the first one is an increase for alerts
	}
	return approvals
}

// Approved counts a call that a person has to approve, by the result.
func (m *Metrics) Approved(result string) { m.approvals.WithLabelValues(result).Inc() }

// newDroppedCounter returns the counter of removed header fields.
func newDroppedCounter() *prometheus.CounterVec {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "svc_gateway_headers_dropped_total",
		Help: "Mcp-Param header fields that were removed from requests, by reason: token (of a redacted value) or mismatch (with its argument).",
	}, []string{"reason"})
	dropped.WithLabelValues("token")
	dropped.WithLabelValues("mismatch")
	return dropped
}

// HeaderDropped counts a header field that was removed from a request: token or mismatch.
func (m *Metrics) HeaderDropped(reason string) { m.dropped.WithLabelValues(reason).Inc() }
