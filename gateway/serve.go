package gateway

import (
	"net/http"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/request"
)

// ServeHTTP serves the gateway's paths (gateway specification, Endpoints). It compares decoded
// paths, and only exact matches count.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/healthz":
		g.health.ServeLive(w, r)
	case "/readyz":
		g.health.ServeReady(w, r)
	default:
		if v, ok := g.services.Views.At(r.URL); ok {
			g.serveMCP(w, r, v)
		} else {
			g.serveOther(w, r)
		}
	}
}

// serveOther serves the protected resource metadata documents, which need no credentials (gateway
// specification, Endpoints), and responds 404 for every other path.
func (g *Gateway) serveOther(w http.ResponseWriter, r *http.Request) {
	l := g.services.Live.Load()
	resource := l.Callers.ResourceAt(r.URL.Path)
	if resource == nil {
		refusal.WriteNotFound(w)
		return
	}
	addr := g.services.ClientAddr(r)
	l.Admission.ServePublic(w, r, &request.Client{Addr: addr, Address: addr.String()}, g.services.Now(), resource)
}

// serveMCP handles one MCP request, at view v or, if v is nil, at /mcp. Every request is recorded
// by exactly one audit line, or counted in one.
func (g *Gateway) serveMCP(w http.ResponseWriter, r *http.Request, v *auth.View) {
	ex := request.Begin(&g.services, w, r, v)
	defer ex.Release()
	defer ex.Observe()
	defer ex.Recovered()
	if refused := serve(ex); refused != nil {
		if ex.Stopped() {
			refused = refused.AtShutdown()
		}
		ex.Refuse(ex.Session.Refused(refused))
	}
}

// serve takes the request through the steps in the order of the specification: input limit,
// caller, dialect, policy, route, upstream, and inspection of its response. The first step that
// refuses the request ends it.
func serve(ex *request.Exchange) *refusal.Refusal {
	ex.Live.Admission.Origins.AllowOrigin(ex.Writer.Header(), ex.HTTP)
	if refused := ex.Admit(); refused != nil {
		return refused
	}
	switch ex.HTTP.Method {
	case http.MethodPost:
	case http.MethodGet:
		return ex.ControlStream()
	case http.MethodDelete:
		return ex.EndSession()
	default:
		if ex.Live.Admission.Origins.IsPreflight(ex.HTTP) {
			return ex.AnswerPreflight()
		}
		if mcp.Modern(ex.HTTP.Header.Get(mcp.HeaderProtocolVersion)) {
			return &refusal.NoStream // the revisions without sessions have POST alone
		}
		return &refusal.Method
	}
	if refused := ex.Authenticate(); refused != nil {
		return refused
	}
	if refused := ex.Read(); refused != nil {
		return refused
	}
	if refused := ex.ResolveDialect(); refused != nil {
		return refused
	}
	if refused := ex.Session.Join(ex.Context); refused != nil {
		return refused
	}
	if refused := ex.Session.Untag(); refused != nil {
		return refused
	}
	if refused := ex.Rename(); refused != nil {
		return refused
	}
	if refused := ex.Judge(); refused != nil {
		return refused
	}
	if ex.Session.Unknown != nil {
		return ex.Discard(ex.Session.Unknown)
	}
	if ex.Services.Search.Takes(&ex.Message) {
		return ex.AnswerSearch()
	}
	if refused := ex.Negotiate(); refused != nil {
		return refused
	}
	if refused := ex.Route(); refused != nil {
		return refused
	}
	if refused := ex.Approve(); refused != nil {
		return refused
	}
	return ex.Forward()
}

// Path is the path of the MCP endpoint.
const Path = auth.Main

// Paths returns the paths that accept MCP messages: Path and the paths of views.
func (g *Gateway) Paths() []string { return g.services.Views.Paths() }
