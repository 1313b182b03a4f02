package transfer

import (
	"encoding/json"
	"time"

	"svc/store"
)

// Kind is a kind of rows in a store.
type Kind string

// The kinds. Rows of the last five are part of [store.Traces].
const (
	Watermarks   Kind = "watermarks" // of the store itself, not of a tenant
	Tenants      Kind = "tenants"    // one row of each tenant
	Users        Kind = "users"
	UserEvents   Kind = "user events"
	Teams        Kind = "teams"
	Members      Kind = "members"
	Agents       Kind = "agents"
	AgentAliases Kind = "agent aliases"
	FormerAgents Kind = "deleted agents"
	Deployments  Kind = "deployments"
	Budgets      Kind = "budgets"
	SLAs         Kind = "SLA targets"
	Violations   Kind = "violations"
	Policies     Kind = "policies"
	Keys         Kind = "API keys"
	Responses    Kind = "stored responses"
	AuditHeads   Kind = "audit heads"
	AuditKeys    Kind = "audit keys"
	AuditEvents  Kind = "audit events"
	TraceState   Kind = "trace state" // one row of each tenant
	Traces       Kind = "traces"
	Statistics   Kind = "statistics"
	Tools        Kind = "tools"
	PolicyFires  Kind = "policy fires"
	noKind       Kind = ""
)

// Kinds are all kinds in the order in which they are copied. Tests compare the kinds of
// every engine with it, and every bucket and table of an engine with the engine's list
// of the kinds' storage.
var Kinds = []Kind{Watermarks, Tenants, Users, UserEvents, Teams, Members, Agents, AgentAliases, FormerAgents, Deployments, Budgets, SLAs,
	Violations, Policies, Keys, Responses, AuditHeads, AuditKeys, AuditEvents, TraceState, Traces, Statistics, Tools, PolicyFires}

// ofTraces reports whether rows of the kind are in the store of the traces.
func (k Kind) ofTraces() bool {
	switch k {
	case TraceState, Traces, Statistics, Tools, PolicyFires:
		return true
	}
	return false
}

// Row is a row of any kind except traces.
type Row struct {
	// Key is the position of the row among those of its kind in the source. Other stores
	// have other keys.
	Key string
	// Doc is the row in the engine-independent form: the JSON of the type of its kind.
	Doc []byte
}

// NewRow encodes a value as a row.
func NewRow(key []byte, v any) (Row, error) {
	doc, err := json.Marshal(v)
	return Row{Key: string(key), Doc: doc}, err
}

// The types of rows. User events are [store.RecordedEvent], teams [store.Team] without
// their number of members, agents [store.Agent], deployments [store.Deployment], budgets
// and SLA targets those of package store without the names of their agents, violations,
// policies, audit keys and audit events those of package store.
type (
	// Watermark is a named time.
	Watermark struct {
		Name string
		At   int64
	}

	// Tenant is a tenant with its single-valued state.
	Tenant struct {
		store.TenantInfo
		RedactionKey []byte
		Revision     string // the governance revision
		ChainLast    string // hash of the newest audit event
		ChainTrimmed string // hash of the newest audit event that was removed
	}

	// User is a user with the positions of the newest applied identity events.
	User struct {
		store.User
		Profile   EventMark
		State     EventMark
		Announced time.Time `json:",omitzero"`
	}

	// EventMark is the position of an event in a user's history.
	EventMark struct {
		At   time.Time
		Rank int
	}

	// Member is a membership.
	Member struct {
		Team, User, Role string
		JoinedAt         int64
	}

	// AgentAlias is a former name that still resolves to an agent.
	AgentAlias struct {
		Alias []byte
		Agent string
		At    int64
	}

	// FormerAgent is the last name of a deleted agent.
	FormerAgent struct {
		ID   string
		Name []byte
	}

	// Key is an API key: its digest, never its secret.
	Key struct {
		store.Key // without the fields that other rows have
		Digest    []byte
		Used      int64 // 0: never used
	}

	// Response is the stored response to an idempotent request.
	Response struct {
		Digest   []byte // [store.IdempotentRequest.Digest]
		Body     []byte // digest of the request's body
		Until    int64
		Response store.StoredResponse
	}

	// AuditHead is the head of an audit chain.
	AuditHead struct {
		store.AuditHead
		Signed bool
	}

	// State is the state of a tenant in a store of traces. Times are nanoseconds since
	// 1970.
	State struct {
		Seq         int64 // number of commits so far; 0 if the engine does not count them
		Horizon     int64 // retention cutoff: earlier traces have been removed
		MinutesFrom int64 // statistics by the minute start here
	}

	// Statistic is a row of package rollup. Its dimensions are those of [AgentWord],
	// [ModelWord] and the environment; dimensions that its table does not have are
	// empty.
	Statistic struct {
		Table  string
		Bucket uint32
		Agent  []byte
		Model  []byte
		Env    []byte
		Data   []byte
	}

	// Tool is the number of calls of a tool by an agent.
	Tool struct {
		Agent              []byte
		Tool               []byte
		First, Last, Calls int64
	}

	// Fires is the number of traces in which a policy fired.
	Fires struct {
		Policy []byte
		N      int64
	}

	// Trace is a trace with its commit number. Streams resume by the number, so it is
	// transferred too; traces that retention removed leave gaps.
	Trace struct {
		Key    string // as Row.Key
		Number int64
		store.Trace
	}
)
