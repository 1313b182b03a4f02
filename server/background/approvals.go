package background

import (
	"context"
	"sync/atomic"
	"time"

	"svc/store"
)

// defaultApprovalsInterval is how often approvals are ended: messages about their end are at most
// that late. Reads and claims do not depend on it.
const defaultApprovalsInterval = 15 * time.Second

// Approvals ends the approvals whose time is over, and counts the open ones.
type Approvals struct {
	worker
	open atomic.Int64
}

// NewApprovals returns the worker for the approvals of all tenants.
func NewApprovals(o EvaluatorOptions) *Approvals {
	a := &Approvals{worker: newWorker(o, "approvals", defaultApprovalsInterval)}
	a.pass, a.lost = a.end, func() { a.open.Store(0) }
	return a
}

// Open returns the number of approvals that nobody has decided, as of the last pass; 0 while
// another process does the work. It is safe for concurrent use.
func (a *Approvals) Open() int64 { return a.open.Load() }

// Run ends approvals until ctx ends.
func (a *Approvals) Run(ctx context.Context) { a.run(ctx) }

func (a *Approvals) end(ctx context.Context) error {
	var open int64
	err := a.eachTenant(ctx, func(t store.Tenant) error {
		for {
			n, more, err := t.EndApprovals(ctx)
			if err != nil {
				return err
			}
			if !more {
				open += int64(n)
				return nil
			}
		}
	})
	if ctx.Err() == nil {
		a.open.Store(open)
	}
	return err
}
