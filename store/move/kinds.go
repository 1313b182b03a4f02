package move

import (
	"encoding/json"

	"svc/store"
)

// Kind is a kind of rows in a store.
type Kind string

// The kinds. Rows of the last five are part of [store.Traces].
const (
	Watermarks  Kind = "watermarks" // of the store itself, not of a tenant
	Tenants     Kind = "tenants"    // one row of each tenant
	Records     Kind = "records"    // the rows of package record
	Responses   Kind = "stored responses"
	TraceState  Kind = "trace state" // one row of each tenant
	Traces      Kind = "traces"
	Statistics  Kind = "statistics"
	Tools       Kind = "tools"
	PolicyFires Kind = "policy fires"
	noKind      Kind = ""
)

// Kinds are all kinds in the order in which they are copied. Tests compare the kinds of
// every engine with it, and every bucket and table of an engine with the engine's list
// of the kinds' storage.
var Kinds = []Kind{Watermarks, Tenants, Records, Responses, TraceState, Traces, Statistics, Tools, PolicyFires}

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

// The types of rows. Those of records are [svc/store/record.Row].
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
	}

	// Response is the stored response to an idempotent request.
	Response struct {
		Digest   []byte // [store.IdempotentRequest.Digest]
		Body     []byte // digest of the request's body
		Until    int64
		Response store.StoredResponse
	}

	// State is the state of a tenant in a store of traces. Times are nanoseconds since
	// 1970.
	State struct {
		Seq         int64 // number of commits so far; 0 if the engine does not count them
		Horizon     int64 // retention cutoff: earlier traces have been removed
		MinutesFrom int64 // statistics by the minute start here
	}

	// Statistic is a row of package rollup. Its dimensions are the words of the
	// agent and of the model, and the environment; dimensions that its table does not have are
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
