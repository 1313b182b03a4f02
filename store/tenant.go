package store

import (
	"context"
	"time"
)

// TenantInfo is a tenant as operators see it.
type TenantInfo struct {
	ID        string
	Name      string // unique in the store
	OrgID     string // identity-provider organization bound to it; empty: none
	CreatedAt time.Time
}

// TenantCreate asks for a tenant together with its first user and, where Key is
// given, its first API key.
type TenantCreate struct {
	ID      string // made by the store when empty
	Name    string
	OrgID   string
	AdminID string     // id of the first user, active and owner; "usr_admin" when empty
	Key     *KeyCreate // CreatedBy is set to the first user
}

// DefaultAdminID is the first user of a tenant when none is named.
const DefaultAdminID = "usr_admin"

// Tenants is the list of tenants. It is for operators and for finding the tenant
// of a signed event, never for handlers of API requests.
type Tenants interface {
	// ListTenants returns all tenants, newest first.
	ListTenants(ctx context.Context) ([]TenantInfo, error)
	// GetTenant returns NotFound for an unknown id.
	GetTenant(ctx context.Context, id string) (TenantInfo, error)
	// CreateTenant makes tenant, user and key in one transaction. A taken id, name
	// or orgId is a Conflict with that field; a bad id or an empty name is Invalid.
	// The key is nil when none was asked for.
	CreateTenant(ctx context.Context, in TenantCreate) (TenantInfo, *Key, error)
	// CreateTenantKey makes an unlimited key of a tenant for an operator; Scope,
	// TeamID and CreatedBy of in are set. Its user is DefaultAdminID, or a new owner
	// where that user was deactivated or deleted. NotFound: no such tenant.
	CreateTenantKey(ctx context.Context, tenantID string, in KeyCreate) (Key, error)
	// Bootstrap is CreateTenant on a store without tenants; on any other it changes
	// nothing and returns created false. Of concurrent calls one creates.
	Bootstrap(ctx context.Context, in TenantCreate) (info TenantInfo, created bool, err error)
	// TenantForOrg returns the tenant bound to an organization; where none is and
	// the store has a single tenant that is bound to none itself, that one; else
	// NotFound.
	TenantForOrg(ctx context.Context, orgID string) (TenantInfo, error)
}

// Object is the tenant for records of its changes.
func (t *TenantInfo) Object() *Object {
	return newObject("tenant", t.ID, t.Name, "", map[string]any{"name": t.Name, "orgId": t.OrgID})
}
