package move

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"svc/store"
	"svc/store/record"
)

// Kind is a kind of rows in a store.
type Kind string

// The kinds. Rows of the last five are part of [store.Traces].
const (
	Watermarks  Kind = "watermarks"  // of the store itself, not of a tenant
	Tenants     Kind = "tenants"     // one row of each tenant
	Records     Kind = "records"     // the rows of package record
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
var Kinds = []Kind{Watermarks, Tenants, Records, TraceState, Traces, Statistics, Tools, PolicyFires}

// ofTraces reports whether rows of the kind are in the store of the traces.
func (k Kind) ofTraces() bool { return slices.Index(Kinds, k) >= slices.Index(Kinds, TraceState) }

// UnknownKind returns the error of a kind that an engine does not have.
func UnknownKind(k Kind) error { return fmt.Errorf("unknown kind of rows %q", k) }

// Row is a row of any kind except traces.
type Row struct {
	// At is the position of the row among those of its kind in the source. Other stores
	// have other positions.
	At string
	// Row is the row as it is. One of a kind that engines store in different manners has
	// only a value: the JSON of the type of its kind.
	record.Row
}

// NewRow returns a copy of a row, or encodes a value as a row.
func NewRow(at []byte, v any) (Row, error) {
	if row, ok := v.(record.Row); ok {
		return Row{string(at), record.Row{Bucket: row.Bucket, Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)}}, nil
	}
	doc, err := json.Marshal(v)
	return Row{string(at), record.Row{Value: doc}}, err
}

// Page is rows of one kind.
type Page struct {
	Rows   []Row
	Traces []Trace // if the kind is Traces
}

func (p *Page) len() int64 { return int64(len(p.Rows) + len(p.Traces)) }

// last returns the position of the last row.
func (p *Page) last() string {
	if len(p.Traces) > 0 {
		return p.Traces[len(p.Traces)-1].At
	}
	return p.Rows[len(p.Rows)-1].At
}

// The buckets of rows that package record does not have.
const (
	InWatermarks  = "marks"        // name: time, 8 bytes
	InPolicyFires = "policy_fires" // policy: number of traces in which it fired, 8 bytes
)

// Integer encodes the value of such a row.
func Integer(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// IntegerOf decodes a value that Integer encoded.
func IntegerOf(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("read a row: an integer of %d bytes", len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// Decode decodes the document of a row.
func Decode(doc []byte, v any) error {
	if err := json.Unmarshal(doc, v); err != nil {
		return fmt.Errorf("read a row: %w", err)
	}
	return nil
}

// The types of rows.
type (
	// Tenant is a tenant with its single-valued state.
	Tenant struct {
		store.TenantInfo
		RedactionKey []byte
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

	// Trace is a trace with its commit number. Streams resume by the number, so it is
	// copied too; traces that retention removed leave gaps.
	Trace struct {
		At     string // as Row.At
		Number int64
		store.Trace
	}
)
