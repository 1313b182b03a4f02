package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"github.com/jackc/pgx/v5"

	"svc/store"
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
	_, err := tx.Exec(ctx, `SELECT version FROM svc_schema FOR UPDATE`)
	return err
}

func (s *Store) createTenant(ctx context.Context, tx pgx.Tx, in store.TenantCreate) (store.TenantInfo, *store.Key, error) {
	now := s.now()
	info := store.TenantInfo{ID: in.ID, Name: in.Name, OrgID: in.OrgID, CreatedAt: now}
	if info.ID == "" {
		info.ID = s.ids.New(store.PrefixTenant, now)
	}
	if err := lockAll(ctx, tx); err != nil {
		return info, nil, err
	}
	if err := newTenant(ctx, tx, info); err != nil {
		return info, nil, err
	}
	redaction := make([]byte, sha256.Size)
	_, _ = rand.Read(redaction) // never fails
	var org []byte
	if info.OrgID != "" {
		org = []byte(info.OrgID)
	}
	d := &data{ctx: ctx, tx: tx, s: s, chain: []byte{}, trimmed: []byte{}}
	ok, err := d.one([]any{&d.n}, `INSERT INTO tenants (id, name, org, created, redaction_key, revision) VALUES ($1, $2, $3, $4, $5, $6) RETURNING number`,
		[]byte(info.ID), []byte(info.Name), org, now.UnixNano(), redaction, []byte(rand.Text()))
	if err != nil || !ok {
		return info, nil, err
	}
	d.exec(`INSERT INTO trace_state (tenant) VALUES ($1)`, d.n)
	d.exec(`INSERT INTO rollup_state (tenant) VALUES ($1)`, d.n)
	admin := in.AdminID
	if admin == "" {
		admin = store.DefaultAdminID
	}
	if err := d.putUser(newOwner(admin, now)); err != nil {
		return info, nil, err
	}
	if err := d.change(nil, info.Object(), true); err != nil {
		return info, nil, err
	}
	var made *store.Key
	if in.Key != nil {
		create := *in.Key
		create.CreatedBy = admin
		k, err := d.createKey(create)
		if err != nil {
			return info, nil, err
		}
		made = &k
	}
	return info, made, d.save()
}

// newTenant rejects a tenant with invalid or taken values.
func newTenant(ctx context.Context, tx pgx.Tx, in store.TenantInfo) error {
	if bad(in.ID) {
		return store.FieldError(store.Invalid, "bad tenant id", "id", "must have at most 512 bytes, none of them zero")
	}
	if err := checkName("tenant", in.Name); err != nil {
		return err
	}
	if in.OrgID != "" && bad(in.OrgID) {
		return store.FieldError(store.Invalid, "bad organization id", "orgId", "must have at most 512 bytes, none of them zero")
	}
	list, err := tenants(ctx, tx, `WHERE id = $1 OR name = $2 OR org = $3`, []byte(in.ID), []byte(in.Name), []byte(in.OrgID))
	if err != nil {
		return err
	}
	for _, other := range list {
		if other.ID == in.ID {
			return store.FieldError(store.Conflict, "tenant "+in.ID+" already exists", "id", "already exists")
		}
	}
	for _, other := range list {
		if other.Name == in.Name {
			return store.AlreadyExists("tenant", in.Name)
		}
	}
	if len(list) > 0 {
		return store.FieldError(store.Conflict, "organization is bound to another tenant", "orgId", "already exists")
	}
	return nil
}

// CreateTenantKey creates an unlimited key for an operator.
func (s *Store) CreateTenantKey(ctx context.Context, tenantID string, in store.KeyCreate) (k store.Key, err error) {
	err = (&tenant{s, tenantID}).write(ctx, func(d *data) error {
		now := s.now()
		owner, known, err := d.user(store.DefaultAdminID)
		switch {
		case err != nil:
			return err
		case !known:
			owner = newOwner(store.DefaultAdminID, now)
		case !owner.hasAccess():
			owner, known = newOwner(s.ids.New(store.PrefixUser, now), now), false
		}
		if !known {
			if err := d.putUser(owner); err != nil {
				return err
			}
		}
		create := in
		create.Scope, create.TeamID, create.CreatedBy = store.ScopeAPI, "", owner.ID
		k, err = d.createKey(create)
		return err
	})
	return k, err
}

// TenantForOrg finds the tenant of an organization. A store's only tenant accepts
// any organization unless it is bound to another one.
func (s *Store) TenantForOrg(ctx context.Context, orgID string) (info store.TenantInfo, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if orgID != "" {
			list, err := tenants(ctx, tx, `WHERE org = $1`, []byte(orgID))
			if err != nil {
				return err
			}
			if len(list) == 1 {
				info = list[0]
				return nil
			}
		}
		list, err := tenants(ctx, tx, `ORDER BY number LIMIT 2`)
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].OrgID != "" {
			return store.Missing("tenant")
		}
		info = list[0]
		return nil
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
