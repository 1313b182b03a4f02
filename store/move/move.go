// Package move copies the contents of a store into an empty one, of the same engine or
// of another one, for 'svc store migrate'.
//
// Records are copied row by row as they are: all engines have the rows of package record.
// The few things that engines store in another manner, traces and statistics, have a form
// here. The package defines the interfaces of engines ([Source], [Target], [TraceTarget]),
// the order of a migration, the marker with which it resumes after a crash, and the
// comparison at its end.
//
// A target has the marker of its migration from the first write until both stores have
// been compared, and a server does not open a store with a marker. A batch and the next
// marker are written in one transaction, so each batch is written exactly once. If the
// traces go to an engine without transactions, the marker is written after the batch, and
// a resumed migration checks which traces of the next batch exist already.
package move

import (
	"context"
	"errors"

	"svc/store"
)

// Source is a store that is read. It must not be written to meanwhile.
type Source interface {
	Reader

	// ListTenants returns the tenants in any order.
	ListTenants(ctx context.Context) ([]store.TenantInfo, error)

	// Count returns the number of a tenant's rows of a kind. Statistics may be counted
	// before they are merged.
	Count(ctx context.Context, tenant string, kind Kind) (int64, error)
}

// Reader reads rows of tenants.
type Reader interface {
	// Info describes the store.
	Info(ctx context.Context) (store.Info, error)

	// Export returns the next rows of a kind after a position, sorted by position; the
	// empty position is before the first row. Traces are in commit order. An empty page is
	// the end.
	Export(ctx context.Context, tenant string, kind Kind, after string, limit int) (Page, error)

	Close() error
}

// Target is a store that is filled.
type Target interface {
	Source

	// Marker returns the marker of the unfinished migration into the store; nil: there is
	// none.
	Marker(ctx context.Context) ([]byte, error)

	// Begin writes the first marker. It returns [ErrNotEmpty] if the store has any
	// contents.
	Begin(ctx context.Context, marker []byte) error

	// Import writes a batch and replaces the marker, in one transaction. It returns
	// [ErrOtherMigration] if the current marker is not the one before the batch.
	Import(ctx context.Context, b Batch) error

	// Finish removes the marker: the store is complete.
	Finish(ctx context.Context, marker []byte) error
}

// Batch is a batch of rows of one kind of one tenant.
type Batch struct {
	Tenant string
	Kind   Kind
	Page
	From   []byte // the marker before the batch
	Marker []byte // and after it
}

// TraceTarget is an engine for traces only, without transactions.
type TraceTarget interface {
	// Its pages of traces may have more than limit, in any order.
	Reader

	// Empty returns ErrNotEmpty if the store has any contents.
	Empty(ctx context.Context) error

	// ImportState writes the state of a tenant. It is idempotent.
	ImportState(ctx context.Context, tenant string, state State) error

	// ImportTraces writes the next traces of a tenant; place is the position of the first
	// one among all traces of the migration. again reports that some or all of them may
	// exist already.
	ImportTraces(ctx context.Context, tenant string, place int64, list []Trace, again bool) error

	// ImportStatistics writes all statistics of a tenant's traces; place is the position
	// of the last trace. rows calls add with the rows of Statistics, Tools and PolicyFires.
	// Rows of an interrupted attempt are ignored.
	ImportStatistics(ctx context.Context, tenant string, place int64, rows func(add func(Kind, Row) error) error) error
}

var (
	// ErrNotEmpty means that a target has contents.
	ErrNotEmpty = errors.New("the target is not empty")
	// ErrOtherMigration means that another process writes to the target, or that the
	// target belongs to another migration.
	ErrOtherMigration = errors.New("the target belongs to another migration")
	// ErrMarker means that the marker of a target is damaged, or of another version of svc.
	ErrMarker = errors.New("the marker of the unfinished migration into the target cannot be read")
	// ErrUnfinished is the error when an engine opens a store with a marker.
	ErrUnfinished = errors.New("the target of an unfinished migration")
	// ErrDiffers means that the two stores differ after the migration.
	ErrDiffers = errors.New("the target differs from the source")
)

// AdviceUnfinished tells operators how to handle a store with a marker.
const AdviceUnfinished = "run the same 'svc store migrate' again, which goes on where it was"
