package check

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/policy/guardrail"
	"svc/gateway/redis"
)

// The kinds of results.
const (
	KindUpstream     = "upstream"
	KindGuardrail    = "guardrail"
	KindIssuer       = "issuer"
	KindRedis        = "redis"
	KindControlPlane = "control_plane"
)

// ProbeResult is the result for one server.
type ProbeResult struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Revision is the protocol revision that was used with an upstream.
	Revision string `json:"revision"`
	// Tools, Prompts and Resources are the numbers of items that an upstream lists; templates
	// count as resources.
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	// Skills is the number of skills that an upstream lists, with those that no host may load
	// (SkillsInvalid) and those that are not approved (SkillsChanged, with pin_skills).
	Skills        int `json:"skills"`
	SkillsInvalid int `json:"skills_invalid"`
	SkillsChanged int `json:"skills_changed"`
	// Clashes are the names that belong to other upstreams or look like theirs, Unrouted the tools
	// that no call reaches, and LeftOut the items that clients cannot see or read, each with the
	// reason.
	Clashes  []string `json:"clashes"`
	Unrouted []string `json:"unrouted"`
	LeftOut  []string `json:"left_out"`
	MS       int64    `json:"ms"`
	// Cause is the reason of a failure, and Advice what to do. A server that works may have
	// Advice too.
	Cause  string `json:"cause"`
	Advice string `json:"advice"`

	// Date is the time of the server's clock, zero if unknown, and At the local time when it
	// was read.
	Date, At time.Time `json:"-"`
}

// ProbeOptions are the dependencies and settings of a probe.
type ProbeOptions struct {
	// Version is the gateway's own version.
	Version string
	// Now returns the current time.
	Now func() time.Time
	// Timeout bounds the probe of one server; 0 is 15 s. The timeouts of the configuration
	// apply too. A program has its start_timeout in addition.
	Timeout time.Duration
	// Homes is the directory in which programs have their home folders during the probe, one
	// for each upstream. Data that a program downloads at its first start is reused by the
	// next probe. If it is empty, each probe uses a new folder, which is removed afterwards.
	Homes string
	// ControlPlane requests the policies of this gateway from the control plane at a URL, and
	// compares the key of its name (ErrNameBound); nil if the configuration names none.
	ControlPlane func(ctx context.Context, url string) error
	// Status returns the HTTP status of an error of ControlPlane, 0 without a response.
	Status func(error) int
	// CallerToken is the token of a caller that is exchanged for one of an upstream with
	// token_exchange or id_jag; empty for none. It is not verified here.
	CallerToken string
	// Roots are the certificate authorities for the token issuer; the system's when nil.
	Roots *x509.CertPool
}

// ErrNameBound is the error of a name that the control plane has bound to another key than that of
// audit.checkpoint_key_file: it refuses the gateway's reports and audit heads.
var ErrNameBound = errors.New("the name of the gateway is bound to another key")

const (
	probeTimeout = 15 * time.Second
	// maxAsked bounds the number of servers that are probed concurrently.
	maxAsked = 16
	// maxNames bounds each list of names in a result.
	maxNames = 100
	// maxText bounds texts of servers in a result, in bytes.
	maxText = 200
)

// Run probes all servers of a valid configuration. The results are in the order of the file,
// by kind.
func Probe(ctx context.Context, f *config.File, o ProbeOptions) []ProbeResult {
	o.Timeout = cmp.Or(o.Timeout, probeTimeout)
	upstreams := make([]asked, len(f.Upstreams))
	guards := make([]ProbeResult, len(f.Guardrails))
	others := otherServers(f, o)
	rest := make([]ProbeResult, len(others))
	slots := make(chan struct{}, maxAsked)
	var wg sync.WaitGroup
	run := func(more time.Duration, ask func(ctx context.Context)) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, o.Timeout+more)
			defer cancel()
			ask(ctx)
		})
	}
	for i := range f.Upstreams {
		run(startTime(&f.Upstreams[i]), func(ctx context.Context) { upstreams[i] = askUpstream(ctx, f, i, o) })
	}
	for i := range f.Guardrails {
		run(0, func(ctx context.Context) { guards[i] = askGuardrail(ctx, f.Guardrails[i], o) })
	}
	for i, ask := range others {
		run(0, func(ctx context.Context) { rest[i] = ask(ctx) })
	}
	wg.Wait()
	results := judge(f, upstreams)
	results = append(append(results, guards...), rest...)
	for i := range results {
		results[i].complete()
	}
	return results
}

// Failed reports whether any result has failed.
func Failed(results []ProbeResult) bool {
	for i := range results {
		if !results[i].OK {
			return true
		}
	}
	return false
}

// complete bounds the lists, and replaces nil lists by empty ones.
func (r *ProbeResult) complete() {
	for _, list := range []*[]string{&r.Clashes, &r.Unrouted, &r.LeftOut} {
		switch n := len(*list); {
		case n == 0:
			*list = []string{}
		case n > maxNames:
			*list = append((*list)[:maxNames:maxNames], fmt.Sprintf("and %d more", n-maxNames))
		}
	}
}

// timed sets the duration of a probe.
func timed(o ProbeOptions, kind, name string, ask func(r *ProbeResult)) ProbeResult {
	r := ProbeResult{Kind: kind, Name: name}
	start := o.Now()
	ask(&r)
	r.At = o.Now()
	r.MS = r.At.Sub(start).Milliseconds()
	return r
}

// askGuardrail sends a plain GET, as 'svc guardrail probe' does.
func askGuardrail(ctx context.Context, c guardrail.Config, o ProbeOptions) ProbeResult {
	return timed(o, KindGuardrail, c.Name, func(r *ProbeResult) {
		p := guardrail.Probe(ctx, []guardrail.Config{c}, o.Now)[0]
		switch {
		case p.Unchecked:
			r.Cause, r.Advice = "not asked: "+printable(p.Err.Error()), "correct the tls section of this guardrail"
		case p.Err != nil:
			r.explainNetwork(p.Err, "this guardrail")
		case p.Status >= 500:
			r.Cause = fmt.Sprintf("answers with status %d (%s)", p.Status, http.StatusText(p.Status))
			r.Advice = "see the log of the guardrail; until it answers, its fail posture applies to messages"
		default:
			r.OK = true
		}
	})
}

// otherServers are the servers of the configuration that are neither upstreams nor guardrails.
func otherServers(f *config.File, o ProbeOptions) (list []func(context.Context) ProbeResult) {
	if f.Auth.Enabled && f.Auth.OAuth.Enabled {
		list = append(list, func(ctx context.Context) ProbeResult { return askIssuer(ctx, f, o) })
	}
	if f.RateLimitStore.Type == redis.TypeRedis {
		list = append(list, func(ctx context.Context) ProbeResult { return askRedis(ctx, f.RateLimitStore, o) })
	}
	if o.ControlPlane != nil {
		for _, u := range f.ControlPlane.URL {
			name := "control_plane"
			if len(f.ControlPlane.URL) > 1 {
				name = u
			}
			list = append(list, func(ctx context.Context) ProbeResult { return askControlPlane(ctx, o, name, u) })
		}
	}
	return list
}

// askIssuer fetches the keys that verify tokens.
func askIssuer(ctx context.Context, f *config.File, o ProbeOptions) ProbeResult {
	return timed(o, KindIssuer, f.Auth.OAuth.Issuer, func(r *ProbeResult) {
		oauth := auth.NewOAuth(auth.OAuthOptions{Now: o.Now, Logger: slog.New(slog.DiscardHandler), Roots: o.Roots})
		defer oauth.Close()
		keys, err := oauth.FetchKeys(ctx, f.Auth.OAuth.JWKSURL)
		switch {
		case errors.Is(err, auth.ErrKeySet):
			r.Cause = "jwks_url answers, but not with a key set: " + printable(err.Error())
			r.Advice = "set auth.oauth.jwks_url to the jwks_uri of the issuer's metadata (its URL with /.well-known/openid-configuration or /.well-known/oauth-authorization-server)"
		case err != nil:
			r.explainNetwork(err, "auth.oauth.jwks_url")
		case keys == 0:
			r.Cause = "the key set holds no key that can verify a token"
			r.Advice = "the issuer must publish a key for signatures, RSA or elliptic curve (use: sig)"
		default:
			r.OK = true
		}
	})
}

// askRedis pings the store of the rate limits.
func askRedis(ctx context.Context, c redis.StoreConfig, o ProbeOptions) ProbeResult {
	return timed(o, KindRedis, "rate_limit_store", func(r *ProbeResult) {
		store, err := redis.NewRedis(c, nil)
		if err == nil {
			defer store.Close()
			err = store.Ping(ctx)
		}
		if err == nil {
			r.OK = true
			return
		}
		r.explainNetwork(err, "rate_limit_store.url")
		if text := err.Error(); containsAny(text, "NOAUTH", "WRONGPASS", "NOPERM", "invalid username-password") {
			r.Cause, r.Advice = "Redis does not accept the credentials", "put a user and password with access to this Redis into rate_limit_store.url (redis://USER:PASSWORD@HOST)"
		}
	})
}

// askControlPlane requests the policies of this gateway, which needs the same key as reporting
// traces.
func askControlPlane(ctx context.Context, o ProbeOptions, name, url string) ProbeResult {
	return timed(o, KindControlPlane, name, func(r *ProbeResult) {
		err := o.ControlPlane(ctx, url)
		status := 0
		if err != nil && o.Status != nil {
			status = o.Status(err)
		}
		switch {
		case err == nil:
			r.OK = true
		case errors.Is(err, ErrNameBound):
			r.Cause = printable(err.Error())
			r.Advice = "give the gateway a name of its own in control_plane.gateway, use the key file of the other replicas, or accept a new key: svc audit heads accept"
		case status == http.StatusUnauthorized:
			r.Cause, r.Advice = "does not accept the key (status 401)", "set control_plane.ingest_key to a key of scope ingest that exists there: svc keys create --name gateway --scope ingest"
		case status == http.StatusForbidden:
			r.Cause, r.Advice = "the key may not do this (status 403)", "set control_plane.ingest_key to a key of scope ingest: svc keys create --name gateway --scope ingest"
		case status == http.StatusNotFound:
			r.Cause, r.Advice = "answers with status 404: this is not a control plane", "set control_plane.url to the base URL of 'svc serve', without a path"
		case status != 0:
			r.Cause, r.Advice = fmt.Sprintf("answers with status %d: %s", status, printable(err.Error())), "see the log of the control plane"
		default:
			r.explainNetwork(err, "control_plane.url")
		}
	})
}
