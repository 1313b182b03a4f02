package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"
)

// lease is who does a piece of background work, and until when.
type lease struct {
	Holder string
	Until  time.Time
}

// dropLeases ends the leases of earlier processes. The file has one holder, which
// is this one: whoever had them ended without giving them back.
func (s *Store) dropLeases() (err error) {
	held := false
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(bucketLeases).Cursor().First()
		held = k != nil
		return nil
	})
	if err != nil || !held {
		return err
	}
	return s.commit(func(tx *bbolt.Tx) error {
		if err := tx.DeleteBucket(bucketLeases); err != nil {
			return err
		}
		_, err := tx.CreateBucket(bucketLeases)
		return err
	})
}

// AcquireLease takes or renews a lease.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (ok bool, err error) {
	err = s.update(ctx, func(tx *bbolt.Tx) error {
		now := s.now().UTC()
		held, exists, err := getJSON[lease](tx.Bucket(bucketLeases), name)
		if err != nil {
			return err
		}
		if ok = !exists || held.Holder == holder || !now.Before(held.Until); !ok {
			return nil
		}
		return putJSON(tx.Bucket(bucketLeases), name, lease{Holder: holder, Until: now.Add(ttl)})
	})
	return ok && err == nil, err
}

// ReleaseLease gives a lease back.
func (s *Store) ReleaseLease(ctx context.Context, name, holder string) error {
	return s.update(ctx, func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLeases)
		held, _, err := getJSON[lease](b, name)
		if err != nil || held.Holder != holder {
			return err
		}
		return b.Delete([]byte(name))
	})
}

// Mark returns a named time.
func (s *Store) Mark(ctx context.Context, name string) (at time.Time, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		at = timeOf(number(tx.Bucket(bucketMarks).Get([]byte(name))))
		return nil
	})
	return at, err
}

// SetMark sets a named time.
func (s *Store) SetMark(ctx context.Context, name string, at time.Time) error {
	return s.update(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketMarks).Put([]byte(name), bytes8(uint64(at.UnixNano())))
	})
}
