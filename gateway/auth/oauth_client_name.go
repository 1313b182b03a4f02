package auth

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"svc/gateway/base/hostname"
)

const (
	// maxClients bounds the number of remembered client names (gateway specification,
	// Limits).
	maxClients = 1024
	// failedClientTTL is the longest time that a failure is remembered.
	failedClientTTL = time.Minute
	// maxClientFetches bounds the fetches in flight; beyond it a request continues
	// without a client name.
	maxClientFetches = 16
	// maxClientURL and maxClientName bound the length of a URL that is fetched and of a
	// name that is stored, in bytes.
	maxClientURL  = 2048
	maxClientName = 128
)

// clientNames fetches client metadata documents for their client_name. The URL comes from
// a token, so it can name any host: only https is used, redirects are not followed, and
// the address is checked after name resolution. After a failure the
// client name is empty.
//
// It belongs to one configuration snapshot: a reload starts with an empty one.
type clientNames struct {
	cfg    CIMDConfig
	now    func() time.Time
	oauth  *OAuth
	client *http.Client
	names  *lru[string, string]
	// allowed are networks that may be dialled although they are not public.
	allowed []netip.Prefix
	dialer  hostname.Dialer

	mu     sync.Mutex
	flying map[string]chan struct{}
}

func newClientNames(o *OAuth, cfg CIMDConfig, allowed []netip.Prefix) *clientNames {
	c := &clientNames{
		cfg: cfg, now: o.now, oauth: o, allowed: allowed,
		names:  newLRU[string, string](maxClients),
		flying: make(map[string]chan struct{}),
	}
	c.dialer.Permit = c.permitted
	c.client = newFetchClient(&http.Transport{DialContext: c.dialer.DialContext, TLSClientConfig: o.tlsConfig()})
	return c
}

// name returns the client_name of a client id, empty when it is not known.
func (c *clientNames) name(ctx context.Context, id string) string {
	if !fetchable(id) {
		return ""
	}
	if name, ok := c.names.get(id, c.now()); ok {
		return name
	}
	flight := c.fly(id)
	if flight == nil {
		return ""
	}
	timer := time.NewTimer(c.cfg.Timeout)
	defer timer.Stop()
	select {
	case <-flight:
	case <-ctx.Done():
	case <-timer.C:
	}
	name, _ := c.names.get(id, c.now())
	return name
}

// fetchable reports whether a client id is a URL that may be fetched.
func fetchable(id string) bool {
	if len(id) > maxClientURL || !strings.HasPrefix(id, "https://") {
		return false
	}
	u, err := url.Parse(id)
	return err == nil && u.Hostname() != "" && u.User == nil && u.Fragment == ""
}

// fly starts a fetch, or joins the fetch in flight; nil when too many are in flight.
func (c *clientNames) fly(id string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if flight := c.flying[id]; flight != nil {
		return flight
	}
	if len(c.flying) >= maxClientFetches || !c.oauth.begin() {
		return nil
	}
	flight := make(chan struct{})
	c.flying[id] = flight
	go func() {
		defer c.oauth.wg.Done()
		ctx, cancel := context.WithTimeout(c.oauth.ctx, c.cfg.Timeout)
		defer cancel()
		name, err := c.fetch(ctx, id)
		ttl := c.cfg.CacheTTL
		if err != nil {
			ttl = min(ttl, failedClientTTL)
			c.oauth.log.Debug("client metadata was not fetched", "client_id", id, "error", err)
		}
		c.names.put(id, name, c.now().Add(ttl))
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flying, id)
		close(flight)
	}()
	return flight
}

// begin registers a fetch that Close waits for. It returns false after Close has begun.
func (o *OAuth) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.wg.Add(1)
	}
	return !o.closed
}

func (c *clientNames) fetch(ctx context.Context, id string) (string, error) {
	body, err := fetch(ctx, c.client, id, c.cfg.MaxBodyBytes)
	if err != nil {
		return "", err
	}
	var doc struct {
		ClientID   string `json:"client_id"`
		ClientName string `json:"client_name"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return "", errors.New("is not a client metadata document")
	}
	if doc.ClientID != id {
		return "", errors.New("is the document of another client")
	}
	return printable(doc.ClientName), nil
}

// printable removes unsafe characters from a client name, which is arbitrary input: line
// breaks, escapes and bidirectional marks.
func printable(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return -1
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, s))
	if len(s) <= maxClientName {
		return s
	}
	cut := maxClientName
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.TrimSpace(s[:cut])
}

// permitted reports whether an address may be dialled.
func (c *clientNames) permitted(at netip.AddrPort) bool {
	return hostname.Public(at.Addr()) || slices.ContainsFunc(c.allowed, func(p netip.Prefix) bool { return p.Contains(at.Addr()) })
}
