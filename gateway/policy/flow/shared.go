package flow

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// Store shares labels between replicas. Callers are named by their ids. Times are those of the store.
type Store interface {
	// Labels returns for each name how long ago the label was set, [math.MaxInt64] for one that was not, and
	// when the labels of the caller were cleared last by a clock of the gateways, 0 for never.
	Labels(ctx context.Context, caller string, names []string) (ages []time.Duration, cleared int64, err error)
	// SetLabels adds labels, each set some time ago, and keeps them for ttl. Where a label was set later, that
	// time stays.
	SetLabels(ctx context.Context, caller string, names []string, ages []time.Duration, ttl time.Duration) error
	// ClearLabels removes the labels of a caller at a time of the gateway's clock, and returns their names.
	ClearLabels(ctx context.Context, caller string, at int64, ttl time.Duration) ([]string, error)
}

// storeTTL is how long the store keeps what it has of a caller after the last change.
const storeTTL = maxWindow + time.Hour

// mark is a label that is set once, of a caller that is none: when it is not there, or was set anew, the store
// has lost what it had.
const mark, marked = "mark", "!"

const (
	// markSlack is by how much the time of the mark may differ between two looks at it.
	markSlack = 500 * time.Millisecond
	// doubtTime is how long labels of other gateways may be missing after the store was emptied: in it, each
	// gateway notices that, and writes its labels again.
	doubtTime = 3 * time.Second
	// failTime is how long a failure of the store leaves in doubt what it has: until the next look at the mark.
	failTime = 3 * tickInterval / 2
)

// watched is what a gateway knows of the store. Its times are since it was opened.
type watched struct {
	opened time.Time
	mark   time.Duration // when the mark was set; of the goroutine that ticks
	looked atomic.Bool   // mark is known
	kept   time.Duration // when the mark was kept from ending last
	doubt  atomic.Int64  // until when the store may lack labels
}

// doubtful reports whether the store may lack labels that other gateways have set.
func (w *watched) doubtful() bool { return int64(time.Since(w.opened)) < w.doubt.Load() }

// watch looks at the mark of the store. When the store was emptied, or at the first look, all labels of this
// gateway are written again.
func (m *Memory) watch(ctx context.Context) {
	m.mu.RLock()
	unused := len(m.names.List()) == 0
	m.mu.RUnlock()
	if unused {
		return
	}
	w := &m.watched
	ages, _, err := m.options.Store.Labels(ctx, marked, []string{mark})
	if err != nil {
		m.storeFailed(err, "labels of other gateways are not known")
		return
	}
	now := time.Since(w.opened)
	missing := ages[0] == math.MaxInt64
	if missing {
		ages[0] = 0
	}
	if missing || now-w.kept > time.Hour {
		if err := m.options.Store.SetLabels(ctx, marked, []string{mark}, ages, storeTTL); err != nil {
			return
		}
		w.kept = now
	}
	was, set := w.mark, now-ages[0]
	emptied := w.looked.Load() && (missing || (set-was).Abs() > markSlack)
	if emptied {
		raise(&w.doubt, int64(now+doubtTime))
	}
	if emptied || !w.looked.Load() {
		m.emptied.Store(true)
	}
	w.mark = set
	w.looked.Store(true)
	m.shareAgain()
}

// ofShared is [Memory.Of] with a store.
func (m *Memory) ofShared(ctx context.Context, c *Caller, names *Names) Labels {
	ages, cleared, err := m.options.Store.Labels(ctx, string(c.appendID(nil)), names.List())
	if err != nil && !m.options.FailOpen {
		m.storeFailed(err, "every caller counts as having every label")
		return names.Every()
	}
	if err == nil {
		m.shareAgain()
	}
	if !m.options.FailOpen && m.watched.doubtful() {
		return names.Every()
	}
	now := m.millis()
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err != nil {
		m.storeFailed(err, "callers have the labels that this gateway has set")
		return m.own(c, now, names)
	}
	var there Labels
	for i, age := range ages {
		if age.Milliseconds() < m.window.Load() {
			there |= 1 << i
		}
	}
	_, h := m.find(c)
	if h == nil || h.many {
		return there | m.own(c, now, names)
	}
	if cleared > h.cleared.Load() {
		raise(&h.cleared, cleared)
		h.drop(cleared - m.wall(0))
	}
	own := translate(h.now(now, m.window.Load()), m.names, names)
	if own&^there != 0 { // the store has lost it, or could not be written
		for i := range h.labels {
			if translate(own&^there, names, m.names)>>i&1 != 0 {
				h.labels[i].shared.Store(0)
			}
		}
		m.later(h)
	}
	return there | own
}

// share writes labels to the store.
func (m *Memory) share(ctx context.Context, c *Caller, h *held, names []string, now int64) error {
	ages := make([]time.Duration, len(names))
	for i := range ages {
		ages[i] = -m.storeSlack()
	}
	err := m.options.Store.SetLabels(ctx, string(c.appendID(nil)), names, ages, storeTTL)
	if err == nil {
		if !h.many {
			m.stamp(h, names, now, func(l *label) { l.shared.Store(now + m.storeSlack().Milliseconds()) })
		}
		return nil
	}
	if !h.many {
		m.later(h)
	}
	if m.options.FailOpen {
		m.storeFailed(err, "other gateways learn of labels when it answers again")
		return nil
	}
	m.storeFailed(err, "messages that set labels are withheld")
	return fmt.Errorf("the label is not shared: %w", err)
}

// storeSlack is by how much later than now the store counts a label as set.
func (m *Memory) storeSlack() time.Duration { return time.Duration(m.slack()) * time.Millisecond }

// shareAgain is called when the store answers: after it was away it may be empty, as after its restart, and
// other gateways know of no label until each is written again.
func (m *Memory) shareAgain() {
	if !m.emptied.CompareAndSwap(true, false) {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i := range m.places {
		for _, h := range m.places[i].at {
			for i := range h.labels {
				h.labels[i].shared.Store(0)
			}
			m.later(h)
		}
	}
}

// shareLate writes renewals to the store, and labels that it could not take before.
func (m *Memory) shareLate(late []*held) {
	if m.options.Store == nil {
		return
	}
	for i, h := range late {
		if h.many {
			continue
		}
		now, slack := m.millis(), m.storeSlack().Milliseconds()
		var names []string
		var ages []time.Duration
		m.mu.RLock()
		for i, name := range m.names.List() {
			if at := h.labels[i].at.Load(); at > h.labels[i].shared.Load() && now-at < m.window.Load() {
				names, ages = append(names, name), append(ages, time.Duration(now-at-slack)*time.Millisecond)
			}
		}
		m.mu.RUnlock()
		if len(names) == 0 {
			continue
		}
		if err := m.options.Store.SetLabels(context.Background(), h.id, names, ages, storeTTL); err != nil {
			for _, h := range late[i:] {
				m.later(h)
			}
			return
		}
		m.stamp(h, names, 1, func(l *label) { raise(&l.shared, min(l.at.Load(), now)+slack) })
	}
}

// storeFailed logs an error of the store, which logs more of itself.
func (m *Memory) storeFailed(err error, effect string) {
	m.emptied.Store(true)
	raise(&m.watched.doubt, int64(time.Since(m.watched.opened)+failTime))
	if n, due := m.away.Due(m.options.Now(), time.Minute); due {
		m.options.Log.Warn("labels of callers: the store that replicas share does not answer: "+effect, "error", err, "times", n)
	}
}
