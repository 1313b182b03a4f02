package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A key that was used before a restart needs no argon2id computation after it, so that a flood of
// wrong keys cannot delay it. A key that was removed or replaced while the gateway was stopped is
// refused.
func TestKnownKeysAreServedAtOnceAfterARestart(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
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
	if n := r.gateway.verifier.Stats().Computed; n != 0 {
		t.Errorf("%d computations for a known key", n)
	}
	if got := r.post(call("3", "safe"), "Authorization", "Bearer "+r.other); got.status != 401 {
		t.Errorf("a key whose entry is gone: status %d", got.status)
	}
}
