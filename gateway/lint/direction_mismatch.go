package lint

import "svc/gateway/mcp"

// sentBy says who sends a method: clients (up) or servers (down). Methods that
// both may send are not here.
var sentBy = map[string]int{
	mcp.MethodInitialize: up, mcp.MethodDiscover: up, mcp.MethodToolsList: up, mcp.MethodToolsCall: up,
	mcp.MethodResourcesList: up, mcp.MethodResourceTemplatesList: up, mcp.MethodResourcesRead: up,
	mcp.MethodResourcesSubscribe: up, mcp.MethodResourcesUnsubscribe: up, mcp.MethodPromptsList: up,
	mcp.MethodPromptsGet: up, mcp.MethodComplete: up, mcp.MethodSetLevel: up, mcp.MethodListen: up,
	mcp.NotificationInitialized: up, "notifications/roots/list_changed": up,

	mcp.MethodElicit: down, mcp.MethodSample: down, mcp.MethodRootsList: down, mcp.NotificationMessage: down,
	mcp.NotificationAcknowledged: down, "notifications/tools/list_changed": down, "notifications/resources/list_changed": down,
	"notifications/resources/updated": down, "notifications/prompts/list_changed": down, "notifications/elicitation/complete": down,
}

// directionMismatch warns of rules that wait for a method from the side that
// never sends it.
func directionMismatch(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		by, known := sentBy[r.When.Method]
		if !known || r.ways[by] {
			continue
		}
		at := p.ruleAt(r.index).Field("when").Field("method")
		if by == down {
			p.warn(at, "add direction: server_to_client", "rule %s matches nothing: servers send %s, and without a direction a rule is about what clients send", r.quoted(), r.When.Method)
		} else {
			p.warn(at, "remove the direction", "rule %s matches nothing: clients send %s, servers do not", r.quoted(), r.When.Method)
		}
	}
}
