package record

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"svc/store"
)

// NewTenant returns the tenant that the input of CreateTenant describes, and its random key
// for the hash redaction strategy. taken returns the tenants that have the id, the name or
// the organization of a tenant. It rejects an input with invalid or taken values.
func NewTenant(e Engine, in store.TenantCreate, taken func(store.TenantInfo) ([]store.TenantInfo, error)) (info store.TenantInfo, redactionKey []byte, err error) {
	now := e.Now()
	info = store.TenantInfo{ID: in.ID, Name: in.Name, OrgID: in.OrgID, CreatedAt: now}
	if info.ID == "" {
		info.ID = e.NewID(store.PrefixTenant, now)
	}
	if bad(info.ID) {
		return info, nil, store.FieldError(store.Invalid, "bad tenant id", "id", atMost)
	}
	if err := checkName("tenant", info.Name); err != nil {
		return info, nil, err
	}
	if info.OrgID != "" && bad(info.OrgID) {
		return info, nil, store.FieldError(store.Invalid, "bad organization id", "orgId", atMost)
	}
	list, err := taken(info)
	if err != nil {
		return info, nil, err
	}
	for _, other := range list {
		if other.ID == info.ID {
			return info, nil, store.FieldError(store.Conflict, "tenant "+info.ID+" already exists", "id", "already exists")
		}
	}
	for _, other := range list {
		if other.Name == info.Name {
			return info, nil, store.AlreadyExists("tenant", info.Name)
		}
	}
	if len(list) > 0 {
		return info, nil, store.FieldError(store.Conflict, "organization is bound to another tenant", "orgId", "already exists")
	}
	redactionKey = make([]byte, sha256.Size)
	_, _ = rand.Read(redactionKey) // never fails
	return info, redactionKey, nil
}

// Begin writes the first rows of a new tenant: its first user, its audit event and, if
// requested, a key, which it returns.
func (t *Tenant) Begin(ctx context.Context, tx Tx, info store.TenantInfo, in store.TenantCreate) (*store.Key, error) {
	admin := in.AdminID
	if admin == "" {
		admin = store.DefaultAdminID
	}
	if err := putUser(tx, newOwner(admin, info.CreatedAt), ""); err != nil {
		return nil, err
	}
	if err := t.Changed(ctx, tx, nil, info.Object(), true); err != nil || in.Key == nil {
		return nil, err
	}
	create := *in.Key
	create.CreatedBy = admin
	key, err := t.NewKey(ctx, tx, create)
	if err != nil {
		return nil, err
	}
	return &key, nil
}

// TenantForOrg chooses the tenant of an organization: the one that is bound to it, or else
// the only tenant of the store, unless that is bound to another organization. some has all
// tenants, or two of them at least.
func TenantForOrg(bound, some []store.TenantInfo) (store.TenantInfo, error) {
	switch {
	case len(bound) == 1:
		return bound[0], nil
	case len(some) == 1 && some[0].OrgID == "":
		return some[0], nil
	}
	return store.TenantInfo{}, store.Missing("tenant")
}
