package store

import (
	"context"
	"slices"
	"time"
)

// TraceStatus is the outcome of a traced request.
type TraceStatus string

// The trace states.
const (
	TraceSuccess TraceStatus = "success"
	TraceError   TraceStatus = "error"
)

// The parts of TraceError that a filter can ask for. No trace has them as its Status.
const (
	TraceBlocked TraceStatus = "blocked" // refused by a rule, a limit or a policy
	TraceFailed  TraceStatus = "failed"  // an error that is no block
)

// Trace is one proxied request. Its identity is (tenant, ID).
type Trace struct {
	ID        string // given by the producer; when empty that of Batch.TraceID, or made by the store
	AgentID   string // empty for an agent that is known by name alone
	AgentName string
	// AgentNameSent is the producer's spelling of AgentName where it differs. At
	// ingest it means the agent that has exactly this name, where one has it. It is
	// not kept.
	AgentNameSent string
	Status        TraceStatus
	Blocked       bool // a policy blocked the request; Status is then error
	Environment   string
	SessionID     string
	ModelProvider string
	ModelName     string
	ToolName      string
	InputTokens   int64
	OutputTokens  int64
	// CacheReadTokens and CacheCreationTokens are the input tokens that were read from
	// and written to a provider's cache.
	CacheReadTokens     int64
	CacheCreationTokens int64
	Cost                NanoUSD
	Duration            time.Duration
	// RequestID is the id under which the producer logged the request, Principal the
	// caller whom it knew.
	RequestID string
	Principal string
	// ClientName and ClientVersion are what the caller's program calls itself. Nothing
	// of it is verified.
	ClientName    string
	ClientVersion string
	// RuleID is the gateway's rule that decided, Reason what the client was told
	// (data.reason), and ErrorKind the error_kind of the audit line.
	RuleID    string
	Reason    string
	ErrorKind string
	// InjectionScore is between 0 and 1.
	InjectionScore float64
	PIIDetected    []string
	PoliciesFired  []PolicyFired
	// CreatedAt is the producer's start time; the time of receipt when zero, and at
	// most MaxAhead after it.
	CreatedAt time.Time
	// ToolCalls are the calls of tools where they are others than one call of
	// ToolName. They are counted at ingest and not kept.
	ToolCalls     []ToolCalls
	QualityScores []QualityScore // nil in list items and streams
	Spans         []Span         // nil in list items and streams
}

// MaxAhead is how far a trace's CreatedAt may lie after its receipt; what lies
// further ahead is set to receipt plus MaxAhead.
const MaxAhead = 5 * time.Minute

// ToolCalls is how often a trace called a tool.
type ToolCalls struct {
	Tool  string
	Calls int
}

// MaxToolCalls bounds the tools that one trace names.
const MaxToolCalls = 1000

// PolicyFired is a policy that acted on a request.
type PolicyFired struct {
	ID     string
	Name   string
	Action string
}

// QualityScore is one scorer's judgement of an answer.
type QualityScore struct {
	Scorer string
	Score  float64
}

// Span is a stage of a request.
type Span struct {
	Stage    string
	Duration time.Duration
}

// TraceFilter narrows a list of traces; nil and zero fields do not.
type TraceFilter struct {
	AgentID           string
	Status            TraceStatus
	Environment       string
	Start             time.Time // inclusive
	End               time.Time // inclusive
	MinCost           *NanoUSD  // inclusive
	MaxCost           *NanoUSD  // inclusive
	MinInjectionScore *float64  // inclusive
	// The following ask for exact values; one of several for PolicyID and PII.
	SessionID   string
	AgentName   string // as it was when the trace came
	ModelName   string // of any provider
	ToolName    string
	RuleID      string
	PolicyID    string // a policy that fired
	PII         string // an entity that was detected
	Principal   string
	Client      string // the name that the caller's program has for itself
	RequestID   string
	MinDuration time.Duration // inclusive
}

// Match reports whether a trace passes the filter. Backends that filter
// otherwise must agree with it.
func (f *TraceFilter) Match(t *Trace) bool {
	return (f.AgentID == "" || f.AgentID == t.AgentID) &&
		f.matchStatus(t) &&
		(f.Environment == "" || f.Environment == t.Environment) &&
		(f.Start.IsZero() || !t.CreatedAt.Before(f.Start)) &&
		(f.End.IsZero() || !t.CreatedAt.After(f.End)) &&
		(f.MinCost == nil || t.Cost >= *f.MinCost) &&
		(f.MaxCost == nil || t.Cost <= *f.MaxCost) &&
		(f.MinInjectionScore == nil || t.InjectionScore >= *f.MinInjectionScore) &&
		f.matchDetails(t)
}

func (f *TraceFilter) matchStatus(t *Trace) bool {
	switch f.Status {
	case "":
		return true
	case TraceBlocked:
		return t.Blocked
	case TraceFailed:
		return t.Status == TraceError && !t.Blocked
	}
	return f.Status == t.Status
}

func (f *TraceFilter) matchDetails(t *Trace) bool {
	return (f.SessionID == "" || f.SessionID == t.SessionID) &&
		(f.AgentName == "" || f.AgentName == t.AgentName) &&
		(f.ModelName == "" || f.ModelName == t.ModelName) &&
		(f.ToolName == "" || f.ToolName == t.ToolName) &&
		(f.RuleID == "" || f.RuleID == t.RuleID) &&
		(f.PolicyID == "" || slices.ContainsFunc(t.PoliciesFired, func(p PolicyFired) bool { return p.ID == f.PolicyID })) &&
		(f.PII == "" || slices.Contains(t.PIIDetected, f.PII)) &&
		(f.Principal == "" || f.Principal == t.Principal) &&
		(f.Client == "" || f.Client == t.ClientName) &&
		(f.RequestID == "" || f.RequestID == t.RequestID) &&
		t.Duration >= f.MinDuration
}

// IngestResult says what became of a batch. Accepted, Duplicates and Expired add up to its
// length.
type IngestResult struct {
	Accepted   int
	Duplicates int // the id is stored already, or occurs earlier in the batch
	// Expired traces are older than what retention has already removed. They are
	// neither stored nor counted: whether they are duplicates can no longer be told.
	Expired int
	// Blocked and Failed are those of Accepted that were refused by a rule, a limit or a
	// policy, and that ended with an error that is no block.
	Blocked, Failed int
}

// Accept counts a trace that is stored. Backends share it.
func (r *IngestResult) Accept(t *Trace) {
	r.Accepted++
	switch {
	case t.Blocked:
		r.Blocked++
	case t.Status == TraceError:
		r.Failed++
	}
}

// Limits of a trace that every backend enforces.
const (
	MaxIngestBatch = 1000    // traces in one Ingest
	MaxTraceID     = 128     // bytes
	MaxTraceString = 1024    // bytes of any other string
	MaxTraceList   = 128     // elements of any list
	MaxTraceTokens = 1 << 40 // input or output tokens
)

// DefaultMaxAutoAgents is how many agents of a tenant may have been registered by
// traces when a backend is not told otherwise.
const DefaultMaxAutoAgents = 1000

// Cursor is a place in a tenant's commit order. What it is made of is the backend's
// matter, and it is good at every process that has the store open.
type Cursor string

// CursorStart is before everything. Every backend knows it.
const CursorStart Cursor = "0"

// TraceEvent is a committed trace with its place in commit order.
type TraceEvent struct {
	Cursor Cursor
	Trace  Trace
}

// StreamOptions asks for a stream of committed traces.
type StreamOptions struct {
	After  Cursor // resume after this; empty: only what is committed from now on
	Filter TraceFilter
	// MaxLag ends the stream with ErrTooSlow when more commits than this lie between
	// the reader and the newest; 0: never. What lay behind when the stream was opened
	// does not count.
	MaxLag int
	// Batch bounds the events of one Next; 0: 256.
	Batch int
}

// TraceStream reads committed traces in commit order. It holds no queue: ingest
// neither waits for it nor keeps anything for it.
type TraceStream interface {
	// Next waits for at least one trace that matches, at most until ctx ends. It
	// returns ErrTooSlow, ErrClosed, or ctx's error; after ctx's error it may be
	// called again and nothing is lost.
	Next(ctx context.Context) ([]TraceEvent, error)
	// Cursor is the place up to which everything has been read, also what the filter
	// left out: the place to resume from.
	Cursor() Cursor
	// Close ends the stream. Next must not be running.
	Close()
}

// AgentTool is a tool that traces of an agent named.
type AgentTool struct {
	ID           string
	AgentID      string
	ToolName     string
	CallCount    int64
	LastCalledAt time.Time // newest createdAt of a trace that named it
}

// ExpireBounds says which traces and statistics are too old. Zero times leave their
// data alone.
type ExpireBounds struct {
	Traces  time.Time // traces created before it; statistics stay
	Minutes time.Time // statistics by the minute before it; hours and days stay
	// Budget bounds the time of the call: work stops after the step that exceeds it. A
	// step never delays writers for long, and removes something. 0: one step.
	Budget time.Duration
}

// Expired counts what an Expire removed.
type Expired struct {
	Traces, Minutes int
	More            bool // more is too old: call again
}

// UncountedTraces is a [TenantTraces] that does not count every list.
type UncountedTraces interface {
	TenantTraces
	// ListUncounted is ListTraces with a total that is a lower bound where atLeast is
	// set: while rows follow the page, it is at least the place of the first of them,
	// so that a loop over pages does not end early.
	ListUncounted(ctx context.Context, f TraceFilter, page Page) (list []Trace, total int, atLeast bool, err error)
}

// TenantTraces is the traces of a tenant and their statistics.
type TenantTraces interface {
	// Ingest stores a batch durably and idempotently. Traces are de-duplicated by ID.
	// When it returns nil the batch is durable and is seen by every later read; on any
	// error nothing of it is kept. A batch that is sent again, whole and under the same
	// ID, is counted once in statistics, tools, fires and spend, whatever became of the
	// first attempt; an engine that counts each trace once in any batch needs no ID.
	//
	// A trace names its agent by AgentID, or by AgentNameSent where an agent has or
	// had that name, or by AgentName: one that is not known is
	// registered, up to the backend's bound, and beyond it the trace is kept under
	// the name alone. Where AgentID is given the agent's own name is stored. An
	// [Engine] registers in the same transaction; on an error nothing is registered.
	//
	// Invalid, with Fields keyed as "traces[3].agentId": an unknown AgentID, no
	// agent, a Status that is neither success nor error, or a limit broken. A batch
	// that [CheckBatch] refuses is Invalid.
	Ingest(ctx context.Context, batch Batch) (IngestResult, error)
	// ListTraces returns traces by CreatedAt, newest first, then by commit order,
	// and the exact total. Spans and quality scores are left out.
	ListTraces(ctx context.Context, f TraceFilter, page Page) ([]Trace, int, error)
	// GetTrace returns everything of a trace; NotFound for an unknown id.
	GetTrace(ctx context.Context, id string) (Trace, error)
	// StreamTraces opens a stream of committed traces. A cursor that lies ahead of
	// the newest commit (of another store, or of one restored from a backup) is
	// treated as the newest. One that no store can have made is Invalid ("after").
	StreamTraces(ctx context.Context, opts StreamOptions) (TraceStream, error)

	Statistics

	// Expire removes what is too old, within a budget of time. A trace that arrives
	// later and is older than what was removed counts as Expired.
	Expire(ctx context.Context, b ExpireBounds) (Expired, error)
}
