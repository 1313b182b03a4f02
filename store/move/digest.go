package move

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
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

// appendTrace appends the stored fields of a trace, in one encoding for all engines.
func appendTrace(b []byte, t *Trace) []byte {
	text := func(list ...string) {
		for _, s := range list {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	number := func(list ...int64) {
		for _, n := range list {
			b = binary.AppendVarint(b, n)
		}
	}
	blocked := int64(0)
	if t.Blocked {
		blocked = 1
	}
	text(t.ID, t.AgentID, t.AgentName, string(t.Status), t.Environment, t.SessionID, t.ModelProvider, t.ModelName, t.ToolName,
		t.RequestID, t.Principal, t.ClientName, t.ClientVersion, t.RuleID, t.Reason, t.ErrorKind)
	number(blocked, t.InputTokens, t.OutputTokens, t.CacheReadTokens, t.CacheCreationTokens, int64(t.Cost), int64(t.Duration),
		int64(math.Float64bits(t.InjectionScore)), t.CreatedAt.UnixNano())
	number(int64(len(t.PIIDetected)))
	text(t.PIIDetected...)
	number(int64(len(t.PoliciesFired)))
	for _, p := range t.PoliciesFired {
		text(p.ID, p.Name, p.Action)
	}
	number(int64(len(t.QualityScores)))
	for _, q := range t.QualityScores {
		text(q.Scorer)
		number(int64(math.Float64bits(q.Score)))
	}
	number(int64(len(t.Spans)))
	for _, s := range t.Spans {
		text(s.Stage)
		number(int64(s.Duration))
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
