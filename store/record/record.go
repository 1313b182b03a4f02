// Package record has the rules of the records of a tenant, once for all engines: which
// values are unique, what a change changes besides its object, which error it returns,
// and how lists are ordered. The contract is that of package store.
//
// Records are rows of buckets, sorted by key. An engine stores rows and runs
// transactions on those of one tenant ([Engine], [Tx]); it knows neither their contents
// nor their rules.
//
//	Tenant ──View, Update──▶ Engine: bolt, postgres, storetest/memory
//	   │                        │ runs f, again after a conflict
//	   ▼                        ▼
//	rules of a kind ──Get, Many, Scan, Count, Put, Delete──▶ Tx: rows of buckets
//	   │  kind.go has what most kinds share; approval*.go, agent.go, key.go, team.go, user.go their own
//	   │ in the transaction of the change
//	   ├─▶ Changed: If-Match, audit event, governance revision           event.go
//	   ├─▶ notify: messages into the queues of webhooks                  notify.go
//	   └─▶ rows that depend on it: names, members, budgets, webhooks
//	later, in steps: EndApprovals, RecordAttempts, ApplyRetention        approvalrows.go, notify.go, trim.go
//
// The buckets, and what their rows have:
//
//	agent_aliases         former name → id of the agent and time of the change of name, JSON
//	agent_configs         agent id → configuration text
//	agent_counts          "auto" → number of agents that traces have registered, JSON
//	agent_names           name → id
//	agents                id → agent without its configuration, JSON
//	agents_former         id of a deleted agent → its last name
//	answers               digest of an idempotent request → its response, JSON
//	answers_by_expiry     time of expiry, nanoseconds, 8 bytes ‖ that digest → 1
//	approval_arguments    id of an approval → arguments of its call, JSON
//	approval_calls        key id \0 digest → id of the newest approval of the call
//	approval_index        status, or principal, refusal, end … \0 … id → 1 or what is compared; see approvalrows.go
//	approval_records      id → approval without the arguments of its call, JSON
//	approval_tags         key id → tags of the session keys of its gateways, JSON
//	audit_events          id → event of a change, JSON; ids ascend in the order of the chain
//	audit_chain           "chain" → the ends of the chain of events, JSON
//	audit_heads           gateway \0 log → signed head of its audit chain, JSON
//	audit_heads_unsigned  gateway \0 log → head of its audit chain, JSON
//	audit_keys            gateway → key that signs its heads, JSON
//	budget_names          name → id
//	budgets               id → budget, JSON
//	deployments           agent id \0 id → deployment, JSON
//	digests               SHA-256 of a key's secret → tenant id \0 key id; of all tenants
//	event_marks           name → mark of the states that the last events were about, text
//	gateways              gateway \0 instance → last report of a process, JSON
//	governance            "revision" → the governance revision, text; "policies" → the revision of the policies, decimal
//	key_used              key id → time of the last use, nanoseconds, 8 bytes
//	keys                  id → API key with its digest, JSON
//	members               team id \0 user id → member, JSON
//	policies              id → policy, JSON
//	policy_names          name → id
//	sessions              key id \0 digest of a secret → session of a browser, JSON
//	slas                  id → SLA target, JSON
//	team_names            name → id
//	teams                 id → team, JSON
//	user_emails           e-mail address → id
//	user_events           id → identity event, JSON
//	user_teams            user id \0 team id → 1
//	users                 id → user with the marks of events, JSON
//	violation_keys        SLA id \0 type \0 period start → id
//	violations            id → violation, JSON
//	webhook_deliveries    webhook id \0 id → delivery, JSON; ids ascend in the order of the events
//	webhook_names         name → id
//	webhook_queues        webhook id → state of its queue, JSON
//	webhooks              id → webhook with its secrets, JSON
//
// Kinds of records that are not listed are still stored by each engine in its own manner.
package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Tx is a transaction on the rows of one tenant. Keys and values that it returns are valid
// until the next call, and must not be changed. Values are never empty.
type Tx interface {
	// Get returns the value of a row, nil when there is none.
	Get(bucket string, key []byte) ([]byte, error)
	// Many returns the values of several rows in their order, nil for those that do not
	// exist, in one round trip to the engine.
	Many(bucket string, keys [][]byte) ([][]byte, error)
	// Put writes a row. An engine may send it later, but before the next read of the
	// bucket. Of concurrent creations of a row in a shared bucket all but one fail in the
	// engine, which runs their transactions again.
	Put(bucket string, key, value []byte) error
	// Delete removes rows, those that exist.
	Delete(bucket string, keys ...[]byte) error
	// Scan calls f with rows in the order of their keys, until f returns false. f must not
	// use the transaction.
	Scan(bucket string, r Range, f func(key, value []byte) (more bool, err error)) error
	// Count returns the number of rows of a range.
	Count(bucket string, r Range) (int, error)
}

// Range selects rows for a scan.
type Range struct {
	From, To []byte // first key, and the key behind the last; nil: no bound
	Reverse  bool   // from the last to the first
	// Having restricts the scan to rows whose values contain all of these bytes.
	Having [][]byte
	// Keys makes the scan read keys only: the value that the function gets is nil.
	Keys bool
	// Most is how many rows the function probably reads, 0 when it is not known.
	Most int
}

// Engine runs transactions. It is safe for concurrent use.
type Engine interface {
	// View runs f on a snapshot. It returns NotFound for an unknown tenant.
	View(ctx context.Context, tenant string, f func(Tx) error) error
	// Update is View for f that writes, with the tenant's records locked against other
	// writes. An error of f is returned unchanged, and nothing is written. f may run several
	// times, because the engine retries after a conflict.
	Update(ctx context.Context, tenant string, f func(Tx) error) error
	// Uses returns the buffer of the times of use of keys, which the engine writes from time
	// to time.
	Uses() *Uses
	// Fleet returns the buffer of the times and counters of gateways' reports.
	Fleet() *Fleet
	// AgentsChanged notes in a transaction that agents or their names have changed: engines
	// cache them for traces.
	AgentsChanged(tx Tx) error
	// ForgetAgent and ForgetPolicy remove what traces have counted for a deleted agent or
	// policy.
	ForgetAgent(tx Tx, id string) error
	ForgetPolicy(tx Tx, id string) error
	// MaxAutoAgents bounds how many agents of a tenant traces may register.
	MaxAutoAgents() int
	// Now returns the time in UTC.
	Now() time.Time
	// NewID returns the next identifier.
	NewID(prefix string, now time.Time) string
	// Closed is closed when the store is: it ends what waits.
	Closed() <-chan struct{}
	Claimer
	LeaseRows
}

// Tenant implements the records of one tenant. Engines embed it in their handle on a tenant.
type Tenant struct {
	e  Engine
	id string
}

// Of returns the records of a tenant.
func Of(e Engine, tenant string) Tenant { return Tenant{e: e, id: tenant} }

// ID returns the tenant's identifier.
func (t *Tenant) ID() string { return t.id }

// Bucket describes a bucket.
type Bucket struct {
	Name string
	JSON bool // whether its values are JSON
	// Shared is set for a bucket whose rows belong to the whole store, not to the tenant of
	// the transaction. They are derived from rows of tenants.
	Shared bool
}

// The buckets.
const (
	AuditEvents   = "audit_events"
	auditChain    = "audit_chain"
	auditHeads    = "audit_heads"
	auditUnsigned = "audit_heads_unsigned"
	auditKeys     = "audit_keys"
	governance    = "governance"
	gatewayRows   = "gateways"

	answers      = "answers"
	answerExpiry = "answers_by_expiry"

	approvalArguments = "approval_arguments"
	approvalCalls     = "approval_calls"
	approvalIndex     = "approval_index"
	approvalRecords   = "approval_records"
	approvalTags      = "approval_tags"

	agentAliases  = "agent_aliases"
	agentConfigs  = "agent_configs"
	agentCounts   = "agent_counts"
	agentNames    = "agent_names"
	AgentRows     = "agents"
	agentsFormer  = "agents_former"
	budgetNames   = "budget_names"
	budgetRows    = "budgets"
	deployments   = "deployments"
	policyNames   = "policy_names"
	PolicyRows    = "policies"
	sessionRows   = "sessions"
	slaRows       = "slas"
	violationKeys = "violation_keys"
	violations    = "violations"

	KeyDigests = "digests"
	KeyRows    = "keys"
	KeyUsed    = "key_used"
	members    = "members"
	teamNames  = "team_names"
	TeamRows   = "teams"
	userEmails = "user_emails"
	UserEvents = "user_events"
	userTeams  = "user_teams"
	UserRows   = "users"

	deliveryRows  = "webhook_deliveries"
	eventMarks    = "event_marks"
	webhookNames  = "webhook_names"
	webhookQueues = "webhook_queues"
	webhookRows   = "webhooks"
)

// EachWrite is the bucket of the few rows that each write of a tenant reads: an engine may
// read them when it locks the tenant.
const EachWrite = auditChain

// Buckets are all buckets, sorted by name.
var Buckets = []Bucket{
	{Name: agentAliases, JSON: true},
	{Name: agentConfigs},
	{Name: agentCounts, JSON: true},
	{Name: agentNames},
	{Name: AgentRows, JSON: true},
	{Name: agentsFormer},
	{Name: answers, JSON: true},
	{Name: answerExpiry},
	{Name: approvalArguments, JSON: true},
	{Name: approvalCalls},
	{Name: approvalIndex},
	{Name: approvalRecords, JSON: true},
	{Name: approvalTags, JSON: true},
	{Name: auditChain, JSON: true},
	{Name: AuditEvents, JSON: true},
	{Name: auditHeads, JSON: true},
	{Name: auditUnsigned, JSON: true},
	{Name: auditKeys, JSON: true},
	{Name: budgetNames},
	{Name: budgetRows, JSON: true},
	{Name: deployments, JSON: true},
	{Name: KeyDigests, Shared: true},
	{Name: eventMarks},
	{Name: gatewayRows, JSON: true},
	{Name: governance},
	{Name: KeyUsed},
	{Name: KeyRows, JSON: true},
	{Name: members, JSON: true},
	{Name: PolicyRows, JSON: true},
	{Name: policyNames},
	{Name: sessionRows, JSON: true},
	{Name: slaRows, JSON: true},
	{Name: teamNames},
	{Name: TeamRows, JSON: true},
	{Name: userEmails},
	{Name: UserEvents, JSON: true},
	{Name: userTeams},
	{Name: UserRows, JSON: true},
	{Name: violationKeys},
	{Name: violations, JSON: true},
	{Name: deliveryRows, JSON: true},
	{Name: webhookNames},
	{Name: webhookQueues, JSON: true},
	{Name: webhookRows, JSON: true},
}

// Shared reports whether a bucket is shared.
func Shared(bucket string) bool { return bucket == KeyDigests }

// ErrDamaged means that a row cannot be read.
var ErrDamaged = errors.New("damaged record")

// decode decodes a row.
func decode(key, value []byte, v any) error {
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%w %q: %w", ErrDamaged, key, err)
	}
	return nil
}

// get reads a row; known is false when there is none.
func get[T any](tx Tx, bucket string, key []byte) (v T, known bool, err error) {
	value, err := tx.Get(bucket, key)
	if err != nil || value == nil {
		return v, false, err
	}
	return v, true, decode(key, value, &v)
}

// put writes a row.
func put(tx Tx, bucket string, key []byte, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return tx.Put(bucket, key, value)
}

// each calls f with every row of a range.
func each[T any](tx Tx, bucket string, r Range, f func(v *T) (more bool, err error)) error {
	return tx.Scan(bucket, r, func(key, value []byte) (bool, error) {
		var v T
		if err := decode(key, value, &v); err != nil {
			return false, err
		}
		return f(&v)
	})
}

// joined joins the parts of a key with zero bytes.
func joined(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

// prefixed is the range of the keys that begin with a part.
func prefixed(part string) Range {
	return Range{From: []byte(part + "\x00"), To: []byte(part + "\x01")}
}

// timeOf returns the time of nanoseconds since 1970.
func timeOf(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// maxText bounds a client's string that is a part of a key, such as a name, in bytes.
const maxText = 512

// What is said of such a string that is too long or has a zero byte; and also of an empty one.
var (
	atMost = fmt.Sprintf("must have at most %d bytes, none of them zero", maxText)
	oneTo  = fmt.Sprintf("must have 1 to %d bytes, none of them zero", maxText)
)

// bad reports whether a client's string is invalid as a part of a key.
func bad(s string) bool {
	return s == "" || len(s) > maxText || strings.IndexByte(s, 0) >= 0
}
