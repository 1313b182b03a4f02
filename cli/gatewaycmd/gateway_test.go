package gatewaycmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process/processtest"
	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/config"
)

// The files of the packages are valid for the programs.
func TestDeployedGatewayConfig(t *testing.T) {
	hash, err := auth.Hash("svc_gw_first-client_x", auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"SVC_FIRST_CLIENT_HASH": hash, "SVC_INGEST_KEY": "svc_ingest_" + strings.Repeat("A", 43)}
	file, found := config.Load("../../deploy/etc/svc.yaml", func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if file == nil {
		t.Fatal(diag.Err(found))
	}
	for _, f := range found {
		t.Errorf("%v", f)
	}
	if !file.ControlPlane.Governance.On() {
		t.Error("the policies of the control plane are not enforced")
	}
}

// A control plane without governance, whose policies nobody enforces, is reported by 'svc gateway
// --check'; governance: {enabled: false} is a choice.
func TestCheckReportsGovernanceThatIsOff(t *testing.T) {
	for name, tt := range map[string]struct {
		section string
		warned  bool
	}{
		"absent": {"", true}, "chosen": {", governance: {enabled: false}", false}, "on": {", governance: {enabled: true}", false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "svc.yaml")
		text := "listen: 127.0.0.1:0\nlicense: {path: " + dir + "/l.jwt}\nupstreams: [{name: a, url: 'http://127.0.0.1:1/mcp'}]\ndefault_upstream: a\npolicy: {default_action: deny}\n" +
			"audit: {path: " + dir + "/a.jsonl}\ncontrol_plane: {url: 'http://127.0.0.1:1', ingest_key: svc_ingest_x" + tt.section + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		env, stdout, _ := processtest.New(t)
		_ = checkGateway(t.Context(), env, gatewayOptions{config: path, check: true, format: command.FormatText}) // the license is missing
		if strings.Contains(stdout.String(), "its policies are not enforced [governance-off]") != tt.warned || !strings.Contains(stdout.String(), "license") {
			t.Errorf("%s: %s", name, stdout)
		}
	}
}

// 'svc gateway --check' reads the license, and the credentials next to the file
// that the packaged unit gets; it prints which checks it does not make.
func TestCheckReadsWhatAStartReads(t *testing.T) {
	dir := t.TempDir()
	keyFile, pub, err := auth.GenerateKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "license.jwt")
	if _, err := auth.Issue(auth.Request{KeyFile: keyFile, Subject: "test", Days: 30, Out: token, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	hash, err := auth.Hash("svc_gw_first-client_x", auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../deploy/etc/svc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "svc.yaml")
	config := strings.NewReplacer("/etc/svc/license/license.jwt", token, "/etc/svc/license/license.pub", pub, "/var/log/svc-gateway", filepath.Join(dir, "log")).Replace(string(text))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func() (string, error) {
		env, stdout, stderr := processtest.New(t)
		env.Now = time.Now
		err := checkGateway(t.Context(), env, gatewayOptions{config: path, check: true, format: command.FormatText})
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
	for _, want := range []string{path + " is valid", "are read from " + credentials, "warning: audit.path: the directory does not exist yet", "not checked: "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	large := filepath.Join(credentials, "SVC_INGEST_KEY")
	if err := os.WriteFile(large, make([]byte, 64<<10+1), 0o600); err != nil {
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
