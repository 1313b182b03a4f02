package bolt

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"svc/store"
)

// A trace is stored as a record, little-endian:
//
//	 0  version 1          28  duration, nanoseconds
//	 1  flags              36  agent, number in dict
//	 2  zero, 2 bytes      40  environment, number
//	 4  createdAt, ns      44  model, number
//	12  cost, nano-USD     48  agent name, number
//	20  injection score    52  the rest
//
// The rest is: id, session (packed strings), tool (string), input and output tokens
// (varints), detected entities, fired policies (lists), request id (a packed string),
// principal, rule, reason, error kind (strings), cache read and cache creation tokens
// (varints), the client's name and version, the status of the approval and, if there is
// one, its id and who granted it (strings), with flagLabels the labels of the caller and
// those that the answer set (lists), quality scores, spans (lists), and a CRC-32C of
// everything before it. Strings and lists begin with their length as a varint. The numbers
// at fixed offsets can be set after encoding.
const (
	recVersion  = 1
	recTime     = 4
	recCost     = 12
	recScore    = 20
	recDuration = 28
	recAgent    = 36
	recEnv      = 40
	recModel    = 44
	recName     = 48
	recFixed    = 52

	flagError   = 1 << 0
	flagBlocked = 1 << 1
	flagLabels  = 1 << 2 // the trace has labels
	flagDeleted = 1 << 7 // used in blocks only
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errRecord = errors.New("damaged trace record")
)

// refs are the dictionary numbers of a trace's repeated strings.
type refs struct {
	agent, env, model, name uint32
	tool                    uint32    // not part of the record
	names                   [3]uint32 // of statistics; not part of the record
}

// appendRecord encodes a trace, except for its numbers and its checksum; see seal.
func appendRecord(dst []byte, t *store.Trace) []byte {
	le, start := binary.LittleEndian, len(dst)
	dst = append(dst, recVersion, traceFlags(t), 0, 0)
	dst = le.AppendUint64(dst, uint64(t.CreatedAt.UnixNano()))
	dst = le.AppendUint64(dst, uint64(t.Cost))
	dst = le.AppendUint64(dst, math.Float64bits(t.InjectionScore))
	dst = le.AppendUint64(dst, uint64(t.Duration))
	dst = append(dst, make([]byte, recFixed-recAgent)...)
	dst = appendPacked(dst, t.ID)
	dst = appendPacked(dst, t.SessionID)
	dst = appendString(dst, t.ToolName)
	dst = binary.AppendUvarint(dst, uint64(t.InputTokens))
	dst = binary.AppendUvarint(dst, uint64(t.OutputTokens))
	dst = appendStrings(dst, t.PIIDetected)
	dst = binary.AppendUvarint(dst, uint64(len(t.PoliciesFired)))
	for i := range t.PoliciesFired {
		p := &t.PoliciesFired[i]
		dst = appendString(appendString(appendString(dst, p.ID), p.Name), p.Action)
	}
	dst = appendDetails(dst, t)
	if dst[start+1]&flagLabels != 0 {
		dst = appendStrings(appendStrings(dst, t.Labels), t.Sets)
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.QualityScores)))
	for i := range t.QualityScores {
		dst = appendString(dst, t.QualityScores[i].Scorer)
		dst = le.AppendUint64(dst, math.Float64bits(t.QualityScores[i].Score))
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Spans)))
	for i := range t.Spans {
		dst = appendStage(dst, t.Spans[i].Stage)
		dst = binary.AppendUvarint(dst, uint64(t.Spans[i].Duration))
	}
	return append(dst, 0, 0, 0, 0)
}

func traceFlags(t *store.Trace) (flags byte) {
	if t.Status == store.TraceError {
		flags |= flagError
	}
	if t.Blocked {
		flags |= flagBlocked
	}
	if len(t.Labels)+len(t.Sets) > 0 {
		flags |= flagLabels
	}
	return flags
}

// seal sets the numbers of an encoded record and its checksum.
func seal(rec []byte, r refs) {
	le := binary.LittleEndian
	le.PutUint32(rec[recAgent:], r.agent)
	le.PutUint32(rec[recEnv:], r.env)
	le.PutUint32(rec[recModel:], r.model)
	le.PutUint32(rec[recName:], r.name)
	body := len(rec) - 4
	le.PutUint32(rec[body:], crc32.Checksum(rec[:body], castagnoli))
}

// decodeRecord decodes a record. The caller resolves the numbers to strings. Spans and
// quality scores are decoded only when detail is set.
func decodeRecord(rec []byte, detail bool) (t store.Trace, r refs, err error) {
	le := binary.LittleEndian
	body := len(rec) - 4
	if body < recFixed || rec[0] != recVersion || le.Uint32(rec[body:]) != crc32.Checksum(rec[:body], castagnoli) {
		return t, r, errRecord
	}
	r = refs{agent: le.Uint32(rec[recAgent:]), env: le.Uint32(rec[recEnv:]),
		model: le.Uint32(rec[recModel:]), name: le.Uint32(rec[recName:])}
	t.Status = store.TraceSuccess
	if rec[1]&flagError != 0 {
		t.Status = store.TraceError
	}
	t.Blocked = rec[1]&flagBlocked != 0
	t.CreatedAt = time.Unix(0, int64(le.Uint64(rec[recTime:]))).UTC()
	t.Cost = store.NanoUSD(le.Uint64(rec[recCost:]))
	t.InjectionScore = math.Float64frombits(le.Uint64(rec[recScore:]))
	t.Duration = time.Duration(le.Uint64(rec[recDuration:]))

	d := decoder{data: rec[recFixed:body]}
	t.ID, t.SessionID, t.ToolName = d.packed(), d.packed(), d.text()
	t.InputTokens, t.OutputTokens = int64(d.uvarint()), int64(d.uvarint())
	t.PIIDetected = d.texts()
	if n := d.count(); n > 0 {
		t.PoliciesFired = make([]store.PolicyFired, n)
		for i := range t.PoliciesFired {
			t.PoliciesFired[i] = store.PolicyFired{ID: d.text(), Name: d.text(), Action: d.text()}
		}
	}
	d.details(&t)
	if rec[1]&flagLabels != 0 {
		t.Labels, t.Sets = d.texts(), d.texts()
	}
	if !detail {
		return t, r, d.err()
	}
	if n := d.count(); n > 0 {
		t.QualityScores = make([]store.QualityScore, n)
		for i := range t.QualityScores {
			t.QualityScores[i].Scorer = d.text()
			if b := d.take(8); b != nil {
				t.QualityScores[i].Score = math.Float64frombits(le.Uint64(b))
			}
		}
	}
	if n := d.count(); n > 0 {
		t.Spans = make([]store.Span, n)
		for i := range t.Spans {
			t.Spans[i] = store.Span{Stage: d.stage(), Duration: time.Duration(d.uvarint())}
		}
	}
	if len(d.data) > 0 {
		d.bad = true
	}
	return t, r, d.err()
}

// recordID reads the packed id of a record, the key of trace_ids.
func recordID(rec []byte) ([]byte, error) {
	if len(rec) < recFixed+4 || rec[0] != recVersion {
		return nil, errRecord
	}
	d := decoder{data: rec[recFixed : len(rec)-4]}
	id := d.packed()
	return packedKey(id), d.err()
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = appendString(dst, s)
	}
	return dst
}

// The first byte of a packed string: the encoding of the rest.
const (
	packText = 0 // a varint length (not in keys), then the bytes
	packUUID = 1 // 16 bytes of a lower-case UUID
	packHex  = 2 // 16 bytes of 32 lower-case hexadecimal digits
	packSame = 3 // no bytes: the request id equals the trace's id; used only there
)

// pack returns the 16 bytes of an identifier in a common form.
func pack(s string) (form byte, b [16]byte) {
	var digits [32]byte
	switch {
	case len(s) == 32:
		copy(digits[:], s)
		form = packHex
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-':
		copy(digits[:8], s[:8])
		copy(digits[8:12], s[9:13])
		copy(digits[12:16], s[14:18])
		copy(digits[16:20], s[19:23])
		copy(digits[20:], s[24:])
		form = packUUID
	default:
		return packText, b
	}
	for i := range b {
		hi, lo := nibble(digits[2*i]), nibble(digits[2*i+1])
		if hi > 15 || lo > 15 {
			return packText, b
		}
		b[i] = hi<<4 | lo
	}
	return form, b
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	default:
		return 0xff
	}
}

func unpack(form byte, b []byte) string {
	var out [36]byte
	if form == packHex {
		return string(hex.AppendEncode(out[:0], b))
	}
	dst := out[:0]
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return string(dst)
}

func appendPacked(dst []byte, s string) []byte {
	form, b := pack(s)
	dst = append(dst, form)
	if form == packText {
		return appendString(dst, s)
	}
	return append(dst, b[:]...)
}

// packedKey returns the key of an id in trace_ids.
func packedKey(id string) []byte { return appendPackedKey(make([]byte, 0, 1+len(id)), id) }

func appendPackedKey(dst []byte, id string) []byte {
	form, b := pack(id)
	dst = append(dst, form)
	if form == packText {
		return append(dst, id...)
	}
	return append(dst, b[:]...)
}

// stages are the span stages that are encoded as one byte: their index plus 1. Stages
// may only be appended.
var stages = [...]string{"policy_eval", "pii_scan", "provider", "quality_score", "guardrail", "injection_scan", "tool"}

func appendStage(dst []byte, s string) []byte {
	for i := range stages {
		if stages[i] == s {
			return append(dst, byte(i+1))
		}
	}
	return appendString(append(dst, 0), s)
}

// decoder decodes the rest of a record; after the first error it returns zeros.
type decoder struct {
	data []byte
	bad  bool
}

func (d *decoder) err() error {
	if d.bad {
		return errRecord
	}
	return nil
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.data)) {
		d.bad = true
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	if d.bad || n <= 0 || v > math.MaxInt64 {
		d.bad = true
		return 0
	}
	d.data = d.data[n:]
	return v
}

// count reads the length of a list and checks it against the remaining bytes, at least
// one per element.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.data)) || n > store.MaxTraceList {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) text() string { return string(d.take(d.uvarint())) }

func (d *decoder) texts() (list []string) {
	if n := d.count(); n > 0 {
		list = make([]string, n)
		for i := range list {
			list[i] = d.text()
		}
	}
	return list
}

func (d *decoder) packed() string {
	form := d.take(1)
	switch {
	case form == nil:
		return ""
	case form[0] == packText:
		return d.text()
	case form[0] == packUUID || form[0] == packHex:
		if b := d.take(16); b != nil {
			return unpack(form[0], b)
		}
	}
	d.bad = true
	return ""
}

func (d *decoder) stage() string {
	b := d.take(1)
	switch {
	case b == nil:
		return ""
	case b[0] == 0:
		return d.text()
	case int(b[0]) <= len(stages):
		return stages[b[0]-1]
	}
	d.bad = true
	return ""
}
