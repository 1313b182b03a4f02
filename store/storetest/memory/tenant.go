package memory

import (
	"context"

	"svc/store"
	"svc/store/record"
)

// tenantData holds all data of one tenant.
type tenantData struct {
	info         store.TenantInfo
	redactionKey []byte

	rows rows // of package record

	traces traces
}

// tenant is a handle on one tenant.
type tenant struct {
	record.Tenant
	s  *Store
	id string
}

// tenant returns a handle on a tenant.
func (s *Store) tenant(id string) *tenant { return &tenant{record.Of(records{s}, id), s, id} }

var (
	_ store.Tenant       = (*tenant)(nil)
	_ store.TenantTraces = (*tenant)(nil)
)

// Tenant returns the records of a tenant.
func (s *Store) Tenant(id string) store.Tenant { return s.tenant(id) }

// TracesOf returns the traces of a tenant.
func (s *Store) TracesOf(id string) store.TenantTraces { return s.tenant(id) }

func (t *tenant) read(ctx context.Context, fn func(e *engine, d *tenantData) error) error {
	return t.s.read(ctx, func(e *engine) error { return t.on(e, fn) })
}

func (t *tenant) write(ctx context.Context, fn func(e *engine, d *tenantData) error) error {
	return t.s.write(ctx, func(e *engine) error {
		return t.on(e, func(e *engine, d *tenantData) error {
			d.rows.begin()
			e.shared.begin()
			err := fn(e, d)
			if err != nil {
				d.rows.rollback()
				e.shared.rollback()
			}
			return err
		})
	})
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
		list = each(e.tenants.newest(nil), infoOf)
		return nil
	})
	return list, err
}

// GetTenant returns one tenant.
func (s *Store) GetTenant(ctx context.Context, id string) (info store.TenantInfo, err error) {
	err = s.tenant(id).read(ctx, func(_ *engine, d *tenantData) error {
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
	en := records{&Store{e: e}}
	info, redactionKey, err := record.NewTenant(en, in, func(info store.TenantInfo) ([]store.TenantInfo, error) {
		return each(e.tenants.newest(func(d *tenantData) bool {
			return d.info.ID == info.ID || d.info.Name == info.Name || info.OrgID != "" && d.info.OrgID == info.OrgID
		}), infoOf), nil
	})
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	d := &tenantData{info: info, redactionKey: redactionKey}
	d.traces.init()
	t := record.Of(en, info.ID)
	key, err := t.Begin(ctx, tx{d, &e.shared}, info, in)
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	e.tenants.put(info.ID, d)
	return info, key, nil
}

func infoOf(d *tenantData) store.TenantInfo { return d.info }

// CreateTenantKey creates an unlimited key for an operator.
func (s *Store) CreateTenantKey(ctx context.Context, tenantID string, in store.KeyCreate) (store.Key, error) {
	return s.tenant(tenantID).CreateOperatorKey(ctx, in)
}

// TenantForOrg finds the tenant of an organization.
func (s *Store) TenantForOrg(ctx context.Context, orgID string) (info store.TenantInfo, err error) {
	err = s.read(ctx, func(e *engine) error {
		bound := e.tenants.newest(func(d *tenantData) bool { return orgID != "" && d.info.OrgID == orgID })
		info, err = record.TenantForOrg(each(bound, infoOf), each(e.tenants.newest(nil), infoOf))
		return err
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
