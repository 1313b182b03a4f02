// Package server is the control plane: it answers the REST API over a store
// (control-plane specification).
//
// It owns routes, authentication by API key, tenancy, permissions, rate
// windows, idempotent retries, the conventions of requests and answers, and
// one handler per endpoint, one file per noun. It leaves the wire types to
// server/api, durability and queries to the store, listening, TLS and signals
// to whoever runs it as a process.
//
// A request goes through serve in handler.go from top to bottom. What an
// endpoint is called, who may call it and which window it counts in stands in
// the table in routes.go.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"svc/server/api"
	"svc/server/otlp"
	"svc/server/pricing"
	"svc/store"
)

// Defaults of Options.
const (
	DefaultRateLimit       = 60  // requests a minute and tenant
	DefaultIngestRateLimit = 600 // ingest requests a minute and tenant
)

// Options are what a Server is made of.
type Options struct {
	// Records holds everything but traces; required. The caller closes it.
	Records store.Records
	// Traces holds the traces; required. It is the same value as Records where one
	// engine is both.
	Traces store.Traces
	// Writable reports why Records takes no writes at present, as a probe found out; nil
	// means that only Records.Ready is asked.
	Writable func() error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger takes what an operator should know; nil means nothing is logged.
	// Secrets and bodies never reach it.
	Logger *slog.Logger
	// RateLimit is how many requests a tenant may make in any minute; 0 means
	// DefaultRateLimit. A client address without a valid key has as many.
	RateLimit int
	// IngestRateLimit is the same for the ingest endpoints, which have a
	// window of their own; 0 means DefaultIngestRateLimit.
	IngestRateLimit int
	// Windows are shared by all processes of the store; nil means that each process counts
	// the requests that it answers itself. Those of client addresses without a valid key
	// are never shared.
	Windows SharedWindows
	// WebhookSecret is the shared secret of the identity provider; empty means
	// that the webhook receiver refuses everything.
	WebhookSecret string
	// Pricing prices traces that come without a cost; nil means the embedded
	// table.
	Pricing *pricing.Table
}

// Server is the control plane as an http.Handler. It is safe for concurrent
// use and has no work of its own in the background.
type Server struct {
	records       store.Records
	traces        store.Traces
	writable      func() error
	notReady      atomic.Pointer[string] // the reason that was logged last
	now           func() time.Time
	log           *slog.Logger
	webhookSecret []byte

	mux       *http.ServeMux
	api       *windows // requests per tenant
	ingest    *windows // ingest requests per tenant
	addresses *windows // requests per client address without a valid key
	shared    SharedWindows

	largePageSlots chan struct{} // slots for making long pages of traces
	bodies         *bodyMemory   // request bodies in memory

	prices  *pricing.Table
	otlp    *otlp.Assembler
	streams *streams
	bundles *bundles
	metrics *metrics

	// scopesMu makes reading a team's scopes and replacing them one step, so
	// that nobody restores what was taken away in between.
	scopesMu sync.Mutex
}

// New returns a Server over o.Store.
func New(o Options) (*Server, error) {
	if o.Records == nil || o.Traces == nil {
		return nil, errors.New("server: Options.Records and Options.Traces are required")
	}
	if o.RateLimit < 0 || o.IngestRateLimit < 0 {
		return nil, errors.New("server: rate limits must not be negative")
	}
	s := &Server{
		records:        o.Records,
		traces:         o.Traces,
		writable:       o.Writable,
		now:            o.Now,
		log:            o.Logger,
		webhookSecret:  []byte(o.WebhookSecret),
		largePageSlots: make(chan struct{}, maxLongPages),
		bodies:         newBodyMemory(maxBodiesInMemory, maxTenantBodiesInMemory),
	}
	if s.writable == nil {
		s.writable = func() error { return nil }
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.prices = o.Pricing; s.prices == nil {
		var err error
		if s.prices, err = pricing.Default(); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	s.otlp, s.streams, s.bundles, s.metrics = otlp.NewAssembler(s.prices), newStreams(), newBundles(), newMetrics(storesOf(o), s.bodies, s.ready)
	limit, ingest := o.RateLimit, o.IngestRateLimit
	if limit == 0 {
		limit = DefaultRateLimit
	}
	if ingest == 0 {
		ingest = DefaultIngestRateLimit
	}
	s.api, s.ingest, s.addresses = newWindows(limit, 0), newWindows(ingest, 0), newWindows(limit, maxAddresses)
	s.api.kind, s.ingest.kind = "api", "ingest"
	if s.shared = o.Windows; s.shared != nil {
		s.metrics.countWindows(s.shared)
	} else {
		s.metrics.countWindows(ownWindows{})
	}
	s.mux = s.newMux(routes())
	return s, nil
}

// storesOf lists the stores of a server: one where an engine is both.
func storesOf(o Options) []store.Opened {
	if any(o.Records) == any(o.Traces) {
		return []store.Opened{o.Records}
	}
	return []store.Opened{o.Records, o.Traces}
}

// resource is one path of the API with the route of each of its methods.
type resource struct {
	pattern string
	methods map[string]*route
	allow   string // the methods, as the Allow header lists them
}

// newMux registers each path once, without a method: the mux then never
// answers 404 or 405 by itself (its answers are text), and never turns HEAD
// into GET.
func (s *Server) newMux(table []route) *http.ServeMux {
	mux := http.NewServeMux()
	byPath := map[string]*resource{}
	for i := range table {
		rt := &table[i]
		res, ok := byPath[rt.path]
		if !ok {
			res = &resource{pattern: rt.path, methods: map[string]*route{}}
			byPath[rt.path] = res
			mux.HandleFunc(rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, res) })
		}
		res.methods[rt.method] = rt
		if res.allow != "" {
			res.allow += ", "
		}
		res.allow += rt.method
	}
	unknown := func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, nil) }
	mux.HandleFunc("/api", unknown)
	mux.HandleFunc("/api/", unknown)
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/readyz", s.readyz)
	mux.HandleFunc("/", s.notFound)
	return mux
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", "req_"+rand.Text())
	// The mux answers these by itself, with a redirect or with text.
	if r.RequestURI == "*" || r.Method == http.MethodConnect {
		s.notFound(w, r)
		return
	}
	if p := path.Clean(r.URL.Path); p != r.URL.Path && p+"/" != r.URL.Path {
		if underAPI(r.URL.Path) || underAPI(p) {
			s.serve(w, r, nil)
		} else {
			s.notFound(w, r)
		}
		return
	}
	s.mux.ServeHTTP(w, r)
}

func underAPI(p string) bool { return p == "/api" || strings.HasPrefix(p, "/api/") }

// recover turns a panic into a 500 and a log line with the stack. Where the
// answer has begun there is nothing to put right: the connection is cut, so
// that half an answer is not taken for a whole one.
func (s *Server) recover(c *call) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.log.Error("handler panicked", "request_id", c.id, "method", c.Method, "route", c.pattern(),
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if c.w.began {
		panic(http.ErrAbortHandler)
	}
	c.reply(outcome(errPanicked, c.id))
	c.flush()
}

var errPanicked = errors.New("handler panicked")

// healthz says that the process answers at all.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	s.probe(w, r, nil)
}

// readyz says whether the store takes writes too. Why it does not is for the log and
// for the metrics listener.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	err := s.ready(r.Context())
	s.logReadiness(err)
	s.probe(w, r, err)
}

// ready is why the store of the records takes no writes at present; nil when it does.
func (s *Server) ready(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.records.Ready(ctx)
}

// logReadiness logs a reason once, and when it is gone.
func (s *Server) logReadiness(err error) {
	if err == nil {
		if s.notReady.Swap(nil) != nil {
			s.log.Info("store is ready again")
		}
		return
	}
	why := err.Error()
	if was := s.notReady.Swap(&why); was == nil || *was != why {
		s.log.Error("store is not ready", "error", err)
	}
}

// Readiness returns the handler of /readyz for the metrics listener: with the
// parameter verbose it says why the server is not ready.
func (s *Server) Readiness() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.ready(r.Context())
		if err == nil || !r.URL.Query().Has("verbose") {
			s.probe(w, r, err)
			return
		}
		writeJSON(w, http.StatusServiceUnavailable, encode(health{Status: "unavailable", Reason: err.Error()}))
	})
}

// probe answers a health question; GET and HEAD only.
func (s *Server) probe(w http.ResponseWriter, r *http.Request, err error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeJSON(w, errMethod.status, encode(api.Error{Error: errMethod.message}))
		return
	}
	if err != nil {
		writeJSON(w, http.StatusServiceUnavailable, encode(health{Status: "unavailable"}))
		return
	}
	writeJSON(w, http.StatusOK, encode(health{Status: "ok"}))
}

// health is the body of /healthz and /readyz.
type health struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// readyTimeout bounds how long /readyz waits for the store.
const readyTimeout = 2 * time.Second

// notFound answers what is neither the API nor a probe.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusNotFound, encode(api.Error{Error: "not found; the API is under /api"}))
}
