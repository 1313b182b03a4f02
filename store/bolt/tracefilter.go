package bolt

import (
	"bytes"
	"encoding/binary"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// inRecord is the part of a filter that entries of blocks cannot decide, so that
// records are read.
type inRecord struct {
	byRecord    bool
	name        uint32 // the number of the agent's name, 0: any
	unknownName bool   // no trace has the name
	minDuration time.Duration
	// needles are encoded strings that every matching record contains. Most other
	// records are rejected by them without decoding.
	needles [][]byte
	asked   []facetAsked // the same for facets
	exact   store.TraceFilter
}

// recordFilter returns the part of a filter that needs records.
func (d data) recordFilter(f *store.TraceFilter) inRecord {
	c := inRecord{minDuration: f.MinDuration, exact: store.TraceFilter{SessionID: f.SessionID, ToolName: f.ToolName,
		RuleID: f.RuleID, PolicyID: f.PolicyID, PII: f.PII, Principal: f.Principal, Client: f.Client, RequestID: f.RequestID}}
	if f.AgentName != "" {
		n, ok := d.lookup(dictEntry{kindName, f.AgentName, ""})
		c.name, c.unknownName, c.byRecord = n, !ok, true
	}
	for _, s := range [...]string{f.ToolName, f.RuleID, f.PolicyID, f.PII, f.Principal, f.Client} {
		if s != "" {
			c.needles = append(c.needles, appendString(nil, s))
		}
	}
	for _, s := range [...]string{f.SessionID, f.RequestID} {
		if s != "" {
			c.needles = append(c.needles, appendPacked(nil, s)[1:]) // the string may be in the id
		}
	}
	c.byRecord = c.byRecord || c.minDuration > 0 || len(c.needles) > 0
	c.asked = c.facetsAsked()
	return c
}

// matchDetails reports whether a record passes the part of a filter that needs
// records.
func (c *inRecord) matchDetails(rec []byte) (bool, error) {
	switch {
	case !c.byRecord:
		return true, nil
	case len(rec) < recFixed+4:
		return false, errRecord
	case c.name != 0 && binary.LittleEndian.Uint32(rec[recName:]) != c.name,
		time.Duration(binary.LittleEndian.Uint64(rec[recDuration:])) < c.minDuration:
		return false, nil
	}
	for _, n := range c.needles {
		if !bytes.Contains(rec[recFixed:], n) {
			return false, nil
		}
	}
	if len(c.needles) == 0 {
		return true, nil
	}
	tr, _, err := decodeRecord(rec, false)
	return err == nil && c.exact.Match(&tr), err
}

// modelsNamed returns the numbers of the models with a name, of all providers.
func (d data) modelsNamed(name string) (numbers []uint32) {
	c := d.in(inDict).Cursor()
	prefix := []byte{kindModel}
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if _, model := splitModel(string(k[1:])); model == name && len(v) == 4 {
			numbers = append(numbers, binary.BigEndian.Uint32(v))
		}
	}
	return numbers
}

// backwards reads records by descending commit numbers.
type backwards struct {
	c    *bbolt.Cursor
	last uint64
}

// get returns a record, nil when there is none.
func (b *backwards) get(seq uint64) []byte {
	var k, v []byte
	if b.last != 0 && seq+1 == b.last {
		k, v = b.c.Prev()
	}
	if len(k) != 8 || number(k) != seq {
		k, v = b.c.Seek(bytes8(seq))
	}
	if b.last = seq; len(k) != 8 || number(k) != seq {
		return nil
	}
	return v
}
