package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// MaxBatchID bounds the id of a batch, in bytes.
const MaxBatchID = 512

// Batch is traces that are stored together.
type Batch struct {
	// ID names the batch in its tenant, and stays the same when the batch is sent again:
	// a reporter makes it of its name, its file and the positions between which the
	// traces are. The same ID always has the same traces in the same order. Empty: the
	// batch is known by the ids of its traces.
	ID     string
	Traces []Trace
}

// Key is what engines know a batch by: the digest of its ID and of the ids of its
// traces, so that an ID that two reporters give by mistake does no harm. An engine
// that cannot see in one step whether each trace is stored already keeps the aggregate
// states of a batch under this key, and merges them once however often it is sent.
func (b *Batch) Key() string {
	h := sha256.New()
	var size [8]byte
	add := func(id string) {
		binary.BigEndian.PutUint64(size[:], uint64(len(id))) // so that "ab", "c" is not "a", "bc"
		h.Write(size[:])
		h.Write([]byte(id))
	}
	add(b.ID)
	for i := range b.Traces {
		add(cmp.Or(b.Traces[i].ID, b.TraceID(i)))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// TraceID is the id of a trace that came without one: of its place in the batch where
// that has an ID, so that the batch can be sent again; empty where the store makes one.
func (b *Batch) TraceID(i int) string {
	if b.ID == "" {
		return ""
	}
	var place [8]byte
	binary.BigEndian.PutUint64(place[:], uint64(i))
	sum := sha256.Sum256(append([]byte(b.ID), place[:]...))
	return PrefixTrace + base64.RawURLEncoding.EncodeToString(sum[:20])
}

// CheckBatch returns why a batch cannot be stored, nil when its traces are to be
// looked at.
func CheckBatch(b *Batch) error {
	switch {
	case len(b.Traces) > MaxIngestBatch:
		return FieldError(Invalid, "too many traces", "traces", fmt.Sprintf("must have at most %d elements", MaxIngestBatch))
	case len(b.ID) > MaxBatchID || strings.IndexByte(b.ID, 0) >= 0:
		return FieldError(Invalid, "bad batch id", "batch", fmt.Sprintf("must have at most %d bytes, none of them zero", MaxBatchID))
	}
	return nil
}
