package api

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// EventTypes are the types of events that webhooks get messages about.
var EventTypes = []string{
	"approval.requested", "approval.decided", "approval.expired", "budget.threshold", "budget.exceeded",
	"sla.breached", "sla.recovered", "policy.fired", "tool.changed", "agent.created",
	"gateway.silent", "gateway.back",
}

// WebhookFormats are the formats of the messages of a webhook.
var WebhookFormats = []string{"json", "slack"}

// DeliveryStates are the states of a delivery.
var DeliveryStates = []string{"waiting", "delivered", "failed"}

// Bounds on webhooks.
const (
	// MaxWebhookURL bounds the URL of a webhook, in bytes.
	MaxWebhookURL = 2048
	// shownEnd is how many characters of the end of a URL are shown.
	shownEnd = 4
)

// Webhook is a receiver of messages about events. URL is shortened: the whole one is a secret. Without
// Environment, AgentID and TeamID it gets events of all.
type Webhook struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	URL  string `json:"url"`
	// URLDigest is the start of the SHA-256 of the whole URL: 32 hexadecimal digits.
	URLDigest   string   `json:"urlDigest"`
	Events      []string `json:"events"`
	Format      string   `json:"format"`
	Environment string   `json:"environment"`
	AgentID     string   `json:"agentId"`
	AgentName   string   `json:"agentName"`
	// TeamID is the team of the key that created the webhook: it gets events of that team's agents.
	TeamID  string `json:"teamId"`
	Enabled bool   `json:"enabled"`
	// Waiting is the number of deliveries that wait, FailingSince when attempts began to fail.
	Waiting      int        `json:"waiting"`
	FailingSince *time.Time `json:"failingSince"`
	CreatedAt    time.Time  `json:"createdAt"`
	UpdatedAt    time.Time  `json:"updatedAt"`
	// Secret is the signing secret: only in responses to a creation and to a rotation.
	Secret string `json:"secret,omitempty"`
}

// WebhookCreate is the body of POST /api/webhooks. Format defaults to json, Enabled to true.
type WebhookCreate struct {
	Name        string                      `json:"name"`
	URL         string                      `json:"url"`
	Events      Bounded[string, eventBound] `json:"events"`
	Format      string                      `json:"format,omitempty"`
	Environment string                      `json:"environment,omitempty"`
	AgentID     string                      `json:"agentId,omitempty"`
	Enabled     *bool                       `json:"enabled,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *WebhookCreate) Validate() map[string]string {
	var c check
	c.newName("name", &b.Name, webhookID)
	c.webhookURL(b.URL)
	c.events(b.Events)
	c.enum("format", b.Format, WebhookFormats)
	c.text("environment", b.Environment, MaxName)
	c.text("agentId", b.AgentID, MaxID)
	return c.details()
}

// WebhookUpdate is the body of PUT /api/webhooks/:id. Absent fields are not changed; an empty
// environment or agentId removes the restriction.
type WebhookUpdate struct {
	Name        *string                      `json:"name,omitempty"`
	URL         *string                      `json:"url,omitempty"`
	Events      *Bounded[string, eventBound] `json:"events,omitempty"`
	Format      *string                      `json:"format,omitempty"`
	Environment *string                      `json:"environment,omitempty"`
	AgentID     *string                      `json:"agentId,omitempty"`
	Enabled     *bool                        `json:"enabled,omitempty"`
}

// Validate returns what is wrong with the given fields, keyed by field.
func (b *WebhookUpdate) Validate() map[string]string {
	var c check
	c.optionalName("name", b.Name, webhookID)
	if b.URL != nil && !strings.Contains(*b.URL, "…") { // the server compares a shortened URL
		c.webhookURL(*b.URL)
	}
	if b.Events != nil {
		c.events(*b.Events)
	}
	if b.Format != nil {
		c.requiredEnum("format", *b.Format, WebhookFormats)
	}
	if b.Environment != nil {
		c.text("environment", *b.Environment, MaxName)
	}
	if b.AgentID != nil {
		c.text("agentId", *b.AgentID, MaxID)
	}
	return c.details()
}

type eventBound struct{}

// Max returns a bound above the number of types, so that the check can name those listed twice.
func (eventBound) Max() int { return 4 * len(EventTypes) }

// events checks a list of types of events.
func (c *check) events(list []string) {
	if len(list) == 0 {
		c.add("events", "must name at least one type of event")
	}
	seen := map[string]bool{}
	for i, e := range list {
		field := fmt.Sprintf("events[%d]", i)
		if c.requiredEnum(field, e, EventTypes); seen[e] {
			c.add(field, "is in the list twice")
		}
		seen[e] = true
	}
}

// webhookURL checks the form of a URL. Whether its host may be called is decided at each call. The
// message does not have the URL.
func (c *check) webhookURL(s string) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		c.add("url", required)
	case len(s) > MaxWebhookURL:
		c.add("url", "must have at most %d bytes", MaxWebhookURL)
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }):
		c.add("url", "must be an https URL in ASCII without spaces")
	case u.User != nil:
		c.add("url", "must have no user information")
	case u.Fragment != "":
		c.add("url", "must have no fragment")
	}
}

// ShortURL returns the part of the URL of a webhook that may be shown: scheme, host, the first segment
// of a path that has more, and the last characters of a long rest.
func ShortURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "…"
	}
	base, rest := u.Scheme+"://"+u.Host+"/", strings.TrimPrefix(u.EscapedPath(), "/")
	if first, more, ok := strings.Cut(rest, "/"); ok && more != "" {
		base, rest = base+first+"/", more
	}
	if u.RawQuery != "" {
		rest += "?" + u.RawQuery
	}
	if len(rest) < 3*shownEnd {
		return base + "…"
	}
	return base + "…" + rest[len(rest)-shownEnd:]
}

// Redelivery is the body of POST /api/webhooks/:id/redeliver.
type Redelivery struct {
	DeliveryID string `json:"deliveryId"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *Redelivery) Validate() map[string]string {
	var c check
	c.requiredID("deliveryId", b.DeliveryID)
	return c.details()
}

// Event is the JSON form of a message.
type Event struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	CreatedAt time.Time      `json:"createdAt"`
	Tenant    string         `json:"tenant"`
	Subject   EventSubject   `json:"subject"`
	Data      map[string]any `json:"data"`
	// Dropped is the number of messages that were dropped before this one, because too many waited.
	Dropped int `json:"dropped,omitempty"`
	// Link is the address of the page about the event; empty where the page has no name for people.
	Link string `json:"link,omitempty"`
}

// EventSubject is what an event is about.
type EventSubject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Delivery is a message to one webhook.
type Delivery struct {
	ID        string     `json:"id"`
	WebhookID string     `json:"webhookId"`
	State     string     `json:"state"`
	Attempts  int        `json:"attempts"`
	CreatedAt time.Time  `json:"createdAt"` // of the event
	NextAt    *time.Time `json:"nextAttemptAt"`
	LastAt    *time.Time `json:"lastAttemptAt"`
	// Status is that of the last response, 0 when there was none; Error is why the last attempt failed.
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
	Event  Event  `json:"event"`
}
