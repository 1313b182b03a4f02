package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/record"
)

const tenantColumns = `id, name, coalesce(org, ''), created`

// tenants returns the tenants that a query selects.
func tenants(ctx context.Context, tx pgx.Tx, rest string, args ...any) ([]store.TenantInfo, error) {
	list := []store.TenantInfo{}
	var id, name, org []byte
	var created int64
	err := rows(ctx, tx, `SELECT `+tenantColumns+` FROM tenants `+rest, args, []any{&id, &name, &org, &created}, func() error {
		list = append(list, store.TenantInfo{ID: string(id), Name: string(name), OrgID: string(org), CreatedAt: timeOf(created)})
		return nil
	})
	return list, err
}

// ListTenants returns all tenants, newest first.
func (s *Store) ListTenants(ctx context.Context) (list []store.TenantInfo, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		list, err = tenants(ctx, tx, `ORDER BY number DESC`)
		return err
	})
	return list, err
}

// GetTenant returns one tenant.
func (s *Store) GetTenant(ctx context.Context, id string) (info store.TenantInfo, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		list, err := tenants(ctx, tx, `WHERE id = $1`, []byte(id))
		if err == nil && len(list) == 0 {
			err = store.Missing("tenant")
		}
		if err == nil {
			info = list[0]
		}
		return err
	})
	return info, err
}

// CreateTenant creates a tenant, its first user and, if requested, a key.
func (s *Store) CreateTenant(ctx context.Context, in store.TenantCreate) (info store.TenantInfo, k *store.Key, err error) {
	err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		info, k, err = s.createTenant(ctx, tx, in)
		return err
	})
	if err != nil {
		return store.TenantInfo{}, nil, err
	}
	return info, k, nil
}

// Bootstrap creates the first tenant of an empty store.
func (s *Store) Bootstrap(ctx context.Context, in store.TenantCreate) (info store.TenantInfo, created bool, err error) {
	err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		created = false
		if err := lockAll(ctx, tx); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM tenants`).Scan(&n); err != nil || n > 0 {
			return err
		}
		info, _, err = s.createTenant(ctx, tx, in)
		created = err == nil
		return err
	})
	if err != nil || !created {
		return store.TenantInfo{}, false, err
	}
	return info, true, nil
}

// lockAll serializes the creation of tenants.
func lockAll(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT version FROM svc_version FOR UPDATE`)
	return err
}

func (s *Store) createTenant(ctx context.Context, tx pgx.Tx, in store.TenantCreate) (store.TenantInfo, *store.Key, error) {
	if err := lockAll(ctx, tx); err != nil {
		return store.TenantInfo{}, nil, err
	}
	info, redactionKey, err := record.NewTenant(engine{s}, in, func(info store.TenantInfo) ([]store.TenantInfo, error) {
		return tenants(ctx, tx, `WHERE id = $1 OR name = $2 OR org = $3`, []byte(info.ID), []byte(info.Name), []byte(info.OrgID))
	})
	if err != nil {
		return info, nil, err
	}
	d := &data{ctx: ctx, tx: tx, s: s}
	if err := d.addTenant(info, redactionKey); err != nil {
		return info, nil, err
	}
	key, err := s.tenant(info.ID).Begin(ctx, d, info, in)
	if err != nil {
		return info, nil, err
	}
	return info, key, d.save()
}

// addTenant writes a tenant and the rows that its traces need.
func (d *data) addTenant(info store.TenantInfo, redactionKey []byte) error {
	var org []byte
	if info.OrgID != "" {
		org = []byte(info.OrgID)
	}
	_, err := d.one([]any{&d.n}, `INSERT INTO tenants (id, name, org, created, redaction_key) VALUES ($1, $2, $3, $4, $5) RETURNING number`,
		[]byte(info.ID), []byte(info.Name), org, nanos(info.CreatedAt), redactionKey)
	d.exec(`INSERT INTO trace_state (tenant) VALUES ($1)`, d.n)
	d.exec(`INSERT INTO rollup_state (tenant) VALUES ($1)`, d.n)
	return err
}

// CreateTenantKey creates an unlimited key for an operator.
func (s *Store) CreateTenantKey(ctx context.Context, tenantID string, in store.KeyCreate) (store.Key, error) {
	return s.tenant(tenantID).CreateOperatorKey(ctx, in)
}

// TenantForOrg finds the tenant of an organization.
func (s *Store) TenantForOrg(ctx context.Context, orgID string) (info store.TenantInfo, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		bound, err := tenants(ctx, tx, `WHERE org = $1 AND org <> ''`, []byte(orgID))
		if err != nil {
			return err
		}
		two, err := tenants(ctx, tx, `ORDER BY number LIMIT 2`)
		if err == nil {
			info, err = record.TenantForOrg(bound, two)
		}
		return err
	})
	return info, err
}

// RedactionKey returns the tenant's key for the hash redaction strategy.
func (t *tenant) RedactionKey(ctx context.Context) (key []byte, err error) {
	err = t.read(ctx, func(d *data) error {
		_, err := d.one([]any{&key}, `SELECT redaction_key FROM tenants WHERE number = $1`, d.n)
		return err
	})
	return key, err
}
