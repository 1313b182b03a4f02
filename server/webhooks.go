package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"

	"svc/server/background"
	"svc/store"
	"svc/store/api"
)

func wireWebhook(h store.Webhook) api.Webhook {
	out := api.Webhook{
		ID: h.ID, Name: h.Name, URL: api.ShortURL(h.URL), URLDigest: h.URLDigest(), Events: h.Events, Format: h.Format,
		Environment: h.Environment, AgentID: h.AgentID, AgentName: h.AgentName, TeamID: h.TeamID, Enabled: h.Enabled,
		Waiting: h.Waiting, CreatedAt: h.CreatedAt.UTC(), UpdatedAt: h.UpdatedAt.UTC(),
	}
	if !h.FailingSince.IsZero() {
		t := h.FailingSince.UTC()
		out.FailingSince = &t
	}
	return out
}

// newWebhookSecret returns a new signing secret: 256 random bits.
func newWebhookSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return "whsec_" + base64.RawURLEncoding.EncodeToString(b[:])
}

// webhooks are the receivers of messages about events. (POST /api/auth/webhook, where the identity
// provider sends its events, is in identity_webhook.go.) A key that is limited to a team has only the
// webhooks of its team; other ones are as if they did not exist.
var webhooks = &kind[store.Webhook, api.WebhookCreate, api.WebhookUpdate]{
	noun: "webhook", cursor: webhooksList,
	echo: echo{fixed: []string{"id", "urlDigest", "agentName", "teamId", "createdAt", "updatedAt"}, measured: []string{"waiting", "failingSince"},
		instead: map[string]string{"agentName": "agentId names the agent"}},
	find: func(c *call, _ *query) func(store.Page) ([]store.Webhook, int, error) {
		var f store.WebhookFilter
		if c.team != nil {
			f.TeamID = c.team.ID
		}
		return func(p store.Page) ([]store.Webhook, int, error) { return c.tenant.ListWebhooks(c.Context(), f, p) }
	},
	read: func(c *call, id string) (store.Webhook, error) { return c.webhook(id) },
	wire: func(_ *call, h store.Webhook) any { return wireWebhook(h) },
	lock: func(c *call, id string) (func(), error) { // the team of a webhook never changes
		_, err := c.webhook(id)
		return func() {}, err
	},
	create: func(c *call, in *api.WebhookCreate) error {
		if err := c.server.checkWebhookURL(in.URL); err != nil {
			return err
		}
		h := store.WebhookCreate{Name: in.Name, URL: in.URL, Events: in.Events, Format: in.Format, Environment: in.Environment, AgentID: in.AgentID,
			Enabled: in.Enabled == nil || *in.Enabled, Secret: newWebhookSecret()}
		if h.Format == "" {
			h.Format = api.WebhookFormats[0]
		}
		if c.team != nil {
			h.TeamID = c.team.ID
		}
		return create(c, func(ctx context.Context) (store.Webhook, error) { return c.tenant.CreateWebhook(ctx, h) },
			func(h store.Webhook) error { return c.webhookWithSecret(http.StatusCreated, h) })
	},
	update: func(c *call, id string, in *api.WebhookUpdate, _ before[store.Webhook]) (h store.Webhook, _ []string, err error) {
		up := store.WebhookUpdate{Name: in.Name, URL: in.URL, Events: (*[]string)(in.Events), Format: in.Format, Environment: in.Environment, AgentID: in.AgentID, Enabled: in.Enabled}
		if in.URL != nil {
			if strings.Contains(*in.URL, "…") { // the URL as GET shows it
				if h, err = c.webhook(id); err == nil && *in.URL != api.ShortURL(h.URL) {
					err = invalidField("url", "is the shortened URL of another webhook: give the whole URL, or leave it out")
				}
				up.URL = nil
			} else {
				err = c.server.checkWebhookURL(*in.URL)
			}
		}
		if err == nil {
			h, err = c.tenant.UpdateWebhook(c.Context(), id, up)
		}
		return h, nil, err
	},
	remove: func(c *call, id string) ([]string, error) { return nil, c.tenant.DeleteWebhook(c.Context(), id) },
}

// checkWebhookURL rejects http where the server allows no address for it.
func (s *Server) checkWebhookURL(url string) error {
	if s.webhookHTTP || strings.HasPrefix(url, "https:") {
		return nil
	}
	return invalidField("url", "must be an https URL: http is only for the addresses of --webhook-allow")
}

// webhook returns a webhook that the calling key has.
func (c *call) webhook(id string) (store.Webhook, error) {
	h, err := c.tenant.GetWebhook(c.Context(), id)
	if err == nil && c.team != nil && h.TeamID != c.team.ID {
		return store.Webhook{}, notFound("webhook")
	}
	return h, err
}

// webhookWithSecret answers with a webhook and its secret. A retry gets the response without it.
func (c *call) webhookWithSecret(status int, h store.Webhook) error {
	out := wireWebhook(h)
	c.replayBody = encode(api.Single[api.Webhook]{Data: out})
	out.Secret = h.Secret
	return c.data(status, out)
}

// ofWebhook returns the webhook of the path, which the calling key has.
func (c *call) ofWebhook() (id string, err error) {
	if id, err = c.pathID("webhook"); err == nil {
		_, err = c.webhook(id)
	}
	return id, err
}

// rotateWebhookSecret serves POST /api/webhooks/:id/rotateSecret.
func (s *Server) rotateWebhookSecret(c *call) error {
	id, err := c.ofWebhook()
	if err != nil {
		return err
	}
	return create(c, func(ctx context.Context) (store.Webhook, error) {
		return c.tenant.RotateWebhookSecret(ctx, id, newWebhookSecret())
	}, func(h store.Webhook) error { return c.webhookWithSecret(http.StatusOK, h) })
}

// testWebhook serves POST /api/webhooks/:id/test: it queues a test.
func (s *Server) testWebhook(c *call) error {
	return c.queue(func(ctx context.Context, id string) (store.Delivery, error) { return c.tenant.TestWebhook(ctx, id) })
}

// redeliver serves POST /api/webhooks/:id/redeliver.
func (s *Server) redeliver(c *call) error {
	return c.queue(func(ctx context.Context, id string) (d store.Delivery, err error) {
		var in api.Redelivery
		if err = c.decode(&in); err == nil {
			d, err = c.tenant.Redeliver(ctx, id, in.DeliveryID)
		}
		return d, err
	})
}

// queue answers with a delivery that f has queued for the webhook of the path.
func (c *call) queue(f func(ctx context.Context, id string) (store.Delivery, error)) error {
	id, err := c.ofWebhook()
	if err != nil {
		return err
	}
	return create(c, func(ctx context.Context) (store.Delivery, error) { return f(ctx, id) },
		func(d store.Delivery) error { return c.data(http.StatusCreated, c.wireDelivery(d)) })
}

// listDeliveries serves GET /api/webhooks/:id/deliveries.
func (s *Server) listDeliveries(c *call) error {
	id, err := c.ofWebhook()
	if err != nil {
		return err
	}
	q := c.query()
	page, state := q.cursorPage(deliveriesList, api.DefaultLimit), q.enum("state", "", api.DeliveryStates)
	if err := q.err(); err != nil {
		return err
	}
	list, total, err := c.tenant.ListDeliveries(c.Context(), id, state, page.withOneMore())
	if err != nil {
		return err
	}
	list, next := cutPage(page, list, func(d *store.Delivery) store.Place { return store.Place{ID: d.ID} })
	return nextPage(c, each(list, c.wireDelivery), total, page, next)
}

func (c *call) wireDelivery(d store.Delivery) api.Delivery {
	out := api.Delivery{ID: d.ID, WebhookID: d.WebhookID, State: d.State, Attempts: d.Attempts, Status: d.Status, Error: d.Error,
		CreatedAt: d.Event.CreatedAt.UTC(), Event: background.WireEvent(c.tenant.ID(), c.server.pageHost, &d)}
	if !d.NextAt.IsZero() {
		out.NextAt = &d.NextAt
	}
	if !d.LastAt.IsZero() {
		out.LastAt = &d.LastAt
	}
	return out
}
