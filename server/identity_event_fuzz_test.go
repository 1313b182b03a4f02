package server

import (
	"errors"
	"testing"

	"svc/store/api"
)

// FuzzWebhookEvent: any signed body becomes an event that can be applied or a
// 400.
func FuzzWebhookEvent(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"type":"user.created"}`, `{"type":"user.created","createdAt":"2026-03-01T12:00:00Z","data":{"userId":"u","email":null}}`,
		`{"type":"other","data":[1]}`, `{"type":"user.deleted","createdAt":"","data":{}}`, `[]`, `{"type":"a\u0000"}`, `{"type":"x","type":"y"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ev, err := decodeEvent(body)
		if err != nil {
			var fl *failure
			if !errors.As(err, &fl) || fl.status != 400 {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		for _, known := range api.WebhookEvents {
			if ev.Type == known && (ev.Data.UserID == "" || ev.CreatedAt.IsZero()) {
				t.Fatalf("%q became %+v", body, ev)
			}
		}
	})
}
