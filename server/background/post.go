package background

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/base/hostname"
)

// Allowed is a network to which messages may be sent although it is not public, on one port or, with
// port 0, on all.
type Allowed struct {
	Network netip.Prefix
	Port    uint16
}

// ParseAllowed parses CIDR or CIDR:PORT; with a port, a network of IPv6 is in brackets.
func ParseAllowed(s string) (a Allowed, err error) {
	if a.Network, err = netip.ParsePrefix(s); err != nil {
		i := strings.LastIndexByte(s, ':')
		port, perr := strconv.ParseUint(s[i+1:], 10, 16)
		if i >= 0 && perr == nil && port > 0 {
			a.Port = uint16(port)
			a.Network, err = netip.ParsePrefix(strings.Trim(s[:i], "[]"))
		}
	}
	if err != nil {
		return a, fmt.Errorf("%q is neither a network such as 10.1.0.0/16 nor one with a port such as 10.1.2.3/32:8443 or [fd00::/8]:8443", s)
	}
	if hostname.Unwrap(a.Network.Addr()) != a.Network.Addr() { // addresses are compared unwrapped
		return a, fmt.Errorf("%q is a network of IPv4 inside IPv6: write the one of IPv4", s)
	}
	a.Network = a.Network.Masked()
	return a, nil
}

// PostOptions configure NewPost.
type PostOptions struct {
	// Allow are networks that messages may be sent to although they are not public, also over http.
	Allow []Allowed
	// Proxy is the proxy for all messages; nil: none. It resolves names itself: then only addresses
	// that stand in a URL are checked here.
	Proxy *url.URL
	// Own returns the ports on which this process listens, at whatever address. They are never
	// called at an address of this machine.
	Own func() []uint16
	// TLS has the roots; nil: those of the system.
	TLS *tls.Config
}

// Answer is the response to a message.
type Answer struct {
	Status     int
	RetryAfter time.Duration // 0: not given
	Location   string
}

// Post sends a message to a URL. Errors have no URL, which is a secret.
type Post func(ctx context.Context, url string, header http.Header, body []byte) (Answer, error)

// maxAnswer bounds what is read of the body of a response, in bytes; nothing of it is kept.
const maxAnswer = 1 << 10

// NewPost returns a Post over HTTP/1.1 that follows no redirects. https reaches public and allowed
// addresses, http allowed ones only.
func NewPost(o PostOptions) Post {
	transport := func(public bool) *http.Transport {
		permit := func(at netip.AddrPort) bool { return o.permits(at, public) }
		t := &http.Transport{
			DialContext: (&hostname.Dialer{Permit: permit}).DialContext, TLSClientConfig: o.TLS,
			DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 16 << 10,
		}
		if o.Proxy != nil {
			t.Proxy, t.DialContext = http.ProxyURL(o.Proxy), nil
		}
		return t
	}
	secure, plain := transport(true), transport(false)
	return func(ctx context.Context, to string, header http.Header, body []byte) (a Answer, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
		if err != nil {
			return a, fmt.Errorf("the URL is not valid")
		}
		req.Header = header
		t := secure
		if req.URL.Scheme != "https" {
			t = plain
		}
		if o.Proxy != nil && !o.proxied(req.URL) {
			return a, hostname.ErrNotPermitted
		}
		res, err := t.RoundTrip(req)
		if err != nil {
			return a, err
		}
		defer res.Body.Close()
		_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // the status is what counts
		a = Answer{Status: res.StatusCode, Location: res.Header.Get("Location")}
		if after := res.Header.Get("Retry-After"); after != "" {
			if seconds, err := strconv.Atoi(after); err == nil {
				a.RetryAfter = time.Duration(min(max(seconds, 0), int(maxPause/time.Second))) * time.Second
			} else if at, err := http.ParseTime(after); err == nil {
				a.RetryAfter = max(time.Until(at), 0)
			}
		}
		return a, nil
	}
}

// permits reports whether an address may be called; public: also a public one.
func (o *PostOptions) permits(at netip.AddrPort, public bool) bool {
	if o.Own != nil && slices.Contains(o.Own(), at.Port()) && onThisMachine(at.Addr()) {
		return false
	}
	return public && hostname.Public(at.Addr()) || slices.ContainsFunc(o.Allow, func(a Allowed) bool {
		return a.Network.Contains(at.Addr()) && (a.Port == 0 || a.Port == at.Port())
	})
}

// proxied reports whether a URL may be called through the proxy: a name over https, or an address
// that may be called.
func (o *PostOptions) proxied(u *url.URL) bool {
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return u.Scheme == "https" && !hostname.IsLoopback(u.Hostname())
	}
	port, _ := strconv.ParseUint(u.Port(), 10, 16)
	if port == 0 {
		port = map[string]uint64{"https": 443, "http": 80}[u.Scheme]
	}
	return o.permits(netip.AddrPortFrom(hostname.Unwrap(a), uint16(port)), u.Scheme == "https")
}

// onThisMachine reports whether an address leads to this machine; if its addresses cannot be read,
// every address does.
func onThisMachine(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	list, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(list, func(one net.Addr) bool {
		p, err := netip.ParsePrefix(one.String())
		return err == nil && p.Addr().Unmap() == a
	})
}
