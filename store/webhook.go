package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// Bounds on webhooks.
const (
	// MaxWebhooks bounds the webhooks of a tenant.
	MaxWebhooks = 32
	// MaxWaiting bounds the deliveries of a webhook that wait. Beyond it the oldest is dropped.
	MaxWaiting = 10_000
	// MaxTries bounds the attempts of a delivery.
	MaxTries = 8
	// FailingFor is how long all attempts must fail until a webhook is disabled.
	FailingFor = 3 * 24 * time.Hour
	// OldSecretFor is how long messages are also signed with the previous secret.
	OldSecretFor = 24 * time.Hour
)

// Webhook is a receiver of messages about events.
type Webhook struct {
	ID     string
	Name   string // unique in the tenant
	URL    string // a secret: whoever has it can send
	Events []string
	Format string // json or slack
	// Environment and AgentID restrict the events to those of an environment or an agent.
	Environment string
	AgentID     string
	AgentName   string // the agent's current name, or its last name when deleted
	// TeamID restricts the events to those of the team's agents. The webhook ends with the team.
	TeamID  string
	Enabled bool
	// Secret signs the messages; OldSecret does so too, until OldUntil.
	Secret, OldSecret string
	OldUntil          time.Time
	Set               string `json:",omitempty"` // labels of the documents that declare it; empty: none
	CreatedAt         time.Time
	UpdatedAt         time.Time

	// Waiting is the number of deliveries that wait, and FailingSince the time since which all
	// attempts have failed; zero: the last one succeeded.
	Waiting      int
	FailingSince time.Time
}

// WebhookCreate is the input of CreateWebhook.
type WebhookCreate struct {
	Name, URL            string
	Events               []string
	Format               string
	Environment, AgentID string
	TeamID               string
	Enabled              bool
	Secret               string
}

// WebhookUpdate is a partial update; nil fields keep their value. An empty Environment or AgentID
// removes the restriction.
type WebhookUpdate struct {
	Name, URL            *string
	Events               *[]string
	Format               *string
	Environment, AgentID *string
	Enabled              *bool
}

// States of a delivery.
const (
	DeliveryWaiting   = "waiting"
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed" // after MaxTries attempts
)

// Delivery is a message about an event to one webhook.
type Delivery struct {
	ID        string // ascends in the order of the events of the webhook
	WebhookID string
	Event     Event
	Dropped   int // deliveries that were dropped before this one because too many waited
	State     string
	Attempts  int
	NextAt    time.Time // of the next attempt, while it waits
	LastAt    time.Time // of the last attempt
	Status    int       // HTTP status of the last response; 0: there was none
	Error     string    // why the last attempt failed
}

// Queue is the waiting deliveries of a webhook, oldest first.
type Queue struct {
	Webhook Webhook
	Waiting []Delivery
	Last    string // id of the newest delivery that was considered
}

// Attempt is the result of an attempt to deliver.
type Attempt struct {
	WebhookID, DeliveryID string
	At                    time.Time
	Delivered             bool
	Status                int
	Error                 string
	NextAt                time.Time // of the next attempt, if there is one
}

// WebhookFilter restricts a list of webhooks. Zero fields match everything.
type WebhookFilter struct{ TeamID string }

// Webhooks manages the receivers of messages about events of a tenant, and the queue of these
// messages. A message is queued in the transaction of the change that it is about, once for each
// enabled webhook that wants it.
type Webhooks interface {
	// ListWebhooks returns webhooks, newest first.
	ListWebhooks(ctx context.Context, f WebhookFilter, page Page) ([]Webhook, int, error)
	// GetWebhook returns NotFound for an unknown id.
	GetWebhook(ctx context.Context, id string) (Webhook, error)
	// CreateWebhook returns Conflict when the name is taken, Invalid ("agentId") for an unknown
	// agent, and Invalid beyond MaxWebhooks.
	CreateWebhook(ctx context.Context, in WebhookCreate) (Webhook, error)
	// UpdateWebhook returns NotFound, and otherwise the errors of CreateWebhook. The time of
	// failing begins anew, as with every other change.
	UpdateWebhook(ctx context.Context, id string, up WebhookUpdate) (Webhook, error)
	// RotateWebhookSecret replaces the secret. The previous one signs for OldSecretFor too.
	RotateWebhookSecret(ctx context.Context, id, secret string) (Webhook, error)
	// DeleteWebhook removes a webhook with its deliveries.
	DeleteWebhook(ctx context.Context, id string) error

	// ListDeliveries returns the deliveries of a webhook in a state (empty: all), newest first.
	ListDeliveries(ctx context.Context, webhookID, state string, page Page) ([]Delivery, int, error)
	// GetDelivery returns NotFound for an unknown or removed one.
	GetDelivery(ctx context.Context, webhookID, id string) (Delivery, error)
	// TestWebhook queues a test; Conflict when the webhook is disabled.
	TestWebhook(ctx context.Context, id string) (Delivery, error)
	// Redeliver queues the event of a delivery that has ended once more, as a new delivery. It
	// returns Conflict for one that waits, or when the webhook is disabled.
	Redeliver(ctx context.Context, webhookID, id string) (Delivery, error)

	// Queues returns all webhooks, each with up to limit waiting deliveries behind the id that
	// after has for the webhook.
	Queues(ctx context.Context, after map[string]string, limit int) ([]Queue, error)
	// RecordAttempts stores results of attempts, ends deliveries that succeeded or failed
	// MaxTries times, and disables webhooks that have failed for FailingFor, which it returns.
	// Deliveries that do not exist any more, or have ended, are ignored.
	RecordAttempts(ctx context.Context, list []Attempt) (disabled []Webhook, err error)

	// NotifyOnce queues events about states that are no changes of records, such as targets that
	// are missed. f gets the mark of a name, which is empty at first, and returns the new mark and
	// the events, which are stored in one transaction. It may be called several times, and must
	// not use the store. Without a change nothing is written.
	NotifyOnce(ctx context.Context, of string, f func(mark string) (next string, events []Event)) error
}

// Make returns the new webhook.
func (in WebhookCreate) Make(id string, now time.Time) Webhook {
	return Webhook{ID: id, Name: in.Name, URL: in.URL, Events: slices.Clone(in.Events), Format: in.Format, Environment: in.Environment, AgentID: in.AgentID,
		TeamID: in.TeamID, Enabled: in.Enabled, Secret: in.Secret, CreatedAt: now, UpdatedAt: now}
}

// Apply applies the update.
func (up WebhookUpdate) Apply(h *Webhook, now time.Time) {
	set(&h.Name, up.Name)
	set(&h.URL, up.URL)
	set(&h.Format, up.Format)
	set(&h.Environment, up.Environment)
	set(&h.AgentID, up.AgentID)
	set(&h.Enabled, up.Enabled)
	if up.Events != nil {
		h.Events = slices.Clone(*up.Events)
	}
	h.UpdatedAt = now
}

// Wants reports whether the webhook gets a message about an event.
func (h *Webhook) Wants(e *Event) bool {
	return h.Enabled && slices.Contains(h.Events, e.Type) && (h.Environment == "" || h.Environment == e.Environment) &&
		(h.AgentID == "" || h.AgentID == e.AgentID) && (h.TeamID == "" || h.TeamID == e.TeamID)
}

// URLDigest returns a digest of the URL, by which files can be compared with it: 32 hexadecimal
// digits.
func (h *Webhook) URLDigest() string {
	sum := sha256.Sum256([]byte(h.URL))
	return hex.EncodeToString(sum[:16])
}

// Object is the webhook as audit events record it.
func (h *Webhook) Object() *Object {
	return newObject("webhook", h.ID, h.Name, h.Set, map[string]any{"name": h.Name, "url": h.URLDigest(), "events": append([]string{}, h.Events...),
		"format": h.Format, "environment": h.Environment, "agentId": h.AgentID, "enabled": h.Enabled})
}
