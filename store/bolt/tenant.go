package bolt

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// tenantRecord is a tenant as it is stored.
type tenantRecord struct {
	store.TenantInfo
	RedactionKey []byte
}

// tenant is a handle on the records and traces of one tenant.
type tenant struct {
	s  *Store
	id string
}

var (
	_ store.Tenant       = (*tenant)(nil)
	_ store.TenantTraces = (*tenant)(nil)
)

// Tenant returns the records of a tenant.
func (s *Store) Tenant(id string) store.Tenant { return &tenant{s: s, id: id} }

// TracesOf returns the traces of a tenant.
func (s *Store) TracesOf(id string) store.TenantTraces { return &tenant{s: s, id: id} }

// ID returns the tenant's identifier.
func (t *tenant) ID() string { return t.id }

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

// badKey reports whether a client's string is invalid as a part of a key.
func badKey(s string) bool {
	return s == "" || len(s) > 512 || strings.IndexByte(s, 0) >= 0
}

// checkName rejects an invalid name.
func checkName(noun, name string) error {
	switch {
	case name == "":
		return store.FieldError(store.Invalid, noun+" without a name", "name", "is required")
	case badKey(name):
		return store.FieldError(store.Invalid, noun+" with a bad name", "name", "must have at most 512 bytes, none of them zero")
	}
	return nil
}

// claimName takes a unique name for an id, and releases the id's previous name.
func claimName(names *bbolt.Bucket, noun, old, name, id string) error {
	if err := checkName(noun, name); err != nil {
		return err
	}
	if owner := names.Get([]byte(name)); owner != nil {
		if string(owner) == id {
			return nil
		}
		return store.AlreadyExists(noun, name)
	}
	if old != "" {
		if err := names.Delete([]byte(old)); err != nil {
			return err
		}
	}
	return names.Put([]byte(name), []byte(id))
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
func (s *Store) CreateTenantKey(ctx context.Context, tenantID string, in store.KeyCreate) (key store.Key, err error) {
	t := &tenant{s: s, id: tenantID}
	err = t.update(ctx, func(tx *bbolt.Tx, d data) error {
		owner, err := t.operatorUser(d)
		if err != nil {
			return err
		}
		in.Scope, in.TeamID, in.CreatedBy = store.ScopeAPI, "", owner
		key, err = t.createKey(ctx, tx, d, in)
		return err
	})
	return key, err
}

// operatorUser returns the user that an operator's key belongs to: the tenant's
// first user. If the identity provider has deactivated or deleted that user,
// another owner is created instead.
func (t *tenant) operatorUser(d data) (id string, err error) {
	user, ok, err := getJSON[userRecord](d.in(inUsers), store.DefaultAdminID)
	if err != nil || ok && user.hasAccess() {
		return user.ID, err
	}
	now := t.s.now().UTC()
	id = store.DefaultAdminID
	if ok {
		id = t.s.ids.New(store.PrefixUser, now)
	}
	return id, putJSON(d.in(inUsers), id, newOwner(id, now))
}

// newOwner returns the first user of a tenant.
func newOwner(id string, now time.Time) userRecord {
	return userRecord{User: store.User{ID: id, Role: "owner", Status: store.UserActive, CreatedAt: now, UpdatedAt: now}}
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
	now := s.now().UTC()
	id := in.ID
	if id == "" {
		id = s.ids.New(store.PrefixTenant, now)
	}
	if badKey(id) {
		return store.TenantInfo{}, nil, store.FieldError(store.Invalid, "bad tenant id", "id", "must have at most 512 bytes, none of them zero")
	}
	if tx.Bucket(bucketTenants).Get([]byte(id)) != nil {
		return store.TenantInfo{}, nil, store.FieldError(store.Conflict, "tenant "+id+" already exists", "id", "already exists")
	}
	rec := tenantRecord{
		TenantInfo:   store.TenantInfo{ID: id, Name: in.Name, OrgID: in.OrgID, CreatedAt: now},
		RedactionKey: make([]byte, sha256.Size),
	}
	_, _ = rand.Read(rec.RedactionKey) // never fails
	if err := claimName(tx.Bucket(bucketTenantNames), "tenant", "", in.Name, id); err != nil {
		return store.TenantInfo{}, nil, err
	}
	if in.OrgID != "" {
		if badKey(in.OrgID) {
			return store.TenantInfo{}, nil, store.FieldError(store.Invalid, "bad organization id", "orgId", "must have at most 512 bytes, none of them zero")
		}
		orgs := tx.Bucket(bucketTenantOrgs)
		if orgs.Get([]byte(in.OrgID)) != nil {
			return store.TenantInfo{}, nil, store.FieldError(store.Conflict, "organization is bound to another tenant", "orgId", "already exists")
		}
		if err := orgs.Put([]byte(in.OrgID), []byte(id)); err != nil {
			return store.TenantInfo{}, nil, err
		}
	}
	if err := putJSON(tx.Bucket(bucketTenants), id, rec); err != nil {
		return store.TenantInfo{}, nil, err
	}
	root, err := tx.Bucket(bucketData).CreateBucket([]byte(id))
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	for _, b := range tenantBuckets {
		if _, err := root.CreateBucket([]byte(b.name)); err != nil {
			return store.TenantInfo{}, nil, err
		}
	}
	d := data{root}
	admin := in.AdminID
	if admin == "" {
		admin = store.DefaultAdminID
	}
	if err := putJSON(d.in(inUsers), admin, newOwner(admin, now)); err != nil {
		return store.TenantInfo{}, nil, err
	}
	t := &tenant{s: s, id: id}
	if err := t.changed(ctx, d, nil, rec.Object(), true); err != nil {
		return store.TenantInfo{}, nil, err
	}
	if in.Key == nil {
		return rec.TenantInfo, nil, nil
	}
	create := *in.Key
	create.CreatedBy = admin
	key, err := t.createKey(ctx, tx, d, create)
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	return rec.TenantInfo, &key, nil
}

// TenantForOrg finds the tenant of an identity-provider organization. A store's
// only tenant accepts any organization unless it is bound to another one.
func (s *Store) TenantForOrg(ctx context.Context, orgID string) (info store.TenantInfo, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		id := ""
		if orgID != "" {
			id = string(tx.Bucket(bucketTenantOrgs).Get([]byte(orgID)))
		}
		if id == "" {
			c := tx.Bucket(bucketTenants).Cursor()
			first, _ := c.First()
			if second, _ := c.Next(); first == nil || second != nil {
				return store.Missing("tenant")
			}
			id = string(first)
		}
		rec, err := tenantByID(tx, id)
		if err != nil {
			return err
		}
		if rec.OrgID != "" && rec.OrgID != orgID {
			return store.Missing("tenant")
		}
		info = rec.TenantInfo
		return nil
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
