package flow

import (
	"context"
	"fmt"
	"time"
)

// Store shares labels between replicas. Callers are named by their ids. Times are those of the store.
type Store interface {
	// Labels returns for each name how long ago the label was set, [math.MaxInt64] for one that was not, and
	// when it was cleared last by a clock of the gateways, 0 for never. lost counts how often the store has lost
	// what it had.
	Labels(ctx context.Context, caller string, names []string) (ages []time.Duration, cleared []int64, lost uint64, err error)
	// LabelsLost returns the lost of Labels.
	LabelsLost(ctx context.Context) (lost uint64, err error)
	// SetLabels adds labels, each set some time ago, and keeps them for ttl. Where a label was set later, that
	// time stays.
	SetLabels(ctx context.Context, caller string, names []string, ages []time.Duration, ttl time.Duration) error
	// ClearLabels removes some labels of a caller, all for no names, at a time of the gateway's clock, and returns
	// the names of those that the caller had.
	ClearLabels(ctx context.Context, caller string, names []string, at int64, ttl time.Duration) ([]string, error)
}

// storeTTL is how long the store keeps what it has of a caller after the last change.
const storeTTL = maxWindow + time.Hour

// settleTime is how long a gateway takes every caller for one with every label after the store has lost what it
// had: gateways notice within a second, and write what they know.
const settleTime = 3 * tickInterval

// ofShared is [Memory.Of] with a store.
func (m *Memory) ofShared(ctx context.Context, c *Caller, names *Names) Labels {
	ages, cleared, lost, err := m.options.Store.Labels(ctx, string(c.appendID(nil)), names.List())
	if err != nil && !m.options.FailOpen {
		m.storeFailed(err, "every caller counts as having every label")
		return names.Every()
	}
	if err == nil {
		m.storeAnswered(lost)
		if !m.options.FailOpen && m.unsettled() {
			return names.Every()
		}
	}
	now := m.time(c)
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
	for i, at := range cleared {
		h.forget(translate(1<<i, names, m.names), at, at-m.wall(0))
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

// storeAnswered is called when the store answers. What it has lost, or may have lost while it was away, other
// gateways know when it was written again.
func (m *Memory) storeAnswered(lost uint64) {
	if was := m.lost.Load(); lost > was {
		m.settled.Store(m.millis() + settleTime.Milliseconds()) // before other requests see that the loss is known
		m.emptied.Store(true)
		if m.lost.CompareAndSwap(was, lost) {
			m.options.Log.Warn("labels of callers: the store that replicas share has lost what it had; gateways write what they know to it, and labels of gateways that do not run are lost",
				"every_label_for", settleTime.String(), "fail_open", m.options.FailOpen)
		}
	}
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

// unsettled reports whether the store has lost labels that other gateways may not have written again.
func (m *Memory) unsettled() bool {
	until := m.settled.Load()
	return until != 0 && m.millis() < until
}

// shareLate writes renewals to the store, and labels that it could not take before.
func (m *Memory) shareLate(late []*held) {
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
	if n, due := m.away.Due(m.options.Now(), time.Minute); due {
		m.options.Log.Warn("labels of callers: the store that replicas share does not answer: "+effect, "error", err, "times", n)
	}
}
