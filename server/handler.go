package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"svc/server/api"
	"svc/store"
)

// call is one request as its handler sees it: who asks, on which tenant, and
// where the answer goes. The tenant is the receiver of every query, so that
// none can forget it.
type call struct {
	*http.Request
	w     *writer
	id    string // request id, as in X-Request-Id
	now   time.Time
	route *route // nil when no route matched

	// On routes that need a key:
	key    store.Key
	team   *store.Team // what the key is limited to; nil for no limit
	tenant store.Tenant
	traces store.TenantTraces

	read   []byte // the body, once read
	server *Server
	held   int64 // bytes of bodies that are counted for this request

	// The answer. Handlers set it and serve sends it, so that an answer can
	// be kept for a retry before the client has it.
	status int
	body   []byte
	// replayBody is what a retry gets instead of body, where they differ.
	replayBody []byte

	idempotent     *store.IdempotentRequest // set while a POST with an Idempotency-Key runs
	responseStored bool                     // a retry of it gets its response
}

// writer notes whether an answer has begun, and with which status.
type writer struct {
	http.ResponseWriter
	began  bool
	status int
}

func (w *writer) WriteHeader(status int) {
	w.began, w.status = true, status
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	if !w.began {
		w.began, w.status = true, http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serve is the path of every request under /api; res is nil when no route has
// the path.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, res *resource) {
	c := &call{Request: r, w: &writer{ResponseWriter: w}, id: w.Header().Get("X-Request-Id"), now: s.now(), server: s}
	began := time.Now()
	defer func() { s.metrics.served(c, c.w.status, time.Since(began)) }()
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

// run takes a request through its gates in the order that the specification
// implies: who are you (401), not too fast (429), is there such a thing (404,
// 405), may you (403), and then the handler.
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
	ws := s.api
	if c.route != nil && c.route.window == ingestWindow {
		ws = s.ingest
	}
	if err := c.count(ws, c.tenant.ID()); err != nil {
		return err
	}
	if c.route == nil {
		if res == nil {
			return errNoRoute
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

// count takes the request off a window and writes the window's state into the
// headers of the answer.
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

// fail makes an error the answer, and logs it once if it is the server's fault.
func (s *Server) fail(c *call, err error) {
	f := outcome(err, c.id)
	switch {
	case f.status < 500:
		s.log.Debug("request refused", "request_id", c.id, "method", c.Method, "route", c.pattern(), "status", f.status, "reason", f.message)
	case abandoned(c.Context(), err):
		s.log.Debug("client left", "request_id", c.id, "method", c.Method, "route", c.pattern())
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

// reply makes a failure the answer.
func (c *call) reply(f *failure) {
	c.replayBody = nil
	c.status, c.body = f.status, encode(api.Error{Error: f.message, Details: f.details})
}

// flush sends the answer, if the handler has not sent one itself.
func (c *call) flush() {
	if c.w.began || c.status == 0 {
		return
	}
	// Who does not read a large answer must not keep it in memory for ever.
	if len(c.body) > smallAnswer {
		writeDeadline := answerGrace + time.Duration(len(c.body))*time.Second/answerRate
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeDeadline)) // not every connection has deadlines
	}
	writeJSON(c.w, c.status, c.body)
}

// A client may take answerGrace for an answer of more than smallAnswer bytes, plus
// the time that it needs at answerRate bytes a second.
const (
	smallAnswer = 64 << 10
	answerGrace = 30 * time.Second
	answerRate  = 64 << 10
)

// writeJSON sends a whole JSON body.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone; there is nobody to tell
}

// pattern names the route for the log; paths hold ids and stay out of it.
func (c *call) pattern() string {
	if c.route == nil {
		return ""
	}
	return c.route.path
}

// writeJSON answers with v itself.
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

// whole answers a list that comes in one piece: data and total only.
func whole[T any](c *call, items []T) error {
	return c.writeJSON(http.StatusOK, api.List[T]{Data: items, Total: len(items)})
}

// each turns the store's nouns into wire types.
func each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

// query returns a reader of the request's parameters.
func (c *call) query() *query { return newQuery(c.URL.RawQuery) }

// pathID returns the :id of the path. What cannot be an id names nothing: it
// never reaches the store.
func (c *call) pathID(what string) (string, error) {
	id := c.PathValue("id")
	if !api.ValidID(id) {
		return "", notFound(what)
	}
	return id, nil
}
