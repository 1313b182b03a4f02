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
	// ID identifies the batch in its tenant and stays the same when the batch is sent
	// again: a reporter derives it from its name, its file and the positions between
	// which the traces are. The same ID must always have the same traces in the same
	// order. Empty: the ids of the traces identify the batch.
	ID     string
	Traces []Trace
}

// Key is the key by which engines de-duplicate a batch: the digest of its ID and of the
// ids of its traces, so that two reporters that use the same ID by accident lose
// nothing. An engine that cannot check in one step whether each trace is stored already
// keeps the aggregate states of a batch under this key, and merges them once, however
// often the batch is sent.
func (b *Batch) Key() string {
	h := sha256.New()
	var size [8]byte
	add := func(id string) {
		binary.BigEndian.PutUint64(size[:], uint64(len(id))) // the length prefix distinguishes "ab", "c" from "a", "bc"
		h.Write(size[:])
		h.Write([]byte(id))
	}
	add(b.ID)
	for i := range b.Traces {
		add(cmp.Or(b.Traces[i].ID, b.TraceID(i)))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// TraceID returns the id of a trace that came without one. When the batch has an ID, the
// id is derived from the position of the trace in the batch, so that sending the batch
// again gives the same id; otherwise it is empty and the store makes one.
func (b *Batch) TraceID(i int) string {
	if b.ID == "" {
		return ""
	}
	var place [8]byte
	binary.BigEndian.PutUint64(place[:], uint64(i))
	sum := sha256.Sum256(append([]byte(b.ID), place[:]...))
	return PrefixTrace + base64.RawURLEncoding.EncodeToString(sum[:20])
}

// CheckBatch returns why a batch cannot be stored, or nil when its traces can be checked
// next.
func CheckBatch(b *Batch) error {
	switch {
	case len(b.Traces) > MaxIngestBatch:
		return FieldError(Invalid, "too many traces", "traces", fmt.Sprintf("must have at most %d elements", MaxIngestBatch))
	case len(b.ID) > MaxBatchID || strings.IndexByte(b.ID, 0) >= 0:
		return FieldError(Invalid, "bad batch id", "batch", fmt.Sprintf("must have at most %d bytes, none of them zero", MaxBatchID))
	}
	return nil
}
