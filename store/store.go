// Package store defines the resources of the control plane and the interfaces for their
// storage: tenants, users, teams, agents, budgets, SLA targets, policies, API keys,
// traces and their statistics.
//
// It specifies every operation: which values are unique, which changes are atomic, how
// lists are ordered, which error each method returns. Backends (store/bolt and others)
// implement the storage, and pass one conformance suite (store/storetest). The wire
// format, permissions, prices and schedules belong to the server.
//
// There are two interfaces. [Records] stores everything except traces, in one engine
// with transactions. [Traces] stores the traces: append-only, idempotent by id,
// immutable. A backend implements one of them, or both in one opened value, an [Engine].
//
// All access to a tenant's data goes through [Records.Tenant] and [Traces.TracesOf], so
// a query without a tenant does not compile. An id of another tenant is treated as
// unknown.
//
// Lists are sorted by creation, newest first, with a stable order of equal times, and
// include the exact total before paging. Times are UTC. Money is [NanoUSD]. Every method
// may also return an error that is not an [*Error]: the backend failed, [ErrUnavailable]
// where it cannot be reached, or ctx ended. Everything is safe for concurrent use.
package store

import (
	"context"
	"time"
)

// Records is the opened store of everything except traces: all tenants, and the data
// that belongs to no tenant.
type Records interface {
	Tenants
	Leases

	// Tenant returns the records of a tenant; there is no other access to them. It never
	// fails: methods of a tenant that does not exist return NotFound.
	Tenant(id string) Tenant

	// Authenticate finds the API key whose secret has this SHA-256 digest. It returns
	// Unauthorized when there is none, when its team has been deleted, and when the user
	// that it was created for is deactivated or deleted. Every commit before the call is
	// visible to it: a deleted key fails at once.
	Authenticate(ctx context.Context, digest KeyDigest) (Credential, error)

	Opened
}

// Traces is the opened store of the traces of all tenants.
type Traces interface {
	// TracesOf returns the traces of a tenant; there is no other access to them. It
	// never fails. Ingest for a tenant that does not exist is NotFound; its reads return
	// NotFound or nothing.
	TracesOf(tenant string) TenantTraces

	Opened
}

// Engine is a backend that implements both in one opened value. Records that a batch of
// traces creates (agents that it names for the first time) are written in the
// transaction that stores the batch. When Records and Traces are two values, the traces
// call an [AgentDirectory] first: a crash between the two leaves agents without traces,
// never traces without their agent.
type Engine interface {
	Records
	Traces
}

// Opened has the methods of every opened store.
type Opened interface {
	// Ready reports why the store cannot take writes now: nil when it can. The
	// failure of a commit is reported until a later commit succeeds.
	Ready(ctx context.Context) error

	// Info describes the store to an operator.
	Info(ctx context.Context) (Info, error)

	// Close writes what is buffered, ends open streams with [ErrClosed] and
	// releases the store. It waits for running calls; later calls return ErrClosed.
	Close() error
}

// Tenant is the records of one tenant. Consumers should depend on the small interface of
// the resource that they need.
type Tenant interface {
	// ID returns the id that Tenant was called with.
	ID() string

	Users
	Teams
	Agents
	AgentDirectory
	Budgets
	SLAs
	Policies
	Approvals
	Webhooks
	Keys
	Sessions
	Gateways
	Declared
	Idempotency
	AuditHeads
	AuditEvents
	Governance
	Housekeeping
}

// Info describes an opened store.
type Info struct {
	Backend       string // "bolt", "memory"
	Location      string // a path, or a URL without secrets
	SchemaVersion int
	SizeBytes     int64 // on disk; 0 when the backend does not know
	FreeBytes     int64 // part of SizeBytes that removed data has left and later writes reuse
	// DiskFreeBytes is the free space of the disk that the store is on; nil when the backend
	// does not know it.
	DiskFreeBytes *int64
}

// Page selects a part of a list. A Limit of 0 or less means no limit; an Offset beyond
// the end gives an empty page with the total. Callers must bound both.
type Page struct {
	Limit  int
	Offset int
	// After starts the page behind an item instead of at the newest one (keyset
	// pagination): items that are added to the list meanwhile shift nothing, and the
	// item itself may have been deleted. The total remains the total of the whole list,
	// and Offset counts from After. Lists of deployments, tools and events ignore it.
	After Place
}

// Place is the position of an item in a list; the zero value is before the first item.
type Place struct {
	ID string
	// At is the CreatedAt of a trace. Lists of records ignore it: their ids sort by
	// creation.
	At time.Time
}

// Bounds returns the half-open range of a list of n items that the page selects.
func (p Page) Bounds(n int) (from, to int) {
	from = min(max(p.Offset, 0), n)
	to = n
	if p.Limit > 0 && p.Limit < n-from {
		to = from + p.Limit
	}
	return from, to
}
