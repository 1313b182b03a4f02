package auth

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// clientHost serves client metadata over TLS on loopback, for names of
// example.com.
type clientHost struct {
	*httptest.Server
	fetches atomic.Int64
	answer  atomic.Pointer[http.HandlerFunc]
}

func newClientHost(t *testing.T) *clientHost {
	h := &clientHost{}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.fetches.Add(1)
		(*h.answer.Load())(w, r)
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

func (h *clientHost) serve(f http.HandlerFunc) { h.answer.Store(&f) }

// document responds with a metadata document.
func document(id, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": id, "client_name": name, "redirect_uris": []string{"http://127.0.0.1/cb"}})
	}
}

// names returns a fetcher that resolves every name to loopback, which the configuration allows.
func (h *clientHost) names(t *testing.T, c *clock, cfg CIMDConfig) *clientNames {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(h.Certificate())
	o := NewOAuth(OAuthOptions{Now: c.now, Roots: roots})
	t.Cleanup(o.Close)
	n := newClientNames(o, cfg, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	n.dialer.Lookup = func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return n
}

func cimdDefaults() CIMDConfig {
	var c CIMDConfig
	c.SetDefaults()
	c.Enabled = true
	return c
}

func (h *clientHost) id(path string) string {
	_, port, _ := net.SplitHostPort(h.Listener.Addr().String())
	return "https://example.com:" + port + path
}

func TestClientMetadata(t *testing.T) {
	h := newClientHost(t)
	id := h.id("/client")
	body := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
	}
	pad := func(total int) string {
		doc := fmt.Sprintf(`{"client_id":%q,"client_name":"Sized"`, id)
		return doc + strings.Repeat(" ", total-len(doc)-1) + "}"
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a document", document(id, "My Agent"), "My Agent"},
		{"client_id of another", document(id+"/", "My Agent"), ""},
		{"client_id absent", body(`{"client_name":"x"}`), ""},
		{"client_name absent", body(fmt.Sprintf(`{"client_id":%q}`, id)), ""},
		{"client_name of a wrong type", body(fmt.Sprintf(`{"client_id":%q,"client_name":["x"]}`, id)), ""},
		{"client_name with ANSI escapes and line breaks", document(id, "a\x1b[31mred\x1b[0m\r\nb"), "a[31mred[0m  b"},
		{"client_name with marks that turn text", document(id, "a\u202eb\u200bc"), "abc"},
		{"client_name too long", document(id, strings.Repeat("é", 100)), strings.Repeat("é", 64)},
		{"404", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, ""},
		{"HTML", body("<html>"), ""},
		{"members twice", body(fmt.Sprintf(`{"client_id":"x","client_id":%q,"client_name":"x"}`, id)), ""},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, ""},
		{"65,536 bytes", body(pad(65536)), "Sized"},
		{"65,537 bytes", body(pad(65537)), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h.serve(tt.answer)
			if got := h.names(t, newClock(), cimdDefaults()).name(t.Context(), id); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestClientIDsThatAreNotAsked(t *testing.T) {
	h := newClientHost(t)
	h.serve(func(http.ResponseWriter, *http.Request) {})
	names := h.names(t, newClock(), cimdDefaults())
	for _, id := range []string{"", "app", "http://example.com/x", "HTTPS://example.com/x", "https://", "https://u:p@example.com/x",
		"https://example.com/x#f", "https://example.com/" + strings.Repeat("x", maxClientURL), "file:///etc/passwd", "https://[::1", "https://exa\nmple.com"} {
		if got := names.name(t.Context(), id); got != "" {
			t.Errorf("%q is %q", id, got)
		}
	}
	if n := h.fetches.Load(); n != 0 {
		t.Errorf("%d fetches", n)
	}
}

func TestClientMetadataCache(t *testing.T) {
	h := newClientHost(t)
	c := newClock()
	names := h.names(t, c, cimdDefaults())
	id := h.id("/client")
	ask := func(want string, fetches int64) {
		t.Helper()
		if got := names.name(t.Context(), id); got != want || h.fetches.Load() != fetches {
			t.Errorf("got %q after %d fetches, want %q after %d", got, h.fetches.Load(), want, fetches)
		}
	}
	h.serve(document(id, "One"))
	ask("One", 1)
	h.serve(document(id, "Two"))
	ask("One", 1)
	c.add(time.Hour)
	ask("Two", 2)
	h.serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	c.add(time.Hour)
	ask("", 3)
	ask("", 3) // a failure is cached, for a short time
	h.serve(document(id, "Three"))
	c.add(failedClientTTL)
	ask("Three", 4)
}

func TestLRU(t *testing.T) {
	l := newLRU[int, int](3)
	for i := range 3 {
		l.put(i, i, epoch.Add(time.Minute))
	}
	l.get(0, epoch)
	l.put(3, 3, epoch.Add(time.Minute))
	for key, want := range map[int]bool{0: true, 1: false, 2: true, 3: true} {
		if _, ok := l.get(key, epoch); ok != want {
			t.Errorf("%d: %v", key, ok)
		}
	}
	if _, ok := l.get(0, epoch.Add(time.Minute)); ok {
		t.Error("an entry outlived its time")
	}
	for i := range 5000 {
		l.put(i, i, epoch.Add(time.Minute))
	}
	if len(l.byKey) != 3 || l.order.Len() != 3 {
		t.Errorf("%d entries", len(l.byKey))
	}
}

// A host that does not respond costs cimd.timeout, once, and the request passes.
func TestSlowClientMetadataNeverBlocks(t *testing.T) {
	h := newClientHost(t)
	cfg := cimdDefaults()
	cfg.Timeout = 100 * time.Millisecond
	for name, slow := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a slow body": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.serve(slow)
			names := h.names(t, newClock(), cfg)
			started := time.Now()
			for range 20 {
				if got := names.name(t.Context(), h.id("/slow")); got != "" {
					t.Error(got)
				}
			}
			if d := time.Since(started); d > 2*time.Second {
				t.Errorf("20 requests took %s", d)
			}
		})
	}
}

// No name and no form of address leads to a private network.
func TestClientMetadataNeverReachesInside(t *testing.T) {
	o := NewOAuth(OAuthOptions{Now: time.Now})
	defer o.Close()
	var resolved []netip.Addr
	dialled := errors.New("dialled")
	var dials []string
	names := newClientNames(o, cimdDefaults(), nil)
	names.dialer.Lookup = func(context.Context, string, string) ([]netip.Addr, error) { return resolved, nil }
	names.dialer.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
		dials = append(dials, address)
		return nil, dialled
	}
	inside := []string{
		"127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.100.100.200", "168.63.129.16", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1",
		"224.0.0.1", "255.255.255.255", "ff02::1", "240.0.0.1", "198.18.0.1", "192.0.0.192",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::",
	}
	for _, addr := range inside {
		a := netip.MustParseAddr(addr)
		resolved = []netip.Addr{a}
		if _, err := names.dialer.DialContext(t.Context(), "tcp", "client.example:443"); err == nil || errors.Is(err, dialled) {
			t.Errorf("a name at %s: %v", addr, err)
		}
		if _, err := names.dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(addr, "443")); err == nil || errors.Is(err, dialled) {
			t.Errorf("%s: %v", addr, err)
		}
		resolved = []netip.Addr{netip.MustParseAddr("93.184.216.34"), a}
		if _, err := names.dialer.DialContext(t.Context(), "tcp", "client.example:443"); err == nil || errors.Is(err, dialled) {
			t.Errorf("a name at a public address and %s: %v", addr, err)
		}
	}
	if len(dials) != 0 {
		t.Fatalf("dialled %v", dials)
	}
	for _, addr := range []string{"93.184.216.34", "2606:2800:220:1::1", "172.32.0.1", "100.128.0.1"} {
		resolved = []netip.Addr{netip.MustParseAddr(addr)}
		if _, err := names.dialer.DialContext(t.Context(), "tcp", "client.example:443"); !errors.Is(err, dialled) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// A name that resolves to a link-local address on the second lookup: the address that was checked
// is the one that is dialled.
func TestClientMetadataDNSRebinding(t *testing.T) {
	o := NewOAuth(OAuthOptions{Now: time.Now})
	defer o.Close()
	names := newClientNames(o, cimdDefaults(), nil)
	lookups := 0
	names.dialer.Lookup = func(context.Context, string, string) ([]netip.Addr, error) {
		if lookups++; lookups == 1 {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	var dials []string
	names.dialer.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
		dials = append(dials, address)
		return nil, errors.New("no network in tests")
	}
	for range 2 {
		_, _ = names.dialer.DialContext(t.Context(), "tcp", "rebind.example:443")
	}
	if len(dials) != 1 || dials[0] != "93.184.216.34:443" {
		t.Errorf("dialled %v", dials)
	}
	// Go treats decimal and other unusual forms of addresses as names, so the same lookup
	// applies.
	for _, id := range []string{"https://2130706433/x", "https://0x7f000001/x", "https://127.1/x"} {
		if got := names.name(t.Context(), id); got != "" {
			t.Errorf("%s is %q", id, got)
		}
	}
	if len(dials) != 1 {
		t.Errorf("dialled %v", dials)
	}
}
