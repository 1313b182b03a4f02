package check

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"svc/gateway/audit"
	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/redis"
	"svc/gateway/upstream"
)

const (
	preflightTimeout = 3 * time.Second
	maxDials         = 16
)

// ports are the default ports of URL schemes.
var ports = map[string]string{"http": "80", "https": "443", "redis": "6379", "rediss": "6379"}

// server is the address of a configured server.
type server struct {
	at      diag.At
	address string
}

// checkServers connects to every server of the configuration, and closes the
// connections.
func checkServers(ctx context.Context, root diag.At, f *config.File, o PreflightOptions) {
	list := servers(root, f)
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = preflightTimeout
	}
	errs := make([]error, len(list))
	places := make(chan struct{}, maxDials)
	var wg sync.WaitGroup
	for i, s := range list {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			dialer := net.Dialer{Timeout: timeout}
			conn, err := dialer.DialContext(ctx, "tcp", s.address)
			if err == nil {
				err = conn.Close()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i, s := range list {
		if errs[i] != nil {
			s.at.Hint("start it, correct the address, or see what keeps this machine from it").
				Warnf(codeUnreachable, "does not accept connections: %s", why(errs[i]))
		}
	}
}

// servers lists the enabled servers of the configuration.
func servers(root diag.At, f *config.File) []server {
	var list []server
	add := func(at diag.At, text string) {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			return
		}
		port := u.Port()
		if port == "" {
			port = ports[u.Scheme]
		}
		if port != "" {
			list = append(list, server{at, net.JoinHostPort(u.Hostname(), port)})
		}
	}
	for i := range f.Upstreams {
		at := root.Field("upstreams").Index(i)
		add(at.Field("url"), f.Upstreams[i].URL)
		f.Upstreams[i].Credentials.TokenClients(at.Field("credentials"), func(at diag.At, t *upstream.TokenClient) {
			add(at.Field("token_url"), t.TokenURL)
		})
	}
	for i := range f.Guardrails {
		add(root.Field("guardrails").Index(i).Field("url"), f.Guardrails[i].URL)
	}
	if f.Auth.Enabled && f.Auth.OAuth.Enabled {
		add(root.Field("auth").Field("oauth").Field("jwks_url"), f.Auth.OAuth.JWKSURL)
	}
	if f.ControlPlane.Active() {
		for i, u := range f.ControlPlane.URL {
			add(f.ControlPlane.URL.At(root.Field("control_plane").Field("url"), i), u)
		}
	}
	if c := f.Telemetry.Customer; c.Enabled {
		add(root.Field("telemetry").Field("customer").Field("endpoint"), c.Endpoint)
	}
	if c := f.Telemetry.Operator; c.Enabled {
		add(root.Field("telemetry").Field("operator").Field("endpoint"), c.Endpoint)
	}
	for i, s := range f.Audit.Sinks {
		if s.Type != audit.SinkSyslog { // UDP often has no connections
			add(root.Field("audit").Field("sinks").Index(i).Field("url"), s.URL)
		}
	}
	if c := f.RateLimitStore; c.Type == redis.TypeRedis {
		add(root.Field("rate_limit_store").Field("url"), firstHost(c.URL))
	}
	return list
}

// firstHost returns the store URL with only the first host of its list.
func firstHost(s string) string {
	head, tail, ok := strings.Cut(s, ",")
	if !ok {
		return s
	}
	if i := strings.IndexByte(tail, '/'); i >= 0 {
		return head + tail[i:]
	}
	return head
}

// why describes an error without the address, which may come from the
// environment.
func why(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if dns.IsNotFound {
			return "no such host"
		}
		return "the name cannot be resolved"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return "no answer in time"
		}
		err = op.Err
		var call interface{ Unwrap() error }
		if errors.As(err, &call) && call.Unwrap() != nil {
			err = call.Unwrap()
		}
	}
	return err.Error()
}
