package gateway

import (
	"mime"
	"net/http"
	"strings"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// ServeHTTP answers the gateway's paths (gateway specification, Endpoints).
// Paths are compared after decoding, and exactly.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case Path, Path + "/": // many write the slash
		g.serveMCP(w, r)
	case "/healthz":
		g.serveHealth(w, r)
	case "/readyz":
		g.serveReady(w, r)
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
	h := w.Header()
	l.origins.AllowOrigin(h, r)
	if in := &l.cfg.InputRateLimit; in.Enabled {
		addr := g.clientAddr(r)
		ok, _, err := g.limits.Allow(r.Context(), inputKey(addr, addr.String()), in.RequestsPerSecond, in.Burst, g.now())
		if err != nil && !l.cfg.RateLimitStore.FailOpen || err == nil && !ok {
			h["Retry-After"] = []string{"1"}
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	}
	if l.origins.IsPreflight(r) && l.origins.Permit(r) {
		l.origins.AllowRequest(h, r)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	resource.ServeHTTP(w, r)
}

// serveMCP takes one request through the gateway. Whatever happens to it, it
// leaves exactly one line in the audit file, or is counted in one.
func (g *Gateway) serveMCP(w http.ResponseWriter, r *http.Request) {
	ex := g.begin(w, r)
	defer ex.release()
	defer ex.observe()
	defer ex.recovered()
	if refused := ex.serve(); refused != nil {
		ex.refuse(ex.orShutdown(refused))
	}
}

// serve is the path of a request in the order of the specification: input
// limit, caller, dialect, policy, route, upstream and what comes back from it.
// The first step that refuses ends it.
func (ex *exchange) serve() *refusal.Refusal {
	ex.live.origins.AllowOrigin(ex.w.Header(), ex.r)
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
		if ex.live.origins.IsPreflight(ex.r) {
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
	if refused := ex.openSession(); refused != nil {
		return refused
	}
	if refused := ex.untag(); refused != nil {
		return refused
	}
	if refused := ex.judgeRequest(); refused != nil {
		return refused
	}
	if ex.unknown != nil {
		return ex.discard()
	}
	if done, refused := ex.answerSearch(); done {
		return refused
	}
	if refused := ex.negotiate(); refused != nil {
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
	ex.live.origins.AllowRequest(ex.w.Header(), ex.r)
	ex.w.WriteHeader(http.StatusNoContent)
	return nil
}

// admit is what is decided before anything of the body is read: the input rate
// limit per client address, where a browser may come from, and whether the
// request goes in a circle.
func (ex *exchange) admit() *refusal.Refusal {
	if in := &ex.live.cfg.InputRateLimit; in.Enabled {
		ok, after, err := ex.g.limits.Allow(ex.ctx, inputKey(ex.addr, ex.address), in.RequestsPerSecond, in.Burst, ex.start)
		switch {
		case err != nil && !ex.live.cfg.RateLimitStore.FailOpen:
			return refusal.InputRateStore.After(time.Second)
		case err == nil && !ok:
			return refusal.InputRate.After(after)
		}
	}
	if !ex.live.origins.Permit(ex.r) {
		return &refusal.Origin
	}
	var ok bool
	if ex.hops, ok = upstream.NextHop(ex.r.Header[upstream.HeaderHops]); !ok {
		return &refusal.Loop
	}
	return nil
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
	ex.identified = true
	ex.rec.OAuthClientName = ex.who.ClientName
	return nil
}

// read takes in the body and reads the envelope, once: everything after works
// on this view.
func (ex *exchange) read() *refusal.Refusal {
	if refused := checkBodyHeaders(ex.r.Header); refused != nil {
		return refused
	}
	if refused := ex.readBody(mcp.MaxBody); refused != nil {
		return refused
	}
	replaced, err := mcp.ScanReplacing(ex.in, &ex.msg)
	if err != nil {
		return refusal.OfMessage(err)
	}
	ex.rec.ReplacedSurrogates = replaced
	ex.hasMsg = true
	ex.rec.RPC = ex.msg.Kind.String()
	return nil
}

func checkBodyHeaders(h http.Header) *refusal.Refusal {
	if len(h["Content-Encoding"]) > 0 {
		return &refusal.MediaType
	}
	values := h["Content-Type"]
	if len(values) != 1 {
		return &refusal.MediaType
	}
	if values[0] == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(values[0])
	if err != nil || media != "application/json" {
		return &refusal.MediaType
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return &refusal.MediaType
	}
	return nil
}

// negotiate puts an allowed revision into an initialize that asks for another:
// SDKs ask for their newest, and would be refused on the next request.
func (ex *exchange) negotiate() *refusal.Refusal {
	body, changed := ex.g.versions.RewriteInitialize(&ex.msg)
	if !changed {
		return nil
	}
	if err := mcp.Scan(body, &ex.msg); err != nil {
		return refusal.OfMessage(err)
	}
	return nil
}

// route finds the upstream (gateway specification, routes): tool calls by
// their name and by nothing else, answers to server requests back to where
// they were asked, what asks about a task to where it was made, everything else
// to default_upstream.
func (ex *exchange) route() *refusal.Refusal {
	if ex.up = ex.follow(); ex.up != nil {
		return nil
	}
	name := ex.g.defaultUpstream
	if ex.msg.Method == mcp.MethodToolsCall {
		name, _ = ex.g.router.Match(ex.msg.Name)
	}
	if ex.g.federation != nil {
		ex.caller = ex.transportCaller()
		ex.found = ex.g.federation.Route(ex.ctx, &ex.caller, &ex.msg, name)
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
