package record

import (
	"context"
	"slices"
	"time"

	"svc/store"
)

// queue is the state of the deliveries of a webhook.
type queue struct {
	Last         string // id of the newest delivery
	Oldest       string // no delivery with a smaller id waits
	Waiting      int
	Ended        int
	Dropped      int // since the newest delivery was queued
	FailingSince time.Time
}

// notify queues messages about events in the transaction of the change that causes them, for
// each webhook that wants them.
func (t *Tenant) notify(tx Tx, events ...store.Event) error {
	if len(events) == 0 {
		return nil
	}
	hooks, err := webhookList(tx)
	if err != nil || len(hooks) == 0 {
		return err
	}
	for i := range events {
		e := &events[i]
		e.CreatedAt = t.e.Now()
		e.ID = t.e.NewID(store.PrefixMessage, e.CreatedAt)
		if err := placeEvent(tx, e); err != nil {
			return err
		}
	}
	for i := range hooks {
		wanted := slices.DeleteFunc(slices.Clone(events), func(e store.Event) bool { return !hooks[i].Wants(&e) })
		if _, err := t.enqueue(tx, hooks[i].ID, wanted...); err != nil {
			return err
		}
	}
	return nil
}

// webhookList returns the rows of the webhooks.
func webhookList(tx Tx) (list []store.Webhook, err error) {
	err = each(tx, webhookRows, Range{}, func(h *store.Webhook) (bool, error) {
		list = append(list, *h)
		return true, nil
	})
	return list, err
}

// placeEvent finds the agent of an event, and sets its environment and team where they are not set.
func placeEvent(tx Tx, e *store.Event) error {
	if e.AgentID == "" && e.AgentName != "" {
		a, _, err := AgentByName(tx, e.AgentName)
		if err != nil {
			return err
		}
		e.AgentID = a.ID
	}
	if e.AgentID == "" {
		return nil
	}
	a, _, err := get[struct{ Environment, TeamID string }](tx, AgentRows, []byte(e.AgentID))
	if e.Environment == "" {
		e.Environment = a.Environment
	}
	if e.TeamID == "" {
		e.TeamID = a.TeamID
	}
	return err
}

// enqueue adds deliveries to the queue of a webhook, and returns the last. When too many wait, the
// oldest are dropped.
func (t *Tenant) enqueue(tx Tx, hook string, events ...store.Event) (d store.Delivery, err error) {
	if len(events) == 0 {
		return d, nil
	}
	q, _, err := get[queue](tx, webhookQueues, []byte(hook))
	for i := 0; err == nil && i < len(events); i++ {
		if q.Waiting >= store.MaxWaiting {
			if err = dropOldest(tx, hook, &q); err != nil {
				break
			}
		}
		now := t.e.Now()
		id := t.e.NewID(store.PrefixDelivery, now)
		if id <= q.Last { // the clock was ahead, or that of another process is
			id = following(q.Last)
		}
		d = store.Delivery{ID: id, WebhookID: hook, Event: events[i], Dropped: q.Dropped, State: store.DeliveryWaiting, NextAt: now}
		q.Last, q.Dropped = id, 0
		q.Waiting++
		err = put(tx, deliveryRows, joined(hook, id), d)
	}
	if err != nil {
		return d, err
	}
	return d, put(tx, webhookQueues, []byte(hook), q)
}

// dropOldest removes the oldest delivery that waits. The next one that is queued counts it.
func dropOldest(tx Tx, hook string, q *queue) error {
	var oldest *store.Delivery
	err := each(tx, deliveryRows, waitingFrom(hook, q.Oldest), func(d *store.Delivery) (bool, error) {
		oldest = d
		return false, nil
	})
	if err != nil || oldest == nil {
		q.Waiting = 0
		return err
	}
	q.Waiting--
	q.Dropped += 1 + oldest.Dropped
	q.Oldest = oldest.ID
	return tx.Delete(deliveryRows, joined(hook, oldest.ID))
}

// waitingFrom is the range of the deliveries of a webhook that wait, from an id on. (Data of events
// has no member State.)
func waitingFrom(hook, id string) Range {
	r := prefixed(hook)
	r.From, r.Having = joined(hook, id), [][]byte{field("State", store.DeliveryWaiting)}
	return r
}

// NotifyOnce queues events that depend on a mark.
func (t *Tenant) NotifyOnce(ctx context.Context, of string, f func(mark string) (string, []store.Event)) error {
	said := func(tx Tx) (next string, events []store.Event, same bool, err error) {
		mark, err := tx.Get(eventMarks, []byte(of))
		if err != nil {
			return "", nil, false, err
		}
		next, events = f(string(mark))
		return next, events, next == string(mark) && len(events) == 0, nil
	}
	same := false
	err := t.e.View(ctx, t.id, func(tx Tx) (err error) { // first, because mostly nothing has changed
		_, _, same, err = said(tx)
		return err
	})
	if err != nil || same {
		return err
	}
	return t.e.Update(ctx, t.id, func(tx Tx) error {
		next, events, _, err := said(tx)
		if err == nil {
			err = tx.Put(eventMarks, []byte(of), []byte(next))
		}
		if err != nil {
			return err
		}
		return t.notify(tx, events...)
	})
}

// RecordAttempts stores results of attempts to deliver.
func (t *Tenant) RecordAttempts(ctx context.Context, list []store.Attempt) (disabled []store.Webhook, err error) {
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		disabled = nil
		for i := range list {
			h, err := t.attempted(ctx, tx, &list[i])
			if err != nil {
				return err
			}
			if h != nil {
				disabled = append(disabled, *h)
			}
		}
		return nil
	})
	return disabled, err
}

// attempted stores the result of one attempt, and returns the webhook if it was disabled.
func (t *Tenant) attempted(ctx context.Context, tx Tx, a *store.Attempt) (*store.Webhook, error) {
	key := joined(a.WebhookID, a.DeliveryID)
	d, known, err := get[store.Delivery](tx, deliveryRows, key)
	if err != nil || !known || d.State != store.DeliveryWaiting {
		return nil, err
	}
	q, _, err := get[queue](tx, webhookQueues, []byte(a.WebhookID))
	if err != nil {
		return nil, err
	}
	d.Attempts++
	d.LastAt, d.Status, d.Error, d.NextAt = a.At.UTC(), a.Status, a.Error, a.NextAt.UTC()
	var off *store.Webhook
	if a.Delivered {
		d.State, q.FailingSince = store.DeliveryDelivered, time.Time{}
	} else if off, err = t.failed(ctx, tx, a.WebhookID, d.LastAt, &q); err != nil {
		return nil, err
	} else if d.Attempts >= store.MaxTries {
		d.State = store.DeliveryFailed
	}
	if d.State != store.DeliveryWaiting {
		d.NextAt = time.Time{}
		q.Waiting--
		q.Ended++
	}
	if err := put(tx, deliveryRows, key, d); err != nil {
		return nil, err
	}
	return off, put(tx, webhookQueues, []byte(a.WebhookID), q)
}

// failed notes a failed attempt of a webhook. The time of failing begins anew with each change of the
// webhook; when it is too long, the webhook is disabled, with an audit event of nobody, and returned.
func (t *Tenant) failed(ctx context.Context, tx Tx, id string, at time.Time, q *queue) (*store.Webhook, error) {
	h, known, err := get[store.Webhook](tx, webhookRows, []byte(id))
	if err != nil || !known {
		return nil, err
	}
	if q.FailingSince.Before(h.UpdatedAt) {
		q.FailingSince = at
		if at.Before(h.UpdatedAt) { // by another clock
			q.FailingSince = h.UpdatedAt
		}
		return nil, nil
	}
	if !h.Enabled || at.Sub(q.FailingSince) < store.FailingFor {
		return nil, nil
	}
	before := h
	h.Enabled = false
	return &h, replace(ctx, t, webhooks, tx, &before, &h, nil)
}

// maxEnded bounds the ended deliveries of a webhook that are stored longer than until the next
// pass of retention.
const maxEnded = 10_000

// trimDeliveries removes the deliveries that are too old, or too many. What waited is counted as
// dropped.
func trimDeliveries(tx Tx, before time.Time, limit int) (n int, err error) {
	if before.IsZero() {
		return 0, nil
	}
	ids, err := keysIn(tx, webhookQueues, Range{})
	for i := 0; err == nil && i < len(ids) && n < limit; i++ {
		var one int
		one, err = trimQueue(tx, string(ids[i]), store.FirstID(store.PrefixDelivery, before), limit-n)
		n += one
	}
	return n, err
}

func trimQueue(tx Tx, hook, first string, limit int) (n int, err error) {
	q, _, err := get[queue](tx, webhookQueues, []byte(hook))
	if err != nil {
		return 0, err
	}
	var gone [][]byte
	r := prefixed(hook)
	if q.Ended <= maxEnded {
		r.To = joined(hook, first)
	}
	err = each(tx, deliveryRows, r, func(d *store.Delivery) (bool, error) {
		old, waits := d.ID < first, d.State == store.DeliveryWaiting
		switch {
		case old && waits:
			q.Waiting--
			q.Dropped += 1 + d.Dropped
		case old || !waits && q.Ended > maxEnded:
			q.Ended--
		default:
			return q.Ended > maxEnded, nil
		}
		gone = append(gone, joined(hook, d.ID))
		return len(gone) < limit, nil
	})
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	if err := tx.Delete(deliveryRows, gone...); err != nil {
		return 0, err
	}
	return len(gone), put(tx, webhookQueues, []byte(hook), q)
}
