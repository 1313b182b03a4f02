package memory

import (
	"context"

	"svc/store"
	"svc/store/record"
)

// Authenticate finds the key with a digest, and its limits.
func (s *Store) Authenticate(ctx context.Context, digest store.KeyDigest) (cred store.Credential, err error) {
	err = s.read(ctx, func(e *engine) error {
		value, err := e.shared.Get(record.KeyDigests, digest[:])
		if err != nil {
			return err
		}
		tenantID, keyID, ok := record.SplitDigest(value)
		if !ok {
			return record.ErrRefused
		}
		cred, err = s.tenant(tenantID).Authenticate(tx{e.tenants.get(tenantID), &e.shared}, keyID, digest)
		return err
	})
	return cred, err
}
