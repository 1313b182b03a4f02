package api

import (
	"slices"
	"strconv"
	"time"
)

// TraceStatuses are the outcomes of a trace.
var TraceStatuses = []string{"success", "error"}

// TraceOutcomes are the values of the status filter of traces: the statuses, and the two parts of error. blocked means refused by
// a rule, a limit or a policy; failed is every other error.
var TraceOutcomes = append(slices.Clone(TraceStatuses), "blocked", "failed")

// TraceItem is a trace in lists: one proxied request. ToolName, Blocked and the following fields are absent when they do not
// apply. RequestID is the id of the request in the gateway's logs, Principal its caller, Client the name that the caller's
// program gives itself, RuleID the rule that decided, Reason the reason that the client got (data.reason) and ErrorKind the
// error_kind of the audit line.
type TraceItem struct {
	ID            string `json:"id"`
	AgentID       string `json:"agentId"`
	AgentName     string `json:"agentName"`
	Status        string `json:"status"`
	Environment   string `json:"environment"`
	SessionID     string `json:"sessionId"`
	ModelProvider string `json:"modelProvider"`
	ModelName     string `json:"modelName"`
	InputTokens   int64  `json:"inputTokens"`
	OutputTokens  int64  `json:"outputTokens"`
	// CacheReadTokens and CacheCreationTokens are parts of the input tokens: those that were read from the provider's prompt
	// cache, and those that were written to it.
	CacheReadTokens     int64         `json:"cacheReadTokens,omitempty"`
	CacheCreationTokens int64         `json:"cacheCreationTokens,omitempty"`
	CostUSD             float64       `json:"costUsd"`
	DurationMs          float64       `json:"durationMs"`
	InjectionScore      float64       `json:"injectionScore"`
	PIIDetected         []string      `json:"piiDetected"`
	PoliciesFired       []PolicyFired `json:"policiesFired"`
	ToolName            string        `json:"toolName,omitempty"`
	Blocked             bool          `json:"blocked,omitempty"`
	RequestID           string        `json:"requestId,omitempty"`
	Principal           string        `json:"principal,omitempty"`
	Client              TraceClient   `json:"client,omitzero"`
	RuleID              string        `json:"ruleId,omitempty"`
	Reason              string        `json:"reason,omitempty"`
	ErrorKind           string        `json:"errorKind,omitempty"`
	Approval            TraceApproval `json:"approval,omitzero"`
	// Labels are the data-flow labels that the caller had when the call was judged, Sets those that its answer set.
	Labels    []string  `json:"labels,omitempty"`
	Sets      []string  `json:"sets,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// TraceApproval is what a trace says about the approval of its call by a person. All members are empty when nothing asked for one.
type TraceApproval struct {
	// Status is required, granted, continued, denied, limit, too_large or unavailable.
	Status string `json:"status"`
	// ID is the id of the approval, By who granted it.
	ID string `json:"id,omitempty"`
	By string `json:"by,omitempty"`
}

// String returns the status, who granted the approval, and its id.
func (a TraceApproval) String() string {
	text := a.Status
	if a.By != "" {
		text += " by " + a.By
	}
	if a.ID != "" {
		text += " (" + a.ID + ")"
	}
	return text
}

// TraceApprovals are the values of TraceApproval.Status.
var TraceApprovals = []string{"required", "granted", "continued", "denied", "limit", "too_large", "unavailable"}

// Trace is a trace in the response to a single read.
type Trace struct {
	TraceItem
	QualityScores []QualityScore `json:"qualityScores"`
	Spans         []Span         `json:"spans"`
}

// PolicyFired is a policy that acted on a trace's request or response.
type PolicyFired struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Action string `json:"action"`
}

// QualityScore is the score that one scorer gave a trace.
type QualityScore struct {
	Scorer string  `json:"scorer"`
	Score  float64 `json:"score"`
}

// Span is one stage of a trace with its duration, in milliseconds.
type Span struct {
	Stage      string  `json:"stage"`
	DurationMs float64 `json:"durationMs"`
}

// TraceInput is one trace in the body of POST /api/traces. Status and one of AgentID and AgentName are required. ID makes ingest
// idempotent; the server chooses one when it is absent. CreatedAt is the start of the request; the time of receipt when absent.
// When CostUSD is nil, the cost is computed from the price table. Blocked is true when a policy blocked the request; the status
// is then error.
type TraceInput struct {
	ID                  string                           `json:"id,omitempty"`
	AgentID             string                           `json:"agentId,omitempty"`
	AgentName           string                           `json:"agentName,omitempty"`
	Status              string                           `json:"status"`
	Environment         string                           `json:"environment,omitempty"`
	SessionID           string                           `json:"sessionId,omitempty"`
	ModelProvider       string                           `json:"modelProvider,omitempty"`
	ModelName           string                           `json:"modelName,omitempty"`
	InputTokens         int64                            `json:"inputTokens,omitempty"`
	OutputTokens        int64                            `json:"outputTokens,omitempty"`
	CacheReadTokens     int64                            `json:"cacheReadTokens,omitempty"`
	CacheCreationTokens int64                            `json:"cacheCreationTokens,omitempty"`
	CostUSD             *float64                         `json:"costUsd,omitempty"`
	DurationMs          float64                          `json:"durationMs"`
	InjectionScore      float64                          `json:"injectionScore,omitempty"`
	PIIDetected         Bounded[string, entityBound]     `json:"piiDetected,omitempty"`
	PoliciesFired       Bounded[PolicyFired, firedBound] `json:"policiesFired,omitempty"`
	CreatedAt           time.Time                        `json:"createdAt,omitzero"`
	QualityScores       Bounded[QualityScore, spanBound] `json:"qualityScores,omitempty"`
	Spans               Bounded[Span, spanBound]         `json:"spans,omitempty"`
	ToolName            string                           `json:"toolName,omitempty"`
	Blocked             bool                             `json:"blocked,omitempty"`
	RequestID           string                           `json:"requestId,omitempty"`
	Principal           string                           `json:"principal,omitempty"`
	Client              TraceClient                      `json:"client,omitzero"`
	RuleID              string                           `json:"ruleId,omitempty"`
	Reason              string                           `json:"reason,omitempty"`
	ErrorKind           string                           `json:"errorKind,omitempty"`
	Approval            TraceApproval                    `json:"approval,omitzero"`
	Labels              Bounded[string, labelBound]      `json:"labels,omitempty"`
	Sets                Bounded[string, labelBound]      `json:"sets,omitempty"`
	// ToolCalls is set for a trace that was made of spans that call several tools. It has no JSON form.
	ToolCalls []ToolCalls `json:"-"`
}

// ToolCalls is the number of calls of a tool in a trace.
type ToolCalls struct {
	Tool  string
	Calls int
}

// TraceBatch is the body of POST /api/traces with several traces.
type TraceBatch struct {
	Traces TraceList `json:"traces"`
}

// IngestResult is the result of a batch: the number of traces that were stored, that were known before, and that came too late to
// be stored.
type IngestResult struct {
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	// Expired traces are older than the retention period; they are not stored.
	Expired int `json:"expired,omitempty"`
	// Store is set for a batch with an id.
	Store *IngestStore `json:"store,omitempty"`
}

// IngestStore tells a reporter whether a backup was restored into the store of the control plane, so that it can report again what
// the store lacks.
type IngestStore struct {
	// Now is the clock of the control plane.
	Now time.Time `json:"now"`
	// Restored is the time of the last restore, which identifies the store; zero when there was none.
	Restored time.Time `json:"restored,omitzero"`
	// Before is Restored of the store that the backup was made of.
	Before time.Time `json:"before,omitzero"`
	// Backup is the time of the backup; zero when it is not known.
	Backup time.Time `json:"backup,omitzero"`
}

// Validate returns what is wrong with the trace, keyed by field.
func (t *TraceInput) Validate() map[string]string {
	var c check
	t.check(&c)
	return c.details()
}

// Validate returns what is wrong with the batch, with keys like traces[3].status. It returns at most 100 entries, so that the
// response to a batch with very many errors stays small.
func (b *TraceBatch) Validate() map[string]string {
	var c check
	switch n := len(b.Traces); {
	case b.Traces == nil:
		c.add("traces", required)
	case n == 0 || n > MaxTraceBatch:
		c.add("traces", "must have 1 to %d entries, has %d", MaxTraceBatch, n)
		return c.details()
	}
	for i := range b.Traces {
		if len(c.found) >= maxBatchDetails {
			break
		}
		c.prefix = ""
		one := check{}
		if b.Traces[i].check(&one); one.found == nil {
			continue
		}
		c.prefix = "traces[" + strconv.Itoa(i) + "]."
		for field, message := range one.found {
			c.add(field, "%s", message)
		}
	}
	return c.details()
}

const maxBatchDetails = 100

// check records the errors of the trace. It allocates nothing for a valid trace, because ingest calls it for every trace.
func (t *TraceInput) check(c *check) {
	c.id("id", t.ID)
	if t.ID == "stats" || t.ID == "stream" || t.ID == "export" { // taken by paths below /api/traces
		c.add("id", "must not be stats, stream or export")
	}
	if t.AgentID == "" && t.AgentName == "" {
		c.add("agentName", "agentName or agentId is required")
	}
	c.id("agentId", t.AgentID)
	c.producerName("agentName", t.AgentName)
	if t.AgentName == AllAgents {
		c.add("agentName", "must not be %q", AllAgents)
	}
	if t.Status != "success" && t.Status != "error" {
		c.requiredEnum("status", t.Status, TraceStatuses)
	}
	c.text("environment", t.Environment, MaxName)
	c.text("sessionId", t.SessionID, MaxName)
	c.text("modelProvider", t.ModelProvider, MaxName)
	c.text("modelName", t.ModelName, MaxName)
	c.text("toolName", t.ToolName, MaxName)
	c.text("requestId", t.RequestID, MaxName)
	c.text("principal", t.Principal, MaxName)
	c.text("client.name", t.Client.Name, MaxClientName)
	c.text("client.version", t.Client.Version, MaxClientVersion)
	c.text("ruleId", t.RuleID, MaxName)
	c.text("reason", t.Reason, MaxName)
	c.text("errorKind", t.ErrorKind, MaxName)
	if t.Approval != (TraceApproval{}) {
		c.requiredEnum("approval.status", t.Approval.Status, TraceApprovals)
		c.id("approval.id", t.Approval.ID)
		c.text("approval.by", t.Approval.By, MaxName)
	}
	c.count("inputTokens", t.InputTokens, MaxTokens)
	c.count("outputTokens", t.OutputTokens, MaxTokens)
	c.count("cacheReadTokens", t.CacheReadTokens, MaxTokens)
	c.count("cacheCreationTokens", t.CacheCreationTokens, MaxTokens)
	if t.CacheReadTokens > t.InputTokens {
		c.add("cacheReadTokens", "must be at most inputTokens, which include them")
	} else if t.CacheCreationTokens > t.InputTokens-t.CacheReadTokens {
		c.add("cacheCreationTokens", "must be at most inputTokens minus cacheReadTokens, because inputTokens include both")
	}
	if t.CostUSD != nil {
		c.number("costUsd", *t.CostUSD, 0, MaxCostUSD)
	}
	c.number("durationMs", t.DurationMs, 0, MaxDurationMs)
	c.number("injectionScore", t.InjectionScore, 0, 1)
	if !t.CreatedAt.IsZero() && (t.CreatedAt.Year() < 2000 || t.CreatedAt.Year() > 9999) {
		c.add("createdAt", "must be a time after the year 2000")
	}
	t.checkLists(c)
}

// checkLists checks the parts of a trace that are lists.
func (t *TraceInput) checkLists(c *check) {
	c.labelNames("labels", t.Labels)
	c.labelNames("sets", t.Sets)
	if len(t.PIIDetected) > MaxEntities {
		c.add("piiDetected", "must have at most %d entries", MaxEntities)
	} else {
		for i, e := range t.PIIDetected {
			if !ValidID(e) {
				c.add(entry("piiDetected", i, ""), "must be an entity name such as EMAIL")
			}
		}
	}
	if len(t.PoliciesFired) > MaxFired {
		c.add("policiesFired", "must have at most %d entries", MaxFired)
	} else {
		for i := range t.PoliciesFired {
			p := &t.PoliciesFired[i]
			if !ValidID(p.ID) {
				c.requiredID(entry("policiesFired", i, ".id"), p.ID)
			}
			if !plain(p.Name) || len(p.Name) > MaxName {
				c.text(entry("policiesFired", i, ".name"), p.Name, MaxName)
			}
			if p.Action != "block" && p.Action != "redact" && p.Action != "warn" {
				c.requiredEnum(entry("policiesFired", i, ".action"), p.Action, Actions)
			}
		}
	}
	if len(t.QualityScores) > MaxSpans {
		c.add("qualityScores", "must have at most %d entries", MaxSpans)
	} else {
		for i := range t.QualityScores {
			q := &t.QualityScores[i]
			if !ValidID(q.Scorer) {
				c.line(entry("qualityScores", i, ".scorer"), q.Scorer)
			}
			if !(q.Score >= -maxScore && q.Score <= maxScore) {
				c.number(entry("qualityScores", i, ".score"), q.Score, -maxScore, maxScore)
			}
		}
	}
	if len(t.Spans) > MaxSpans {
		c.add("spans", "must have at most %d entries", MaxSpans)
		return
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		if !ValidID(s.Stage) {
			c.line(entry("spans", i, ".stage"), s.Stage)
		}
		if !(s.DurationMs >= 0 && s.DurationMs <= MaxDurationMs) {
			c.number(entry("spans", i, ".durationMs"), s.DurationMs, 0, MaxDurationMs)
		}
	}
}

// maxScore bounds a quality score; each scorer has its own scale.
const maxScore = 1e6

func entry(list string, i int, field string) string {
	return list + "[" + strconv.Itoa(i) + "]" + field
}
