package background

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
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
	tenants, err := a.Records.ListTenants(ctx)
	if err != nil {
		return err
	}
	var failed []error
	var open int64
	for _, info := range tenants {
		tenant := a.Records.Tenant(info.ID)
		for more := true; more && err == nil; {
			var n int
			n, more, err = tenant.EndApprovals(ctx)
			if !more {
				open += int64(n)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed, err = append(failed, fmt.Errorf("tenant %s: %w", info.ID, err)), nil
		}
	}
	a.open.Store(open)
	return errors.Join(failed...)
}
