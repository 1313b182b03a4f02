package check

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/upstream/credentials"
	"svc/gateway/upstream/targets"
)

// agent is the client name in requests to upstreams.
const agent = "svc-probe"

// asked is the result for one upstream: offer is set if the result is a success.
type asked struct {
	result ProbeResult
	offer  *catalog.Offer
}

// askUpstream reads the lists of an upstream like the gateway reads them.
func askUpstream(ctx context.Context, f *config.File, i int, o ProbeOptions) (a asked) {
	c := &f.Upstreams[i]
	a.result = timed(o, KindUpstream, c.Name, func(r *ProbeResult) {
		up, done, err := open(f, i, o)
		if err != nil {
			r.Cause, r.Advice = printable(err.Error()), "correct the files of tls and credentials of this upstream"
			if c.IsProcess() {
				r.Advice = "correct command, user or working_dir of this upstream, or children_dir"
			}
			return
		}
		defer done()
		w := &watched{Transport: up.Transport}
		l := catalog.Lister{Transport: w, Agent: agent, Version: o.Version, Protocol: c.Protocol, Caller: o.caller(c)}
		a.offer, err = l.Read(ctx, mcp.ListKinds[:]...)
		s := w.saw()
		r.Date = s.date
		if err != nil {
			r.explain(f, c, err, s)
			r.explainPath(c, s, up.Transport, o)
			return
		}
		r.OK, r.Revision = true, a.offer.Revision
	})
	return a
}

// caller is the client on whose behalf an upstream is probed; nil if the gateway has
// credentials of its own, or none.
func (o *ProbeOptions) caller(c *upstream.Config) *upstream.Caller {
	if o.CallerToken == "" || !c.PerCaller() {
		return nil
	}
	return &upstream.Caller{
		Principal: new(auth.Principal), Token: &auth.Token{ExpiresAt: o.Now().Add(time.Hour)},
		Header: http.Header{"Authorization": {"Bearer " + o.CallerToken}},
	}
}

// startTime is the additional time for the first response of an upstream: programs may
// download data, and wait for each other meanwhile.
func startTime(c *upstream.Config) time.Duration {
	if !c.IsProcess() {
		return 0
	}
	return c.StartTimeout
}

// open opens an upstream. A program gets a folder other than the gateway's, which may
// belong to another user.
func open(f *config.File, i int, o ProbeOptions) (up *upstream.Upstream, done func(), err error) {
	opts := targets.Options{Version: o.Version, Now: o.Now}
	remove := func() {}
	if f.Upstreams[i].IsProcess() {
		if opts.ChildrenDir = o.Homes; !usable(f, o.Homes) {
			if opts.ChildrenDir, err = os.MkdirTemp("", "svc-probe-"); err != nil {
				return nil, nil, err
			}
			remove = func() { _ = os.RemoveAll(opts.ChildrenDir) }
		}
	}
	if up, err = targets.NewOpener(f.Targets(), opts).Open(i); err != nil {
		remove()
		return nil, nil, err
	}
	return up, func() { _ = up.Transport.Close(); remove() }, nil
}

// usable reports whether programs can have their folders below dir, which is created: it
// may be hidden from them, because the gateway has private files beside it.
func usable(f *config.File, dir string) bool {
	return dir != "" && !targets.IsHidden(f.Targets(), dir) && os.MkdirAll(dir, 0o700) == nil
}

// pathTime bounds the search for the endpoint of a server that has none at the configured
// path.
const pathTime = 5 * time.Second

// explainPath checks a server that has no MCP endpoint at its path: for the transport of
// 2024-11-05, and for an endpoint at the most common path.
func (r *ProbeResult) explainPath(c *upstream.Config, s *seen, t upstream.Transport, o ProbeOptions) {
	if s.status < 400 || s.status >= 500 || s.status == 401 || s.status == 403 || s.status == 421 || s.status == 429 {
		return
	}
	// The timeout of the probe may be used up.
	ctx, cancel := context.WithTimeout(context.Background(), pathTime)
	defer cancel()
	if oldTransport(ctx, t) {
		r.Cause = "has the transport of 2024-11-05 (HTTP+SSE), which the gateway does not support"
		r.Advice = "use the Streamable HTTP endpoint of the server, usually /mcp, if its version has one; otherwise put a bridge from SSE to Streamable HTTP before it"
		if path := endpointAt(ctx, c, o, "/mcp"); path != "" {
			r.Advice = "use the Streamable HTTP endpoint of the same server: set the path of url to " + path
		}
		return
	}
	if path := endpointAt(ctx, c, o, "/mcp", "/"); path != "" {
		r.Advice = "set the path of url to " + path + ": this server has an MCP endpoint there"
	}
}

// endpointAt returns the first of the paths at which the server of c has an MCP endpoint;
// empty for none.
func endpointAt(ctx context.Context, c *upstream.Config, o ProbeOptions, paths ...string) string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	for _, path := range paths {
		if strings.TrimSuffix(u.Path, "/") == strings.TrimSuffix(path, "/") {
			continue
		}
		other, at := *c, *u
		at.Path, at.RawPath, at.RawQuery = path, "", ""
		other.URL = at.String()
		presented, err := credentials.New(other, credentials.Options{Now: o.Now})
		if err != nil {
			return ""
		}
		up, err := upstream.Open(other, presented, slog.New(slog.DiscardHandler), o.Now)
		if err != nil {
			return ""
		}
		l := catalog.Lister{Transport: up.Transport, Agent: agent, Version: o.Version, Protocol: c.Protocol, Caller: o.caller(c)}
		_, err = l.Read(ctx)
		up.Transport.Close()
		if err == nil {
			return path
		}
	}
	return ""
}
