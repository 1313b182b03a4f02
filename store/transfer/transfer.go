// Package transfer moves everything that is in one store into an empty one, of the same
// engine or of another: svc store migrate.
//
// It owns the kinds of rows that a store consists of and their common form, what an
// engine offers to be read and written in that form ([Source], [Target], [TraceTarget]),
// the order of a migration, the marker that lets it go on after a kill, and the
// comparison at its end. Engines own how rows are kept.
//
// A target has the marker of its migration from the first write until both stores were
// compared, and no server opens a store that has one. A batch and the marker that is
// behind it are written in one transaction, so a batch is there once or not at all. Where
// the traces go to an engine without transactions, the marker is written after them, and
// the batch that may be there already is looked for when a migration goes on.
package transfer

import (
	"context"
	"errors"

	"svc/store"
)

// Source is a store that is read. Nobody writes to it meanwhile.
type Source interface {
	Reader

	// ListTenants returns the tenants in any order.
	ListTenants(ctx context.Context) ([]store.TenantInfo, error)
}

// Reader reads rows of tenants.
type Reader interface {
	// Info describes the store.
	Info(ctx context.Context) (store.Info, error)

	// Count is how many rows of a kind a tenant has. Statistics may be counted before
	// they are merged.
	Count(ctx context.Context, tenant string, kind Kind) (int64, error)

	// Export returns the next rows of a kind behind a key, in the order of keys; the
	// empty key is before the first. Audit events come in the order of their chain. No
	// rows are the end.
	Export(ctx context.Context, tenant string, kind Kind, after string, limit int) ([]Row, error)

	// ExportTraces is Export of traces, in the order in which they were committed.
	ExportTraces(ctx context.Context, tenant string, after string, limit int) ([]Trace, error)

	Close() error
}

// Target is a store that is filled.
type Target interface {
	Source

	// Marker returns the marker of the unfinished migration that the store is the target
	// of; nil: it is not.
	Marker(ctx context.Context) ([]byte, error)

	// Begin writes the first marker. It returns [ErrNotEmpty] where the store has
	// anything in it.
	Begin(ctx context.Context, marker []byte) error

	// Import writes a batch and moves the marker, in one transaction. It returns
	// [ErrOtherMigration] where the marker is not the one that the batch is behind.
	Import(ctx context.Context, b Batch) error

	// Finish removes the marker: the store is complete.
	Finish(ctx context.Context, marker []byte) error
}

// Batch is rows of one kind of one tenant.
type Batch struct {
	Tenant string
	Kind   Kind
	Rows   []Row
	Traces []Trace // where Kind is Traces
	From   []byte  // the marker before the batch
	Marker []byte  // and behind it
}

// TraceTarget is an engine of traces alone, without transactions.
type TraceTarget interface {
	// Its ExportTraces may return more than limit, in any order.
	Reader

	// Empty returns ErrNotEmpty where the store has anything in it.
	Empty(ctx context.Context) error

	// ImportState writes the state of a tenant. It may be done twice.
	ImportState(ctx context.Context, tenant string, state State) error

	// ImportTraces writes the next traces of a tenant; place is that of the first among
	// all places of the migration. again says that they may be there already, all or
	// some.
	ImportTraces(ctx context.Context, tenant string, place int64, list []Trace, again bool) error

	// ImportStatistics writes everything that was counted of a tenant's traces, the last
	// of which is at a place. next returns rows of Statistics, Tools and PolicyFires until
	// there are none. What an earlier attempt has written does not count.
	ImportStatistics(ctx context.Context, tenant string, place int64, next func() (Kind, []Row, error)) error
}

var (
	// ErrNotEmpty means that a target has something in it.
	ErrNotEmpty = errors.New("the target is not empty")
	// ErrOtherMigration means that another process writes to the target, or that the
	// target is that of another migration.
	ErrOtherMigration = errors.New("the target is that of another migration")
	// ErrUnfinished is why an engine does not open a store that has a marker.
	ErrUnfinished = errors.New("the target of a migration that has not ended")
	// ErrDiffers means that the two stores are not the same after the migration.
	ErrDiffers = errors.New("the target differs from the source")
)

// AdviceUnfinished is what to do about a store that has a marker.
const AdviceUnfinished = "run the same 'svc store migrate' again, which goes on where it was"
