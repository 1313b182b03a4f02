package background

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/base/hostname"
)

func allowed(t *testing.T, list ...string) (out []Allowed) {
	t.Helper()
	for _, text := range list {
		a, err := ParseAllowed(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func TestParseAllowed(t *testing.T) {
	for text, want := range map[string]string{"10.1.2.3/8": "10.0.0.0/8 0", "10.1.2.3/32:8443": "10.1.2.3/32 8443", "fd00::/8": "fd00::/8 0", "[fd00::/8]:8443": "fd00::/8 8443",
		"10.0.0.1": "", "10.0.0.0/33": "", "10.0.0.0/8:0": "", "10.0.0.0/8:99999": "", "": "", "example.com:443": "", "::ffff:10.0.0.0/104": "", "[64:ff9b::a00:0/104]:443": ""} {
		a, err := ParseAllowed(text)
		got := ""
		if err == nil {
			got = fmt.Sprint(a.Network, " ", a.Port)
		}
		if got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// What may be called: public addresses over https, allowed ones over http too, and never a port of
// the process itself at an address of this machine.
func TestPermits(t *testing.T) {
	o := PostOptions{Allow: allowed(t, "10.0.0.0/8:8443", "127.0.0.0/8", "::1/128", "fd00::/8"), Own: func() []uint16 { return []uint16{8080} }}
	for _, c := range []struct {
		at          string
		https, http bool
	}{
		{"93.184.216.34:443", true, false}, {"10.1.2.3:8443", true, true}, {"10.1.2.3:443", false, false}, {"127.0.0.1:9000", true, true}, {"[fd00::1]:1", true, true},
		{"127.0.0.1:8080", false, false}, {"[::1]:8080", false, false}, {"192.168.0.1:443", false, false}, {"93.184.216.34:8080", true, false},
	} {
		at := netip.MustParseAddrPort(c.at)
		if https, http := o.permits(at, true), o.permits(at, false); https != c.https || http != c.http {
			t.Errorf("%s: https %t, http %t", c.at, https, http)
		}
	}
}

// Receivers that harm: each ends with an error or a status, in bounded time and memory, and nothing
// behind a redirect is called.
func TestHostileReceivers(t *testing.T) {
	var calls atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer elsewhere.Close()
	var sentBytes atomic.Int64
	ended := make(chan struct{})
	h := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices the end of a connection when it has read the request
		switch r.URL.Path {
		case "/hangs":
			<-r.Context().Done()
		case "/redirects":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/retry":
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(503)
		case "/endless":
			defer close(ended)
			chunk := make([]byte, 64<<10)
			for sentBytes.Load() < 4<<30 {
				n, err := w.Write(chunk)
				if sentBytes.Add(int64(n)); err != nil {
					return
				}
			}
		case "/headers":
			w.Header().Set("X-Large", strings.Repeat("x", 64<<10))
		}
	}))
	defer func() {
		h.CloseClientConnections()
		h.Close()
	}()
	roots := x509.NewCertPool()
	roots.AddCert(h.Certificate())
	post := NewPost(PostOptions{Allow: allowed(t, "127.0.0.0/8"), TLS: &tls.Config{RootCAs: roots}})
	try := func(path string, limit time.Duration) (Answer, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return post(ctx, h.URL+path, http.Header{}, []byte("{}"))
	}
	if a, err := try("/ok", time.Minute); err != nil || a.Status != 200 {
		t.Errorf("ok: %+v, %v", a, err)
	}
	if _, err := try("/hangs", 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hangs: %v", err)
	}
	if a, err := try("/redirects", time.Minute); err != nil || a.Status != 307 || a.Location != elsewhere.URL || calls.Load() != 0 {
		t.Errorf("redirects: %+v, %v, %d calls", a, err, calls.Load())
	}
	if a, err := try("/retry", time.Minute); err != nil || a.RetryAfter != 2*time.Minute {
		t.Errorf("retry: %+v, %v", a, err)
	}
	if a, err := try("/endless", time.Minute); err != nil || a.Status != 200 {
		t.Errorf("endless: %+v, %v", a, err)
	}
	<-ended
	if n := sentBytes.Load(); n > 64<<20 {
		t.Errorf("%d bytes of an endless response were sent", n)
	}
	if _, err := try("/headers", time.Minute); err == nil {
		t.Error("64 KiB of headers were read")
	}
	// The same receiver without the permission, also over http, and at names and forms of its address.
	closed := NewPost(PostOptions{TLS: &tls.Config{RootCAs: roots}})
	_, port, _ := net.SplitHostPort(h.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::ffff:10.0.0.1]", "169.254.169.254", "[fd00::1]"} {
		for _, scheme := range []string{"https", "http"} {
			if _, err := closed(t.Context(), scheme+"://"+host+":"+port+"/", http.Header{}, nil); !errors.Is(err, hostname.ErrNotPermitted) {
				t.Errorf("%s://%s: %v", scheme, host, err)
			}
		}
	}
}

// Only a configured proxy is used, and addresses in URLs are checked for it too.
func TestProxy(t *testing.T) {
	var asked atomic.Pointer[string]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := r.Method + " " + r.Host
		asked.Store(&target)
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)
	if _, err := NewPost(PostOptions{})(t.Context(), "https://127.0.0.1:1/", http.Header{}, nil); !errors.Is(err, hostname.ErrNotPermitted) || asked.Load() != nil {
		t.Errorf("a proxy of the environment: %v", err)
	}
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	post := NewPost(PostOptions{Proxy: u})
	for _, target := range []string{"https://10.0.0.1/", "https://[::ffff:127.0.0.1]/", "http://hooks.example/", "https://localhost/"} {
		if _, err := post(t.Context(), target, http.Header{}, nil); !errors.Is(err, hostname.ErrNotPermitted) || asked.Load() != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	if _, err := post(t.Context(), "https://hooks.example/x", http.Header{}, nil); err == nil || asked.Load() == nil || *asked.Load() != "CONNECT hooks.example:443" {
		t.Errorf("through the proxy: %v", err)
	}
}
