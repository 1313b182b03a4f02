package api

import "time"

// Limits shared by several endpoints (control plane specification, "Limits").
const (
	// DefaultLimit is the page size of a list when the query names none.
	DefaultLimit = 50
	// DefaultHistoryLimit is the page size of an agent's deployment history.
	DefaultHistoryLimit = 20
	// MaxLimit is the largest page; a larger limit is lowered to it.
	MaxLimit = 500
	// MaxBody is the largest request body in bytes.
	MaxBody = 1 << 20
	// MaxIngestBody is the largest body of the ingest endpoints in bytes, as
	// sent and after decompression.
	MaxIngestBody = 8 << 20
	// MaxTraceBatch is the largest number of traces in one POST /api/traces.
	MaxTraceBatch = 1000
)

// Error is the body of every response that is not a success (control plane specification,
// "Errors").
type Error struct {
	// Error is the message for people.
	Error string `json:"error"`
	// Details is keyed by field (or by another subject, such as requestId on a 500);
	// absent when there is nothing to add.
	Details map[string]string `json:"details,omitempty"`
}

// Single wraps one resource: {"data": …}. Warnings, in responses about policies that
// were created or changed, give the reasons why a policy currently matches nothing.
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
	// TotalIsLowerBound is true when Total was not counted: there are at least as many.
	TotalIsLowerBound bool `json:"totalIsLowerBound,omitempty"`
}

// List is a list without paging: {"data": […], "total": …}. When the request asked
// for a part of the list, Next is the cursor of the next part.
type List[T any] struct {
	Data  []T    `json:"data"`
	Total int    `json:"total"`
	Next  string `json:"next,omitempty"`
}

// Items is a list with only its entries (policy templates).
type Items[T any] struct {
	Data []T `json:"data"`
}

// Success is the response to a deletion and to a webhook delivery.
type Success struct {
	Success bool `json:"success"`
	// Warnings, in the response to the deletion of an agent, name the resources that
	// still refer to it.
	Warnings []string `json:"warnings,omitempty"`
}

// Tenant is a tenant in the output of the operator commands. APIKey is set only when the
// key was just created.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	OrgID     string    `json:"orgId,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	APIKey    string    `json:"apiKey,omitempty"`
}

// TenantCreate is the request for a new tenant on the operator socket.
type TenantCreate struct {
	Name  string `json:"name"`
	OrgID string `json:"orgId"`
}

// TenantKeyCreate is the request for a new unlimited API key on the operator socket. The
// tenant is given by its id or its name.
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
