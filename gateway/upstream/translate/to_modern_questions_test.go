package translate

import (
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// An elicitation in mode url gets the elicitationId that clients of 2025-11-25 require; a
// client that supports only forms is not asked.
func TestElicitationInModeURLHasAnID(t *testing.T) {
	s := &modern{answer: func(_ int, m *mcp.Message, _ mcp.Header) string {
		if answers := mcp.Find(m.Body, m.Spans.Params, "inputResponses"); answers.Present() {
			return `{"content":[],"took":` + string(answers.Of(m.Body)) + `,"resultType":"complete"}`
		}
		return `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com/"}},"b":{"method":"elicitation/create","params":{"mode":"url","elicitationId":"own","message":"m","url":"https://example.com/"}},"c":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}}}`
	}}
	var ids []string
	got := connect(t, s, `{"elicitation":{"form":{},"url":{}}}`).ask(callTool, func(m *mcp.Message) string {
		id, _ := mcp.StringValue(mcp.Find(m.Body, m.Spans.Params, "elicitationId").Of(m.Body))
		ids = append(ids, id)
		return `"result":{"action":"accept"}`
	})
	if len(ids) != 3 || ids[0] == "" || ids[0] == "own" || ids[1] != "own" || ids[2] != "" {
		t.Errorf("ids %q", ids)
	}
	if strings.Count(got, `"action":"accept"`) != 3 {
		t.Errorf("got %s", got)
	}
	got = connect(t, s, `{"elicitation":{}}`).ask(callTool, func(m *mcp.Message) string {
		t.Errorf("asked %s", m.Body)
		return `"result":{"action":"accept"}`
	})
	if !strings.Contains(got, errVisit.Error()) || !strings.Contains(got, "may have had effects") {
		t.Errorf("got %s", got)
	}
}
