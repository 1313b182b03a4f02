package move

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"time"

	"svc/store"
)

// Digest is the number of rows and the sum of their hashes: it does not depend on the
// order of the rows, and duplicate rows change it.
type Digest struct {
	N   int64
	Sum [4]uint64
}

// Add adds a row by its bytes.
func (d *Digest) Add(row []byte) {
	h := sha256.Sum256(row)
	carry := uint64(0)
	for i := range d.Sum {
		d.Sum[i], carry = bits.Add64(d.Sum[i], binary.LittleEndian.Uint64(h[8*i:]), carry)
	}
	d.N++
}

// String shows the digest.
func (d Digest) String() string {
	return fmt.Sprintf("%d rows, digest %016x", d.N, d.Sum[0]^d.Sum[1]^d.Sum[2]^d.Sum[3])
}

// group is the unit of comparison: a kind, or for traces a day of a tenant.
type group struct {
	kind   Kind
	tenant string
	day    int64 // days since 1970
}

func (g group) String() string {
	s := string(g.kind)
	if g.tenant != "" {
		s += " of tenant " + g.tenant
	}
	if g.kind == Traces {
		s += " of " + time.Unix(g.day*86400, 0).UTC().Format(time.DateOnly)
	}
	return s
}

// notStored are the fields of a trace that no engine stores.
var notStored = []string{"AgentNameSent", "ToolCalls"}

// appendTrace appends the stored fields of a trace, in one encoding for all engines.
func appendTrace(b []byte, t *store.Trace) []byte {
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		if !slices.Contains(notStored, v.Type().Field(i).Name) {
			b = appendValue(b, v.Field(i))
		}
	}
	return b
}

func appendValue(b []byte, v reflect.Value) []byte {
	if at, ok := reflect.TypeAssert[time.Time](v); ok {
		return binary.AppendVarint(b, at.UnixNano())
	}
	switch v.Kind() {
	case reflect.String:
		b = append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
	case reflect.Bool:
		b = strconv.AppendBool(b, v.Bool())
	case reflect.Float64:
		b = binary.AppendUvarint(b, math.Float64bits(v.Float()))
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			b = appendValue(b, v.Field(i))
		}
	default:
		b = binary.AppendVarint(b, v.Int())
	}
	return b
}

// compare returns the groups in which two stores differ, in order.
func compare(from, to map[group]*Digest) []string {
	var list []string
	for g, d := range from {
		if other := to[g]; other == nil {
			list = append(list, fmt.Sprintf("%s: %s in the source, nothing in the target", g, d))
		} else if *other != *d {
			list = append(list, fmt.Sprintf("%s: %s in the source, %s in the target", g, d, other))
		}
	}
	for g, d := range to {
		if from[g] == nil {
			list = append(list, fmt.Sprintf("%s: nothing in the source, %s in the target", g, d))
		}
	}
	slices.Sort(list)
	return list
}
