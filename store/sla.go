package store

import (
	"context"
	"time"
)

// SLATarget is a limit on the latency and the error rate of an agent.
type SLATarget struct {
	ID               string
	Name             string
	AgentID          string
	AgentName        string   // the agent's current name, or its last name when deleted
	P99LatencyMs     *float64 // nil: no latency target
	ErrorRatePercent *float64 // nil: no error target
	EvaluationPeriod string   // "1h", "24h", "7d", "30d"
	Set              string   `json:",omitempty"` // labels of the documents that declare it; empty: none
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// SLACreate is the input of CreateSLA.
type SLACreate struct {
	Name             string
	AgentID          string
	P99LatencyMs     *float64
	ErrorRatePercent *float64
	EvaluationPeriod string
}

// SLAUpdate is a partial update; nil fields keep their value.
type SLAUpdate struct {
	Name             *string
	AgentID          *string
	P99LatencyMs     *float64
	ErrorRatePercent *float64
	EvaluationPeriod *string

	NoLatency, NoErrorRate bool // removes the target
}

// SLAViolation is one violation of one target in one period. Values that do not apply to its type
// may be nil.
type SLAViolation struct {
	ID              string
	SLAID           string
	SLAName         string
	AgentName       string
	PeriodStart     time.Time
	PeriodEnd       time.Time
	Type            string // "latency", "error_rate"
	TargetP99Ms     *float64
	ActualP99Ms     *float64
	TargetErrorRate *float64
	ActualErrorRate *float64
	CreatedAt       time.Time
}

// ViolationFilter restricts a list of violations. Zero fields match everything.
type ViolationFilter struct {
	SLAID string
	Since time.Time // inclusive, on PeriodEnd
}

// SLAs manages the SLA targets of a tenant and their violations.
type SLAs interface {
	// ListSLAs returns all targets, newest first.
	ListSLAs(ctx context.Context) ([]SLATarget, error)
	// GetSLA returns NotFound for an unknown id.
	GetSLA(ctx context.Context, id string) (SLATarget, error)
	// CreateSLA returns Invalid ("agentId") for an unknown agent.
	CreateSLA(ctx context.Context, in SLACreate) (SLATarget, error)
	// UpdateSLA returns NotFound for an unknown id, and otherwise the errors of CreateSLA.
	UpdateSLA(ctx context.Context, id string, up SLAUpdate) (SLATarget, error)
	// DeleteSLA removes a target; its violations stay. It returns NotFound for an unknown id.
	DeleteSLA(ctx context.Context, id string) error

	// RecordViolation stores a violation unless one with the same SLAID, Type and PeriodStart (to
	// the second) exists; created reports whether it was stored. ID and CreatedAt are set by the
	// store. Of concurrent calls one creates the violation. An unknown SLAID is NotFound.
	RecordViolation(ctx context.Context, v SLAViolation) (created bool, err error)
	// ListViolations returns violations, newest first.
	ListViolations(ctx context.Context, f ViolationFilter, page Page) ([]SLAViolation, int, error)
}

// Make returns the new target.
func (in SLACreate) Make(id string, now time.Time) SLATarget {
	return SLATarget{ID: id, Name: in.Name, AgentID: in.AgentID, P99LatencyMs: copied(in.P99LatencyMs), ErrorRatePercent: copied(in.ErrorRatePercent),
		EvaluationPeriod: in.EvaluationPeriod, CreatedAt: now, UpdatedAt: now}
}

// Apply applies the update.
func (up SLAUpdate) Apply(s *SLATarget, now time.Time) {
	set(&s.Name, up.Name)
	set(&s.AgentID, up.AgentID)
	set(&s.EvaluationPeriod, up.EvaluationPeriod)
	if up.P99LatencyMs != nil {
		s.P99LatencyMs = copied(up.P99LatencyMs)
	}
	if up.ErrorRatePercent != nil {
		s.ErrorRatePercent = copied(up.ErrorRatePercent)
	}
	if up.NoLatency {
		s.P99LatencyMs = nil
	}
	if up.NoErrorRate {
		s.ErrorRatePercent = nil
	}
	s.UpdatedAt = now
}

// Object is the target as audit events record it.
func (s *SLATarget) Object() *Object {
	return newObject("slaTarget", s.ID, s.Name, s.Set, map[string]any{"name": s.Name, "agentId": s.AgentID, "evaluationPeriod": s.EvaluationPeriod,
		"p99LatencyMs": value(s.P99LatencyMs), "errorRatePercent": value(s.ErrorRatePercent)})
}
