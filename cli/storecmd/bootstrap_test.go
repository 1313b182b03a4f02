package storecmd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"svc/cli/process/processtest"
	"svc/server"
	"svc/store"
	"svc/store/storetest/memory"
)

// A key in SVC_BOOTSTRAP_API_KEY that a store with tenants does not accept is named in the log, and
// the key of the first start is not.
func TestABootstrapKeyThatIsIgnoredIsLogged(t *testing.T) {
	st := memory.Open(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	env, _, _ := processtest.New(t)
	var secret string
	env.LookupEnv = func(name string) (string, bool) { return secret, name == bootstrapKeyVar && secret != "" }
	first, other := server.NewSecret(store.ScopeAPI), server.NewSecret(store.ScopeAPI)
	for _, step := range []struct {
		secret  string
		ignored bool
	}{{first, false}, {first, false}, {other, true}, {"", false}} {
		secret = step.secret
		var log bytes.Buffer
		if err := bootstrap(t.Context(), env, st, t.TempDir(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), bootstrapKeyVar+" is ignored"); got != step.ignored || step.secret != "" && strings.Contains(log.String(), step.secret) {
			t.Errorf("ignored %v, and the log is %s", step.ignored, log.String())
		}
	}
}
