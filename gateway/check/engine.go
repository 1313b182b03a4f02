package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/search"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/request"
	"svc/gateway/request/verdict"
	"svc/gateway/upstream"
)

// Engine is the rules and routes of one configuration. It is immutable and safe for
// concurrent use.
type Engine struct {
	rules           *policy.Set
	routes          []*upstream.Router // one router for each route, to determine which route matches
	defaultUpstream string
	searches        bool     // the gateway answers the search tool itself
	prefixes        []prefix // prefixes of upstreams, the longest first; none without federation
	federated       bool
	names           *catalog.Names  // nil if the names are the upstreams' own
	keys            map[string]bool // nil if authentication is off
	filters         bool            // lists lack what the rules deny to the caller
	dataFlow        *flow.Config
	upstreams       map[string]bool
	flow            *flow.Table // nil if no labels are declared
}

// prefix is the prefix of the tool names of an upstream.
type prefix struct{ text, upstream string }

// New returns the engine of a valid configuration.
func New(f *config.File) (*Engine, error) {
	rules, err := policy.Compile(f.Policy, f.DataFlow.Names().List()...)
	if err != nil {
		return nil, err
	}
	e := &Engine{rules: rules, defaultUpstream: f.DefaultUpstream, dataFlow: &f.DataFlow, upstreams: map[string]bool{},
		filters: f.FiltersLists(), searches: f.ToolSearch.Enabled && f.ToolSearch.Mode == config.ToolSearchSynthesize}
	for i := range f.Upstreams {
		e.upstreams[f.Upstreams[i].Name] = true
	}
	if e.federated = f.Federation.Enabled; e.federated {
		for i := range f.Upstreams {
			if u := &f.Upstreams[i]; u.Prefix != "" {
				e.prefixes = append(e.prefixes, prefix{u.Prefix, u.Name})
			}
		}
		slices.SortStableFunc(e.prefixes, func(a, b prefix) int { return len(b.text) - len(a.text) })
	}
	if e.flow, err = flow.Compile(&f.DataFlow); err != nil {
		return nil, err
	}
	if e.names, err = request.NamesOf(f.Upstreams); err != nil {
		return nil, err
	}
	for i := range f.Routes {
		r, err := upstream.NewRouter(f.Routes[i : i+1])
		if err != nil {
			return nil, fmt.Errorf("routes[%d]: %w", i, err)
		}
		e.routes = append(e.routes, r)
	}
	if f.Auth.Enabled {
		e.keys = make(map[string]bool, len(f.Auth.Keys))
		for _, k := range f.Auth.Keys {
			e.keys[k.ID] = true
		}
	}
	return e, nil
}

// KnowsKey reports whether the configuration has an API key with this id.
func (e *Engine) KnowsKey(id string) bool { return e.keys == nil || e.keys[id] }

// Answer is the result for a message.
type Answer struct {
	// Request is the part of the message that rules match on.
	Request policy.Request
	// Labels are the labels that the caller had, sorted.
	Labels []string
	// Decision is the decision of the rules, and Steps its explanation.
	Decision policy.Decision
	Steps    []policy.Step
	// Fallback explains the decision of the default; empty when a rule decided.
	Fallback string
	// Observed are the rules in mode observe that would have decided.
	Observed []policy.Observed
	// Route is the route of the message.
	Route Route
	// Body is the forwarded message, after redaction; nil when the message is not
	// forwarded. RedactError is the reason why a redaction makes the message unusable:
	// the gateway refuses it then.
	Body        []byte
	RedactError error
}

// Route is the upstream of a message, or the reason why it has none.
type Route struct {
	// Upstream is empty when the message is not forwarded, or when its upstream depends
	// on a session.
	Upstream string
	// Index is the index of the matching route, -1 for none.
	Index int
	// Reason explains the choice of the upstream.
	Reason string
}

// upstreamOf returns the upstream of a client's message as far as the configuration
// determines it: the lists of upstreams are unknown.
func (e *Engine) upstreamOf(method, tool string) string {
	if method == mcp.MethodToolsCall {
		for _, r := range e.routes {
			if name, ok := r.Match(tool); ok && e.has(name, tool) {
				return name
			} else if ok {
				return ""
			}
		}
		for _, p := range e.prefixes {
			if strings.HasPrefix(tool, p.text) {
				return p.upstream
			}
		}
		return ""
	}
	if !e.federated {
		return e.defaultUpstream
	}
	if method != "" && federation.Answers(method) {
		return federation.Name
	}
	return ""
}

// Shows reports whether the list that a caller gets has an item of an upstream, by its visible
// name. Views, approvals and policies of the control plane are not considered.
func (e *Engine) Shows(claims *policy.Claims, kind mcp.ListKind, at, visible string) bool {
	if !e.federated && at != e.defaultUpstream {
		return false // lists come from the default upstream
	}
	if !e.filters {
		return true
	}
	if kind == mcp.Tool && !e.federated {
		at = e.upstreamOf(mcp.MethodToolsCall, visible) // that of a call
	}
	s := verdict.Snapshot{Rules: policy.NewMemory(e.rules)}
	return s.MayAsk(&auth.Principal{Claims: claims}, nil, at, kind, visible)
}

// Given is what a decision depends on besides the message and the caller.
type Given struct {
	// Upstream is the upstream that the message is routed to, or comes from; empty for the upstream
	// that the configuration selects.
	Upstream string
	// Restored are the entities of values that would have been put back into the message.
	Restored []string
	// Labels are the labels of the caller, as [Engine.After] returns them.
	Labels flow.Labels
}

// Ask decides about a message, which must pass [mcp.ScanReplacing] and may be modified
// by it; the error is the error of the scan.
func (e *Engine) Ask(body []byte, d policy.Direction, claims *policy.Claims, given Given) (*Answer, error) {
	var m mcp.Message
	if _, err := mcp.ScanReplacing(body, &m); err != nil {
		return nil, fmt.Errorf("the gateway would refuse the message: %w", err)
	}
	a := &Answer{Request: policy.RequestOf(&m, d, claims), Body: body}
	a.Request.Restored, a.Request.Labels = given.Restored, given.Labels
	a.Labels = e.flow.Names().In(given.Labels)
	at := given.Upstream
	if a.Request.Upstream = at; at == "" && d == policy.ClientToServer {
		a.Request.Upstream = e.upstreamOf(m.Method, m.Name)
	}
	a.Decision, a.Steps = e.rules.Explain(&a.Request)
	if a.Decision.Default {
		a.Fallback = e.rules.Fallback(&a.Request)
	}
	a.Observed = e.rules.Observed(&a.Request, a.Decision)
	switch a.Decision.Action {
	case policy.Deny:
		a.Body = nil
	case policy.Redact:
		var redacted mcp.Message
		if a.RedactError = a.Decision.Rule.Redact(d, &m, &redacted); a.RedactError != nil {
			a.Body = nil
		} else {
			a.Body = redacted.Body
		}
	}
	a.Route = e.route(&m, d, a)
	if at != "" && a.Route.Reason == reasonNoRoute+e.noRoute() && e.federated {
		a.Route = Route{Upstream: at, Index: -1, Reason: "as given: it owns the name"}
	}
	return a, nil
}

// route finds the upstream of a message like the gateway does (gateway specification,
// routes).
func (e *Engine) route(m *mcp.Message, d policy.Direction, a *Answer) Route {
	none := func(reason string) Route { return Route{Index: -1, Reason: reason} }
	switch {
	case d == policy.ServerToClient:
		return none("it goes to the client")
	case a.Decision.Action == policy.Deny:
		return none("it is denied")
	case a.RedactError != nil:
		return none("it is refused: " + a.RedactError.Error())
	case m.Kind == mcp.Response:
		return none("an answer goes to the upstream that asked")
	case e.searches && (m.Method == mcp.MethodToolsList || m.Method == mcp.MethodToolsCall && m.Name == search.Name):
		return none("the gateway answers it: tool_search")
	case m.Method != mcp.MethodToolsCall:
		return e.toDefault(m)
	}
	for i, r := range e.routes {
		if name, ok := r.Match(m.Name); ok && !e.has(name, m.Name) {
			return none("routes[" + strconv.Itoa(i) + "] leads to " + name + ", which has no tool that clients see as " + m.Name + ": " + e.noRoute())
		} else if ok {
			return Route{Upstream: name, Index: i, Reason: "routes[" + strconv.Itoa(i) + "]"}
		}
	}
	for _, p := range e.prefixes {
		if strings.HasPrefix(m.Name, p.text) && !e.has(p.upstream, m.Name) {
			return none(p.upstream + " has no tool that clients see as " + m.Name + ": " + e.noRoute())
		} else if strings.HasPrefix(m.Name, p.text) {
			return Route{Upstream: p.upstream, Index: -1, Reason: "the prefix " + p.text}
		}
	}
	return none(reasonNoRoute + e.noRoute())
}

// has reports whether an upstream may have a tool that clients see under a name.
func (e *Engine) has(upstream, visible string) bool {
	if e.names == nil {
		return true
	}
	_, ok := e.names.Own(upstream, mcp.Tool, visible)
	return ok
}

const reasonNoRoute = "no route matches the tool: "

// noRoute is the refusal of a request without a destination. With federation its status depends
// on the client.
func (e *Engine) noRoute() string {
	if e.federated {
		return "no_route"
	}
	return "404 no_route"
}

func (e *Engine) toDefault(m *mcp.Message) Route {
	if e.federated && federation.Answers(m.Method) {
		return Route{Upstream: federation.Name, Index: -1, Reason: "the gateway answers it: federation"}
	}
	if e.defaultUpstream == "" {
		return Route{Index: -1, Reason: "there is no default_upstream: " + e.noRoute()}
	}
	reason := "default_upstream"
	if m.TaskID != "" {
		reason = "default_upstream, unless another is known to hold the task"
	}
	return Route{Upstream: e.defaultUpstream, Index: -1, Reason: reason}
}
