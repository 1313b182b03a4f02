package e2e

import (
	"cmp"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/gateway"
	"svc/gateway/auth"
)

// A key that was used before a restart needs no argon2id computation after it, so that a flood of
// wrong keys cannot delay it. A key that was removed or replaced while the gateway was stopped is
// refused.
func TestKnownKeysAreServedAtOnceAfterARestart(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"telemetry: {metrics: {listen: 127.0.0.1:0}}\n")
	for _, key := range []string{r.key, r.other} {
		if got := r.post(call("1", "safe"), "Authorization", "Bearer "+key); got.status != 200 {
			t.Fatalf("status %d: %s", got.status, got.body)
		}
	}
	// The file is written while the gateway runs, because the process may be killed.
	path := filepath.Join(r.auditPath()+".state", "known-keys.json")
	eventually(t, "the file of known keys has both", func() bool {
		text, _ := os.ReadFile(path)
		return strings.Count(string(text), `"digest"`) == 2
	})
	r.stop()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	r.edit("- id: bob", "- id: carol")
	r.start()
	if got := r.post(call("2", "safe")); got.status != 200 {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if got := r.do(http.MethodGet, r.observed()+"/metrics", "").body; !strings.Contains(got, "\nsvc_gateway_auth_computations_total 0\n") {
		t.Errorf("a known key was computed again:\n%s", got)
	}
	if got := r.post(call("3", "safe"), "Authorization", "Bearer "+r.other); got.status != 401 {
		t.Errorf("a key whose entry is gone: status %d", got.status)
	}
}

func TestAuthDisabledAcceptsAnyoneAndWarnsBeyondLoopback(t *testing.T) {
	up := newUpstream(t, echo)
	off := "\nauth: {enabled: false}\n"
	r := newRig(t, basic(up.URL)+off)
	if got := r.post(call("1", "safe"), "Authorization", ""); got.status != 200 {
		t.Errorf("got %d", got.status)
	}
	if line := r.lines(1)[0]; line["principal"] != "127.0.0.1" || line["principal_kind"] != "ip" {
		t.Errorf("principal without auth: %v", line)
	}
	if strings.Contains(r.logs.String(), "AUTHENTICATION IS OFF") {
		t.Error("a warning on loopback")
	}
	cfg := *r.services().Live.Load().Config
	cfg.Listen = "0.0.0.0:8090"
	cfg.LogWarnings(r.services().Log)
	if !strings.Contains(r.logs.String(), "AUTHENTICATION IS OFF") {
		t.Error("no warning on 0.0.0.0")
	}
}

// The reason why a key was refused is logged at level debug, with the request id, and is not in
// the response.
func TestTheLogHasWhyAKeyWasRefused(t *testing.T) {
	logs := &syncBuffer{}
	r := newRigWith(t, basic(newUpstream(t, echo).URL), func(o *gateway.Options) {
		o.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	unknown, err := auth.NewKey("nobody")
	if err != nil {
		t.Fatal(err)
	}
	for presented, why := range map[string]string{unknown: "no entry with the id of the key", "nothing": "none of the hashes"} {
		header := []string{"Authorization", "Bearer " + presented}
		a := r.do(http.MethodPost, r.url, call("1", "safe"), header...)
		if a.status != http.StatusUnauthorized || strings.Contains(a.body, why) || strings.Contains(a.body, "nobody") {
			t.Errorf("%q: %d %s", presented, a.status, a.body)
		}
		if !strings.Contains(logs.String(), why) {
			t.Errorf("the log lacks %q:\n%s", why, logs.String())
		}
		if strings.Contains(logs.String(), presented) {
			t.Errorf("the log holds the key:\n%s", logs.String())
		}
	}
}

// A client with a wrong key is visible at the default level: one warning with its address, the id of
// its key and the reason, however often it tries, and never the key. A client of a gateway that takes
// tokens begins without credentials, which is no warning.
func TestAClientWithAWrongKeyIsLogged(t *testing.T) {
	r := newRig(t, basic(newUpstream(t, echo).URL))
	_, random, _ := strings.Cut(r.other, "_bob_")
	for _, row := range []struct{ presented, id, why string }{
		{"svc_gw_alice_" + random, "alice", "does not match"},
		{"svc_gw_nobody_" + random, "nobody", "no entry with the id of the key"},
		{"svc_gw_alice_" + random + r.key, "", "no entry with the id of the key"}, // two keys in one line of a file
	} {
		r.stop()
		r.start()
		for range 5 {
			if a := r.do(http.MethodPost, r.url, call("1", "safe"), "Authorization", "Bearer "+row.presented); a.status != http.StatusUnauthorized {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		since := func() string { return r.logs.String()[r.logged:] }
		eventually(t, "a warning", func() bool { return strings.Contains(since(), "caller is not authenticated") })
		r.stop() // writes what is queued
		log := since()
		line := log[strings.Index(log, "level=WARN msg=\"caller is not authenticated\""):]
		line, _, _ = strings.Cut(line, "\n")
		if id := cmp.Or(row.id, `""`); !strings.Contains(line, " address=127.0.0.1 key_id="+id+" ") || !strings.Contains(line, row.why) || !strings.Contains(line, " request_id=") {
			t.Errorf("%s", line)
		}
		if n := strings.Count(log, "caller is not authenticated"); n != 1 || strings.Contains(log, random) {
			t.Errorf("%d warnings, or the key in one:\n%s", n, log)
		}
	}
}
