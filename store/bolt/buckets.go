// Package bolt is the embedded store: one bbolt file, one process.
//
// It implements the storage of the resources of package store, the single goroutine that
// commits traces, the checks of a file before it is opened, and the buffers for data
// that does not justify a write per request. The arithmetic of statistics is in
// store/rollup, and the handling of requests is left to the callers.
//
// # The tree
//
// Keys of resources are their ids, which are prefixed and sort by creation. Integers in
// keys are big-endian. "‖" joins bytes, "\0" is a zero byte.
//
//	meta                           what this file is
//	  format                       "svc control plane store"
//	  schema                       schema version, decimal
//	tenants                        id → tenant, JSON
//	tenant_names                   name → id
//	tenant_orgs                    organization id → id
//	digests                        SHA-256 of a key's secret → tenant id \0 key id
//	leases                         name → lease, JSON
//	marks                          name → time, nanoseconds, 8 bytes
//	data
//	  <tenant id>
//	    state                      counters, 8 bytes each: seq, traces, auto_agents,
//	                               agent_changes, horizon, minutes_from, governance;
//	                               audit_unindexed: id of the newest event that is not in the index
//	    users                      id → user, JSON
//	    user_emails                e-mail address → id
//	    user_teams                 user id \0 team id → (empty)
//	    user_events                id → event, JSON
//	    teams                      id → team, JSON
//	    team_names                 name → id
//	    members                    team id \0 user id → member, JSON
//	    agents                     id → agent without configuration, JSON
//	    agent_names                name → id
//	    agent_configs              id → configuration text
//	    agent_aliases              former name → id ‖ time of the change of name, nanoseconds, 8 bytes
//	    agents_former              id of a deleted agent → its last name
//	    tools                      agent number ‖ tool number → first and last call, count; with tool 0: how many
//	    deployments                agent id \0 id → deployment, JSON
//	    budgets                    id → budget, JSON
//	    budget_names               name → id
//	    slas                       id → target, JSON
//	    violations                 id → violation, JSON
//	    violation_keys             SLA id \0 type \0 period start → id
//	    policies                   id → policy, JSON
//	    policy_names               name → id
//	    policy_fires               id → count, 8 bytes
//	    keys                       id → key, JSON
//	    key_used                   id → time, nanoseconds, 8 bytes
//	    answers                    SHA-256 of (key, route, token) → answer, JSON
//	    answers_by_expiry          expiry time ‖ that digest → (empty)
//	    audit_heads                gateway \0 trail → signed end of its audit chain, JSON
//	    audit_heads_unsigned       gateway \0 trail → end of its audit chain, JSON
//	    audit_keys                 gateway → key that signs its heads, JSON
//	    audit_events               id → event of a change, JSON
//	    audit_index                facet of events ‖ id → (empty) (see eventindex.go)
//	    audit_chain                last, trimmed → hash of the newest event, and of the newest that was removed
//	    dict                       kind ‖ string → number, 4 bytes
//	    dict_values                kind ‖ number → string
//	    traces                     commit number → record (see record.go)
//	    trace_ids                  packed id → commit number
//	    trace_blocks               first commit number → filter fields of up to 100 traces (see block.go)
//	    trace_facets               first commit number → which traces of a block have what (see facets.go)
//	    rollup_minute, rollup_hour bucket ‖ agent ‖ model ‖ environment → partial (see store/rollup)
//	    rollup_hour_agent, rollup_hour_model, rollup_hour_environment,
//	    rollup_day_agent, rollup_day_model, rollup_day_environment
//	                               bucket ‖ number → partial
//
// A change of this tree, or of a record in it, that older code could not read needs a
// new schema version and a step in migrate.go. schema_test.go compares the tree with
// testdata/schema.golden.
package bolt

import (
	"encoding/binary"
	"time"

	"go.etcd.io/bbolt"

	"svc/store/rollup"
)

var (
	bucketMeta        = []byte("meta")
	bucketTenants     = []byte("tenants")
	bucketTenantNames = []byte("tenant_names")
	bucketTenantOrgs  = []byte("tenant_orgs")
	bucketDigests     = []byte("digests")
	bucketLeases      = []byte("leases")
	bucketMarks       = []byte("marks")
	bucketData        = []byte("data")

	keyFormat = []byte("format")
	keySchema = []byte("schema")
)

// format is the value of meta/format.
const format = "svc control plane store"

// The buckets of a tenant.
const (
	inState         = "state"
	inUsers         = "users"
	inUserEmails    = "user_emails"
	inUserTeams     = "user_teams"
	inUserEvents    = "user_events"
	inTeams         = "teams"
	inTeamNames     = "team_names"
	inMembers       = "members"
	inAgents        = "agents"
	inAgentNames    = "agent_names"
	inAgentConfigs  = "agent_configs"
	inAgentsFormer  = "agents_former"
	inAgentAliases  = "agent_aliases"
	inTools         = "tools"
	inDeployments   = "deployments"
	inBudgets       = "budgets"
	inBudgetNames   = "budget_names"
	inSLAs          = "slas"
	inViolations    = "violations"
	inViolationKey  = "violation_keys"
	inPolicies      = "policies"
	inPolicyNames   = "policy_names"
	inPolicyFires   = "policy_fires"
	inKeys          = "keys"
	inKeyUsed       = "key_used"
	inAnswers       = "answers"
	inAnswerExpiry  = "answers_by_expiry"
	inAuditHeads    = "audit_heads"
	inAuditUnsigned = "audit_heads_unsigned"
	inAuditKeys     = "audit_keys"
	inAuditEvents   = "audit_events"
	inAuditIndex    = "audit_index"
	inAuditChain    = "audit_chain"
	inDict          = "dict"
	inDictValues    = "dict_values"
	inTraces        = "traces"
	inTraceIDs      = "trace_ids"
	inTraceBlocks   = "trace_blocks"
	inTraceFacets   = "trace_facets"
	inRollup        = "rollup_" // and the name of the rollup table
)

// The counters in a tenant's state.
const (
	stateSeq         = "seq"           // commit number of the newest trace
	stateTraces      = "traces"        // number of stored traces
	stateAutoAgents  = "auto_agents"   // number of agents registered by traces
	stateAgentGen    = "agent_changes" // number of changes of agents
	stateHorizon     = "horizon"       // retention cutoff: traces created before it have been removed, nanoseconds
	stateGovernance  = "governance"    // the governance revision: random, replaced with each change that gateways depend on
	stateMinutesFrom = "minutes_from"  // minute rollups before it have been removed, nanoseconds
)

// stateUnindexed is set in the state of a tenant while events that were written before
// the index existed are missing from it. Its value is the id of the newest such event.
var stateUnindexed = []byte("audit_unindexed")

// bucket describes a bucket of the file. Initialization, migrations, Check and the
// golden test all use the same tables, so that a new bucket cannot be missing in one of
// them.
type bucket struct {
	name  string
	kind  valueKind
	since int // the schema version that added it; 0 means the first
}

// valueKind is the encoding of the values of a bucket.
type valueKind int

const (
	raw     valueKind = iota // bytes that other checks validate, or no value
	record                   // a JSON record
	partial                  // a row of statistics
)

// topBuckets are the buckets at the root of the file.
var topBuckets = []bucket{
	{name: string(bucketMeta)},
	{name: string(bucketTenants), kind: record},
	{name: string(bucketTenantNames)},
	{name: string(bucketTenantOrgs)},
	{name: string(bucketDigests)},
	{name: string(bucketLeases), kind: record},
	{name: string(bucketMarks)},
	{name: string(bucketData)},
}

// tenantBuckets are the buckets of a tenant; all of them exist in every tenant.
var tenantBuckets = append([]bucket{
	{name: inState},
	{name: inUsers, kind: record},
	{name: inUserEmails},
	{name: inUserTeams},
	{name: inUserEvents, kind: record},
	{name: inTeams, kind: record},
	{name: inTeamNames},
	{name: inMembers, kind: record},
	{name: inAgents, kind: record},
	{name: inAgentNames},
	{name: inAgentConfigs},
	{name: inAgentsFormer},
	{name: inAgentAliases, since: 4},
	{name: inTools},
	{name: inDeployments, kind: record},
	{name: inBudgets, kind: record},
	{name: inBudgetNames},
	{name: inSLAs, kind: record},
	{name: inViolations, kind: record},
	{name: inViolationKey},
	{name: inPolicies, kind: record},
	{name: inPolicyNames},
	{name: inPolicyFires},
	{name: inKeys, kind: record},
	{name: inKeyUsed},
	{name: inAnswers, kind: record},
	{name: inAnswerExpiry},
	{name: inAuditHeads, kind: record, since: 2},
	{name: inAuditUnsigned, kind: record, since: 5},
	{name: inAuditKeys, kind: record, since: 5},
	{name: inAuditEvents, kind: record, since: 6},
	{name: inAuditIndex, since: 9},
	{name: inAuditChain, since: 6},
	{name: inDict},
	{name: inDictValues},
	{name: inTraces},
	{name: inTraceIDs},
	{name: inTraceBlocks},
	{name: inTraceFacets, since: 10},
}, rollupBuckets()...)

func rollupBuckets() (list []bucket) {
	for t := range rollup.NumTables {
		list = append(list, bucket{name: inRollup + t.String(), kind: partial})
	}
	return list
}

// data is the bucket of one tenant within a transaction.
type data struct {
	*bbolt.Bucket
}

// in returns one of the tenant's buckets. All of them exist; a missing one means damage,
// and the panic is converted to an error by recoverToError.
func (d data) in(name string) *bbolt.Bucket {
	b := d.Bucket.Bucket([]byte(name))
	if b == nil {
		panic("bucket " + name + " is missing")
	}
	return b
}

// counter reads a counter, 0 when never set.
func (d data) counter(name string) uint64 {
	return number(d.in(inState).Get([]byte(name)))
}

// setCounter writes a counter.
func (d data) setCounter(name string, v uint64) error {
	return d.in(inState).Put([]byte(name), bytes8(v))
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func bytes8(v uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), v)
}

func timeOf(v uint64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(v)).UTC()
}

// joined joins the parts of a key with zero bytes.
func joined(parts ...string) []byte {
	n := len(parts)
	for _, p := range parts {
		n += len(p)
	}
	key := make([]byte, 0, n)
	for i, p := range parts {
		if i > 0 {
			key = append(key, 0)
		}
		key = append(key, p...)
	}
	return key
}
