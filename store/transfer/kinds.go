package transfer

import (
	"encoding/json"
	"time"

	"svc/store"
)

// Kind is a kind of rows that a store consists of.
type Kind string

// The kinds. Rows of the last five belong to [store.Traces].
const (
	Watermarks   Kind = "watermarks" // of no tenant
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

// Kinds are all kinds in the order in which they are copied. It is the only list of
// them: engines are tested against it, and every bucket and table of an engine against
// what it says of the kinds.
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

// Row is a row of any kind but traces.
type Row struct {
	// Key is the position of the row among those of its kind in the store that it was
	// read from. Other stores have other keys.
	Key string
	// Doc is the row in the form that all engines have in common: the JSON of the type
	// of its kind.
	Doc []byte
}

// NewRow makes a row of a value.
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

	// Tenant is a tenant with what is kept once of it.
	Tenant struct {
		store.TenantInfo
		RedactionKey []byte
		Revision     string // that gateways compare
		ChainLast    string // hash of the newest audit event
		ChainTrimmed string // hash of the newest audit event that was removed
	}

	// User is a user with the newest identity event of each sort.
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

	// AgentAlias is a former name that still means an agent.
	AgentAlias struct {
		Alias []byte
		Agent string
		At    int64
	}

	// FormerAgent is the last name of an agent that was deleted.
	FormerAgent struct {
		ID   string
		Name []byte
	}

	// Key is an API key: its digest, never its secret.
	Key struct {
		store.Key // without what is known from elsewhere
		Digest    []byte
		Used      int64 // 0: never
	}

	// Response is the stored response to an idempotent request.
	Response struct {
		Digest   []byte // [store.IdempotentRequest.Digest]
		Body     []byte // digest of the request's body
		Until    int64
		Response store.StoredResponse
	}

	// AuditHead is the end of an audit chain.
	AuditHead struct {
		store.AuditHead
		Signed bool
	}

	// State is what a store of traces keeps of a tenant beside its traces. Times are
	// nanoseconds since 1970.
	State struct {
		Seq         int64 // how many traces were committed so far; 0 where the engine does not count
		Horizon     int64 // what was created earlier has been removed
		MinutesFrom int64 // statistics by the minute begin here
	}

	// Statistic is a row of package rollup. Its dimensions are those of
	// [AgentWord], [ModelWord] and the environment; those that its table does not have
	// are empty.
	Statistic struct {
		Table  string
		Bucket uint32
		Agent  []byte
		Model  []byte
		Env    []byte
		Data   []byte
	}

	// Tool is how often traces of an agent named a tool.
	Tool struct {
		Agent              []byte
		Tool               []byte
		First, Last, Calls int64
	}

	// Fires is how many traces a policy fired for.
	Fires struct {
		Policy []byte
		N      int64
	}

	// Trace is a trace with its number in the order of commits. Followers resume by it,
	// so that it moves too; what retention removed leaves numbers out.
	Trace struct {
		Key    string // as of a Row
		Number int64
		store.Trace
	}
)
