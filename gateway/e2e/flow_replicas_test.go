//go:build unix

package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/gateway/redis/redistest"
)

// Replicas with one Redis share labels; without Redis each has its own. While Redis is unavailable every
// caller counts as having every label, and a message that sets one is withheld, unless fail_open is set.
func TestLabelsOfReplicas(t *testing.T) {
	t.Parallel()
	main, mail := flowServer(t), flowServer(t)
	t.Run("without a store", func(t *testing.T) {
		one, other := replicas(t, flowConfig(main.URL, mail.URL, ""), "")
		one.post(call("1", "web_get"))
		if own, there := one.labels(), other.labels(); own != "untrusted" || there != "" {
			t.Errorf("here %q, there %q", own, there)
		}
	})
	for _, open := range []bool{false, true} {
		name, away := "fail closed", "mail private suspicious untrusted"
		if open {
			name, away = "fail open", "untrusted"
		}
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			store := "operation_timeout: 5s"
			if open {
				store += ", fail_open: true"
			}
			one, other := replicas(t, flowConfig(main.URL, mail.URL, ""), inRedis(server.URL(), store))
			one.post(call("1", "web_get"))
			if got := other.labels(); got != "untrusted" {
				t.Errorf("at the other replica: %q", got)
			}
			server.Kill()
			if got := one.labels(); got != away {
				t.Errorf("without Redis: %q, want %q", got, away)
			}
			got := one.post(call("1", "crm_find"))
			if !open {
				if e := got.rpc(t); got.status != 503 || e.Error.Message != "labels_unavailable" || got.header.Get("Retry-After") != "1" || strings.Contains(got.body, "said") {
					t.Errorf("an answer: %d %s", got.status, got.body)
				}
				if line := one.lastLine(); line["error_kind"] != "labels_unavailable" || line["action"] != "deny" || line["sets"] != nil {
					t.Errorf("audit line %v", line)
				}
				got = one.post(call("1", "mail_stream"))
				if got.status != 200 || !strings.Contains(got.body, `"message":"labels_unavailable"`) || strings.Contains(got.body, "streamed") {
					t.Errorf("the answer of an event stream: %d %s", got.status, got.body)
				}
				if got = one.post(call("1", "mail_log")); strings.Contains(got.body, "read this") {
					t.Errorf("a log message: %d %s", got.status, got.body)
				}
			} else if got.status != 200 {
				t.Errorf("an answer: %d %s", got.status, got.body)
			}
		})
	}
}

// A gateway that is killed after the first byte of an answer has stored its labels before.
func TestLabelsAreStoredBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	main, mail := flowServer(t), flowServer(t)
	r := newRig(t, flowConfig(main.URL, mail.URL, ""))
	stream := r.open(http.MethodPost, call("7", "web_wait"), "Accept", "application/json, text/event-stream")
	if _, err := io.ReadFull(stream.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	after := &rig{t: t, dir: t.TempDir(), key: r.key, other: r.other, logs: &syncBuffer{}} // with the files as they are now
	after.yaml = strings.ReplaceAll(r.yaml, r.auditPath(), after.auditPath())
	state, data := after.auditPath()+".state", []byte(nil)
	var err error
	if data, err = os.ReadFile(filepath.Join(r.auditPath()+".state", "labels.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err = os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(state, "labels.jsonl"), data)
	after.start()
	if got := after.labels(); got != "untrusted" {
		t.Errorf("%q", got)
	}
}
