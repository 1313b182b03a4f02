package preflight

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

	"svc/gateway/config"
	"svc/gateway/license"
	"svc/test/certtest"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// machine creates the files that a configuration names, and a server.
func machine(t *testing.T) (dir, address string) {
	t.Helper()
	dir = t.TempDir()
	key, _, err := license.GenerateKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := license.Issue(license.Request{KeyFile: key, Subject: "test", Days: 30, GraceDays: 5, Out: filepath.Join(dir, "license.jwt"), Now: now}); err != nil {
		t.Fatal(err)
	}
	ca := certtest.New(t, dir, "ca")
	for name, until := range map[string]time.Time{"server": now.Add(24 * time.Hour), "old": now.Add(-24 * time.Hour)} {
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
		{"license in grace", "", "", 33 * 24 * time.Hour, []string{"warning license.path: its grace ends on 2026-12-26", "warning tls.cert_file: the certificate expired on 2026-11-22"}},
		{"license expired", "", "", 60 * 24 * time.Hour, []string{"warning license.path: its grace is over", "warning tls.cert_file: expired"}},
		{"no key", "DIR/server.key", "DIR/missing.key", 0, []string{"error tls.key_file: cannot be read: no such file"}},
		{"key of another certificate", "DIR/server.key", "DIR/old.key", 0, []string{"error tls.cert_file: cannot be used with key_file"}},
		{"client_ca is no PEM", "client_ca: DIR/server.pem", "client_ca: DIR/junk.pem", 0, []string{"error tls.client_ca: is not a PEM file"}},
		{"client_ca holds a key", "client_ca: DIR/server.pem", "client_ca: DIR/server.key", 0, []string{"error tls.client_ca: holds no certificate"}},
		{"a directory for a file", "client_ca: DIR/server.pem", "client_ca: DIR", 0, []string{"error tls.client_ca: it is not a regular file"}},
		{"no directory for the audit file", "DIR/audit.jsonl", "DIR/nowhere/audit.jsonl", 0, []string{"error audit.path: its directory: no such file"}},
		{"others may read a key", "checkpoint_key_file: DIR/license.key", "checkpoint_key_file: DIR/open.key", 0, []string{"error audit.checkpoint_key_file: its mode is 0644"}},
		{"nothing listens", "http://ADDR/mcp", "http://127.0.0.1:1/mcp", 0, []string{"warning upstreams[0].url: connection refused"}},
		{"redis", "policy:", "rate_limit_store: {type: redis, cluster: true, url: \"redis://127.0.0.1:1,127.0.0.1:2\"}\npolicy:", 0, []string{"warning rate_limit_store.url: connection refused"}},
		{"upstream certificates", "url: \"http://ADDR/mcp\"", "url: \"https://ADDR/mcp\", tls: {ca_file: DIR/missing.pem}", 0, []string{"error upstreams[0].tls.ca_file: cannot be read"}},
		{"guardrail certificates", "policy:", "guardrails: [{name: g, url: \"https://ADDR/\", tls: {enabled: true, cert_file: DIR/old.pem, key_file: DIR/old.key}}]\npolicy:", 0, []string{"warning guardrails[0].tls.cert_file: expired"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			text = strings.NewReplacer("DIR", dir, "ADDR", address).Replace(text)
			file, found := config.Parse("f.yaml", []byte(text), nil)
			if file == nil {
				t.Fatal(found)
			}
			clock := func() time.Time { return now.Add(c.later) }
			var got []string
			for _, f := range Check(context.Background(), file, Options{Now: clock}) {
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

// A server that accepts no connections does not delay the check.
func TestCheckIsBounded(t *testing.T) {
	dir, _ := machine(t)
	text := strings.NewReplacer("DIR", dir, "ADDR", "192.0.2.1:9").Replace(good)
	file, found := config.Parse("f.yaml", []byte(text), nil)
	if file == nil {
		t.Fatal(found)
	}
	began := time.Now()
	got := Check(context.Background(), file, Options{Now: func() time.Time { return now }, Timeout: 50 * time.Millisecond})
	if len(got) != 1 || got[0].Code != codeUnreachable || time.Since(began) > 5*time.Second {
		t.Errorf("got %v after %v", got, time.Since(began))
	}
}
