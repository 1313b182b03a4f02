package gateway

import (
	"net/http"

	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// mayAsk reports whether the rules let this caller send a request: a tools/call
// of a tool, or a method by itself. What a rule redacts, limits or hands to a
// guardrail may be asked for.
func (ex *exchange) mayAsk(l *live, method, tool string) bool {
	q := policy.Request{Direction: policy.ClientToServer, Method: method, Tool: tool, Claims: ex.who.Claims}
	q.HasTool = method == mcp.MethodToolsCall
	switch l.decisions.decide(l.rules, &q).Action {
	case policy.Allow, policy.Redact, policy.RateLimit, policy.StripApp, policy.Guardrail:
		return true
	}
	return false
}

// filterList takes out of the answer to a list request what the caller may not
// ask for (policy.filter_lists). Tools are judged by name; rules do not match
// the names of resources and prompts, so those lists are whole or empty.
//
// On a resumed stream nobody knows which request an answer belongs to: there
// every result that holds such a list is filtered, or a client would get by
// breaking off what it does not get at once.
func (ex *exchange) filterList(l *live, m *mcp.Message, j *judgement) {
	if !l.cfg.Policy.FilterLists || m.Kind != mcp.Response || m.IsError {
		return
	}
	if ex.r.Method != http.MethodGet {
		ex.filterAnswer(l, ex.msg.Method, m, j)
		return
	}
	for _, method := range listMethods {
		ex.filterAnswer(l, method, m, j)
	}
}

var listMethods = [...]string{mcp.MethodToolsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodPromptsList}

// asked is what the elements of a list are good for.
func asked(listMethod string) string {
	switch listMethod {
	case mcp.MethodToolsList:
		return mcp.MethodToolsCall
	case mcp.MethodPromptsList:
		return mcp.MethodPromptsGet
	}
	return mcp.MethodResourcesRead
}

// filterAnswer filters the answer to one list method.
func (ex *exchange) filterAnswer(l *live, listMethod string, m *mcp.Message, j *judgement) {
	member := mcp.ListMember(listMethod)
	if member == "" || j.refused != nil {
		return
	}
	method := asked(listMethod)
	keep := func(name string) bool { return ex.mayAsk(l, method, name) }
	if method != mcp.MethodToolsCall {
		all := ex.mayAsk(l, method, "")
		keep = func(string) bool { return all }
	}
	body, ok := mcp.FilterList(m, member, ex.dialect.Modern, keep)
	if ok && len(body) == len(m.Body) && &body[0] == &m.Body[0] {
		return
	}
	if !ok || mcp.Scan(body, m) != nil {
		j.refused, j.action, j.kind = &refuseUpstreamInvalid, actionDeny, refuseUpstreamInvalid.kind
	}
}
