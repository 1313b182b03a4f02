package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// sign makes the signature header of the specification.
func sign(secret string, at int64, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at, body)
	return fmt.Sprintf("t=%d,v1=%s", at, hex.EncodeToString(mac.Sum(nil)))
}

// TestWebhookSignature: header X-Idp-Signature t=…,v1=…, HMAC-SHA256 of
// "<unix_seconds>.<raw_request_body>", at most 5 minutes from now either way.
func TestWebhookSignature(t *testing.T) {
	const secret, body = "whsec_test", `{"type":"user.created"}`
	now := epoch.Add(500 * time.Millisecond)
	at := epoch.Unix()
	good := sign(secret, at, body)
	digest := good[strings.Index(good, "v1=")+3:]
	for _, tc := range []struct {
		name      string
		header    []string
		body      string
		ok        bool
		timestamp bool // the 403 has details.timestamp
	}{
		{"good", []string{good}, body, true, false},
		{"space after the comma", []string{strings.Replace(good, ",", ", ", 1)}, body, true, false},
		{"order does not matter", []string{"v1=" + digest + ",t=" + fmt.Sprint(at)}, body, true, false},
		{"upper-case digits", []string{fmt.Sprintf("t=%d,v1=%s", at, strings.ToUpper(digest))}, body, true, false},
		{"a later scheme beside v1", []string{good + ",v2=abc"}, body, true, false},
		{"almost 5 minutes old", []string{sign(secret, at-299, body)}, body, true, false},
		{"more than 5 minutes old", []string{sign(secret, at-301, body)}, body, false, true},
		{"exactly 5 minutes old, in the seconds of the header", []string{sign(secret, at-300, body)}, body, true, false},
		{"5 minutes ahead", []string{sign(secret, at+300, body)}, body, true, false},
		{"more than 5 minutes ahead", []string{sign(secret, at+302, body)}, body, false, true},
		{"far ahead", []string{sign(secret, 999999999999, body)}, body, false, true},
		{"the beginning of time", []string{sign(secret, 0, body)}, body, false, true},
		{"stale and wrong: the error does not mention the time", []string{sign("other", at-400, body)}, body, false, false},
		{"none", nil, body, false, false},
		{"empty", []string{""}, body, false, false},
		{"two headers", []string{good, good}, body, false, false},
		{"wrong secret", []string{sign("other", at, body)}, body, false, false},
		{"other body", []string{good}, body + " ", false, false},
		{"body encoded anew", []string{good}, `{"type": "user.created"}`, false, false},
		{"other time under the same digest", []string{fmt.Sprintf("t=%d,v1=%s", at+1, digest)}, body, false, false},
		{"no t", []string{"v1=" + digest}, body, false, false},
		{"no v1", []string{fmt.Sprintf("t=%d", at)}, body, false, false},
		{"empty t", []string{"t=,v1=" + digest}, body, false, false},
		{"negative t", []string{sign(secret, -at, body)}, body, false, false},
		{"huge t", []string{"t=99999999999999999999,v1=" + digest}, body, false, false},
		{"t twice", []string{fmt.Sprintf("t=%d,", at) + good}, body, false, false},
		{"v1 twice", []string{good + ",v1=" + digest}, body, false, false},
		{"digest cut", []string{good[:len(good)-2]}, body, false, false},
		{"digest longer", []string{good + "00"}, body, false, false},
		{"digest not hex", []string{good[:len(good)-1] + "g"}, body, false, false},
		{"empty digest", []string{fmt.Sprintf("t=%d,v1=", at)}, body, false, false},
		{"an element without =", []string{good + ",x"}, body, false, false},
		{"long", []string{good + ",x=" + strings.Repeat("a", 1000)}, body, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Server{identitySecret: []byte(secret)}
			_, err := s.verifyEvent(tc.header, []byte(tc.body), now)
			if tc.ok {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var f *failure
			if !errors.As(err, &f) || f.status != 403 || f.message != "Invalid webhook signature" {
				t.Fatalf("got %v, want the 403", err)
			}
			if (f.details["timestamp"] != "") != tc.timestamp {
				t.Errorf("details %v", f.details)
			}
		})
	}
	t.Run("no secret configured refuses everything", func(t *testing.T) {
		if _, err := (&Server{}).verifyEvent([]string{sign("", at, body)}, []byte(body), now); err == nil {
			t.Error("accepted")
		}
	})
}

// FuzzWebhookSignature: only the correct header is accepted.
func FuzzWebhookSignature(f *testing.F) {
	const secret, body = "whsec_test", `{}`
	at := epoch.Unix()
	good := sign(secret, at, body)
	for _, s := range []string{good, "", "t=1,v1=", "t=,v1=00", good + ",v1=00", "t=1,t=2", "v1=" + strings.Repeat("0", 64), "t=+1,v1=aa"} {
		f.Add(s)
	}
	s := &Server{identitySecret: []byte(secret)}
	digest := good[strings.Index(good, "v1=")+3:]
	f.Fuzz(func(t *testing.T, header string) {
		text, sum, ok := parseSignature(header)
		if ok && (text == "" || len(sum) != sha256.Size || len(header) > maxSignature) {
			t.Fatalf("%q parsed as %q, %x", header, text, sum)
		}
		if _, err := s.verifyEvent([]string{header}, []byte(body), epoch); err == nil {
			// The time must occur literally, because leading zeros change the signed text.
			if !strings.Contains(header, fmt.Sprintf("t=%d", at)) || !strings.Contains(strings.ToLower(header), digest) {
				t.Fatalf("%q was accepted", header)
			}
		}
	})
}

// A refused identity webhook is logged with its cause, at most once a minute and cause, and
// counted; signed events that are not applied are too. A start without a secret says so.
func TestRefusedWebhooksAreLogged(t *testing.T) {
	body := `{"type":"user.deleted","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"gone","orgId":"org_none"}}`
	good := sign(webhookSecret, epoch.Unix(), body)
	for _, c := range []struct{ why, body, header string }{
		{refusedSignature, body, sign("another secret", epoch.Unix(), body)},
		{refusedUnsigned, body, ""},
		{refusedHeader, body, "t=5"},
		{refusedTimestamp, body, sign(webhookSecret, epoch.Unix()-301, body)},
		{refusedEvent, body, good},
		{refusedEvent, `{"type":5}`, sign(webhookSecret, epoch.Unix(), `{"type":5}`)},
		{refusedNoSecret, body, good},
	} {
		r := newRig(t, func(o *Options) {
			if c.why == refusedNoSecret {
				o.IdentitySecret = ""
			}
		})
		if said := strings.Contains(r.log.String(), "IDP_WEBHOOK_SECRET is not set"); said != (c.why == refusedNoSecret) {
			t.Errorf("%s: the start says %s", c.why, r.log)
		}
		for range 3 {
			r.ask("", "POST", "/api/auth/webhook", c.body, signatureHeader, c.header)
		}
		lines := func() int { return strings.Count(r.log.String(), "identity webhook refused") }
		if log := r.log.String(); lines() != 1 || !strings.Contains(log, "reason="+c.why) || !strings.Contains(log, refusalCauses[c.why]) {
			t.Errorf("%s: three deliveries are logged as %s", c.why, log)
		}
		r.clock.advance(refusedLogEvery)
		r.ask("", "POST", "/api/auth/webhook", c.body, signatureHeader, c.header)
		if c.why != refusedTimestamp && (lines() != 2 || !strings.Contains(r.log.String(), "refused_since_last_line=2")) {
			t.Errorf("%s: after a minute %s", c.why, r.log)
		}
		w := httptest.NewRecorder()
		r.srv.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if want := `svc_identity_webhooks_refused_total{reason="` + c.why + `"} 4`; !strings.Contains(w.Body.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
		if strings.Contains(r.log.String(), webhookSecret) {
			t.Error("the log has the secret")
		}
	}
	r := newRig(t)
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
	if strings.Contains(r.log.String(), "refused") {
		t.Errorf("a delivery that was applied is logged as refused: %s", r.log)
	}
}
