// Package store holds the nouns of the control plane and the interfaces through
// which the rest of the program reaches them: tenants, users, teams, agents,
// budgets, SLA targets, policies, API keys, traces and their statistics.
//
// It owns the meaning of every operation: what is unique, what is atomic, how
// lists are ordered, which error each method returns. Backends (store/bolt and
// others) own how it is kept, and pass one conformance suite (store/storetest).
// It leaves the wire format, permissions, prices and schedules to the server.
//
// There are two interfaces. [Records] is everything but traces: one engine with
// transactions. [Traces] is the traces: append-only, idempotent by id, and never
// changed. A backend is one of them, or both in one opened value, an [Engine].
//
// All access to a tenant's data goes through [Records.Tenant] and
// [Traces.TracesOf], so a query without a tenant does not compile. An id of another
// tenant is an unknown id.
//
// Lists are newest first by creation, stable under equal times, and carry the
// exact total before paging. Times are UTC. Money is [NanoUSD]. Every method may
// also return an error that is not an [*Error]: the backend failed, [ErrUnavailable]
// where it cannot be reached, or ctx ended.
// Everything is safe for concurrent use.
package store

import (
	"context"
	"time"
)

// Records is the opened store of everything but traces: all tenants, and what
// belongs to none of them.
type Records interface {
	Tenants
	Leases

	// Tenant is the only way to a tenant's records. It never fails: methods of a
	// tenant that does not exist return NotFound.
	Tenant(id string) Tenant

	// Authenticate finds the API key whose secret has this SHA-256 digest. It
	// returns Unauthorized when there is none, when its team has been deleted, and
	// when the user that it was created for is deactivated or deleted. What was
	// committed before the call is seen: a deleted key fails at once.
	Authenticate(ctx context.Context, digest KeyDigest) (Credential, error)

	Opened
}

// Traces is the opened store of the traces of all tenants.
type Traces interface {
	// TracesOf is the only way to a tenant's traces. It never fails. Ingest for a
	// tenant that does not exist is NotFound; reads of one are NotFound or empty.
	TracesOf(tenant string) TenantTraces

	Opened
}

// Engine is both in one opened value. What a batch of traces needs of the records
// (agents that it names for the first time) is written in the transaction that
// stores the batch. Where Records and Traces are two values, the one of the traces
// asks an [AgentDirectory] first; a crash between the two leaves agents without
// traces, never traces without their agent.
type Engine interface {
	Records
	Traces
}

// Opened is what every opened store has.
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

// Tenant is the records of one tenant. Consumers should ask for the small interface
// of the noun that they need.
type Tenant interface {
	// ID is the identifier that the tenant was asked for with.
	ID() string

	Users
	Teams
	Agents
	AgentDirectory
	Budgets
	SLAs
	Policies
	Keys
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
	Location      string // a path or a URL without secrets
	SchemaVersion int
	SizeBytes     int64 // on disk; 0 when the backend cannot tell
	FreeBytes     int64 // of SizeBytes, left by removed data and used again by later writes
}

// Page selects a part of a list. A Limit of 0 or less means no limit; an Offset
// beyond the end gives an empty page with the total. Callers clamp.
type Page struct {
	Limit  int
	Offset int
	// After begins the page behind an item instead of at the newest one: what is added
	// to the list meanwhile moves nothing, and the item itself may be gone. The total
	// stays that of the whole list, and Offset counts from there. Lists of deployments,
	// tools and events do not look at it.
	After Place
}

// Place is that of an item in a list; the zero value is before the first.
type Place struct {
	ID string
	// At is the CreatedAt of a trace. Lists of records do not look at it: their ids sort
	// by creation.
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
