package gateway

import (
	"net/http"
	"slices"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

// mayAsk reports whether this caller may send a request: a tools/call of a tool,
// or a method by itself. The rules decide, and the policies of the control plane
// that block a tool by its name. What would be redacted, limited or handed to a
// guardrail may be asked for.
func (ex *exchange) mayAsk(l *live, method, tool string) bool {
	q := policy.Request{Direction: policy.ClientToServer, Method: method, Tool: tool, Claims: ex.who.Claims}
	q.HasTool = method == mcp.MethodToolsCall
	switch l.decisions.Decide(&q).Action {
	case policy.Allow, policy.Redact, policy.RateLimit, policy.StripApp, policy.Guardrail:
		return !q.HasTool || !ex.governed.set.BlocksTool(tool)
	}
	return false
}

// present turns an answer into what its caller is to see of it: lists are
// filtered where the rules say so, and where the gateway has tools of its own to
// list the upstream's capabilities say that there are tools.
func (ex *exchange) present(l *live, m *mcp.Message, j *judgement) {
	if m.Kind != mcp.Response || m.IsError {
		return
	}
	if l.cfg.Policy.FilterLists {
		ex.filterList(l, m, j)
	}
	if ex.g.search != nil {
		ex.offerTools(m, j)
	}
}

// filterList takes out of the answer to a list request what the caller may not
// ask for (policy.filter_lists). Tools are judged by name; rules do not match
// the names of resources and prompts, so those lists are whole or empty.
//
// On a resumed stream nobody knows which request an answer belongs to: there
// every result that holds such a list is filtered, or a client would get by
// breaking off what it does not get at once.
func (ex *exchange) filterList(l *live, m *mcp.Message, j *judgement) {
	if ex.r.Method != http.MethodGet {
		ex.filterAnswer(l, mcp.MethodOf(ex.msg.Method), m, j)
		return
	}
	for _, list := range listMethods {
		ex.filterAnswer(l, list, m, j)
	}
}

// listMethods are the methods that ask for lists.
var listMethods = slices.DeleteFunc(mcp.Methods(), func(m mcp.MethodInfo) bool { return m.List == "" })

// filterAnswer filters the answer to one list method.
func (ex *exchange) filterAnswer(l *live, list mcp.MethodInfo, m *mcp.Message, j *judgement) {
	if list.List == "" || j.refused != nil {
		return
	}
	method := list.Element
	keep := func(name string) bool { return ex.mayAsk(l, method, name) }
	if method != mcp.MethodToolsCall {
		all := ex.mayAsk(l, method, "")
		keep = func(string) bool { return all }
	}
	body, changed, ok := mcp.FilterList(m, list.List, ex.dialect.Modern, keep)
	if !ok || changed && mcp.Scan(body, m) != nil {
		j.refused, j.action, j.kind = &refusal.UpstreamInvalid, audit.ActionDeny, refusal.UpstreamInvalid.Kind
	}
}

// offerTools adds the capability tools to the answer of an upstream that has none
// itself: clients ask for the tools of a server only where it says that it has
// some.
func (ex *exchange) offerTools(m *mcp.Message, j *judgement) {
	if ex.msg.Method != mcp.MethodInitialize && ex.msg.Method != mcp.MethodDiscover {
		return
	}
	if body, changed := mcp.OfferTools(m); changed && mcp.Scan(body, m) != nil { // a splice of ours: cannot happen
		j.refused, j.action, j.kind = &refusal.UpstreamInvalid, audit.ActionDeny, refusal.UpstreamInvalid.Kind
	}
}
