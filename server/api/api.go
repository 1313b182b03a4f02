// Package api holds the JSON that crosses the wire between the control plane
// and its clients: resources, request bodies, the error body and the allowed
// values of every enum (control plane specification, "Resources and their
// fields" and "Endpoints").
//
// It owns names, shapes and the checks that need nothing but the body itself:
// each request body has a Validate method whose result is the details object
// of a 400 answer, keyed by field. It leaves to others everything that needs a
// clock, a store or a key: whether a name is taken, whether an agent exists,
// how a body is read and bounded. It imports nothing of ours, so both sides of
// the wire can use it.
//
// Fields that stand in single reads only, in lists only, or in creation
// answers only have a type of their own (Agent and AgentItem, KeyItem and
// KeyCreated, Trace and TraceItem). Timestamps are RFC 3339 in UTC. Money is
// US dollars as a JSON number. Slices that are not marked omitempty or omitzero
// must not be nil when encoded: an empty list is [], never null.
package api

import "time"

// Limits shared by several endpoints (control plane specification, "Limits").
const (
	// DefaultLimit is the page size of a list when the query names none.
	DefaultLimit = 50
	// DefaultHistoryLimit is the page size of an agent's deployment history.
	DefaultHistoryLimit = 20
	// MaxLimit is the largest page; a larger limit is served as this one.
	MaxLimit = 500
	// MaxBody is the largest request body in bytes.
	MaxBody = 1 << 20
	// MaxIngestBody is the largest body of the ingest endpoints in bytes, as
	// sent and after decompression.
	MaxIngestBody = 8 << 20
	// MaxTraceBatch is the largest number of traces in one POST /api/traces.
	MaxTraceBatch = 1000
)

// Error is the body of every answer that is not a success (control plane
// specification, "Errors").
type Error struct {
	// Error says what was wrong, for a person.
	Error string `json:"error"`
	// Details is keyed by field (or by what the entry is about, such as
	// requestId on a 500) and absent when there is nothing to add.
	Details map[string]string `json:"details,omitempty"`
}

// Single wraps one resource: {"data": …}. Warnings, in answers about policies that
// were created or changed, say why a policy can match nothing as it is.
type Single[T any] struct {
	Data     T        `json:"data"`
	Warnings []string `json:"warnings,omitempty"`
}

// Page is a list with paging: {"data": […], "total": …, "limit": …, "offset": …}.
// Next is the cursor of the next page, absent on the last one.
type Page[T any] struct {
	Data   []T    `json:"data"`
	Total  int    `json:"total"`
	Limit  int    `json:"limit"`
	Offset int    `json:"offset"`
	Next   string `json:"next,omitempty"`
	// TotalIsLowerBound says that Total was not counted: there are at least as many.
	TotalIsLowerBound bool `json:"totalIsLowerBound,omitempty"`
}

// List is a list without paging: {"data": […], "total": …}. Where a part of it was
// asked for, Next is the cursor of the next one.
type List[T any] struct {
	Data  []T    `json:"data"`
	Total int    `json:"total"`
	Next  string `json:"next,omitempty"`
}

// Items is a list that carries nothing but its entries (policy templates).
type Items[T any] struct {
	Data []T `json:"data"`
}

// Success is the answer to a delete and to a webhook delivery.
type Success struct {
	Success bool `json:"success"`
	// Warnings, in the answer to the deletion of an agent, name what still
	// refers to it.
	Warnings []string `json:"warnings,omitempty"`
}

// Tenant is what the operator commands show of a tenant. APIKey is given only
// where it was just created.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	OrgID     string    `json:"orgId,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	APIKey    string    `json:"apiKey,omitempty"`
}

// TenantCreate asks the operator socket for a new tenant.
type TenantCreate struct {
	Name  string `json:"name"`
	OrgID string `json:"orgId"`
}

// TenantKeyCreate asks the operator socket for a new unlimited API key of a
// tenant, which is named by its id or its name.
type TenantKeyCreate struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *TenantKeyCreate) Validate() map[string]string {
	var c check
	if b.Tenant == "" {
		c.add("tenant", required)
	}
	c.name("name", &b.Name)
	return c.details()
}

// Validate returns what is wrong with the body, keyed by field.
func (b *TenantCreate) Validate() map[string]string {
	var c check
	c.name("name", &b.Name)
	c.text("orgId", b.OrgID, MaxName)
	return c.details()
}
