package storecmd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/process/processtest"
)

// A variable with the prefix of settings that nothing reads is reported, with the
// setting that was probably meant; a variable that any command reads is not.
func TestVariablesThatNothingReadsAreReported(t *testing.T) {
	env, _, _ := processtest.New(t)
	names := []string{"SVC_RATE_LIMT=7", "SVC_UNHEARD_OF=1", "SVC_RATE_LIMIT=7", "HOME=/root", "XSVC_A=1"}
	want := []string{"SVC_RATE_LIMT, did you mean SVC_RATE_LIMIT?", "SVC_UNHEARD_OF"}
	names = append(names, variablesInSources(t)...)
	env.Environ = func() []string { return names }
	if got := command.UnreadVariables(env, NewServeCmd(env).Flags()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// variablesInSources returns the variables that the source files of commands
// mention.
func variablesInSources(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`[gG]etenv\("(SVC_[A-Z_]+)"\)`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 5 {
		t.Fatalf("only %q are read by name", names)
	}
	return names
}

func TestDeployedServeSettings(t *testing.T) {
	env, _, _ := processtest.New(t)
	cmd := NewServeCmd(env)
	if err := cmd.Flags().Set("config", "../../deploy/etc/serve.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := command.ResolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
		t.Fatal(err)
	}
	// Commented lines are settings too.
	text, err := os.ReadFile("../../deploy/etc/serve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#([a-z-]+):`).FindAllSubmatch(text, -1) {
		if cmd.Flags().Lookup(string(m[1])) == nil {
			t.Errorf("serve.yaml names %s, which is no setting", m[1])
		}
	}
}

// Flags override environment variables, which override the settings file, which
// overrides defaults.
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
			env, _, _ := processtest.New(t)
			env.LookupEnv = func(name string) (string, bool) {
				if name == "SVC_CONFIG" {
					return path, true
				}
				v, ok := tt.vars[name]
				return v, ok
			}
			cmd := NewServeCmd(env)
			if tt.flag != "" {
				if err := cmd.Flags().Set("rate-limit", tt.flag); err != nil {
					t.Fatal(err)
				}
			}
			if err := command.ResolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
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

// A variable of a systemd credential is treated like the environment.
func TestCredentialsOverrideTheSettingsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "serve.yaml")
	for name, text := range map[string]string{path: "rate-limit: 2\n", filepath.Join(dir, "SVC_RATE_LIMIT"): "3\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env, _, _ := processtest.New(t)
	env.LookupEnv = process.WithDirectory(func(name string) (string, bool) { return path, name == "SVC_CONFIG" }, dir, nil)
	cmd := NewServeCmd(env)
	if err := command.ResolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
		t.Fatal(err)
	}
	if got := value(t, cmd, "rate-limit"); got != "3" {
		t.Errorf("rate-limit %s, want 3", got)
	}
}

func TestUnreadVariablesNameTheSetting(t *testing.T) {
	env, _, _ := processtest.New(t)
	env.Environ = func() []string {
		return []string{"SVC_RATE_LIMIT=1", "SVC_Rate_Limit=1", "svc_grace=1s", "SVC_LISTN=x", "SVC_SOMETHING_ELSE=x", "OTHER=x", "SVC_URL=x"}
	}
	got := command.UnreadVariables(env, NewServeCmd(env).Flags())
	want := []string{
		"SVC_LISTN, did you mean SVC_LISTEN?", "SVC_Rate_Limit, did you mean SVC_RATE_LIMIT?", "SVC_SOMETHING_ELSE",
		"svc_grace, did you mean SVC_GRACE?",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func value(t *testing.T, cmd *cobra.Command, name string) string {
	t.Helper()
	return cmd.Flags().Lookup(name).Value.String()
}
