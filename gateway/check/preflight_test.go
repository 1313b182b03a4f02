package check

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/test/certtest"
)

var preflightNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// machine creates the files that a configuration names, and a server.
func machine(t *testing.T) (dir, address string) {
	t.Helper()
	dir = t.TempDir()
	key, _, err := auth.GenerateKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Issue(auth.Request{KeyFile: key, Subject: "test", Days: 30, GraceDays: 5, Out: filepath.Join(dir, "license.jwt"), Now: preflightNow}); err != nil {
		t.Fatal(err)
	}
	ca := certtest.New(t, dir, "ca")
	for name, until := range map[string]time.Time{"server": preflightNow.Add(24 * time.Hour), "old": preflightNow.Add(-24 * time.Hour)} {
		ca.Issue(name, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = until.Add(-72*time.Hour), until })
	}
	write(t, filepath.Join(dir, "junk.pem"), "no pem", 0o600)
	write(t, filepath.Join(dir, "open.key"), "x", 0o644)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return dir, ln.Addr().String()
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

const good = `
listen: 127.0.0.1:0
license: {path: DIR/license.jwt, public_key_file: DIR/license.pub}
tls: {cert_file: DIR/server.pem, key_file: DIR/server.key, client_ca: DIR/server.pem}
upstreams: [{name: tools, url: "http://ADDR/mcp"}]
policy: {default_action: deny}
audit: {path: DIR/audit.jsonl, checkpoint_key_file: DIR/license.key}
`

func TestCheck(t *testing.T) {
	dir, address := machine(t)
	for _, c := range []struct {
		name, old, new string
		later          time.Duration
		want           []string // severity path: part of the message
	}{
		{"all is well", "", "", 0, nil},
		{"no license", "DIR/license.jwt", "DIR/missing.jwt", 0, []string{"error license.path: "}},
		{"license of another key", "public_key_file: DIR/license.pub", "public_key_file: DIR/junk.pem", 0, []string{"error license.public_key_file: "}},
		{"license ends soon", "", "", 5*24*time.Hour + time.Second, []string{"warning license.path: the license works for 29 more days, until 2026-12-26 (with 5 days of grace)", "warning tls.cert_file: the certificate expired on 2026-11-22"}},
		{"license in grace", "", "", 33 * 24 * time.Hour, []string{"warning license.path: its grace ends on 2026-12-26", "warning tls.cert_file: the certificate expired on 2026-11-22"}},
		{"license expired", "", "", 60 * 24 * time.Hour, []string{"warning license.path: its grace is over", "warning tls.cert_file: expired"}},
		{"no key", "DIR/server.key", "DIR/missing.key", 0, []string{"error tls.key_file: cannot be read: no such file"}},
		{"key of another certificate", "DIR/server.key", "DIR/old.key", 0, []string{"error tls.cert_file: cannot be used with key_file"}},
		{"client_ca is no PEM", "client_ca: DIR/server.pem", "client_ca: DIR/junk.pem", 0, []string{"error tls.client_ca: is not a PEM file"}},
		{"client_ca holds a key", "client_ca: DIR/server.pem", "client_ca: DIR/server.key", 0, []string{"error tls.client_ca: holds no certificate"}},
		{"a directory for a file", "client_ca: DIR/server.pem", "client_ca: DIR", 0, []string{"error tls.client_ca: it is not a regular file"}},
		{"no directory for the audit file", "DIR/audit.jsonl", "DIR/nowhere/audit.jsonl", 0, []string{"error audit.path: the directory: no such file"}},
		{"others may read a key", "checkpoint_key_file: DIR/license.key", "checkpoint_key_file: DIR/open.key", 0, []string{"error audit.checkpoint_key_file: its mode is 0644"}},
		{"nothing listens", "http://ADDR/mcp", "http://127.0.0.1:1/mcp", 0, []string{"warning upstreams[0].url: connection refused"}},
		{"redis", "policy:", "rate_limit_store: {type: redis, cluster: true, url: \"redis://127.0.0.1:1,127.0.0.1:2\"}\npolicy:", 0, []string{"warning rate_limit_store.url: connection refused"}},
		{"upstream certificates", "url: \"http://ADDR/mcp\"", "url: \"https://ADDR/mcp\", tls: {ca_file: DIR/missing.pem}", 0, []string{"error upstreams[0].tls.ca_file: cannot be read"}},
		{"credentials of an upstream", "url: \"http://ADDR/mcp\"", "url: \"http://ADDR/mcp\", credentials: {id_jag: {idp: {token_url: \"http://127.0.0.1:1/t\", client_id: a, client_key_file: DIR/open.key}, token_url: \"http://ADDR/t\", client_id: b, client_key_file: DIR/junk.pem, audience: c, resource: \"https://d\"}}", 0,
			[]string{"error upstreams[0].credentials.id_jag.idp.client_key_file: has mode 0644", "error upstreams[0].credentials.id_jag.client_key_file: is not a PEM file", "warning upstreams[0].credentials.id_jag.idp.token_url: connection refused"}},
		{"no file of pins", "upstreams: [{", "pins: DIR/pins.json\nupstreams: [{pin_skills: block, ", 0, []string{"error pins: the file of pins does not exist, and an upstream has pin_tools: block or pin_skills: block"}},
		{"no file of pins, with warn", "upstreams: [{", "pins: DIR/pins.json\nupstreams: [{pin_skills: warn, ", 0, nil},
		{"no file of pins for nothing that is pinned", "upstreams: [{", "pins: DIR/junk.pem\nupstreams: [{", 0, nil},
		{"another file", "upstreams: [{", "pins: DIR/junk.pem\nupstreams: [{pin_tools: warn, ", 0, []string{"error pins: the file of pins cannot be used"}},
		{"guardrail certificates", "policy:", "guardrails: [{name: g, url: \"https://ADDR/\", tls: {enabled: true, cert_file: DIR/old.pem, key_file: DIR/old.key}}]\npolicy:", 0, []string{"warning guardrails[0].tls.cert_file: expired"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if strings.Contains(c.new, "id_jag") {
				text += "auth: {enabled: true, oauth: {enabled: true, issuer: \"https://i\", audience: a, jwks_url: \"http://ADDR/k\"}}\n"
			}
			text = strings.NewReplacer("DIR", dir, "ADDR", address).Replace(text)
			file, found := config.Parse("f.yaml", []byte(text), nil)
			if file == nil {
				t.Fatal(found)
			}
			clock := func() time.Time { return preflightNow.Add(c.later) }
			var got []string
			for _, f := range Check(context.Background(), file, PreflightOptions{Now: clock}) {
				if strings.HasPrefix(f.Message, "the license works for 3") && f.Severity == diag.Info { // of a license with 35 days left
					continue
				}
				got = append(got, fmt.Sprintf("%s %s: %s", f.Severity, f.Path, f.Message))
				if strings.Contains(f.Message, dir) || strings.Contains(f.Message, address) {
					t.Errorf("a path or an address is told: %s", f.Message)
				}
			}
			for _, want := range c.want {
				path, part, _ := strings.Cut(want, ": ")
				i := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, path+": ") && strings.Contains(s, part) })
				if i < 0 {
					t.Fatalf("got %q, want %q", got, want)
				}
				got = slices.Delete(got, i, i+1)
			}
			if len(got) > 0 {
				t.Errorf("more: %q", got)
			}
		})
	}
}

// TestCheckWrites: a configuration is not valid while its audit file or state_dir cannot be
// written, and the check leaves nothing behind.
func TestCheckWrites(t *testing.T) {
	dir, address := machine(t)
	write(t, filepath.Join(dir, "file"), "", 0o600)
	write(t, filepath.Join(dir, "readonly.jsonl"), "", 0o400)
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	for _, c := range []struct {
		name, audit, state string
		asUser             bool // root may write it
		want               string
	}{
		{"both can be written", "DIR/audit.jsonl", "DIR/state", false, ""},
		{"state_dir is made with its parents", "DIR/audit.jsonl", "DIR/new/state", false, ""},
		{"the audit file is a directory", "DIR/closed", "DIR/state", false, "audit.path: it is a directory"},
		{"the audit file is read-only", "DIR/readonly.jsonl", "DIR/state", true, "audit.path: the file cannot be written: permission denied"},
		{"the directory of the audit file is closed", "DIR/closed/audit.jsonl", "DIR/state", true, "audit.path: no file can be made in the directory: permission denied"},
		{"state_dir is a file", "DIR/audit.jsonl", "DIR/file", false, "state_dir: there is a file in place of the directory"},
		{"state_dir is closed", "DIR/audit.jsonl", "DIR/closed", true, "state_dir: no file can be made in the directory: permission denied"},
		{"state_dir cannot be made", "DIR/audit.jsonl", "DIR/closed/state", true, "state_dir: the directory"},
	} {
		if c.asUser && os.Geteuid() == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, "DIR/audit.jsonl", c.audit, 1) + "state_dir: " + c.state + "\n"
			file, found := config.Parse("f.yaml", []byte(strings.NewReplacer("DIR", dir, "ADDR", address).Replace(text)), nil)
			if file == nil {
				t.Fatal(found)
			}
			var got []string
			for _, f := range Check(t.Context(), file, PreflightOptions{Now: func() time.Time { return preflightNow }}) {
				if f.Severity != diag.Info { // the days of the license
					got = append(got, f.Path+": "+f.Message)
				}
			}
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if after := names(t, dir); !slices.Equal(before, after) {
		t.Errorf("the check left %q, before it were %q", after, before)
	}
}

// The default of audit.path is relative: the advice for a folder that cannot be used says so.
func TestCheckAuditPathIsRelative(t *testing.T) {
	dir, address := machine(t)
	t.Chdir(dir)
	text := strings.Replace(good, "path: DIR/audit.jsonl", "path: nowhere/audit.jsonl", 1)
	file, found := config.Parse("f.yaml", []byte(strings.NewReplacer("DIR", dir, "ADDR", address).Replace(text)), nil)
	if file == nil {
		t.Fatal(found)
	}
	got := slices.DeleteFunc(Check(t.Context(), file, PreflightOptions{Now: func() time.Time { return preflightNow }}), func(f diag.Finding) bool {
		return f.Severity == diag.Info // the days of the license
	})
	if len(got) != 1 || got[0].Path != "audit.path" || !strings.Contains(got[0].Hint, "absolute path") || !strings.Contains(got[0].Hint, "started in") {
		t.Errorf("findings are %+v", got)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// A server that accepts no connections does not delay the check.
func TestCheckIsBounded(t *testing.T) {
	dir, _ := machine(t)
	text := strings.NewReplacer("DIR", dir, "ADDR", "192.0.2.1:9").Replace(good)
	file, found := config.Parse("f.yaml", []byte(text), nil)
	if file == nil {
		t.Fatal(found)
	}
	began := time.Now()
	got := Check(context.Background(), file, PreflightOptions{Now: func() time.Time { return preflightNow }, Timeout: 50 * time.Millisecond})
	got = slices.DeleteFunc(got, func(f diag.Finding) bool { return f.Severity == diag.Info })
	if len(got) != 1 || got[0].Code != codeUnreachable || time.Since(began) > 5*time.Second {
		t.Errorf("got %v after %v", got, time.Since(began))
	}
}
