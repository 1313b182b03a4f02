package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// leaseRecord is the holder of a piece of background work, and the expiry of the
// lease. A released lease keeps its token, without a holder.
type leaseRecord struct {
	Holder string
	Until  time.Time
	Token  uint64
}

// dropLeases removes the leases of earlier processes. Only one process can have
// the file open, so an earlier holder has ended without releasing its lease.
func (s *Store) dropLeases() error {
	var held []string
	err := s.view(context.Background(), func(tx *bbolt.Tx) error {
		return eachLease(tx, func(name string, l leaseRecord) error {
			if l.Holder != "" {
				held = append(held, name)
			}
			return nil
		})
	})
	if err != nil || len(held) == 0 {
		return err
	}
	return s.commit(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLeases)
		for _, name := range held {
			l, _, err := getJSON[leaseRecord](b, name)
			if err != nil {
				return err
			}
			if err := putJSON(b, name, leaseRecord{Token: l.Token}); err != nil {
				return err
			}
		}
		return nil
	})
}

func eachLease(tx *bbolt.Tx, fn func(name string, l leaseRecord) error) error {
	b := tx.Bucket(bucketLeases)
	return b.ForEach(func(k, _ []byte) error {
		l, _, err := getJSON[leaseRecord](b, string(k))
		if err != nil {
			return err
		}
		return fn(string(k), l)
	})
}

// holds rejects a write whose lease no longer belongs to its holder.
func (s *Store) holds(ctx context.Context, tx *bbolt.Tx) error {
	l, ok := store.LeaseOf(ctx)
	if !ok {
		return nil
	}
	held, _, err := getJSON[leaseRecord](tx.Bucket(bucketLeases), l.Name)
	if err == nil && (held.Holder != l.Holder || held.Token != l.Token || !s.now().Before(held.Until)) {
		err = store.ErrLeaseLost
	}
	return err
}

// AcquireLease takes or renews a lease.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (l store.Lease, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return l, false, err
	}
	err = s.commit(func(tx *bbolt.Tx) error {
		now := s.now().UTC()
		held, _, err := getJSON[leaseRecord](tx.Bucket(bucketLeases), name)
		if err != nil {
			return err
		}
		if ok = held.Holder == "" || held.Holder == holder || !now.Before(held.Until); !ok {
			return nil
		}
		if held.Holder != holder {
			held = leaseRecord{Holder: holder, Token: held.Token + 1}
		}
		held.Until = now.Add(ttl)
		l = store.Lease{Name: name, Holder: holder, Token: held.Token, Until: held.Until}
		return putJSON(tx.Bucket(bucketLeases), name, held)
	})
	if !ok || err != nil {
		return store.Lease{}, false, err
	}
	return l, true, nil
}

// ReleaseLease releases a lease.
func (s *Store) ReleaseLease(ctx context.Context, l store.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.commit(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLeases)
		held, _, err := getJSON[leaseRecord](b, l.Name)
		if err != nil || held.Holder != l.Holder || held.Token != l.Token {
			return err
		}
		return putJSON(b, l.Name, leaseRecord{Token: held.Token})
	})
}

// Watermark returns a named time.
func (s *Store) Watermark(ctx context.Context, name string) (at time.Time, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		at, err = marks{tx.Bucket(bucketMarks)}.Watermark(ctx, name)
		return err
	})
	return at, err
}

// SetWatermark sets a named time. After a failure of the disk it first checks that the file can
// grow again, because the probe of readiness is a call of this method.
func (s *Store) SetWatermark(ctx context.Context, name string, at time.Time) error {
	return s.update(ctx, func(tx *bbolt.Tx) error {
		if err := s.growAgain(tx); err != nil {
			return err
		}
		return marks{tx.Bucket(bucketMarks)}.SetWatermark(ctx, name, at)
	})
}
