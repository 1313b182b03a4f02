package targets_test

import (
	"os"
	"testing"

	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/upstream/targets"
)

func init() {
	targets.LoadConfig = func(t *testing.T, path string) *targets.Settings {
		t.Helper()
		f, found := config.Load(path, os.LookupEnv)
		if diag.HasErrors(found) {
			t.Fatal(diag.Err(found))
		}
		return f.Targets()
	}
}
