package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
		{"half a second over 5 minutes", []string{sign(secret, at-300, body)}, body, false, true},
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
			s := &Server{webhookSecret: []byte(secret)}
			err := s.verifyWebhook(tc.header, []byte(tc.body), now)
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
		if err := (&Server{}).verifyWebhook([]string{sign("", at, body)}, []byte(body), now); err == nil {
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
	s := &Server{webhookSecret: []byte(secret)}
	digest := good[strings.Index(good, "v1=")+3:]
	f.Fuzz(func(t *testing.T, header string) {
		text, sum, ok := parseSignature(header)
		if ok && (text == "" || len(sum) != sha256.Size || len(header) > maxSignature) {
			t.Fatalf("%q parsed as %q, %x", header, text, sum)
		}
		if err := s.verifyWebhook([]string{header}, []byte(body), epoch); err == nil {
			// The time must occur literally, because leading zeros change the signed text.
			if !strings.Contains(header, fmt.Sprintf("t=%d", at)) || !strings.Contains(strings.ToLower(header), digest) {
				t.Fatalf("%q was accepted", header)
			}
		}
	})
}
