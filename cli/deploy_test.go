package cli

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/diag"
	"svc/gateway/license"
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

// 'svc gateway --check' reads the license, and the credentials beside the file as
// the packaged unit gets them; it prints what it does not check.
func TestCheckReadsWhatAStartReads(t *testing.T) {
	dir := t.TempDir()
	keyFile, pub, err := license.GenerateKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "license.jwt")
	if _, err := license.Issue(license.Request{KeyFile: keyFile, Subject: "test", Days: 30, Out: token, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	hash, err := auth.Hash("svc_gw_first-client_x", auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../deploy/etc/svc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "svc.yaml")
	config := strings.NewReplacer("/etc/svc/license/license.jwt", token, "/etc/svc/license/license.pub", pub, "/var/log/svc-gateway", filepath.Join(dir, "log")).Replace(string(text))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func() (string, error) {
		env, stdout, stderr := testEnv(t)
		env.Now = time.Now
		err := checkGateway(t.Context(), env, gatewayOptions{config: path, check: true, format: formatText})
		return stdout.String() + stderr.String(), err
	}
	if out, err := check(); err == nil || !strings.Contains(out, "SVC_INGEST_KEY is not set") {
		t.Errorf("without credentials: %v\n%s", err, out)
	}
	credentials := filepath.Join(dir, "credentials-gateway")
	if err := os.Mkdir(credentials, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"SVC_INGEST_KEY": "svc_ingest_" + strings.Repeat("A", 43), "SVC_FIRST_CLIENT_HASH": hash} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := check()
	if err != nil {
		t.Errorf("with them: %v\n%s", err, out)
	}
	for _, want := range []string{path + " is valid", "are read from " + credentials, "warning: audit.path: its directory does not exist yet", "not checked: "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	large := filepath.Join(credentials, "SVC_INGEST_KEY")
	if err := os.WriteFile(large, make([]byte, maxCredential+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil || !strings.Contains(out, "a credential cannot be read: "+large) {
		t.Errorf("a credential that is too large: %v\n%s", err, out)
	}
	if err := os.WriteFile(large, []byte("svc_ingest_"+strings.Repeat("A", 43)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pub); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil || !strings.Contains(out, "license.public_key_file") || strings.Contains(out, "is valid") {
		t.Errorf("without the public key: %v\n%s", err, out)
	}
}

// The image answers from outside: what it starts exists and listens on all
// addresses of the container, on a port that it exposes; it states its version
// and license.
func TestDeployedImage(t *testing.T) {
	text, err := os.ReadFile("../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the image has no CMD in its exec form")
	}
	var args []string
	if err := json.Unmarshal(m[1], &args); err != nil {
		t.Fatal(err)
	}
	cmd, rest, err := NewRoot().Find(args)
	if err != nil || cmd.HasSubCommands() {
		t.Fatalf("%v: %v", args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	listen, err := cmd.Flags().GetString("listen")
	if err != nil {
		t.Fatal(err)
	}
	address, err := netip.ParseAddrPort(listen)
	if err != nil || !address.Addr().IsUnspecified() {
		t.Errorf("it listens on %s: nobody outside of the container reaches that", listen)
	}
	if !regexp.MustCompile(fmt.Sprintf(`(?m)^EXPOSE .*\b%d\b`, address.Port())).Match(text) {
		t.Errorf("port %d is not exposed", address.Port())
	}
	for _, want := range []string{`-X main.version=${VERSION}`, `-X main.commit=${COMMIT}`, `-X main.licenseKey=${LICENSE_KEY}`,
		`org.opencontainers.image.version="${VERSION}"`, `org.opencontainers.image.licenses="Apache-2.0"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the image has no %s", want)
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

// A variable of a systemd credential is a layer like the environment.
func TestCredentialsOverrideTheSettingsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "serve.yaml")
	for name, text := range map[string]string{path: "rate-limit: 2\n", filepath.Join(dir, "SVC_RATE_LIMIT"): "3\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env, _, _ := testEnv(t)
	env.LookupEnv = withDirectory(func(name string) (string, bool) { return path, name == "SVC_CONFIG" }, dir, nil)
	cmd := newServeCmd(env)
	if err := resolveSettings(env, cmd.Flags(), defaultServeConfig); err != nil {
		t.Fatal(err)
	}
	if got := value(t, cmd, "rate-limit"); got != "3" {
		t.Errorf("rate-limit %s, want 3", got)
	}
}

func TestUnreadVariablesNameTheSetting(t *testing.T) {
	env, _, _ := testEnv(t)
	env.Environ = func() []string {
		return []string{"SVC_RATE_LIMIT=1", "SVC_Rate_Limit=1", "svc_grace=1s", "SVC_LISTN=x", "SVC_SOMETHING_ELSE=x", "OTHER=x", "SVC_URL=x"}
	}
	got := unreadVariables(env, newServeCmd(env).Flags())
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
