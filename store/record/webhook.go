package record

import (
	"context"
	"fmt"
	"time"

	"svc/store"
)

// webhooks implements the kind of webhooks. The state of their queues is in a bucket of its own.
var webhooks = &kind[store.Webhook]{
	noun: "webhook", prefix: store.PrefixWebhook, rows: webhookRows, names: webhookNames, object: (*store.Webhook).Object,
	items: func(tx Tx, list []store.Webhook) error {
		for i := range list {
			q, _, err := get[queue](tx, webhookQueues, []byte(list[i].ID))
			if err != nil {
				return err
			}
			if list[i].Waiting = q.Waiting; !q.FailingSince.Before(list[i].UpdatedAt) {
				list[i].FailingSince = q.FailingSince
			}
		}
		return nameAgents(tx, list, func(h *store.Webhook) (string, *string) { return h.AgentID, &h.AgentName })
	},
	stored: func(h store.Webhook) store.Webhook {
		h.AgentName, h.Waiting, h.FailingSince = "", 0, time.Time{}
		return h
	},
	drop: func(_ context.Context, _ *Tenant, tx Tx, h *store.Webhook) error {
		deliveries, err := keysIn(tx, deliveryRows, prefixed(h.ID))
		if err != nil {
			return err
		}
		if err := tx.Delete(deliveryRows, deliveries...); err != nil {
			return err
		}
		return tx.Delete(webhookQueues, []byte(h.ID))
	},
}

// ListWebhooks returns the webhooks that pass the filter, newest first.
func (t *Tenant) ListWebhooks(ctx context.Context, f store.WebhookFilter, page store.Page) ([]store.Webhook, int, error) {
	return listOf(ctx, t, webhooks, page, func(h *store.Webhook) bool { return f.TeamID == "" || h.TeamID == f.TeamID })
}

// GetWebhook returns one webhook.
func (t *Tenant) GetWebhook(ctx context.Context, id string) (store.Webhook, error) {
	return getOne(ctx, t, webhooks, id)
}

// CreateWebhook creates a webhook.
func (t *Tenant) CreateWebhook(ctx context.Context, in store.WebhookCreate) (store.Webhook, error) {
	return createOne(ctx, t, webhooks, func(tx Tx, id string, now time.Time) (store.Webhook, error) {
		h := in.Make(id, now)
		n, err := tx.Count(webhookRows, Range{})
		if err == nil && n >= store.MaxWebhooks {
			err = store.FieldError(store.Invalid, "too many webhooks", "name", fmt.Sprintf("a tenant may have %d: delete some that are not used", store.MaxWebhooks))
		}
		if err == nil && in.AgentID != "" {
			err = knownAgent(tx, in.AgentID)
		}
		return h, err
	})
}

// UpdateWebhook changes a webhook.
func (t *Tenant) UpdateWebhook(ctx context.Context, id string, up store.WebhookUpdate) (store.Webhook, error) {
	return updateOne(ctx, t, webhooks, id, func(tx Tx, h *store.Webhook, now time.Time) error {
		up.Apply(h, now)
		if up.AgentID != nil && *up.AgentID != "" {
			return knownAgent(tx, *up.AgentID)
		}
		return nil
	})
}

// RotateWebhookSecret replaces the secret of a webhook.
func (t *Tenant) RotateWebhookSecret(ctx context.Context, id, secret string) (h store.Webhook, err error) {
	err = t.create(ctx, func() any { return h }, func(tx Tx) error {
		if h, err = webhooks.find(tx, id); err != nil {
			return err
		}
		before, now := h, t.e.Now()
		h.OldSecret, h.OldUntil, h.Secret, h.UpdatedAt = h.Secret, now.Add(store.OldSecretFor), secret, now
		shown := h.Object()
		shown.Also = []string{"secret"}
		return replace(ctx, t, webhooks, tx, &before, &h, shown)
	})
	return h, err
}

// DeleteWebhook removes a webhook and its deliveries.
func (t *Tenant) DeleteWebhook(ctx context.Context, id string) error {
	return deleteOne(ctx, t, webhooks, id)
}

// dropWebhooksOf removes the webhooks of a team.
func (t *Tenant) dropWebhooksOf(ctx context.Context, tx Tx, teamID string) error {
	list, err := oldest(tx, webhooks)
	for i := 0; err == nil && i < len(list); i++ {
		if list[i].TeamID == teamID {
			err = replace(ctx, t, webhooks, tx, &list[i], nil, nil)
		}
	}
	return err
}

// ListDeliveries returns the deliveries of a webhook, newest first.
func (t *Tenant) ListDeliveries(ctx context.Context, webhookID, state string, page store.Page) (list []store.Delivery, total int, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		if _, err := webhooks.find(tx, webhookID); err != nil {
			return err
		}
		r := prefixed(webhookID)
		if state != "" {
			r.Having = [][]byte{field("State", state)}
		}
		if page.After.ID != "" {
			page.After.ID = string(joined(webhookID, page.After.ID))
		}
		list, total, err = pageIn[store.Delivery](tx, deliveryRows, r, page, nil)
		return err
	})
	return list, total, err
}

// GetDelivery returns one delivery.
func (t *Tenant) GetDelivery(ctx context.Context, webhookID, id string) (d store.Delivery, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		d, err = deliveryOf(tx, webhookID, id)
		return err
	})
	return d, err
}

func deliveryOf(tx Tx, webhookID, id string) (store.Delivery, error) {
	d, known, err := get[store.Delivery](tx, deliveryRows, joined(webhookID, id))
	if err == nil && !known {
		err = store.Missing("delivery")
	}
	return d, err
}

// TestWebhook queues a test.
func (t *Tenant) TestWebhook(ctx context.Context, id string) (store.Delivery, error) {
	return t.sendAgain(ctx, id, func(_ Tx, h *store.Webhook) (store.Event, error) {
		now := t.e.Now()
		return store.Event{ID: t.e.NewID(store.PrefixMessage, now), Type: store.EventWebhookTest, CreatedAt: now,
			Subject: store.Subject{Kind: "webhook", ID: h.ID, Name: h.Name}}, nil
	})
}

// Redeliver queues the event of a delivery once more.
func (t *Tenant) Redeliver(ctx context.Context, webhookID, id string) (store.Delivery, error) {
	return t.sendAgain(ctx, webhookID, func(tx Tx, _ *store.Webhook) (store.Event, error) {
		d, err := deliveryOf(tx, webhookID, id)
		if err == nil && d.State == store.DeliveryWaiting {
			err = store.FieldError(store.Conflict, "the delivery waits already", "state", "is waiting: it will be attempted again")
		}
		return d.Event, err
	})
}

// sendAgain queues an event for one enabled webhook.
func (t *Tenant) sendAgain(ctx context.Context, id string, of func(Tx, *store.Webhook) (store.Event, error)) (d store.Delivery, err error) {
	err = t.create(ctx, func() any { return d }, func(tx Tx) error {
		h, err := webhooks.find(tx, id)
		if err != nil {
			return err
		}
		e, err := of(tx, &h)
		if err == nil && !h.Enabled {
			err = store.FieldError(store.Conflict, "the webhook is disabled", "enabled", "is false: enable the webhook first")
		}
		if err != nil {
			return err
		}
		d, err = t.enqueue(tx, id, e)
		return err
	})
	return d, err
}

// Queues returns the webhooks with deliveries that wait.
func (t *Tenant) Queues(ctx context.Context, after map[string]string, limit int) (list []store.Queue, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list = nil
		hooks, err := webhookList(tx)
		for i := 0; err == nil && i < len(hooks); i++ {
			var q queue
			if q, _, err = get[queue](tx, webhookQueues, []byte(hooks[i].ID)); err != nil {
				break
			}
			one := store.Queue{Webhook: hooks[i], Last: q.Last}
			one.Webhook.Waiting = q.Waiting
			if from := after[one.Webhook.ID]; q.Waiting > 0 && from < q.Last {
				err = each(tx, deliveryRows, waitingFrom(one.Webhook.ID, max(from+"\x00", q.Oldest)), func(d *store.Delivery) (bool, error) {
					one.Waiting, one.Last = append(one.Waiting, *d), d.ID
					return len(one.Waiting) < limit, nil
				})
				if len(one.Waiting) < limit {
					one.Last = q.Last
				}
			}
			list = append(list, one)
		}
		return err
	})
	return list, err
}
