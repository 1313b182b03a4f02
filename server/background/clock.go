package background

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"svc/store"
)

const (
	// clockMark is the watermark with the latest time of retention: data was removed by no
	// later clock.
	clockMark = "retention-clock"
	// maxJump is how far the clock may be from the latest time before it is not believed.
	maxJump = 24 * time.Hour
	// catchUpRate is how many hours the latest time advances in one hour of running while
	// the clock is not believed: the oldest day of the data is removed each hour.
	catchUpRate = 24
	// warnEvery is the interval of the warning about a clock that is not believed.
	warnEvery = time.Hour
)

// AcceptClock makes now the latest time of retention, and returns the one before: zero for
// a store without any. The next pass of retention removes all data that is too old by it.
func AcceptClock(ctx context.Context, leases store.Leases, now time.Time) (before time.Time, err error) {
	if before, err = leases.Watermark(ctx, clockMark); err != nil {
		return before, err
	}
	return before, leases.SetWatermark(ctx, clockMark, now)
}

// passage is the time by which retention removes data. A clock that is wrong must not
// remove everything at once, and nothing but the passing of time shows that a clock is
// right. So the store keeps the latest time, and a clock that is more than maxJump ahead
// of it is followed only as fast as catchUpRate allows. A store without a latest time has the time
// of its newest data; only an empty one takes the clock as it is.
type passage struct {
	running func() time.Time // for durations only, so that changes of the clock do not matter
	started time.Time        // of the clock, when the process began: what is later may be by a clock that is wrong
	last    time.Time        // of running, at the last pass
	token   uint64           // the lease of the last pass
	behind  bool             // the latest time has not reached the clock since a jump
	warned  time.Time        // of running
	jump    atomic.Int64     // nanoseconds from the latest time to the clock; 0: it is believed
}

// forget ends what is known of the clock: another process holds the lease.
func (p *passage) forget() {
	p.last, p.behind, p.warned = time.Time{}, false, time.Time{}
	p.jump.Store(0)
}

// ran returns how long this process has held the lease since its last pass.
func (p *passage) ran(token uint64) (d time.Duration) {
	now := p.running()
	// The token is another one when another process made passes meanwhile.
	if !p.last.IsZero() && p.token == token {
		d = now.Sub(p.last)
	}
	p.last, p.token = now, token
	return d
}

// ClockJump returns how far the clock is ahead of the latest time that the store keeps
// (negative: behind it), while the clock is not believed because of that; otherwise 0. It
// is safe for concurrent use, and 0 in a process that does not hold the lease.
func (r *Retention) ClockJump() time.Duration { return time.Duration(r.clock.jump.Load()) }

// time returns the time by which this pass removes data, and stores the latest time.
func (r *Retention) time(ctx context.Context) (time.Time, error) {
	c, now := &r.clock, r.Now().UTC()
	ran := c.ran(r.held.Token)
	kept, err := r.Records.Watermark(ctx, clockMark)
	if err != nil {
		return now, err
	}
	none := kept.IsZero()
	if none {
		if kept, err = r.newest(ctx); err != nil {
			return now, err
		}
	}
	ahead := now.Sub(kept)
	if kept.IsZero() {
		ahead = 0 // the store has no data that could be lost
	}
	at := now
	if c.behind = ahead > 0 && (c.behind || ahead > maxJump); c.behind {
		// ran is compared before it is multiplied, which could overflow.
		if ran < ahead/catchUpRate {
			at = kept.Add(catchUpRate * ran)
		} else {
			c.behind = false
		}
	}
	r.noteClock(now, kept, ahead)
	if !none && (ahead < 0 || at.Equal(kept)) {
		return at, nil
	}
	// The first latest time is stored in any case: at the next pass the newest data may be by the
	// clock that is not believed.
	return at, r.Records.SetWatermark(ctx, clockMark, at)
}

// newest returns the time of the newest data that was stored before this process began: of
// evaluation, tenants, changes by administrators, and traces; zero for an empty store.
func (r *Retention) newest(ctx context.Context) (newest time.Time, err error) {
	end := r.clock.started
	note := func(at time.Time) {
		if at.After(newest) && !at.After(end) {
			newest = at
		}
	}
	mark, err := r.Records.Watermark(ctx, evaluated)
	if err != nil {
		return newest, err
	}
	note(mark)
	tenants, err := r.Records.ListTenants(ctx)
	if err != nil {
		return newest, err
	}
	for i := range tenants {
		id := tenants[i].ID
		note(tenants[i].CreatedAt)
		events, _, err := r.Records.Tenant(id).ListAuditEvents(ctx, store.AuditEventFilter{Until: end}, store.Page{Limit: 1})
		if err != nil {
			return newest, fmt.Errorf("tenant %s: %w", id, err)
		}
		for j := range events {
			note(events[j].CreatedAt)
		}
		traces, err := newestTrace(ctx, r.Traces.TracesOf(id), end)
		if err != nil {
			return newest, fmt.Errorf("tenant %s: %w", id, err)
		}
		for j := range traces {
			note(traces[j].CreatedAt)
		}
	}
	return newest, nil
}

// newestTrace returns the newest trace up to a time, or none. It does not count the others where
// the store can do without.
func newestTrace(ctx context.Context, t store.TenantTraces, end time.Time) (list []store.Trace, err error) {
	f, page := store.TraceFilter{End: end}, store.Page{Limit: 1}
	if u, ok := t.(store.UncountedTraces); ok {
		list, _, _, err = u.ListUncounted(ctx, f, page)
		return list, err
	}
	list, _, err = t.ListTraces(ctx, f, page)
	return list, err
}

// noteClock logs a clock that is not believed, at once and then each hour, and the end of
// that.
func (r *Retention) noteClock(now, kept time.Time, ahead time.Duration) {
	c := &r.clock
	if !c.behind && ahead >= -maxJump {
		if c.jump.Swap(0) != 0 {
			r.Logger.Info("retention goes by the clock again", "clock", now)
		}
		c.warned = time.Time{}
		return
	}
	c.jump.Store(int64(ahead))
	at := c.running()
	if !c.warned.IsZero() && at.Sub(c.warned) < warnEvery {
		return
	}
	c.warned = at
	if ahead < 0 {
		r.Logger.Warn("the clock is more than a day behind the latest time that the store keeps; until it has passed that time, a clock that is wrong in the other direction is not noticed",
			"clock", now, "latest", kept, "fix", "set the clock of this machine; if it is right, run 'svc store clock accept'")
		return
	}
	r.Logger.Warn("the clock is more than a day ahead of the latest time that the store keeps; retention removes only the oldest day of data in each hour",
		"clock", now, "latest", kept, "fix", "set the clock of this machine; if it is right, wait, or run 'svc store clock accept'")
}
