package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
	"svc/server/background"
	"svc/server/otlp"
	"svc/server/pricing"
	"svc/store"
	"svc/store/api"
)

// Defaults of Options.
const (
	DefaultRateLimit       = 60  // requests per minute and tenant
	DefaultIngestRateLimit = 600 // ingest requests per minute and tenant
)

// Options configure a Server.
type Options struct {
	// Records holds everything but traces; required. The caller closes it.
	Records store.Records
	// Traces holds the traces; required. It is the same value as Records where one
	// engine is both.
	Traces store.Traces
	// ClockJump returns how far the clock is from the latest time that the store keeps, while
	// retention does not accept it; nil: 0. It is called for the metrics only.
	ClockJump func() time.Duration
	// RemovedTraces returns the number of traces that retention has removed since the start;
	// nil where this process does no retention.
	RemovedTraces func() uint64
	// OpenApprovals returns the number of approvals that nobody has decided, as the background
	// work counted them; nil where this process does none of it.
	OpenApprovals func() int64
	// Writable returns the reason why Records currently takes no writes, as a probe found
	// out, or nil. When the function is nil, only Records.Ready is called.
	Writable func() error
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger gets the messages for operators; nil means no logging. Secrets and bodies are
	// never logged.
	Logger *slog.Logger
	// RateLimit is how many requests a tenant may make in any minute; 0 means
	// DefaultRateLimit. A client address without a valid key has as many.
	RateLimit int
	// IngestRateLimit is the same for the ingest endpoints, which have their own window; 0
	// means DefaultIngestRateLimit.
	IngestRateLimit int
	// Windows are shared by all processes of the store; nil means that each process counts
	// only the requests that it serves itself. The windows of client addresses without a
	// valid key are never shared.
	Windows SharedWindows
	// IdentitySecret is the secret shared with the identity provider; when it is empty, the
	// webhook rejects every request.
	IdentitySecret string
	// WebhookHTTP allows webhooks with http URLs, whose messages are sent to allowed addresses only.
	WebhookHTTP bool
	// PageHost is the name under which people reach the page; empty: messages have no links.
	PageHost string
	// Deliveries returns the number of messages to webhooks since the start by result, and how many
	// wait; nil where this process sends none.
	Deliveries func() background.DeliveryCounts
	// Pricing prices traces that come without a cost; nil means the embedded price table.
	Pricing *pricing.Table
}

// Server is the control plane as an http.Handler. It is safe for concurrent use. Its only
// goroutines belong to requests.
type Server struct {
	records        store.Records
	traces         store.Traces
	writable       func() error
	notReady       atomic.Pointer[string] // the reason in the last log line
	unavailable    retry.Repeats          // requests that failed because a store is unavailable
	restored       lastRestore
	now            func() time.Time
	log            *slog.Logger
	identitySecret []byte
	webhookHTTP    bool
	pageHost       string
	// refusedEvents bounds the log of refused deliveries.
	refusedEvents refusedEvents

	mux       *http.ServeMux
	api       *windows      // requests per tenant
	ingest    *windows      // ingest requests per tenant
	approvals *windows      // requests of gateways about approvals, per key
	keyTags   retry.Repeats // gateways with different session keys
	// Reports of gateways, per key and per instance.
	allReports, reports *windows
	refusedReports      retry.Repeats
	fleets              fleets
	began               time.Time // before it, this process has heard of no gateway
	addresses           *windows  // requests per client address without a valid key
	shared              SharedWindows

	largePageSlots chan struct{} // semaphore for the responses with long pages of traces
	bodies         *bodyMemory   // request bodies in memory

	prices  *pricing.Table
	otlp    *otlp.Assembler
	streams *streams
	bundles *bundles
	metrics *metrics

	// scopesMu makes reading and replacing a team's scopes atomic, so that no concurrent
	// change restores a scope that was removed.
	scopesMu sync.Mutex
}

// New returns a Server over o.Records and o.Traces.
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
		identitySecret: []byte(o.IdentitySecret),
		webhookHTTP:    o.WebhookHTTP,
		pageHost:       o.PageHost,
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
	if o.IdentitySecret == "" {
		s.log.Info("IDP_WEBHOOK_SECRET is not set: events of an identity provider are refused, so that it cannot revoke users")
	}
	if s.prices = o.Pricing; s.prices == nil {
		var err error
		if s.prices, err = pricing.Default(); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	s.otlp, s.streams, s.bundles, s.metrics = otlp.NewAssembler(s.prices), newStreams(), newBundles(), newMetrics(storesOf(o), s.bodies, s.ready, o.ClockJump, o.RemovedTraces, o.OpenApprovals)
	s.metrics.countDeliveries(o.Deliveries)
	limit, ingest := o.RateLimit, o.IngestRateLimit
	if limit == 0 {
		limit = DefaultRateLimit
	}
	if ingest == 0 {
		ingest = DefaultIngestRateLimit
	}
	s.api, s.ingest, s.addresses = newWindows(limit, 0), newWindows(ingest, 0), newWindows(limit, maxAddresses)
	s.approvals = newWindows(approvalsPerMinute, 0)
	s.allReports, s.reports = newWindows(reportsPerMinute*store.MaxGatewayInstances, 0), newWindows(reportsPerMinute, maxReportWindows)
	s.began = s.now()
	s.api.kind, s.ingest.kind, s.approvals.kind = "api", "ingest", "approval"
	if s.shared = o.Windows; s.shared != nil {
		s.metrics.countWindows(s.shared)
	} else {
		s.metrics.countWindows(ownWindows{})
	}
	s.mux = s.newMux(routes())
	return s, nil
}

// storesOf lists the stores of a server: one when the same engine is both.
func storesOf(o Options) []store.Opened {
	if any(o.Records) == any(o.Traces) {
		return []store.Opened{o.Records}
	}
	return []store.Opened{o.Records, o.Traces}
}

// resource is one path of the API with the routes of its methods.
type resource struct {
	pattern string
	methods map[string]*route
	allow   string // the methods, as the Allow header lists them
}

// newMux registers each path once, without a method. So the mux never answers 404 or 405
// itself (its responses are plain text), and never maps HEAD to GET.
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
	mux.HandleFunc("/favicon.ico", s.favicon)
	mux.HandleFunc("/robots.txt", s.robots)
	mux.HandleFunc("/{$}", s.noPage)
	mux.HandleFunc("/", s.notFound)
	return mux
}

// ServeHTTP serves one request. It is safe for concurrent use.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", "req_"+rand.Text())
	// For these the mux would answer itself, with a redirect or plain text.
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

// recover turns a panic into a 500 and a log line with the stack. When the response has
// begun, the connection is aborted, so that the client does not take a partial response
// for a complete one.
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
	if c.w.Status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.reply(outcome(errPanicked, c.id))
	c.flush()
}

var errPanicked = errors.New("handler panicked")

// healthz reports that the process is running.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	s.probe(w, r, nil)
}

// readyz reports whether the store takes writes. The reason for an error is in the log and
// on the metrics listener only.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	err := s.ready(r.Context())
	s.logReadiness(err)
	s.probe(w, r, err)
}

// ready returns the reason why the store of the records currently takes no writes; nil
// when it does.
func (s *Server) ready(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.records.Ready(ctx)
}

// logReadiness logs a reason once, and once more when the store is ready again.
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

// Readiness returns the handler of /readyz for the metrics listener. With the parameter
// verbose the response has the reason why the server is not ready.
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

// probe answers a health check; GET and HEAD only.
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

// readyTimeout bounds the time that /readyz waits for the store.
const readyTimeout = 2 * time.Second

// notFound answers paths that are neither of the API nor a health check.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusNotFound, encode(api.Error{Error: "not found; the API is under /api"}))
}

// noPage answers browsers at the address of the page that svc serve --ui serves.
func (s *Server) noPage(w http.ResponseWriter, r *http.Request) {
	if read := r.Method == http.MethodGet || r.Method == http.MethodHead; !read || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.notFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	_, _ = io.WriteString(w, noPageText) // the client has disconnected
}

const noPageText = `<!doctype html><html lang="en"><meta charset="utf-8"><title>svc</title>
<p>This is the control plane of svc. Its REST API is under <code>/api</code>.</p>
<p>It has no page for browsers here: <code>svc serve --ui</code> serves one.</p></html>
`

// favicon answers browsers that ask for the icon of an address: there is none.
func (s *Server) favicon(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=86400")
	w.WriteHeader(http.StatusNoContent)
}

// robots keeps crawlers away.
func (s *Server) robots(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "public, max-age=86400")
	_, _ = io.WriteString(w, "User-agent: *\nDisallow: /\n") // the client has disconnected
}
