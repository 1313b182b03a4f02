package ui

import (
	"crypto/rand"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"svc/gateway/base/hostname"
	"svc/store"
)

// Bounds on links for one sign-in.
const (
	// LinkLasts is how long a link can be used.
	LinkLasts = time.Minute
	// maxLinks bounds the links that can be used: the oldest gives way, because whoever asks for a new one wants that.
	maxLinks = 16
)

// links are the links that can be used: whoever opens one in a browser on this host is signed in, once. Only the
// digests of their secrets are kept, in memory.
type links struct {
	mu   sync.Mutex
	open []openLink // oldest first
}

// openLink is a link that can be used.
type openLink struct {
	digest      store.KeyDigest
	tenant, key string
	made        time.Time
}

// expire removes the links that have lasted long enough. A clock that went back does not make them longer.
func (l *links) expire(now time.Time) {
	kept := l.open[:0]
	for _, o := range l.open {
		if now.Sub(o.made).Abs() < LinkLasts {
			kept = append(kept, o)
		}
	}
	l.open = kept
}

// Link returns the path of a new link, which signs a browser in as a key of a tenant.
func (p *Page) Link(tenant, key string) string {
	p.links.mu.Lock()
	defer p.links.mu.Unlock()
	now := p.o.Now()
	p.links.expire(now)
	if extra := len(p.links.open) + 1 - maxLinks; extra > 0 {
		p.links.open = append(p.links.open[:0], p.links.open[extra:]...)
	}
	secret := rand.Text() + rand.Text() // 260 bits
	p.links.open = append(p.links.open, openLink{store.DigestKey(secret), tenant, key, now})
	return "/signin/link?" + secret
}

// spend returns the link with a secret, which cannot be used again.
func (p *Page) spend(secret string) (o openLink, ok bool) {
	p.links.mu.Lock()
	defer p.links.mu.Unlock()
	p.links.expire(p.o.Now())
	digest := store.DigestKey(secret)
	for i, o := range p.links.open {
		if o.digest == digest {
			p.links.open = append(p.links.open[:i], p.links.open[i+1:]...)
			return o, true
		}
	}
	return o, false
}

// forwarded reports whether a request has a header that proxies add: its browser is then elsewhere. Browsers send no
// header with X- for pages and forms.
func forwarded(h http.Header) bool {
	for name := range h {
		switch name {
		case "Via", "Max-Forwards", "Surrogate-Capability", "Front-End-Https":
			return true
		}
		if strings.Contains(name, "Forward") || strings.HasSuffix(name, "-Ip") {
			return true
		}
		for _, prefix := range []string{"X-", "Cf-", "Fastly-", "Cdn-", "Fly-", "Ali-", "Wl-Proxy-", "Tailscale-"} {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	return false
}

// here reports whether a request comes from a browser on this host. Browsers have not sent HTTP/1.0 for decades, but
// nginx does where nothing is configured, and then it adds no header either.
func here(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback() && hostname.IsLoopback(split(r.Host)) && !forwarded(r.Header) && r.ProtoAtLeast(1, 1)
}

const (
	notHere   = "Links are taken only from a browser on the host of svc serve, without a proxy. Sign in with an API key instead."
	linkSpent = "The link was used, or is older than a minute. Get another one with svc ui link, or sign in with an API key."
)

// showLink shows the button that spends a link: programs that only fetch the address do not spend it.
func (p *Page) showLink(w http.ResponseWriter, r *http.Request) {
	if !here(r) {
		p.fail(w, r, nil, http.StatusForbidden, notHere)
		return
	}
	// The address has the secret: a Referer must not. Forms still need their Origin, which no-referrer would make null.
	w.Header().Set("Referrer-Policy", "strict-origin")
	if err := p.send(w, nil, http.StatusOK, "link", "Sign in", r.URL.RawQuery); err != nil {
		p.broken(w, r, nil, err)
	}
}

// spendLink signs a browser in.
func (p *Page) spendLink(w http.ResponseWriter, r *http.Request) {
	if !here(r) {
		p.fail(w, r, nil, http.StatusForbidden, notHere)
		return
	}
	if status, problem := p.checkWrite(w, r, ""); problem != "" {
		p.fail(w, r, nil, status, problem)
		return
	}
	link, ok := p.spend(r.PostForm.Get("link"))
	if !ok {
		p.o.Logger.Warn("sign-in refused", "address", p.peer(r).String(), "reason", "the link was used, is too old, or was never made")
		p.showSignIn(w, r, http.StatusUnauthorized, linkSpent)
		return
	}
	p.begin(w, r, link.tenant, link.key, "/", "link")
}
