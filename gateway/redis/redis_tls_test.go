//go:build unix

package redis

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"svc/gateway/redis/redistest"
	"svc/test/certtest"
)

// TestRedisTLS: the scheme and tls.enabled both turn encryption on, ca_file
// verifies, and the client does not use a server that cannot be verified.
func TestRedisTLS(t *testing.T) {
	store := certtest.New(t, t.TempDir(), "store")
	cert, key := store.CertFile, store.KeyFile
	other := certtest.New(t, t.TempDir(), "other").CertFile
	server := redistest.StartTLS(t, cert, key)
	for _, tt := range []struct {
		name, url, ca string
		enabled       bool
		want          string
	}{
		{"rediss", "rediss://" + server.Addr, cert, false, ""},
		{"tls.enabled", "redis://" + server.Addr, cert, true, ""},
		{"both", "rediss://" + server.Addr, cert, true, ""},
		{"another CA", "rediss://" + server.Addr, other, false, "certificate"},
		{"the CAs of the system", "rediss://" + server.Addr, "", false, "certificate"},
		{"plain to a port with TLS", "redis://" + server.Addr, "", false, "EOF|connection reset"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openRedis(t, redisConfig(tt.url, func(c *StoreConfig) { c.TLS = StoreTLS{Enabled: tt.enabled, CAFile: tt.ca} }))
			if tt.want == "" {
				untilAnswered(t, s, rule("a"))
				return
			}
			if _, err := fails(t, s, rule("a")); !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// TestRedisClusterTLS: the same for a cluster: every master is reached with
// TLS, including those that only the topology names.
func TestRedisClusterTLS(t *testing.T) {
	store := certtest.New(t, t.TempDir(), "store")
	cert, key := store.CertFile, store.KeyFile
	other := certtest.New(t, t.TempDir(), "other").CertFile
	cluster := redistest.StartClusterTLS(t, 3, cert, key)
	one := "rediss://" + cluster.Masters[1].TLSAddr
	for _, tt := range []struct {
		name, url, ca string
		enabled       bool
		want          string
	}{
		{"rediss", cluster.TLSURL(), cert, false, ""},
		{"tls.enabled", strings.Replace(cluster.TLSURL(), "rediss", "redis", 1), cert, true, ""},
		{"one master of three", one, cert, false, ""},
		{"another CA", cluster.TLSURL(), other, false, "certificate"},
		{"the CAs of the system", cluster.TLSURL(), "", false, "certificate"},
		{"plain to ports with TLS", strings.Replace(cluster.TLSURL(), "rediss", "redis", 1), "", false, "EOF|connection reset"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openRedis(t, redisConfig(tt.url, clustered, func(c *StoreConfig) { c.TLS = StoreTLS{Enabled: tt.enabled, CAFile: tt.ca} }))
			for master := range cluster.Masters {
				k := ownedBy(cluster, s, master)
				if tt.want == "" {
					untilAnswered(t, s, k)
				} else if _, err := fails(t, s, k); !errors.Is(err, errShortCircuit) && !regexp.MustCompile(tt.want).MatchString(err.Error()) {
					t.Errorf("error %v, want %s", err, tt.want)
				}
			}
			if got := s.Stats().Allowed; tt.want != "" && got != 0 {
				t.Errorf("%d calls were decided", got)
			}
		})
	}
}

// TestRedisCAFile: an unusable file is an error at startup.
func TestRedisCAFile(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{filepath.Join(t.TempDir(), "missing"): "no such file", empty: "no PEM certificate"} {
		_, err := NewRedis(redisConfig("rediss://127.0.0.1", func(c *StoreConfig) { c.TLS.CAFile = file }), nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rate_limit_store.tls.ca_file") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
