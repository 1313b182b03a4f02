package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"svc/store"
	"svc/store/api"
)

// call is one request with its key, its tenant and its response. Handlers query
// the store only through the tenant, so that no query can omit it.
type call struct {
	*http.Request
	w     *Writer
	id    string // request id, as in X-Request-Id
	now   time.Time
	route *route // nil when no route matched

	// On routes that need a key:
	key    store.Key
	team   *store.Team // what the key is limited to; nil for no limit
	tenant store.Tenant
	traces store.TenantTraces

	read   []byte // the body, after it was read
	server *Server
	held   int64 // bytes of bodies counted for this request

	// The response. Handlers set it and serve sends it, so that it can be stored
	// for a retry before the client gets it.
	status int
	body   []byte
	// replayBody is the body for a retry, where it differs from body.
	replayBody []byte

	idempotent     *store.IdempotentRequest // set while a POST with an Idempotency-Key runs
	responseStored bool                     // whether a retry gets the stored response
}

// Writer records the status of a response.
type Writer struct {
	http.ResponseWriter
	Status int // 0 before the response has begun
}

// WriteHeader begins the response.
func (w *Writer) WriteHeader(status int) {
	if w.Status == 0 {
		w.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Writer) Write(b []byte) (int, error) {
	if w.Status == 0 {
		w.Status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Identified reports to the connection that its sender is known: it may have more streams.
func (w *Writer) Identified() {
	if conn, ok := w.ResponseWriter.(interface{ Identified() }); ok {
		conn.Identified()
	}
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serve handles every request under /api; res is nil when no route has the path.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, res *resource) {
	c := &call{Request: r, w: &Writer{ResponseWriter: w}, id: w.Header().Get("X-Request-Id"), now: s.now(), server: s}
	began := time.Now()
	defer func() { s.metrics.served(c, c.w.Status, time.Since(began)) }()
	defer c.releaseBody()
	defer s.recover(c)
	if res != nil {
		c.route = res.methods[r.Method]
	}
	if err := s.run(c, res); err != nil {
		s.fail(c, err)
	}
	c.flush()
}

// run checks a request in the order of the specification: authentication (401),
// rate limit (429), path and method (404, 405), permission (403). Then it calls
// the handler.
func (s *Server) run(c *call, res *resource) error {
	if c.route != nil && c.route.public {
		return c.route.handle(s, c)
	}
	if err := s.authenticate(c); err != nil {
		var f *failure
		if !errors.As(err, &f) {
			setRateHeaders(c.w.Header(), s.addresses.peek(clientAddress(c.Request), c.now))
			return err
		}
		if err := c.count(s.addresses, clientAddress(c.Request)); err != nil {
			return err
		}
		return err
	}
	c.w.Identified()
	ws, name := s.api, c.tenant.ID()
	if c.route != nil && c.route.window == ingestWindow {
		ws = s.ingest
	}
	if c.route != nil && c.route.window == approvalWindow {
		ws, name = s.approvals, c.key.ID
	}
	if c.route != nil && c.route.window == reportWindow {
		ws, name = s.allReports, c.key.ID // who floods reports with a key shuts out no gateway with another one
	}
	if inProcess(c.Context()) == nil {
		if err := c.count(ws, name); err != nil {
			return err
		}
	}
	if c.route == nil {
		if res == nil {
			return noRoute(c.URL.Path)
		}
		c.w.Header().Set("Allow", res.allow)
		return errMethod
	}
	if err := c.permit(); err != nil {
		return err
	}
	if err := c.checkQuery(); err != nil {
		return err
	}
	if err := c.changing(); err != nil {
		return err
	}
	if c.route.idempotent && c.Header.Get(idempotencyHeader) != "" {
		return s.withIdempotency(c)
	}
	return c.route.handle(s, c)
}

// count counts the request in a window and sets the rate limit headers of the
// response.
func (c *call) count(ws *windows, name string) error {
	var q quota
	if shared := c.server.shared; shared != nil && ws.kind != "" {
		q = ws.takeShared(c.Context(), shared, name, c.now)
	} else {
		q = ws.take(name, c.now)
	}
	setRateHeaders(c.w.Header(), q)
	if !q.allowed {
		return errTooMany
	}
	return nil
}

// unavailableEvery is the time between two log lines about requests that fail because a store
// is unavailable.
const unavailableEvery = time.Minute

// logUnavailable logs a failure of a store: the first at once, then one line per minute with
// the number of failures. The metrics count each request.
func (s *Server) logUnavailable(event string, c *call, err error) {
	if n, due := s.unavailable.Due(time.Now(), unavailableEvery); due {
		s.log.Error(event, "request_id", c.id, "method", c.Method, "route", c.pattern(), "error", err, "failures", n, "within", unavailableEvery.String())
	}
}

// fail sets the response for an error, and logs the error once when it is a fault
// of the server.
func (s *Server) fail(c *call, err error) {
	f := outcome(err, c.id)
	if f == errDiskFull && (c.route == nil || c.route.window != apiWindow || c.Method == http.MethodGet) {
		// Programs send traces, audit heads and identity events, and for an exporter of OTLP every
		// 5xx but 502, 503 and 504 means that it must drop the data. A read stores nothing: its
		// engine lacked space for temporary files.
		f = errUnavailable
	}
	switch {
	case f.status < 500:
		s.log.Debug("request refused", "request_id", c.id, "method", c.Method, "route", c.pattern(), "status", f.status, "reason", f.message)
	case abandoned(c.Context(), err):
		s.log.Debug("client left", "request_id", c.id, "method", c.Method, "route", c.pattern())
	case f.status == http.StatusServiceUnavailable, f == errDiskFull:
		// While a store is unavailable, each request fails.
		s.logUnavailable("request failed", c, err)
	default:
		s.log.Error("request failed", "request_id", c.id, "method", c.Method, "route", c.pattern(), "error", err)
	}
	switch f.status {
	case http.StatusUnauthorized:
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		c.w.Header().Set("Retry-After", unavailableFor)
	}
	c.reply(f)
}

// reply sets the response of a failure.
func (c *call) reply(f *failure) {
	c.replayBody = nil
	c.status, c.body = f.status, encode(api.Error{Error: f.message, Details: f.details})
}

// flush sends the response, unless the handler has already sent one.
func (c *call) flush() {
	if c.w.Status != 0 || c.status == 0 {
		return
	}
	LimitWrite(c.w, len(c.body))
	writeJSON(c.w, c.status, c.body)
}

// LimitWrite bounds the time in which a client may read a response of a number of bytes: a client that does not read a
// large one must not keep it in memory without limit.
func LimitWrite(w http.ResponseWriter, size int) {
	if size > smallAnswer {
		writeDeadline := answerGrace + time.Duration(size)*time.Second/answerRate
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeDeadline)) // not every connection supports deadlines
	}
}

// A client may take answerGrace for a response of more than smallAnswer bytes,
// plus the time that the bytes take at answerRate bytes a second.
const (
	smallAnswer = 64 << 10
	answerGrace = 30 * time.Second
	answerRate  = 64 << 10
)

// writeJSON sends a JSON body.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has disconnected
}

// pattern returns the route for the log. Paths are not logged because they contain
// ids.
func (c *call) pattern() string {
	if c.route == nil {
		return ""
	}
	return c.route.path
}

// writeJSON answers with v, without data.
func (c *call) writeJSON(status int, v any) error {
	c.status, c.body = status, encode(v)
	return nil
}

// data answers {"data": v} (shared conventions, 1).
func (c *call) data(status int, v any) error {
	return c.writeJSON(status, api.Single[any]{Data: v})
}

// deleted answers {"success": true} (shared conventions, 3).
func (c *call) deleted() error {
	return c.writeJSON(http.StatusOK, api.Success{Success: true})
}

// paged answers a list with paging (shared conventions, 2).
func paged[T any](c *call, items []T, total int, p store.Page) error {
	return c.writeJSON(http.StatusOK, api.Page[T]{Data: items, Total: total, Limit: p.Limit, Offset: p.Offset})
}

// whole answers with a complete list: data and total only.
func whole[T any](c *call, items []T) error {
	return c.writeJSON(http.StatusOK, api.List[T]{Data: items, Total: len(items)})
}

// each converts a slice of store resources to wire types.
func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

// query returns a reader of the request's query parameters.
func (c *call) query() *query { return newQuery(c.URL.RawQuery) }

// pathID returns the :id of the path. A text that cannot be an id is a 404 without
// a query to the store.
func (c *call) pathID(what string) (string, error) {
	id := c.PathValue("id")
	if !api.ValidID(id) {
		return "", notFound(what)
	}
	return id, nil
}
