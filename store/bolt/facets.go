package bolt

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"svc/store"
)

// Filters on details need values that blocks do not contain; they are in the records,
// which are many times as long. So every complete block gets facets: for each kind of value
// a bitmap of the traces that have it (128 bits in commit order), and the durations. A
// filter on details then reads few records, or none. Facets are built in the background
// (see facetbuild.go); the newest blocks have none yet, so their records are read.
// Little-endian:
//
//	0  version 1
//	1  traces, at most 128
//	2  durations in whole milliseconds, 4 bytes each
//	   and for each kind of which a trace has a value:
//	      kind, form, length of the rest (2 bytes), and
//	      with facetValues: values: length (2 bytes), bytes, and 16 bytes of traces
//	      with facetHashes: CRC-32C of each trace's value, 4 bytes, 0 for none
//	      with facetMany: nothing
//
// Traces that retention removes stay in facets until the whole block is removed.
const (
	facetVersion = 1
	facetHeader  = 2

	facetValues = 1 // at most facetMaxValues values
	facetHashes = 2 // more, at most one per trace
	facetMany   = 3 // more, several per trace: only the records have them
)

// facetMaxValues bounds the values of a kind that one block lists, and facetMaxBytes their
// total length.
const (
	facetMaxValues = 16
	facetMaxBytes  = 2048
)

// The kinds of facets.
const (
	facetName      = 'n' // the number of the agent's name
	facetSession   = 's'
	facetTool      = 't'
	facetRule      = 'r'
	facetPrincipal = 'u'
	facetClient    = 'c'
	facetRequest   = 'q'
	facetPolicy    = 'p' // several per trace
	facetPII       = 'i' // several per trace
)

var errFacets = errors.New("damaged facets of traces")

// traceSet is a bitmap of traces of a block.
type traceSet [2]uint64

func (s *traceSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s traceSet) has(i int) bool  { return s[i/64]>>(i%64)&1 != 0 }
func (s traceSet) empty() bool     { return s[0]|s[1] == 0 }
func (s *traceSet) and(o traceSet) { s[0], s[1] = s[0]&o[0], s[1]&o[1] }

// firstTraces returns the set of the first n traces of a block.
func firstTraces(n int) (s traceSet) {
	for i := range s {
		if left := n - 64*i; left >= 64 {
			s[i] = math.MaxUint64
		} else if left > 0 {
			s[i] = 1<<left - 1
		}
	}
	return s
}

// facetMaker collects the facets of a block.
type facetMaker struct {
	durations []uint32
	kinds     []facetKind
}

type facetKind struct {
	kind   byte
	values []facetValue
	bytes  int
	hashes []uint32 // set for a kind with too many values
	many   bool
}

type facetValue struct {
	value string
	in    traceSet
}

func newFacetMaker(traces int) *facetMaker { return &facetMaker{durations: make([]uint32, traces)} }

// add adds a trace.
func (m *facetMaker) add(i int, rec []byte) error {
	t, r, err := decodeRecord(rec, false)
	if err != nil {
		return err
	}
	m.durations[i] = wholeMillis(t.Duration)
	eachFacet(&t, r, func(kind byte, value string) { m.put(i, kind, value) })
	return nil
}

// wholeMillis returns a duration in whole milliseconds, at most the maximum of uint32.
func wholeMillis(d time.Duration) uint32 {
	return uint32(min(max(d/time.Millisecond, 0), math.MaxUint32))
}

// eachFacet calls fn with the values of a trace.
func eachFacet(t *store.Trace, r refs, fn func(kind byte, value string)) {
	if r.name != 0 {
		fn(facetName, nameValue(r.name))
	}
	for _, v := range [...]struct {
		kind  byte
		value string
	}{{facetSession, t.SessionID}, {facetTool, t.ToolName}, {facetRule, t.RuleID}, {facetPrincipal, t.Principal},
		{facetClient, t.ClientName}, {facetRequest, t.RequestID}} {
		if v.value != "" {
			fn(v.kind, v.value)
		}
	}
	for i := range t.PoliciesFired {
		if id := t.PoliciesFired[i].ID; id != "" {
			fn(facetPolicy, id)
		}
	}
	for _, s := range t.PIIDetected {
		if s != "" {
			fn(facetPII, s)
		}
	}
}

func nameValue(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

func facetHash(value string) uint32 {
	return max(crc32.Checksum([]byte(value), castagnoli), 1)
}

// put records that a trace has a value.
func (m *facetMaker) put(i int, kind byte, value string) {
	var k *facetKind
	for j := range m.kinds {
		if m.kinds[j].kind == kind {
			k = &m.kinds[j]
		}
	}
	if k == nil {
		m.kinds = append(m.kinds, facetKind{kind: kind})
		k = &m.kinds[len(m.kinds)-1]
	}
	switch {
	case k.many:
		return
	case k.hashes != nil:
		k.hashes[i] = facetHash(value)
		return
	}
	for j := range k.values {
		if k.values[j].value == value {
			k.values[j].in.add(i)
			return
		}
	}
	if k.bytes += len(value); len(k.values) < facetMaxValues && k.bytes <= facetMaxBytes {
		k.values = append(k.values, facetValue{value: value})
		k.values[len(k.values)-1].in.add(i)
		return
	}
	if kind == facetPolicy || kind == facetPII {
		k.many, k.values = true, nil
		return
	}
	k.hashes = make([]uint32, len(m.durations))
	for _, v := range k.values {
		for j := range k.hashes {
			if v.in.has(j) {
				k.hashes[j] = facetHash(v.value)
			}
		}
	}
	k.hashes[i], k.values = facetHash(value), nil
}

// encode appends the encoded facets.
func (m *facetMaker) encode(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, facetVersion, byte(len(m.durations)))
	for _, d := range m.durations {
		dst = le.AppendUint32(dst, d)
	}
	for _, k := range m.kinds {
		start := len(dst)
		dst = append(dst, k.kind, facetValues, 0, 0)
		switch {
		case k.many:
			dst[start+1] = facetMany
		case k.hashes != nil:
			dst[start+1] = facetHashes
			for _, h := range k.hashes {
				dst = le.AppendUint32(dst, h)
			}
		default:
			for _, v := range k.values {
				dst = append(le.AppendUint16(dst, uint16(len(v.value))), v.value...)
				dst = le.AppendUint64(le.AppendUint64(dst, v.in[0]), v.in[1])
			}
		}
		le.PutUint16(dst[start+2:], uint16(len(dst)-start-4))
	}
	return dst
}

// facets is a block's encoded facets.
type facets []byte

func asFacets(b []byte) (facets, error) {
	if len(b) < facetHeader || b[0] != facetVersion || b[1] > 128 || len(b) < facetHeader+4*int(b[1]) {
		return nil, errFacets
	}
	return b, nil
}

func (f facets) traces() int { return int(f[1]) }

// atLeast returns the traces whose duration is at least d. sure is false if the resolution
// of a duration is too low to decide.
func (f facets) atLeast(d time.Duration) (in traceSet, sure bool) {
	least, whole := wholeMillis(d), d%time.Millisecond == 0
	sure = least < math.MaxUint32
	for i := range f.traces() {
		if got := binary.LittleEndian.Uint32(f[facetHeader+4*i:]); got >= least {
			in.add(i)
			sure = sure && (whole || got > least)
		}
	}
	return in, sure
}

// with returns the traces that have a value. sure is false if some of them may not have
// it.
func (f facets) with(kind byte, value string) (in traceSet, sure bool, err error) {
	le := binary.LittleEndian
	for b := f[facetHeader+4*f.traces():]; len(b) > 0; {
		if len(b) < 4 {
			return in, false, errFacets
		}
		form, end := b[1], 4+int(le.Uint16(b[2:]))
		if end > len(b) {
			return in, false, errFacets
		}
		if b[0] != kind {
			b = b[end:]
			continue
		}
		switch b = b[4:end]; {
		case form == facetMany:
			return firstTraces(f.traces()), false, nil
		case form == facetHashes && len(b) == 4*f.traces():
			hash := facetHash(value)
			for i := range f.traces() {
				if le.Uint32(b[4*i:]) == hash {
					in.add(i)
				}
			}
			return in, false, nil
		case form != facetValues:
			return in, false, errFacets
		}
		for len(b) > 0 {
			if len(b) < 2 || len(b) < 18+int(le.Uint16(b)) {
				return in, false, errFacets
			}
			n := int(le.Uint16(b))
			if string(b[2:2+n]) == value {
				return traceSet{le.Uint64(b[2+n:]), le.Uint64(b[10+n:])}, true, nil
			}
			b = b[18+n:]
		}
		return in, true, nil
	}
	return in, true, nil // no trace has a value of the kind
}

// facetAsked is a value that a filter requires.
type facetAsked struct {
	kind  byte
	value string
}

// facetsAsked returns the values that a filter requires and that blocks do not contain.
func (c *inRecord) facetsAsked() (list []facetAsked) {
	if c.name != 0 {
		list = append(list, facetAsked{facetName, nameValue(c.name)})
	}
	for _, a := range [...]facetAsked{{facetSession, c.exact.SessionID}, {facetTool, c.exact.ToolName}, {facetRule, c.exact.RuleID},
		{facetPolicy, c.exact.PolicyID}, {facetPII, c.exact.PII}, {facetPrincipal, c.exact.Principal},
		{facetClient, c.exact.Client}, {facetRequest, c.exact.RequestID}} {
		if a.value != "" {
			list = append(list, a)
		}
	}
	return list
}

// matchFacets returns the traces of a block that pass the part of a filter that blocks
// cannot decide. If sure is false, the records must be checked as well.
func (c *inRecord) matchFacets(f facets) (in traceSet, sure bool, err error) {
	in, sure = firstTraces(f.traces()), true
	for _, a := range c.asked {
		some, exactly, err := f.with(a.kind, a.value)
		if err != nil {
			return in, false, err
		}
		if in.and(some); in.empty() {
			return in, true, nil
		}
		sure = sure && exactly
	}
	if c.minDuration > 0 {
		some, exactly := f.atLeast(c.minDuration)
		in.and(some)
		sure = sure && exactly
	}
	return in, sure, nil
}
