package store

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"
)

// Prefixes of the identifiers that stores make.
const (
	PrefixTenant     = "ten_"
	PrefixUser       = "usr_"
	PrefixTeam       = "team_"
	PrefixAgent      = "agt_"
	PrefixTool       = "tool_"
	PrefixDeployment = "dep_"
	PrefixBudget     = "bud_"
	PrefixSLA        = "sla_"
	PrefixViolation  = "vio_"
	PrefixPolicy     = "pol_"
	PrefixKey        = "key_"
	PrefixTrace      = "trc_"
	PrefixEvent      = "evt_"
	PrefixAuditEvent = "aev_"
	PrefixWebhook    = "whk_"
	PrefixMessage    = "msg_" // of an event for webhooks
	PrefixDelivery   = "dlv_"
)

// IDs makes identifiers: a prefix and 26 characters that sort in the order of creation,
// also within one millisecond and when the clock steps back. The zero value is ready
// for use; it is safe for concurrent use.
type IDs struct {
	mu  sync.Mutex
	ms  uint64 // 48 bits are used
	seq uint16 // 12 bits are used, after ms
}

// crockford is base32 without i, l, o and u, in the order of its bytes.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// New returns the next identifier for a time.
func (g *IDs) New(prefix string, now time.Time) string {
	g.mu.Lock()
	if ms := uint64(max(now.UnixMilli(), 0)); ms > g.ms {
		g.ms, g.seq = ms, 0
	} else if g.seq++; g.seq > 0xfff {
		g.ms, g.seq = g.ms+1, 0
	}
	ms, seq := g.ms, g.seq
	g.mu.Unlock()

	var b [16]byte
	_, _ = rand.Read(b[8:]) // never fails since Go 1.24
	binary.BigEndian.PutUint64(b[:8], ms<<16|uint64(seq)<<4|uint64(b[8]>>4))
	return idText(prefix, b)
}

// FirstID returns a lower bound of all identifiers made at t or later, which is larger
// than those made a millisecond or more before t.
func FirstID(prefix string, at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(max(at.UnixMilli(), 0))<<16)
	return idText(prefix, b)
}

func idText(prefix string, b [16]byte) string {
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	out := make([]byte, len(prefix)+26)
	copy(out, prefix)
	for i := len(out) - 1; i >= len(prefix); i-- {
		out[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out)
}
