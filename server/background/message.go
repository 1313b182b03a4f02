package background

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"svc/store"
	"svc/store/api"
)

// WireEvent returns the JSON form of the event of a delivery. host is the name under which the page is served to
// people; empty: there is no page to link to.
func WireEvent(tenant, host string, d *store.Delivery) api.Event {
	e := &d.Event
	data := e.Data
	if data == nil {
		data = map[string]any{}
	}
	return api.Event{ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt.UTC(), Tenant: tenant, Subject: api.EventSubject(e.Subject), Data: data, Dropped: d.Dropped, Link: linkOf(host, e)}
}

// linkOf returns the address of the page about an event.
func linkOf(host string, e *store.Event) string {
	if host == "" {
		return ""
	}
	path := ""
	switch e.Subject.Kind {
	case "approval":
		path = "approvals/" + segment(e.Subject.ID)
	case "policy":
		path = "policies/" + segment(e.Subject.ID)
	case "gateway":
		path = "gateways/" + segment(e.Subject.ID)
	case "agent":
		path = "agents/" + segment(e.Subject.ID)
	case "budget", "slaTarget":
		path = "budgets"
	case "tool":
		path = "traces"
		if id, _ := e.Data["requestId"].(string); id != "" {
			path += "?requestId=" + segment(id)
		}
	}
	return "https://" + host + "/" + path
}

// segment escapes all of a text but letters, digits and -_.~: what is left can neither end the link of a Slack message
// nor notify anybody.
func segment(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// messageOf returns the body of a message in the format of a webhook.
func messageOf(tenant, host, format string, d *store.Delivery) ([]byte, error) {
	e := WireEvent(tenant, host, d)
	if format == "slack" {
		return json.Marshal(map[string]any{"text": slackText(&e)})
	}
	return json.Marshal(e)
}

// slackText returns one line about an event, with the link to its page, or else, for events that a command shows, the
// command. Names come from clients: they are bounded, and can neither break the line, nor mark up, nor notify anybody.
func slackText(e *api.Event) string {
	of := func(member string) string { return slackName(fmt.Sprint(e.Data[member])) }
	name := slackName(e.Subject.Name)
	text, command, before := "", "", ": "
	switch e.Type {
	case store.EventApprovalRequested:
		text = fmt.Sprintf("%s of agent %s (%s) needs approval", name, of("agentName"), of("principal"))
		command = "svc approvals show " + slackName(e.Subject.ID)
	case store.EventApprovalDecided:
		text = fmt.Sprintf("%s of agent %s: %s by %s", name, of("agentName"), of("decision"), of("decidedBy"))
		command, before = "svc approvals show "+slackName(e.Subject.ID), ", "
	case store.EventApprovalExpired:
		missed := "was not decided"
		if e.Data["decision"] == store.DecisionGrant {
			missed = "was granted and not used"
		}
		text = fmt.Sprintf("%s of agent %s %s in time", name, of("agentName"), missed)
		command, before = "svc approvals show "+slackName(e.Subject.ID), ", "
	case store.EventBudgetThreshold:
		text = fmt.Sprintf("Budget %s has reached %s %% of its limit", name, of("percent"))
	case store.EventBudgetExceeded:
		text = fmt.Sprintf("Budget %s is used up", name)
	case store.EventSLABreached:
		text = fmt.Sprintf("SLA target %s of agent %s is missed", name, of("agentName"))
	case store.EventSLARecovered:
		text = fmt.Sprintf("SLA target %s of agent %s is met again", name, of("agentName"))
	case store.EventPolicyFired:
		text = fmt.Sprintf("Policy %s fired in %s requests", name, of("count"))
	case store.EventToolChanged:
		text = fmt.Sprintf("A call of tool %s by agent %s was refused: its definition has changed", name, of("agentName"))
	case store.EventAgentCreated:
		text = fmt.Sprintf("New agent %s", name)
	case store.EventGatewaySilent:
		text = fmt.Sprintf("Gateway %s is silent since %s", name, of("seenAt"))
		command = "svc gateways get " + slackName(e.Subject.ID)
	case store.EventGatewayBack:
		text = fmt.Sprintf("Gateway %s reports again", name)
	case store.EventWebhookTest:
		text = fmt.Sprintf("Test of webhook %s", name)
	default:
		text = slackName(e.Type) + ": " + name
	}
	switch {
	case e.Link != "":
		text += before + "<" + e.Link + ">"
	case command != "":
		text += before + "`" + command + "`"
	}
	if e.Dropped > 0 {
		text += fmt.Sprintf(" (%d earlier messages were dropped)", e.Dropped)
	}
	return text
}

// maxSlackName bounds a name in a line, in characters.
const maxSlackName = 300

var slackEntities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'", "@", "@\u200b")

// slackName returns a name for a line: without line breaks, control and format characters, with
// entities in place of markup, and with an invisible space behind each @, so that @here and @channel
// notify nobody.
func slackName(s string) string {
	n := 0
	return slackEntities.Replace(strings.Map(func(r rune) rune {
		if n++; n > maxSlackName {
			return -1
		}
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// DeliveryCounts are the attempts to send messages since the start, by result, and the number of
// messages that wait.
type DeliveryCounts struct {
	Delivered, Retried, Failed uint64
	Waiting                    int
}
