package requesttest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/base/background"
	"svc/gateway/config"
	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/policy/flow"
	"svc/gateway/redis"
	"svc/gateway/request"
	"svc/gateway/request/multiplex"
	"svc/gateway/request/streams"
	"svc/gateway/session"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// Upstream is an upstream that is a function.
type Upstream func(method string, r *upstream.Request) (*upstream.Response, error)

func (u Upstream) Post(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	return u(http.MethodPost, r)
}

func (u Upstream) Listen(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	return u(http.MethodGet, r)
}

func (u Upstream) End(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	return u(http.MethodDelete, r)
}

// Address is the address in logs.
func (u Upstream) Address() string { return "function" }

// Close does nothing.
func (u Upstream) Close() error { return nil }

// Respond returns a response of an upstream.
func Respond(status int, contentType, body string) *upstream.Response {
	resp := &upstream.Response{HTTPResponse: upstream.HTTPResponse{Status: status, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}}
	if contentType != "" {
		resp.Header.Add("Content-Type", contentType)
	}
	return resp
}

// Services are the services of a gateway with the upstream "tools".
type Services struct {
	*request.Services
	t    testing.TB
	path string
}

// New makes services. The text is the policy section of a configuration and any other sections;
// authentication is off.
func New(t testing.TB, text string, up Upstream) *Services {
	t.Helper()
	dir := t.TempDir()
	s := &Services{Services: new(request.Services), t: t, path: filepath.Join(dir, "audit.jsonl")}
	cfg, findings := config.Parse("gateway.yaml", []byte("listen: 127.0.0.1:0\nlicense: {path: /license.jwt}\nsse_keepalive: 0s\naudit: {path: '"+s.path+"'}\n"+
		"auth: {enabled: false}\nupstreams:\n  - {name: tools, url: http://127.0.0.1:1/mcp}\ndefault_upstream: tools\n"+text), func(string) (string, bool) { return "", false })
	if cfg == nil {
		t.Fatal(findings)
	}
	s.Log, s.Now, s.Since = slog.New(slog.DiscardHandler), time.Now, time.Since
	s.Versions, s.DefaultUpstream = mcp.Allowed(cfg.AllowedProtocolVersions), cfg.DefaultUpstream
	s.Targets = map[string]*upstream.Upstream{"tools": {Name: "tools", Transport: up, Direct: up, Timeout: time.Minute}}
	s.Bodies, s.WriteTimeout, s.Merged.Pauses = bodies.New(), streams.DefaultWriteTimeout, streams.Reopening
	s.Limits = redis.NewMemory(0, s.Now())
	s.Failures, s.Strangers = request.NewFailures(s.Log), request.NewStrangers(s.Log)
	s.Background = background.New(s.Log)
	s.Stopping = t.Context()
	verifier, oauth := auth.NewVerifier(s.Now), auth.NewOAuth(auth.OAuthOptions{Now: s.Now, Logger: s.Log})
	sealer, err := session.NewSealer(make([]byte, 32))
	var errs [5]error
	errs[0] = err
	s.Flow, errs[4] = flow.Open(flow.Options{Names: cfg.DataFlow.Names(), Window: cfg.DataFlow.Window, Now: s.Now})
	s.Proxies, errs[1] = http1.NewClientAddress(cfg.TrustedProxies, cfg.ClientAddressHeader)
	s.Router, errs[2] = upstream.NewRouter(cfg.Routes)
	s.Audit, errs[3] = audit.Open(cfg.Audit, audit.Options{})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	s.Refused = request.NewRefused(request.Options{Write: s.Audit.WriteRefused, Lost: s.Audit.CountLost, Now: s.Now, Logger: s.Log})
	s.Sessions = multiplex.Open(multiplex.Options{
		Upstreams: s.Targets, Default: s.DefaultUpstream, Background: s.Background, Sealer: sealer, Logger: s.Log, Joined: s.Merged.Attach,
	}, multiplex.StateOptions{Dir: dir, MaxTasks: 10, TaskTTL: time.Hour, Now: s.Now})
	live, err := request.Build(cfg, request.Sources{Listen: cfg.Listen, Limits: s.Limits, Verifier: verifier, OAuth: oauth, Logger: s.Log, Now: s.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.Live.Store(live)
	s.Services.Bodies.SetLimit(cfg.Limits.BodyBytes)
	t.Cleanup(func() {
		s.Background.Stop()
		oauth.Close()
		verifier.Close()
		live.Verdict.Guards.Close()
		s.Refused.Close(time.Second)
		s.Failures.Close()
		if err := errors.Join(s.Sessions.Close(), s.Audit.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Lines returns the audit lines so far, without checkpoints.
func (s *Services) Lines() (lines []map[string]any) {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			s.t.Fatal(err)
		}
		if members["kind"] != "checkpoint" {
			lines = append(lines, members)
		}
	}
	return lines
}
