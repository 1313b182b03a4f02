package verdict

import (
	"slices"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
)

// taskMade returns the handle of the task that a response reports as created. Under 2025-11-25
// only tools/call creates tasks; on a resumed stream the request is unknown.
func (in *Input) taskMade(m *mcp.Message) (handle string, ok bool) {
	if in.Direction == policy.ClientToServer || m.ResultType == "" && in.HasAsked && in.Asked.Method != mcp.MethodToolsCall {
		return "", false
	}
	return mcp.MadeTask(m)
}

// deferred reports whether a message contains the result of a tool call for which a task was
// created. The tool is unknown.
func (in *Input) deferred(m *mcp.Message) bool {
	switch {
	case m.Kind == mcp.Response && in.Asked.Method == mcp.MethodTasksResult:
		return true
	case m.Kind == mcp.Response && in.Asked.Method == mcp.MethodTasksGet, m.Method == mcp.NotificationTasks:
		return mcp.HasOutcome(m)
	}
	return false
}

// strips reports whether strip_app applies to a message because of the rule of its request. On a
// resumed stream, and for the result of a task, the request is unknown: strip_app then applies if
// any rule has it.
func (in *Input) strips(m *mcp.Message) bool {
	if in.Direction == policy.ClientToServer {
		return false
	}
	return in.Decided == policy.StripApp ||
		in.Snapshot.Strips && (in.Resumed && m.Kind == mcp.Response || in.deferred(m))
}

// stripAnswer removes interactive content from the response to a tools/call, and from the result
// of a task.
func (in *Input) stripAnswer(m *mcp.Message, r *Result) {
	if !r.strip {
		return
	}
	deferred := in.deferred(m)
	if !deferred && (m.Kind != mcp.Response || in.Asked.Method != mcp.MethodToolsCall && !in.Resumed) {
		return
	}
	body, n, ok := mcp.StripApp(m, in.Modern)
	if takeStripped(m, r, body, n, ok); r.Refused == nil && in.deferred(m) {
		body, n, ok := mcp.StripOutcome(m)
		takeStripped(m, r, body, n, ok)
	}
	r.Performed = r.Performed || r.Decision.Action == policy.StripApp
}

// takeStripped replaces a message by the one without n blocks, or withholds an ambiguous message
// from the client.
func takeStripped(m *mcp.Message, r *Result, body []byte, n int, ok bool) {
	if !ok {
		r.refuse(&refusal.UpstreamInvalid, audit.ActionDeny)
		return
	}
	r.StripApplied = true
	if n == 0 {
		return
	}
	r.Stripped += n
	if err := mcp.Scan(body, m); err != nil { // cannot happen: the splice produces valid JSON
		r.refuse(&refusal.UpstreamInvalid, audit.ActionDeny)
		return
	}
	if r.Action == "" || r.Action == audit.ActionAllow {
		r.Action = audit.ActionStripApp
	}
}

// present filters a response for its caller: lists, if the rules require it, and capabilities, to
// which the tools capability is added if the gateway has tools of its own. It does so once.
func (in *Input) present(m *mcp.Message, r *Result) {
	if r.presented || r.Refused != nil || in.Direction == policy.ClientToServer {
		return
	}
	r.presented = true
	if m.Kind != mcp.Response || m.IsError {
		return
	}
	if in.Snapshot.FilterLists && !in.Filtered {
		in.filterLists(m, r)
	}
	if in.Snapshot.OffersTools && !in.Filtered {
		in.offerTools(m, r)
	}
}

// listMethods are the methods that request lists.
var listMethods = slices.DeleteFunc(mcp.Methods(), func(m mcp.MethodInfo) bool { return m.List == "" })

// filterLists removes from the response to a list request the items that the caller may not use
// (policy.filter_lists). Tools are evaluated by name, resources and templates by URI if a rule has
// uri_prefix; rules do not match the names of prompts, so that list is whole or empty. On a resumed stream every result with such a
// list is filtered.
func (in *Input) filterLists(m *mcp.Message, r *Result) {
	if !in.Resumed {
		in.filterList(mcp.MethodOf(in.Asked.Method), m, r)
		return
	}
	for _, list := range listMethods {
		in.filterList(list, m, r)
	}
}

// filterList filters the response to one list method.
func (in *Input) filterList(list mcp.MethodInfo, m *mcp.Message, r *Result) {
	if list.List == "" || r.Refused != nil {
		return
	}
	kind, ok := mcp.ListKindOf(list.Name)
	if !ok {
		kind = mcp.Resource // the children of a directory
	}
	key := "name"
	keep := func(name string) bool {
		at := in.Upstream
		if kind == mcp.Tool && in.Snapshot.OfTool != nil && in.Snapshot.Rules.UsesUpstream() {
			at = in.Snapshot.OfTool(name)
		}
		return in.Snapshot.MayAsk(in.Caller, in.Policies, at, kind, name)
	}
	switch {
	case kind == mcp.Tool:
	case in.Snapshot.Rules.UsesURI():
		key = kind.Key()
	default:
		all := in.Snapshot.MayAsk(in.Caller, in.Policies, in.Upstream, kind, "")
		keep = func(string) bool { return all }
	}
	body, changed, ok := mcp.FilterList(m, list.List, key, in.Modern && list.Name != mcp.MethodDirectoryRead, keep)
	if !ok || changed && mcp.Scan(body, m) != nil {
		r.refuse(&refusal.UpstreamInvalid, audit.ActionDeny)
	}
}

// offerTools adds the capability tools to the response of an upstream without tools: clients
// request a server's tools only if it declares the capability.
func (in *Input) offerTools(m *mcp.Message, r *Result) {
	if in.Asked.Method != mcp.MethodInitialize && in.Asked.Method != mcp.MethodDiscover {
		return
	}
	if body, changed := mcp.OfferTools(m); changed && mcp.Scan(body, m) != nil { // cannot happen: the splice produces valid JSON
		r.refuse(&refusal.UpstreamInvalid, audit.ActionDeny)
	}
}

// MayAsk reports whether a caller may use an item of a list of an upstream: a tool, prompt or resource,
// or some resource of a template. name is its name, URI or URI template, as the caller sees it. MayAsk
// evaluates the rules, and the policies of the control plane that block a tool by its name. A request
// that would be redacted, limited or passed to a guardrail counts as allowed. The labels of the caller
// are left out, because they change from call to call: what only a label denies stays in lists.
func (s *Snapshot) MayAsk(caller *auth.Principal, policies *plane.Set, upstream string, kind mcp.ListKind, name string) bool {
	q := policy.Request{Direction: policy.ClientToServer, Method: mcp.MethodOf(kind.Method()).Element, Claims: caller.Claims, AnyArguments: true}
	if s.Rules.UsesUpstream() {
		q.Upstream = upstream
	}
	switch kind {
	case mcp.Tool:
		q.Tool, q.HasTool = name, true
	case mcp.Resource, mcp.Skill:
		q.URI = name
	case mcp.Template:
		q.URI, q.Template = name, true
	}
	switch s.Rules.Decide(&q).Action {
	case policy.Allow, policy.Redact, policy.RateLimit, policy.StripApp, policy.Guardrail:
		return !q.HasTool || !policies.BlocksTool(name)
	}
	return false
}
