package memory

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"svc/store"
)

// tenantData holds all data of one tenant.
type tenantData struct {
	info         store.TenantInfo
	redactionKey []byte

	users      table[user]
	events     table[store.RecordedEvent]
	teams      table[team]
	agents     table[agent]
	aliases    map[string]alias
	gone       map[string]string // last names of deleted agents, by id
	budgets    table[store.Budget]
	slas       table[store.SLATarget]
	violations table[store.SLAViolation]
	policies   table[store.Policy]
	keys       table[key]
	answers    map[requestKey]keptResponse
	heads      map[headKey]store.AuditHead
	auditKeys  map[string]store.AuditKey
	audit      table[store.AuditEvent]
	chain      string // hash of the newest event
	trimmed    string // hash of the newest event that was removed
	revision   string // the governance revision, replaced by another with each change that gateways depend on

	traces traces
}

// tenant is a handle on one tenant.
type tenant struct {
	s  *Store
	id string
}

var (
	_ store.Tenant       = (*tenant)(nil)
	_ store.TenantTraces = (*tenant)(nil)
)

// Tenant returns the records of a tenant.
func (s *Store) Tenant(id string) store.Tenant { return &tenant{s, id} }

// TracesOf returns the traces of a tenant.
func (s *Store) TracesOf(id string) store.TenantTraces { return &tenant{s, id} }

// ID returns the tenant's identifier.
func (t *tenant) ID() string { return t.id }

func (t *tenant) read(ctx context.Context, fn func(e *engine, d *tenantData) error) error {
	return t.s.read(ctx, func(e *engine) error { return t.on(e, fn) })
}

func (t *tenant) write(ctx context.Context, fn func(e *engine, d *tenantData) error) error {
	return t.s.write(ctx, func(e *engine) error { return t.on(e, fn) })
}

func (t *tenant) on(e *engine, fn func(e *engine, d *tenantData) error) error {
	d, err := e.tenants.find("tenant", t.id)
	if err != nil {
		return err
	}
	return fn(e, d)
}

// ListTenants returns all tenants, newest first.
func (s *Store) ListTenants(ctx context.Context) (list []store.TenantInfo, err error) {
	err = s.read(ctx, func(e *engine) error {
		list = each(e.tenants.newest(nil), func(d *tenantData) store.TenantInfo { return d.info })
		return nil
	})
	return list, err
}

// GetTenant returns one tenant.
func (s *Store) GetTenant(ctx context.Context, id string) (info store.TenantInfo, err error) {
	err = (&tenant{s, id}).read(ctx, func(_ *engine, d *tenantData) error {
		info = d.info
		return nil
	})
	return info, err
}

// CreateTenant creates a tenant, its first user and, if requested, a key.
func (s *Store) CreateTenant(ctx context.Context, in store.TenantCreate) (info store.TenantInfo, k *store.Key, err error) {
	err = s.write(ctx, func(e *engine) error {
		info, k, err = e.createTenant(ctx, in)
		return err
	})
	return info, k, err
}

// Bootstrap creates the first tenant of an empty store.
func (s *Store) Bootstrap(ctx context.Context, in store.TenantCreate) (info store.TenantInfo, created bool, err error) {
	err = s.write(ctx, func(e *engine) error {
		if len(e.tenants.rows) > 0 {
			return nil
		}
		info, _, err = e.createTenant(ctx, in)
		created = err == nil
		return err
	})
	return info, created, err
}

func (e *engine) createTenant(ctx context.Context, in store.TenantCreate) (store.TenantInfo, *store.Key, error) {
	now := e.now()
	info := store.TenantInfo{ID: in.ID, Name: in.Name, OrgID: in.OrgID, CreatedAt: now}
	if info.ID == "" {
		info.ID = e.ids.New(store.PrefixTenant, now)
	}
	names := owners(&e.tenants, func(d *tenantData) string { return d.info.Name })
	orgs := owners(&e.tenants, func(d *tenantData) string { return d.info.OrgID })
	if bad(info.ID) {
		return info, nil, store.FieldError(store.Invalid, "bad tenant id", "id", "must have at most 512 bytes, none of them zero")
	}
	if e.tenants.get(info.ID) != nil {
		return info, nil, store.FieldError(store.Conflict, "tenant "+info.ID+" already exists", "id", "already exists")
	}
	if err := checkName("tenant", in.Name, info.ID, names); err != nil {
		return info, nil, err
	}
	if in.OrgID != "" && bad(in.OrgID) {
		return info, nil, store.FieldError(store.Invalid, "bad organization id", "orgId", "must have at most 512 bytes, none of them zero")
	}
	if in.OrgID != "" && orgs[in.OrgID] != "" {
		return info, nil, store.FieldError(store.Conflict, "organization is bound to another tenant", "orgId", "already exists")
	}
	d := &tenantData{info: info, redactionKey: make([]byte, sha256.Size), aliases: map[string]alias{}, gone: map[string]string{},
		answers: map[requestKey]keptResponse{}, heads: map[headKey]store.AuditHead{}, auditKeys: map[string]store.AuditKey{}}
	d.traces.init()
	_, _ = rand.Read(d.redactionKey) // never fails
	admin := in.AdminID
	if admin == "" {
		admin = store.DefaultAdminID
	}
	d.users.put(admin, newOwner(admin, now))
	e.changed(ctx, d, nil, info.Object(), true)
	if in.Key == nil {
		e.tenants.put(info.ID, d)
		return info, nil, nil
	}
	create := *in.Key
	create.CreatedBy = admin
	k, err := e.createKey(ctx, d, create)
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	e.tenants.put(info.ID, d)
	return info, &k, nil
}

// newOwner returns the first user of a tenant.
func newOwner(id string, now time.Time) *user {
	return &user{User: store.User{ID: id, Role: "owner", Status: store.UserActive, CreatedAt: now, UpdatedAt: now}}
}

// CreateTenantKey creates an unlimited key for an operator.
func (s *Store) CreateTenantKey(ctx context.Context, tenantID string, in store.KeyCreate) (k store.Key, err error) {
	err = (&tenant{s, tenantID}).write(ctx, func(e *engine, d *tenantData) error {
		owner, now := d.users.get(store.DefaultAdminID), e.now()
		switch {
		case owner == nil:
			owner = newOwner(store.DefaultAdminID, now)
		case !owner.hasAccess():
			owner = newOwner(e.ids.New(store.PrefixUser, now), now)
		}
		if err := e.newDigest(in.Digest); err != nil {
			return err
		}
		d.users.put(owner.ID, owner)
		in.Scope, in.TeamID, in.CreatedBy = store.ScopeAPI, "", owner.ID
		k, err = e.createKey(ctx, d, in)
		return err
	})
	return k, err
}

// TenantForOrg finds the tenant of an organization. A store's only tenant accepts
// any organization unless it is bound to another one.
func (s *Store) TenantForOrg(ctx context.Context, orgID string) (info store.TenantInfo, err error) {
	err = s.read(ctx, func(e *engine) error {
		all := e.tenants.newest(nil)
		for _, d := range all {
			if orgID != "" && d.info.OrgID == orgID {
				info = d.info
				return nil
			}
		}
		if len(all) != 1 || all[0].info.OrgID != "" {
			return store.Missing("tenant")
		}
		info = all[0].info
		return nil
	})
	return info, err
}

// RedactionKey returns the tenant's key for the hash redaction strategy.
func (t *tenant) RedactionKey(ctx context.Context) (k []byte, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		k = append(k, d.redactionKey...)
		return nil
	})
	return k, err
}
