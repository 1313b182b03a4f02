// Package ui serves the page of the control plane: what svc tui shows, in a browser.
//
//	browser ──▶ Page.ServeHTTP ──▶ host.go     which names the page is served under, the origin of writes
//	                │             ──▶ session.go  sign-in, cookies, links for one sign-in
//	                ▼
//	            visit: one request of a signed-in browser
//	                │  visit.api: the client of the REST API, over plane.go in the same process,
//	                │  which sees and may do what the key of the session does
//	                ▼
//	            overview.go, traces.go, approvals.go, … ──▶ templates/NAME.html
//
// There is no JavaScript framework and no build step: pages are html/template over templates/, with one style sheet
// and one script of static/. Every text from outside goes through the template function text, or long for
// texts of many lines.
package ui

import (
	"bytes"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	slashed "path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"svc/server"
	"svc/server/client"
	"svc/store"
)

// Options are what the page needs.
type Options struct {
	// API serves everything under /api, the probes, and the requests of the page itself. It is a *server.Server.
	API http.Handler
	// Records has the sessions.
	Records store.Records
	// Hosts are the names under which TLS proxies serve the page.
	Hosts []string
	// Name is the host of the address at which the process listens, and Port its port, which the name of the cookie
	// has. The page is served under that name too, under loopback names and under IP addresses.
	Name, Port string
	// Count gets every request that was answered: the pattern of its path, empty for none, its method, the status, and
	// how long it took, 0 for streams; nil means no counting.
	Count func(route, method string, status int, took time.Duration)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger gets the messages for operators; nil means no logging.
	Logger *slog.Logger
	// TraceRetention is how long traces are kept; 0: forever.
	TraceRetention time.Duration
}

// Page is the page of the control plane as an http.Handler. It is safe for concurrent use. Its only goroutines
// belong to requests.
type Page struct {
	o   Options
	mux *http.ServeMux
	all *template.Template

	wrong    *server.Windows // wrong keys, by address
	requests *server.Windows // of sessions
	links    links
}

//go:embed templates/*.html
var templates embed.FS

// place is a page of the navigation, or a part of one.
type place struct {
	pattern string // of the mux, such as "GET /traces/{id}"
	title   string
	// needs is the endpoint of the API that a key must be allowed to call: without it the place has no link and is not
	// found.
	needs [2]string
	inNav bool
	serve func(*visit) error
}

// places lists every page that needs a session.
func places() []place {
	return []place{
		{"GET /{$}", "Overview", [2]string{"GET", "/api/whoami"}, true, overview},
		{"GET /traces", "Traces", [2]string{"GET", "/api/traces"}, true, listTraces},
		{"GET /traces/{id}", "Trace", [2]string{"GET", "/api/traces/{id}"}, false, showTrace},
		{"GET /traces/live", "Live traces", [2]string{"GET", "/api/traces/stream"}, false, liveTraces},
		{"GET /approvals", "Approvals", [2]string{"GET", "/api/approvals"}, true, listApprovals},
		{"GET /approvals/{id}", "Approval", [2]string{"GET", "/api/approvals/{id}"}, false, showApproval},
		{"POST /approvals/{id}", "Approval", [2]string{"POST", "/api/approvals/{id}/decision"}, false, decideApproval},
		{"GET /gateways", "Gateways", [2]string{"GET", "/api/gateways"}, true, listGateways},
		{"GET /gateways/{name}", "Gateway", [2]string{"GET", "/api/gateways/{name}"}, false, showGateway},
		{"GET /agents", "Agents", [2]string{"GET", "/api/agents"}, true, listAgents},
		{"GET /agents/{id}", "Agent", [2]string{"GET", "/api/agents/{id}"}, false, showAgent},
		{"GET /policies", "Policies", [2]string{"GET", "/api/policies"}, true, listPolicies},
		{"GET /policies/{id}", "Policy", [2]string{"GET", "/api/policies/{id}"}, false, showPolicy},
		{"POST /policies/{id}", "Policy", [2]string{"PUT", "/api/policies/{id}"}, false, changePolicy},
		{"GET /budgets", "Budgets and SLAs", [2]string{"GET", "/api/costs/budgets"}, true, listBudgets},
		{"GET /events", "Administrators' events", [2]string{"GET", "/api/audit/events"}, true, listEvents},
	}
}

// New returns the page.
func New(o Options) *Page {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Page{o: o, mux: http.NewServeMux(), all: template.Must(template.New("").Option("missingkey=error").Funcs(functions).ParseFS(templates, "templates/*.html")),
		wrong: server.NewWindows(wrongKeys), requests: server.NewWindows(sessionRequests)}
	handlers := map[string]http.HandlerFunc{
		"GET /signin": p.signInForm, "POST /signin": p.signIn, "POST /signout": p.signOut,
		"GET /signin/link": p.showLink, "POST /signin/link": p.spendLink, "GET /static/{name}": p.static,
	}
	for _, pl := range places() {
		handlers[pl.pattern] = func(w http.ResponseWriter, r *http.Request) { p.visit(w, r, &pl) }
	}
	// Each path is registered once, without a method, so that the mux never answers with its own plain text.
	paths := map[string]map[string]http.HandlerFunc{}
	for pattern, h := range handlers {
		method, path, _ := strings.Cut(pattern, " ")
		if paths[path] == nil {
			paths[path] = map[string]http.HandlerFunc{}
		}
		paths[path][method] = h
	}
	for path, methods := range paths {
		p.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { p.dispatch(w, r, methods) })
	}
	p.mux.HandleFunc("/", p.notFound)
	return p
}

// dispatch calls the handler of a method.
func (p *Page) dispatch(w http.ResponseWriter, r *http.Request, methods map[string]http.HandlerFunc) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
		r.Header.Del("Accept") // a stream would not end
	}
	if h, known := methods[method]; known {
		h(w, r)
		return
	}
	allow := slices.Sorted(maps.Keys(methods))
	if methods[http.MethodGet] != nil {
		allow = slices.Insert(allow, 1, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	p.fail(w, r, nil, http.StatusMethodNotAllowed, "This page does not take the method of the request.")
}

func (p *Page) notFound(w http.ResponseWriter, r *http.Request) {
	p.fail(w, r, nil, http.StatusNotFound, "There is no such page.")
}

// policy is the Content-Security-Policy of every page: nothing from elsewhere, nothing inline.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'"

// ServeHTTP serves one request: those of the API and the probes are not looked at.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if forAPI(r.URL) || r.Method == http.MethodConnect || r.RequestURI == "*" {
		p.o.API.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would make browsers send Origin: null with forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", "req_"+rand.Text())
	out, began := &server.Writer{ResponseWriter: w}, time.Now()
	defer func() { p.count(r, out, time.Since(began)) }()
	defer p.recover(out, r)
	switch {
	case !p.known(r.Host):
		p.fail(out, r, nil, http.StatusMisdirectedRequest, "The page is not served under this name. If a TLS proxy serves it under the name, start svc serve with --ui-host and the name.")
	case slashed.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath(): // the mux would redirect
		p.notFound(out, r)
	default:
		p.mux.ServeHTTP(out, r)
	}
}

// forAPI reports whether an address belongs to the API or is a probe. Dots in an escaped part, such as the id of a
// trace, lead nowhere.
func forAPI(u *url.URL) bool {
	for _, path := range []string{u.Path, slashed.Clean(u.EscapedPath())} {
		switch {
		case path == "/api", strings.HasPrefix(path, "/api/"):
			return true
		case path == "/healthz", path == "/readyz", path == "/favicon.ico", path == "/robots.txt":
			return true
		}
	}
	return false
}

// count counts a request that was answered.
func (p *Page) count(r *http.Request, w *server.Writer, took time.Duration) {
	if p.o.Count == nil {
		return
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		took = 0
	}
	p.o.Count(strings.TrimSuffix(r.Pattern, "{$}"), r.Method, w.Status, took)
}

// recover makes a page of a panic, and a line in the log. A response that has begun is broken off.
func (p *Page) recover(w *server.Writer, r *http.Request) {
	e := recover()
	switch {
	case e == nil:
		return
	case e == http.ErrAbortHandler:
		panic(e)
	}
	p.o.Logger.Error("page panicked", "request_id", w.Header().Get("X-Request-Id"), "method", r.Method, "route", r.Pattern,
		"panic", fmt.Sprint(e), "stack", string(debug.Stack()))
	if w.Status != 0 {
		panic(http.ErrAbortHandler)
	}
	p.fail(w, r, nil, http.StatusInternalServerError, "The page could not be made. "+seeLog(w))
}

// seeLog names the line of the log that has the reason.
func seeLog(w http.ResponseWriter) string {
	return "The log of svc serve has the reason under " + w.Header().Get("X-Request-Id") + "."
}

// visit is one request of a signed-in browser.
type visit struct {
	*http.Request
	w    http.ResponseWriter
	page *Page
	at   *place
	cred store.Credential
	now  time.Time
	// api is the client of the API, with the permissions of the session's key.
	api *client.Client
	// token is what forms send back.
	token string
}

// visit serves a page to a signed-in browser.
func (p *Page) visit(w http.ResponseWriter, r *http.Request, pl *place) {
	s, ok := p.session(r)
	var cred store.Credential
	err := error(nil)
	if ok {
		cred, err = p.resume(r.Context(), s)
	}
	switch {
	case !ok, store.KindOf(err) == store.Unauthorized:
		p.askToSignIn(w, r)
		return
	case err != nil:
		p.broken(w, r, nil, err)
		return
	}
	v := &visit{Request: r, w: w, page: p, at: pl, cred: cred, now: p.o.Now(), token: s.token()}
	v.api = p.client(r, p.keep(s, cred))
	digest := s.digest()
	if wait := p.requests.Take(string(digest[:]), v.now); wait > 0 {
		setRetryAfter(w, wait)
		p.fail(w, r, v, http.StatusTooManyRequests, "The browser has asked for too many pages in a minute. Wait a little, then reload the page.")
		return
	}
	if !v.may(pl.needs[0], pl.needs[1]) {
		p.fail(w, r, v, http.StatusNotFound, "There is no such page, or this key may not see it.")
		return
	}
	if r.Method == http.MethodPost {
		if status, problem := p.checkWrite(w, r, v.token); problem != "" {
			p.fail(w, r, v, status, problem)
			return
		}
	}
	if err := pl.serve(v); err != nil {
		p.broken(w, r, v, err)
	}
}

// may reports whether the key of the session may call an endpoint of the API.
func (v *visit) may(method, path string) bool { return server.Permits(v.cred, method, path) }

// refusal returns the answer of the API that refused a request, nil for another error, with one of some statuses, if
// any are given.
func refusal(err error, statuses ...int) *client.Error {
	var answer *client.Error
	if !errors.As(err, &answer) || len(statuses) > 0 && !slices.Contains(statuses, answer.Status) {
		return nil
	}
	return answer
}

// wrote ends a request that changes what its path names: after success it leads back to the page, and a refusal is
// returned, so that the page can say it beside its form.
func (v *visit) wrote(err error) (*client.Error, error) {
	if err == nil {
		http.Redirect(v.w, v.Request, v.URL.EscapedPath(), http.StatusSeeOther)
		return nil, nil
	}
	refused := refusal(err)
	if refused != nil && (refused.Status >= 500 || refused.Status == http.StatusNotFound) {
		refused = nil
	}
	return refused, err
}

// link is an entry of the navigation, or of another choice between pages.
type link struct {
	Path, Title string
	Here        bool
}

// frame is what every page shows around its own data.
type frame struct {
	visit *visit // nil: nobody is signed in
	Title string
	Nav   []link
	Key   string // name of the session's key; empty: nobody is signed in
	Token string
	Now   time.Time
	Data  any
}

// view is what a page shows, by the names that its template has.
type view = map[string]any

// asked returns a parameter of the query.
func (v *visit) asked(name string) string { return strings.TrimSpace(v.URL.Query().Get(name)) }

// show sends a page.
func (v *visit) show(name string, data any) error {
	return v.page.send(v.w, v, http.StatusOK, name, v.at.title, data)
}

// send sends a page; v is nil when nobody is signed in.
func (p *Page) send(w http.ResponseWriter, v *visit, status int, name, title string, data any) error {
	f := frame{visit: v, Title: title, Now: p.o.Now(), Data: data}
	if v != nil {
		f.Key, f.Token = v.cred.Key.Name, v.token
		for _, pl := range places() {
			if pl.inNav && v.may(pl.needs[0], pl.needs[1]) {
				path := strings.TrimSuffix(strings.TrimPrefix(pl.pattern, "GET "), "{$}")
				f.Nav = append(f.Nav, link{path, pl.title, v.at != nil && pl.pattern == v.at.pattern})
			}
		}
	}
	var b bytes.Buffer
	if err := p.all.ExecuteTemplate(&b, name+".html", f); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	server.LimitWrite(w, b.Len())
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser has left
	return nil
}

// fail sends a page that says what is wrong.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, v *visit, status int, message string) {
	if err := p.send(w, v, status, "error", http.StatusText(status), message); err != nil {
		p.logFailure(w, r, err)
		http.Error(w, "the page failed", http.StatusInternalServerError)
	}
}

// broken sends a page for an error of the API or the store.
func (p *Page) broken(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	switch answer := refusal(err); {
	case answer != nil && answer.Status == http.StatusUnauthorized:
		p.askToSignIn(w, r) // the session has ended meanwhile
	case answer != nil:
		p.fail(w, r, v, answer.Status, answer.Message)
	case r.Context().Err() != nil: // the browser has left
	case errors.Is(err, store.ErrUnavailable):
		p.logFailure(w, r, err)
		w.Header().Set("Retry-After", "5")
		p.fail(w, r, v, http.StatusServiceUnavailable, "The store is unavailable. "+seeLog(w))
	default:
		p.logFailure(w, r, err)
		p.fail(w, r, v, http.StatusInternalServerError, "The page could not be made. "+seeLog(w))
	}
}

func (p *Page) logFailure(w http.ResponseWriter, r *http.Request, err error) {
	p.o.Logger.Error("page failed", "request_id", w.Header().Get("X-Request-Id"), "method", r.Method, "route", r.Pattern, "error", err)
}
