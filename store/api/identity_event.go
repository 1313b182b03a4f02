package api

import "time"

// WebhookEvents are the identity events with an effect (control plane
// specification, "Events"). Other types are logged and answered 200.
var WebhookEvents = []string{
	"user.created", "user.updated", "user.deleted",
	"user.deactivated", "user.reactivated", "session.terminated",
}

// WebhookEvent is the body of POST /api/auth/webhook. The identity provider
// may add fields; they are ignored.
type WebhookEvent struct {
	Type      string      `json:"type"`
	CreatedAt time.Time   `json:"createdAt"`
	Data      WebhookUser `json:"data"`
}

// WebhookUser is the user of an identity event.
type WebhookUser struct {
	UserID      string `json:"userId"`
	Email       string `json:"email"`
	DisplayName string `json:"displayName"`
	OrgID       string `json:"orgId"`
}

// ChangesProfile reports whether the event announces or changes a profile. The
// other events with an effect only concern the state of a user.
func (b *WebhookEvent) ChangesProfile() bool {
	return b.Type == "user.created" || b.Type == "user.updated"
}

// Clean corrects the texts that the user chooses, so that no user can make the
// events about them invalid. Control characters of a display name are removed,
// and it is truncated to MaxName. An event about the state of a user needs
// only its userId and createdAt: an invalid address or organization is
// dropped.
func (b *WebhookEvent) Clean() {
	b.Data.DisplayName = CleanText(b.Data.DisplayName, MaxName)
	if b.ChangesProfile() {
		return
	}
	if !validEmail(b.Data.Email) {
		b.Data.Email = ""
	}
	var c check
	if c.text("orgId", b.Data.OrgID, MaxName); c.details() != nil {
		b.Data.OrgID = ""
	}
}

// Validate returns what is wrong with the event, keyed by field.
func (b *WebhookEvent) Validate() map[string]string {
	var c check
	c.line("type", b.Type)
	if b.CreatedAt.IsZero() {
		c.add("createdAt", required)
	}
	if b.Data.UserID == "" {
		c.add("data.userId", required)
	}
	c.userID("data.userId", b.Data.UserID)
	if b.Data.Email != "" && !validEmail(b.Data.Email) {
		c.add("data.email", "must be an email address")
	}
	c.text("data.displayName", b.Data.DisplayName, MaxName)
	c.text("data.orgId", b.Data.OrgID, MaxName)
	return c.details()
}
