package bolt

import (
	"encoding/binary"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"svc/store/move"
	"svc/store/record"
	"svc/store/rollup"
)

var (
	bucketMeta        = []byte("meta")
	bucketTenants     = []byte("tenants")
	bucketTenantNames = []byte("tenant_names")
	bucketTenantOrgs  = []byte("tenant_orgs")
	bucketDigests     = []byte("digests")
	bucketLeases      = []byte("leases")
	bucketMarks       = []byte(move.InWatermarks)
	bucketData        = []byte("data")

	keyFormat = []byte("format")
	keySchema = []byte("schema")
)

// The values of meta/format: of this program, and of builds from before the first release.
const format = "svc store of records"

var formatsUnreleased = []string{"svc control plane store", "svc store"}

// The buckets of a tenant.
const (
	inState       = "state"
	inTools       = "tools"
	inPolicyFires = move.InPolicyFires
	inDict        = "dict"
	inDictValues  = "dict_values"
	inTraces      = "traces"
	inTraceIDs    = "trace_ids"
	inTraceBlocks = "trace_blocks"
	inTraceFacets = "trace_facets"
	inRollup      = "rollup_" // and the name of the rollup table
)

// The counters in a tenant's state.
const (
	stateSeq         = "seq"           // commit number of the newest trace
	stateTraces      = "traces"        // number of stored traces
	stateAgentGen    = "agent_changes" // number of changes of agents
	stateHorizon     = "horizon"       // retention cutoff: traces created before it have been removed, nanoseconds
	stateNames       = "names_"        // with a kind of dict and a month: number of its names
	stateMinutesFrom = "minutes_from"  // minute rollups before it have been removed, nanoseconds
)

// bucket describes a bucket of the file. Initialization, migrations, Check and the
// golden test all use the same tables, so that a new bucket cannot be missing in one of
// them.
type bucket struct {
	name string
	kind valueKind
}

// valueKind is the encoding of the values of a bucket.
type valueKind int

const (
	raw      valueKind = iota // bytes that other checks validate, or no value
	document                  // JSON
	partial                   // a row of statistics
)

// topBuckets are the buckets at the root of the file.
var topBuckets = []bucket{
	{name: string(bucketMeta)},
	{name: string(bucketTenants), kind: document},
	{name: string(bucketTenantNames)},
	{name: string(bucketTenantOrgs)},
	{name: string(bucketDigests)},
	{name: string(bucketLeases), kind: document},
	{name: string(bucketMarks)},
	{name: string(bucketData)},
}

// tenantBuckets are the buckets of a tenant; all of them exist in every tenant.
var tenantBuckets = slices.Concat([]bucket{
	{name: inState},
	{name: inTools},
	{name: inPolicyFires},
	{name: inDict},
	{name: inDictValues},
	{name: inTraces},
	{name: inTraceIDs},
	{name: inTraceBlocks},
	{name: inTraceFacets},
}, recordBuckets(), rollupBuckets())

// recordBuckets are the buckets of package record.
func recordBuckets() (list []bucket) {
	for _, b := range record.Buckets {
		if b.Shared {
			continue // in topBuckets
		}
		kind := raw
		if b.JSON {
			kind = document
		}
		list = append(list, bucket{name: b.Name, kind: kind})
	}
	return list
}

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
