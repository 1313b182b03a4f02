package store

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// maxProblems bounds the fields that the error about a batch lists.
const maxProblems = 20

// Check calls take with a copy of each trace of the batch that passes checkTrace, in order,
// with optional fields filled in and an id from newID for traces without one. Its error lists
// the problems of the other traces; then nothing that take received may be stored.
func (b *Batch) Check(now time.Time, newID func() string, take func(i int, tr *Trace)) error {
	problems := map[string]string{}
	var tr Trace // one copy for all traces: the argument of take is valid until take returns
	for i := range b.Traces {
		tr = b.Traces[i] // a copy, so that the caller's trace is not changed
		if tr.ID == "" {
			tr.ID = b.TraceID(i)
		}
		if tr.ID == "" {
			tr.ID = newID()
		}
		if field, problem := checkTrace(&tr, now); problem == "" {
			take(i, &tr)
		} else if len(problems) < maxProblems {
			problems[fmt.Sprintf("traces[%d].%s", i, field)] = problem
		}
	}
	return badTraces(problems)
}

// badTraces returns the error about the fields of a batch, nil when none is bad.
func badTraces(problems map[string]string) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Message: "invalid traces", Fields: problems}
}

// UnknownAgents returns the error about the traces of a batch that name an agent which does
// not exist, nil when there are none. It is shared by the backends.
func UnknownAgents(traces []int) error {
	problems := map[string]string{}
	for _, i := range traces[:min(len(traces), maxProblems)] {
		problems[fmt.Sprintf("traces[%d].agentId", i)] = "is not an agent of this tenant"
	}
	return badTraces(problems)
}

// checkTrace checks a trace against those rules of [TenantTraces.Ingest] that need only the
// trace, and fills in optional fields, except for its id. It returns the field that is wrong
// and the problem. It is shared by the backends.
func checkTrace(tr *Trace, now time.Time) (field, problem string) {
	switch {
	case tr.CreatedAt.IsZero():
		tr.CreatedAt = now
	case tr.CreatedAt.Unix() < 0:
		return "createdAt", "must not be before 1970"
	case tr.CreatedAt.After(now.Add(MaxAhead)):
		tr.CreatedAt = now.Add(MaxAhead)
	}
	tr.CreatedAt = tr.CreatedAt.UTC()
	if tr.AgentID == "" && tr.AgentName == "" {
		return "agentName", "agentId or agentName is required"
	}
	if tr.Status == "" && tr.Blocked {
		tr.Status = TraceError
	}
	if tr.Status != TraceSuccess && tr.Status != TraceError {
		return "status", "must be success or error"
	}
	if tr.Blocked && tr.Status != TraceError {
		return "status", "must be error where blocked is true"
	}
	if len(tr.ID) > MaxTraceID {
		return "id", fmt.Sprintf("must have at most %d bytes", MaxTraceID)
	}
	for _, s := range [...]struct{ field, value string }{
		{"id", tr.ID}, {"agentId", tr.AgentID}, {"agentName", tr.AgentName}, {"agentName", tr.AgentNameSent}, {"environment", tr.Environment},
		{"modelProvider", tr.ModelProvider}, {"modelName", tr.ModelName}, {"toolName", tr.ToolName},
		{"sessionId", tr.SessionID}, {"requestId", tr.RequestID}, {"principal", tr.Principal},
		{"client.name", tr.ClientName}, {"client.version", tr.ClientVersion},
		{"ruleId", tr.RuleID}, {"reason", tr.Reason}, {"errorKind", tr.ErrorKind},
		{"approval.status", tr.Approval.Status}, {"approval.id", tr.Approval.ID}, {"approval.by", tr.Approval.By},
	} {
		if problem := badString(s.value); problem != "" {
			return s.field, problem
		}
	}
	if len(tr.ToolCalls) > MaxToolCalls {
		return "toolCalls", fmt.Sprintf("must have at most %d entries", MaxToolCalls)
	}
	for _, c := range tr.ToolCalls {
		if problem := badString(c.Tool); problem != "" || c.Tool == "" || c.Calls < 1 {
			return "toolCalls", "must have a tool and at least one call each"
		}
	}
	if len(tr.AgentName) > 512 {
		return "agentName", "must have at most 512 bytes"
	}
	for _, n := range [...]struct {
		field string
		value int64
		most  int64
	}{
		{"inputTokens", tr.InputTokens, MaxTraceTokens}, {"outputTokens", tr.OutputTokens, MaxTraceTokens},
		{"cacheReadTokens", tr.CacheReadTokens, tr.InputTokens}, {"cacheCreationTokens", tr.CacheCreationTokens, tr.InputTokens - tr.CacheReadTokens},
		{"costUsd", int64(tr.Cost), MaxUSD * 1e9}, {"durationMs", int64(tr.Duration), math.MaxInt64},
	} {
		if n.value < 0 || n.value > n.most {
			return n.field, "is out of range"
		}
	}
	if !(tr.InjectionScore >= 0 && tr.InjectionScore <= 1) {
		return "injectionScore", "must be between 0 and 1"
	}
	return lists(tr)
}

func badString(s string) string {
	switch {
	case len(s) > MaxTraceString:
		return fmt.Sprintf("must have at most %d bytes", MaxTraceString)
	case strings.IndexByte(s, 0) >= 0:
		return "must not contain a zero byte"
	}
	return ""
}

// lists checks the lists of a trace.
func lists(tr *Trace) (field, problem string) {
	for _, l := range [...]struct {
		field string
		n     int
	}{
		{"piiDetected", len(tr.PIIDetected)}, {"labels", len(tr.Labels)}, {"sets", len(tr.Sets)}, {"policiesFired", len(tr.PoliciesFired)},
		{"qualityScores", len(tr.QualityScores)}, {"spans", len(tr.Spans)},
	} {
		if l.n > MaxTraceList {
			return l.field, fmt.Sprintf("must have at most %d elements", MaxTraceList)
		}
	}
	for _, l := range [...]struct {
		field string
		list  []string
	}{{"piiDetected", tr.PIIDetected}, {"labels", tr.Labels}, {"sets", tr.Sets}} {
		for _, s := range l.list {
			if problem := badString(s); problem != "" {
				return l.field, problem
			}
		}
	}
	for _, p := range tr.PoliciesFired {
		for _, s := range [...]string{p.ID, p.Name, p.Action} {
			if problem := badString(s); problem != "" {
				return "policiesFired", problem
			}
		}
	}
	for _, q := range tr.QualityScores {
		if problem := badString(q.Scorer); problem != "" {
			return "qualityScores", problem
		}
		if math.IsNaN(q.Score) || math.IsInf(q.Score, 0) {
			return "qualityScores", "must have finite scores"
		}
	}
	for _, s := range tr.Spans {
		if problem := badString(s.Stage); problem != "" {
			return "spans", problem
		}
		if s.Duration < 0 {
			return "spans", "must not have negative durations"
		}
	}
	return "", ""
}
