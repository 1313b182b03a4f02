package store

import (
	"context"
	"time"
)

// SLATarget is what an agent's latency and error rate are held to.
type SLATarget struct {
	ID               string
	Name             string
	AgentID          string
	AgentName        string   // the agent's present name, its last one when deleted
	P99LatencyMs     *float64 // nil: no latency target
	ErrorRatePercent *float64 // nil: no error target
	EvaluationPeriod string   // "1h", "24h", "7d", "30d"
	Set              string   `json:",omitempty"` // of the documents that declare it; empty: none
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// SLACreate asks for an SLA target.
type SLACreate struct {
	Name             string
	AgentID          string
	P99LatencyMs     *float64
	ErrorRatePercent *float64
	EvaluationPeriod string
}

// SLAUpdate changes what is not nil.
type SLAUpdate struct {
	Name             *string
	AgentID          *string
	P99LatencyMs     *float64
	ErrorRatePercent *float64
	EvaluationPeriod *string

	NoLatency, NoErrorRate bool // takes the target away
}

// SLAViolation is one breach of one target in one period. Figures that the type
// does not concern may be nil.
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

// ViolationFilter narrows a list of violations; zero fields do not.
type ViolationFilter struct {
	SLAID string
	Since time.Time // PeriodEnd at or after
}

// SLAs is the SLA targets of a tenant and their violations.
type SLAs interface {
	// ListSLAs returns all targets, newest first.
	ListSLAs(ctx context.Context) ([]SLATarget, error)
	// GetSLA returns NotFound for an unknown id.
	GetSLA(ctx context.Context, id string) (SLATarget, error)
	// CreateSLA returns Invalid ("agentId") for an unknown agent.
	CreateSLA(ctx context.Context, in SLACreate) (SLATarget, error)
	// UpdateSLA returns NotFound, or as CreateSLA.
	UpdateSLA(ctx context.Context, id string, up SLAUpdate) (SLATarget, error)
	// DeleteSLA removes a target; its violations stay. NotFound: no such target.
	DeleteSLA(ctx context.Context, id string) error

	// RecordViolation keeps a violation unless one of the same SLAID, Type and
	// PeriodStart (to the second) exists; created says which. ID and CreatedAt are set by the store.
	// Of concurrent calls one creates. An unknown SLAID is NotFound.
	RecordViolation(ctx context.Context, v SLAViolation) (created bool, err error)
	// ListViolations returns the newest first.
	ListViolations(ctx context.Context, f ViolationFilter, page Page) ([]SLAViolation, int, error)
}

// Make is the target that is asked for.
func (in SLACreate) Make(id string, now time.Time) SLATarget {
	return SLATarget{ID: id, Name: in.Name, AgentID: in.AgentID, P99LatencyMs: copied(in.P99LatencyMs), ErrorRatePercent: copied(in.ErrorRatePercent),
		EvaluationPeriod: in.EvaluationPeriod, CreatedAt: now, UpdatedAt: now}
}

// Apply makes the change.
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

// Object is the target for records of its changes.
func (s *SLATarget) Object() *Object {
	return newObject("slaTarget", s.ID, s.Name, s.Set, map[string]any{"name": s.Name, "agentId": s.AgentID, "evaluationPeriod": s.EvaluationPeriod,
		"p99LatencyMs": value(s.P99LatencyMs), "errorRatePercent": value(s.ErrorRatePercent)})
}
