package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/diag"
)

// The files that are shipped must be ones that the programs take.
func TestDeployedGatewayConfig(t *testing.T) {
	hash, err := auth.Hash("svc_gw_first-client_x", auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"SVC_FIRST_CLIENT_HASH": hash, "SVC_INGEST_KEY": "svc_ingest_" + strings.Repeat("A", 43)}
	file, found := config.Load("../deploy/etc/svc.yaml", func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if file == nil {
		t.Fatal(diag.Err(found))
	}
	for _, f := range found {
		t.Errorf("%v", f)
	}
}

func TestDeployedServeSettings(t *testing.T) {
	env, _, _ := testEnv(t)
	cmd := newServeCmd(env)
	if err := cmd.Flags().Set("config", "../deploy/etc/serve.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := resolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
		t.Fatal(err)
	}
	// The commented lines are settings too.
	text, err := os.ReadFile("../deploy/etc/serve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#([a-z-]+):`).FindAllSubmatch(text, -1) {
		if cmd.Flags().Lookup(string(m[1])) == nil {
			t.Errorf("serve.yaml names %s, which is no setting", m[1])
		}
	}
}

// The units start commands that exist.
func TestDeployedUnits(t *testing.T) {
	units, err := filepath.Glob("../deploy/systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("units %v, %v", units, err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/svc (.*)$`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s starts no svc", path)
		}
		cmd, args, err := NewRoot().Find(strings.Fields(string(m[1])))
		if err != nil || cmd.HasSubCommands() {
			t.Errorf("%s: %s: %v", path, m[1], err)
			continue
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Settings: a flag goes before the environment, the environment before the
// file, the file before the default.
func TestSettingsOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serve.yaml")
	if err := os.WriteFile(path, []byte("rate-limit: 2\ningest-rate-limit: 20\ngrace: 90s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		flag string
		vars map[string]string
		want string
	}{
		{"file", "", nil, "2"},
		{"environment", "", map[string]string{"SVC_RATE_LIMIT": "3"}, "3"},
		{"empty variable counts as unset", "", map[string]string{"SVC_RATE_LIMIT": ""}, "2"},
		{"flag", "4", map[string]string{"SVC_RATE_LIMIT": "3"}, "4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, _, _ := testEnv(t)
			env.LookupEnv = func(name string) (string, bool) {
				if name == "SVC_CONFIG" {
					return path, true
				}
				v, ok := tt.vars[name]
				return v, ok
			}
			cmd := newServeCmd(env)
			if tt.flag != "" {
				if err := cmd.Flags().Set("rate-limit", tt.flag); err != nil {
					t.Fatal(err)
				}
			}
			if err := resolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
				t.Fatal(err)
			}
			if got := value(t, cmd, "rate-limit"); got != tt.want {
				t.Errorf("rate-limit %s, want %s", got, tt.want)
			}
			if got := value(t, cmd, "grace"); got != "1m30s" {
				t.Errorf("grace %s, want 1m30s", got)
			}
			if got := value(t, cmd, "evaluate-interval"); got != "1m0s" {
				t.Errorf("evaluate-interval %s, want its default", got)
			}
		})
	}
}

func value(t *testing.T, cmd *cobra.Command, name string) string {
	t.Helper()
	return cmd.Flags().Lookup(name).Value.String()
}
