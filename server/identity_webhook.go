package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/store"
	"svc/store/api"
)

const (
	signatureHeader = "X-Idp-Signature"
	// maxSignatureAge is the largest difference between the time of a signature and
	// now, in either direction (control-plane specification, Webhook signature, 4).
	maxSignatureAge = 5 * time.Minute
	// maxSignature bounds the signature header, in bytes.
	maxSignature = 512
	// maxEventAhead is how far in the future the date of an event may be without a
	// warning.
	maxEventAhead = time.Second
	// webhookRefused is the text of the 403 (Webhook signature, 5).
	webhookRefused = "Invalid webhook signature"
)

// receiveIdentityEvent serves POST /api/auth/webhook for the identity provider. The
// provider has no API key; its signature authenticates the request. Requests without
// a valid signature count in the window of their address. Signed requests do not,
// because a provider announces many users from one address.
func (s *Server) receiveIdentityEvent(c *call) error {
	address := clientAddress(c.Request)
	why := refusedBody
	body, err := c.payload(api.MaxBody)
	if err == nil {
		why, err = s.verifyEvent(c.Header.Values(signatureHeader), body, c.now)
	}
	if err != nil {
		s.eventRefused(c, why, err)
		if err := c.count(s.addresses, address); err != nil {
			return err
		}
		return err
	}
	setRateHeaders(c.w.Header(), s.addresses.peek(address, c.now))

	ev, err := decodeEvent(body)
	if err != nil {
		s.eventRefused(c, refusedEvent, err)
		return err
	}
	err = s.applyEvent(c, ev)
	if k := store.KindOf(err); !slices.Contains(api.WebhookEvents, ev.Type) && (k == store.NotFound || k == store.Invalid) {
		// An event of an unknown type is answered 200, so that the provider does not
		// send it again.
		s.log.Info("identity event of unknown type", "request_id", c.id, "type", cut(ev.Type, 64), "reason", err)
		err = nil
	}
	if err != nil {
		s.eventRefused(c, refusedEvent, err)
		return err
	}
	return c.writeJSON(http.StatusOK, api.Success{Success: true})
}

// The values of the label reason, and their causes for the log. The provider gives up after a few
// attempts, so that a revocation is lost unless an operator sees why it was refused.
const (
	refusedUnsigned  = "unsigned"
	refusedNoSecret  = "no_secret"
	refusedHeader    = "header"
	refusedSignature = "signature"
	refusedTimestamp = "timestamp"
	refusedBody      = "body"
	refusedEvent     = "event"
)

var refusalCauses = map[string]string{
	refusedUnsigned:  "there is no " + signatureHeader + ": the sender is no identity provider, or the provider does not sign its deliveries",
	refusedNoSecret:  "IDP_WEBHOOK_SECRET is not set",
	refusedHeader:    signatureHeader + " is repeated or not of the form t=SECONDS,v1=HEX",
	refusedSignature: "the signature does not match the body: the provider has another secret than IDP_WEBHOOK_SECRET, or a proxy changed the body",
	refusedTimestamp: "the time of the signature differs by more than 5 minutes: a clock is wrong, or an old delivery was sent again",
	refusedBody:      "the body cannot be read",
	refusedEvent:     "the signature is good and the event was not applied",
}

// refusedLogEvery is the time between two log lines with one reason, because anybody can send
// requests without a good signature.
const refusedLogEvery = time.Minute

// refusedEvents bounds the log of refused deliveries. It is safe for concurrent use.
type refusedEvents struct {
	mu   sync.Mutex
	last map[string]time.Time
	more map[string]int // refused since the last line
}

// eventRefused counts a delivery that was not accepted, and logs it at most once a minute for
// each reason.
func (s *Server) eventRefused(c *call, why string, err error) {
	s.metrics.webhooks.WithLabelValues(why).Inc()
	r := &s.refusedEvents
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, logged := r.last[why]; logged && c.now.Sub(at).Abs() < refusedLogEvery {
		r.more[why]++
		return
	}
	if r.last == nil {
		r.last, r.more = make(map[string]time.Time), make(map[string]int)
	}
	attrs := []any{"request_id", c.id, "address", clientAddress(c.Request), "reason", why, "cause", refusalCauses[why], "error", err}
	if f := (*failure)(nil); errors.As(err, &f) && len(f.details) > 0 {
		attrs = append(attrs, "details", f.details)
	}
	if n := r.more[why]; n > 0 {
		attrs = append(attrs, "refused_since_last_line", n)
	}
	r.last[why], r.more[why] = c.now, 0
	s.log.Warn("identity webhook refused; the provider gives up after a few attempts, and a user whom it revokes keeps their access", attrs...)
}

// applyEvent applies a verified event to the tenant that its organization is bound
// to.
func (s *Server) applyEvent(c *call, ev *api.WebhookEvent) error {
	tenant, err := s.records.TenantForOrg(c.Context(), ev.Data.OrgID)
	if store.KindOf(err) == store.NotFound {
		return store.FieldError(store.NotFound, "no tenant is bound to this organization", "data.orgId", "is not bound to a tenant")
	}
	if err != nil {
		return err
	}
	if ahead := ev.CreatedAt.Sub(c.now); ahead > maxEventAhead {
		s.log.Warn("identity event is dated in the future; its time of receipt is used instead", "request_id", c.id,
			"tenant", tenant.ID, "type", cut(ev.Type, 64), "user", ev.Data.UserID, "created_at", ev.CreatedAt.UTC(), "ahead", ahead)
	}
	ctx := store.ChangedBy(c.Context(), store.By{Address: peerAddress(c.Request), RequestID: c.id, Method: c.Method, Route: c.pattern()})
	done, err := s.records.Tenant(tenant.ID).ApplyUserEvent(ctx, store.UserEvent{
		Type: store.UserEventType(ev.Type), CreatedAt: ev.CreatedAt.UTC(),
		UserID: ev.Data.UserID, Email: ev.Data.Email, DisplayName: ev.Data.DisplayName, OrgID: ev.Data.OrgID,
	})
	if err != nil {
		return err
	}
	if done.LockedOut {
		s.log.Warn("the tenant has no working API key left that is not limited to a team; create one with 'svc tenant key'", "request_id", c.id,
			"tenant", tenant.ID, "user", ev.Data.UserID)
	}
	s.log.Info("identity event", "request_id", c.id, "tenant", tenant.ID, "type", cut(ev.Type, 64),
		"user", ev.Data.UserID, "applied", done.Applied, "keys_deleted", done.KeysDeleted)
	return nil
}

// verifyEvent checks the signature of a raw body, and returns a reason with its error. It checks
// the signature before the time, so that only the provider can learn that a time is wrong.
func (s *Server) verifyEvent(values []string, body []byte, now time.Time) (why string, err error) {
	refused := &failure{http.StatusForbidden, webhookRefused, nil}
	if strings.Join(values, "") == "" { // anybody can send such requests, so they are counted apart
		return refusedUnsigned, refused
	}
	if len(s.identitySecret) == 0 {
		return refusedNoSecret, refused
	}
	if len(values) != 1 {
		return refusedHeader, refused
	}
	at, digest, ok := parseSignature(values[0])
	if !ok {
		return refusedHeader, refused
	}
	mac := hmac.New(sha256.New, s.identitySecret)
	mac.Write([]byte(at))
	mac.Write([]byte{'.'})
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), digest) {
		return refusedSignature, refused
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return refusedHeader, refused
	}
	// In whole seconds, as the header has them: a signature of exactly 5 minutes ago is good.
	switch age := time.Duration(now.Unix()-seconds) * time.Second; {
	case age > maxSignatureAge:
		refused.details = map[string]string{"timestamp": fmt.Sprintf("is older than %s", maxSignatureAge)}
		return refusedTimestamp, refused
	case age < -maxSignatureAge:
		refused.details = map[string]string{"timestamp": fmt.Sprintf("is more than %s ahead", maxSignatureAge)}
		return refusedTimestamp, refused
	}
	return "", nil
}

// parseSignature parses t=<unix_seconds>,v1=<hex_digest>: each exactly once, the time
// in decimal digits, the digest in 64 hex characters. Other elements are ignored, for
// later versions of the scheme.
func parseSignature(header string) (at string, digest []byte, ok bool) {
	if len(header) > maxSignature {
		return "", nil, false
	}
	for element := range strings.SplitSeq(header, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(element), "=")
		switch {
		case !found:
			return "", nil, false
		case name == "t":
			if at != "" || value == "" || len(value) > 12 || strings.Trim(value, "0123456789") != "" {
				return "", nil, false
			}
			at = value
		case name == "v1":
			d, err := hex.DecodeString(value)
			if digest != nil || err != nil || len(d) != sha256.Size {
				return "", nil, false
			}
			digest = d
		}
	}
	return at, digest, at != "" && digest != nil
}
