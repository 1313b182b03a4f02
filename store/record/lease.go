package record

import (
	"context"
	"time"

	"svc/store"
)

// Held is the row of a lease: who holds it, and until when. A released lease keeps its token,
// without a holder.
type Held struct {
	Holder string
	Until  time.Time
	Token  uint64
}

// LeaseRows stores leases, which belong to the whole store.
type LeaseRows interface {
	// Lease runs f in a transaction on the row of a lease, the zero value when there is none,
	// and the time by the clock of the store. It writes the row that f has changed when f
	// returns true.
	Lease(ctx context.Context, name string, f func(row *Held, now time.Time) (changed bool)) error
}

// Check rejects a write under a lease that no longer belongs to its holder.
func (h Held) Check(l store.Lease, now time.Time) error {
	if h.Holder != l.Holder || h.Token != l.Token || !now.Before(h.Until) {
		return store.ErrLeaseLost
	}
	return nil
}

// Release takes a lease from its holder.
func (h *Held) Release() { *h = Held{Token: h.Token} }

// Leases implements the leases of a store. Engines embed it.
type Leases struct{ rows LeaseRows }

// LeasesOf returns the leases in rows.
func LeasesOf(rows LeaseRows) Leases { return Leases{rows} }

// AcquireLease takes or renews a lease.
func (s *Leases) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (l store.Lease, ok bool, err error) {
	err = s.rows.Lease(ctx, name, func(h *Held, now time.Time) bool {
		if ok = h.Holder == "" || h.Holder == holder || !now.Before(h.Until); !ok {
			return false
		}
		if h.Holder != holder {
			h.Holder, h.Token = holder, h.Token+1
		}
		h.Until = now.Add(ttl)
		l = store.Lease{Name: name, Holder: holder, Token: h.Token, Until: h.Until}
		return true
	})
	if !ok || err != nil {
		return store.Lease{}, false, err
	}
	return l, true, nil
}

// ReleaseLease releases a lease.
func (s *Leases) ReleaseLease(ctx context.Context, l store.Lease) error {
	return s.rows.Lease(ctx, l.Name, func(h *Held, _ time.Time) bool {
		if h.Holder != l.Holder || h.Token != l.Token {
			return false
		}
		h.Release()
		return true
	})
}
