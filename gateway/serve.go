package gateway

import (
	"net/http"

	"svc/gateway/admission"
	"svc/gateway/audit"
	"svc/gateway/intake"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
)

// ServeHTTP answers the gateway's paths (gateway specification, Endpoints).
// Paths are compared after decoding, and exactly.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case Path, Path + "/": // many write the slash
		g.serveMCP(w, r)
	case "/healthz":
		g.health.ServeLive(w, r)
	case "/readyz":
		g.health.ServeReady(w, r)
	default:
		g.serveOther(w, r)
	}
}

func notFound(w http.ResponseWriter) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(http.StatusNotFound)
	w.Write([]byte(`{"error":"not found: the gateway serves /mcp, /healthz and /readyz"}` + "\n"))
}

// serveOther answers the paths that are not fixed: the metadata document of the
// protected resource, which anyone may read (gateway specification, Endpoints).
func (g *Gateway) serveOther(w http.ResponseWriter, r *http.Request) {
	l := g.live.Load()
	resource := l.callers.Resource()
	if resource == nil || !resource.Serves(r.URL.Path) {
		notFound(w)
		return
	}
	addr := g.clientAddr(r)
	l.admission.ServePublic(w, r, &admission.Client{Addr: addr, Address: addr.String()}, g.now(), resource)
}

// serveMCP takes one request through the gateway. Whatever happens to it, it
// leaves exactly one line in the audit file, or is counted in one.
func (g *Gateway) serveMCP(w http.ResponseWriter, r *http.Request) {
	ex := g.begin(w, r)
	defer ex.release()
	defer ex.observe()
	defer ex.recovered()
	if refused := ex.serve(); refused != nil {
		if ex.stopped() {
			refused = refused.AtShutdown()
		}
		ex.refuse(refused)
	}
}

// serve is the path of a request in the order of the specification: input
// limit, caller, dialect, policy, route, upstream and what comes back from it.
// The first step that refuses ends it.
func (ex *exchange) serve() *refusal.Refusal {
	ex.live.admission.Origins.AllowOrigin(ex.w.Header(), ex.r)
	if refused := ex.admit(); refused != nil {
		return refused
	}
	switch ex.r.Method {
	case http.MethodPost:
	case http.MethodGet:
		return ex.serveStream()
	case http.MethodDelete:
		return ex.serveEnd()
	default:
		if ex.live.admission.Origins.IsPreflight(ex.r) {
			return ex.answerPreflight()
		}
		return &refusal.Method
	}
	if refused := ex.authenticate(); refused != nil {
		return refused
	}
	if refused := ex.read(); refused != nil {
		return refused
	}
	if refused := ex.resolveDialect(); refused != nil {
		return refused
	}
	if refused := ex.session.Join(ex.ctx); refused != nil {
		return refused
	}
	if refused := ex.session.Untag(); refused != nil {
		return refused
	}
	if refused := ex.judgeRequest(); refused != nil {
		return refused
	}
	if ex.session.Unknown != nil {
		return ex.discard(ex.session.Unknown)
	}
	if ex.g.search.Takes(&ex.msg) {
		return ex.answerSearch()
	}
	if refused := intake.Negotiate(&ex.msg, ex.g.versions); refused != nil {
		return refused
	}
	if refused := ex.route(); refused != nil {
		return refused
	}
	return ex.forward()
}

// answerPreflight answers a preflight for /mcp.
func (ex *exchange) answerPreflight() *refusal.Refusal {
	ex.rec.Action = audit.ActionAllow
	if !ex.countRefusal(&refusal.Preflight) && ex.account(refusal.Preflight.Status, 0) != nil {
		return &refusal.Audit
	}
	ex.live.admission.Origins.AllowRequest(ex.w.Header(), ex.r)
	ex.w.WriteHeader(http.StatusNoContent)
	return nil
}

// admit is what is decided before anything of the body is read.
func (ex *exchange) admit() (refused *refusal.Refusal) {
	client := admission.Client{Addr: ex.addr, Address: ex.address}
	ex.session.Hops, refused = ex.live.admission.Admit(ex.ctx, ex.r, &client, ex.start)
	return refused
}

// authenticate finds out who calls.
func (ex *exchange) authenticate() *refusal.Refusal {
	var err error
	if ex.who, err = ex.live.callers.Authenticate(ex.ctx, ex.r.Header, ex.address); err != nil {
		refused := ex.live.callers.Refuse(err)
		if refused.Kind == refusal.Unauthorized.Kind {
			ex.g.log.Debug("request is not let in", "request_id", ex.rec.RequestID, "reason", err)
		}
		return refused
	}
	ex.identified, ex.session.Token = true, ex.who.Token
	ex.rec.OAuthClientName = ex.who.ClientName
	return nil
}

// read takes in the message.
func (ex *exchange) read() (refused *refusal.Refusal) {
	ex.rec.ReplacedSurrogates, refused = ex.body.Message(ex.source(), &ex.msg)
	if refused == nil {
		ex.hasMsg = true
		ex.rec.RPC = ex.msg.Kind.String()
	}
	return refused
}

// resolveDialect finds the protocol revision of the request.
func (ex *exchange) resolveDialect() (refused *refusal.Refusal) {
	ex.dialect, refused = intake.Dialect(ex.r.Header, &ex.msg, ex.g.versions)
	ex.session.Dialect = ex.dialect
	return refused
}

// discard acknowledges a message that refers to something that was never issued.
// An upstream would ignore it too, like an answer that comes too late.
func (ex *exchange) discard(unknown *refusal.Refusal) *refusal.Refusal {
	ex.rec.ErrorKind = unknown.Kind
	if err := ex.account(unknown.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.w.WriteHeader(unknown.Status)
	return nil
}

// route finds the upstream (gateway specification, routes): tool calls by
// their name and by nothing else, answers to server requests back to where
// they were asked, what asks about a task to where it was made, everything else
// to default_upstream.
func (ex *exchange) route() *refusal.Refusal {
	if ex.up = ex.session.Follow(ex.ctx); ex.up != nil {
		return nil
	}
	name := ex.g.defaultUpstream
	if ex.msg.Method == mcp.MethodToolsCall {
		name, _ = ex.g.router.Match(ex.msg.Name)
	}
	if ex.g.federation != nil {
		ex.found = ex.g.federation.Route(ex.ctx, ex.session.Client().Caller, &ex.msg, name)
		name, ex.rec.UpstreamTool = ex.found.Upstream, ex.found.OwnTool
	}
	if ex.up = ex.g.targets[name]; ex.up == nil {
		return &refusal.NoRoute
	}
	return nil
}

// Path is where messages are posted, and nearly all that a gateway is asked for.
// The same path with a slash at its end means the same.
const Path = "/mcp"
