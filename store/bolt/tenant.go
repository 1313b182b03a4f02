package bolt

import (
	"context"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/record"
)

// tenantRecord is a tenant as it is stored.
type tenantRecord struct {
	store.TenantInfo
	RedactionKey []byte
}

// tenant is a handle on the records and traces of one tenant.
type tenant struct {
	record.Tenant
	s  *Store
	id string
}

// tenant returns a handle on a tenant.
func (s *Store) tenant(id string) *tenant { return &tenant{record.Of(engine{s}, id), s, id} }

var (
	_ store.Tenant       = (*tenant)(nil)
	_ store.TenantTraces = (*tenant)(nil)
)

// Tenant returns the records of a tenant.
func (s *Store) Tenant(id string) store.Tenant { return s.tenant(id) }

// TracesOf returns the traces of a tenant.
func (s *Store) TracesOf(id string) store.TenantTraces { return s.tenant(id) }

func (t *tenant) data(tx *bbolt.Tx) (data, error) {
	if t.id != "" {
		if b := tx.Bucket(bucketData).Bucket([]byte(t.id)); b != nil {
			return data{b}, nil
		}
	}
	return data{}, store.Missing("tenant")
}

func (t *tenant) view(ctx context.Context, fn func(d data) error) error {
	return t.s.view(ctx, func(tx *bbolt.Tx) error {
		d, err := t.data(tx)
		if err != nil {
			return err
		}
		return fn(d)
	})
}

func (t *tenant) update(ctx context.Context, fn func(tx *bbolt.Tx, d data) error) error {
	return t.s.update(ctx, func(tx *bbolt.Tx) error {
		d, err := t.data(tx)
		if err != nil {
			return err
		}
		return fn(tx, d)
	})
}

// ListTenants returns all tenants, newest first.
func (s *Store) ListTenants(ctx context.Context) (list []store.TenantInfo, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		recs, _, err := newest[tenantRecord](tx.Bucket(bucketTenants), store.Page{}, nil)
		list = make([]store.TenantInfo, len(recs))
		for i := range recs {
			list[i] = recs[i].TenantInfo
		}
		sortNewest(list, func(t *store.TenantInfo) (int64, string) { return t.CreatedAt.UnixNano(), t.ID })
		return err
	})
	return list, err
}

// GetTenant returns one tenant.
func (s *Store) GetTenant(ctx context.Context, id string) (info store.TenantInfo, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		rec, err := tenantByID(tx, id)
		info = rec.TenantInfo
		return err
	})
	return info, err
}

func tenantByID(tx *bbolt.Tx, id string) (tenantRecord, error) {
	return findJSON[tenantRecord](tx.Bucket(bucketTenants), "tenant", id)
}

// CreateTenant creates a tenant, its first user and, if requested, a key.
func (s *Store) CreateTenant(ctx context.Context, in store.TenantCreate) (info store.TenantInfo, key *store.Key, err error) {
	err = s.update(ctx, func(tx *bbolt.Tx) error {
		info, key, err = s.createTenant(ctx, tx, in)
		return err
	})
	return info, key, err
}

// CreateTenantKey creates an unlimited key for an operator.
func (s *Store) CreateTenantKey(ctx context.Context, tenantID string, in store.KeyCreate) (store.Key, error) {
	return s.tenant(tenantID).CreateOperatorKey(ctx, in)
}

// Bootstrap creates the first tenant of an empty store.
func (s *Store) Bootstrap(ctx context.Context, in store.TenantCreate) (info store.TenantInfo, created bool, err error) {
	err = s.update(ctx, func(tx *bbolt.Tx) error {
		if k, _ := tx.Bucket(bucketTenants).Cursor().First(); k != nil {
			return nil
		}
		created = true
		info, _, err = s.createTenant(ctx, tx, in)
		return err
	})
	return info, created && err == nil, err
}

func (s *Store) createTenant(ctx context.Context, tx *bbolt.Tx, in store.TenantCreate) (store.TenantInfo, *store.Key, error) {
	info, redactionKey, err := record.NewTenant(engine{s}, in, func(info store.TenantInfo) ([]store.TenantInfo, error) { return taken(tx, info) })
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	d, err := addTenant(tx, tenantRecord{info, redactionKey})
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	key, err := s.tenant(info.ID).Begin(ctx, recordTx{d: d, ctx: ctx}, info, in)
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	return info, key, nil
}

// taken returns the tenants that have the id, the name or the organization of a tenant.
func taken(tx *bbolt.Tx, in store.TenantInfo) (list []store.TenantInfo, err error) {
	ids := [][]byte{[]byte(in.ID), tx.Bucket(bucketTenantNames).Get([]byte(in.Name))}
	if in.OrgID != "" {
		ids = append(ids, tx.Bucket(bucketTenantOrgs).Get([]byte(in.OrgID)))
	}
	for _, id := range ids {
		rec, known, err := getJSON[tenantRecord](tx.Bucket(bucketTenants), string(id))
		if err != nil {
			return nil, err
		}
		if known {
			list = append(list, rec.TenantInfo)
		}
	}
	return list, nil
}

// addTenant writes a tenant and makes its buckets.
func addTenant(tx *bbolt.Tx, rec tenantRecord) (data, error) {
	if err := tx.Bucket(bucketTenantNames).Put([]byte(rec.Name), []byte(rec.ID)); err != nil {
		return data{}, err
	}
	if rec.OrgID != "" {
		if err := tx.Bucket(bucketTenantOrgs).Put([]byte(rec.OrgID), []byte(rec.ID)); err != nil {
			return data{}, err
		}
	}
	if err := putJSON(tx.Bucket(bucketTenants), rec.ID, rec); err != nil {
		return data{}, err
	}
	root, err := tx.Bucket(bucketData).CreateBucket([]byte(rec.ID))
	if err != nil {
		return data{}, err
	}
	for _, b := range tenantBuckets {
		if _, err := root.CreateBucket([]byte(b.name)); err != nil {
			return data{}, err
		}
	}
	return data{root}, nil
}

// TenantForOrg finds the tenant of an identity-provider organization.
func (s *Store) TenantForOrg(ctx context.Context, orgID string) (info store.TenantInfo, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		var bound []store.TenantInfo
		if orgID != "" {
			rec, known, err := getJSON[tenantRecord](tx.Bucket(bucketTenants), string(tx.Bucket(bucketTenantOrgs).Get([]byte(orgID))))
			if err != nil {
				return err
			}
			if known {
				bound = append(bound, rec.TenantInfo)
			}
		}
		two, _, err := newest[tenantRecord](tx.Bucket(bucketTenants), store.Page{Limit: 2}, nil)
		if err != nil {
			return err
		}
		some := make([]store.TenantInfo, len(two))
		for i := range two {
			some[i] = two[i].TenantInfo
		}
		info, err = record.TenantForOrg(bound, some)
		return err
	})
	return info, err
}

// RedactionKey returns the tenant's key for the hash redaction strategy.
func (t *tenant) RedactionKey(ctx context.Context) (key []byte, err error) {
	err = t.s.view(ctx, func(tx *bbolt.Tx) error {
		rec, err := tenantByID(tx, t.id)
		key = rec.RedactionKey
		return err
	})
	return key, err
}
