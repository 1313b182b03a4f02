package bolt

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/record"
)

// Authenticate finds the key with a digest, and its limits.
func (s *Store) Authenticate(ctx context.Context, digest store.KeyDigest) (cred store.Credential, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		tenantID, keyID, ok := record.SplitDigest(tx.Bucket(bucketDigests).Get(digest[:]))
		if !ok {
			return record.ErrRefused
		}
		t := s.tenant(tenantID)
		d, err := t.data(tx)
		if err != nil {
			return record.ErrRefused
		}
		cred, err = t.Authenticate(recordTx{d: d, ctx: ctx}, keyID, digest)
		return err
	})
	return cred, err
}

// flusher writes the buffer of key uses periodically, until the store closes.
func (s *Store) flusher(every time.Duration) {
	defer s.work.Done()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
			if err := s.flushUsed(); err != nil {
				s.log.Error("write times of use of API keys", "error", err)
			}
		}
	}
}

// flushUsed writes the buffer of key uses.
func (s *Store) flushUsed() error {
	return s.uses.Flush(func(batch map[record.UsedKey][]byte) error {
		return s.commit(func(tx *bbolt.Tx) error {
			for k, value := range batch {
				d, err := s.tenant(k.Tenant).data(tx)
				if err != nil || d.in(record.KeyRows).Get([]byte(k.Key)) == nil {
					continue // the key was deleted since
				}
				if err := d.in(record.KeyUsed).Put([]byte(k.Key), value); err != nil {
					return fmt.Errorf("note use of key: %w", err)
				}
			}
			return nil
		})
	})
}
