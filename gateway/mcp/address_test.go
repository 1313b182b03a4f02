package mcp

import (
	"strings"
	"testing"
)

// TestAddressesAreWhereTheProtocolHasThem: name, id, uri, cursor, _meta and other members of these
// names address at the places of the schema alone. In free content they are data.
func TestAddressesAreWhereTheProtocolHasThem(t *testing.T) {
	for _, row := range []struct {
		asked, body string
		want        string // the addresses, separated by blanks
	}{
		{MethodToolsList, `"result":{"tools":[{"name":"a","icons":[{"src":"b","name":"-"}],"_meta":{"c":1},"inputSchema":{"name":"-"},"annotations":{"name":"-"},"x":{"name":"-"}}],"nextCursor":"d"}`, `"a" "b" {"c":1} "d"`},
		{MethodPromptsList, `"result":{"prompts":[{"name":"a","arguments":[{"name":"b","id":"-"}]}]}`, `"a" "b"`},
		{MethodResourcesList, `"result":{"resources":[{"uri":"a","name":"b","annotations":{"uri":"-"}}],"tools":[{"name":"-"}]}`, `"a" "b"`},
		{MethodResourceTemplatesList, `"result":{"resourceTemplates":[{"uriTemplate":"a","name":"b"}]}`, `"a" "b"`},
		{MethodResourcesRead, `"result":{"contents":[{"uri":"a","_meta":{},"name":"-","x":[{"uri":"-"}]}],"nextCursor":"-"}`, `"a" {}`},
		{MethodInitialize, `"result":{"serverInfo":{"name":"a","websiteUrl":"b","icons":[{"src":"c"}],"x":{"name":"-"}},"capabilities":{"name":"-"}}`, `"a" "b" "c"`},
		{MethodToolsCall, `"result":{"content":[{"type":"text","text":"-","name":"-","uri":"-","id":"-","_meta":{"a":1}},{"name":"-"}],"name":"-","id":"-","uri":"-","cursor":"-","x":{"_meta":{},"name":"-"}}`, `{"a":1}`},
		{MethodToolsCall, `"result":{"content":[{"type":"resource_link","uri":"a","name":"b","x":{"uri":"-"}},{"type":"resource","resource":{"uri":"c","text":"-","name":"-"}}],"structuredContent":{"name":"-","_meta":{},"uri":"-"}}`, `"a" "b" "c"`},
		{MethodToolsCall, `"result":{"resultType":"input_required","requestState":"a","inputRequests":{"name":{"method":"elicitation/create","params":{"mode":"url","url":"b","elicitationId":"c"}},"id":{"method":"elicitation/create","params":{"mode":"form","url":"-"}}}}`, `"a" "b" "c"`},
		{MethodToolsCall, `"result":{"resultType":"task","taskId":"a","name":"-"}`, `"a"`},
		{MethodToolsCall, `"result":{"task":{"taskId":"a","id":"-"}}`, `"a"`},
		{MethodTasksGet, `"result":{"taskId":"a","result":{"content":[{"type":"resource_link","uri":"b"}],"structuredContent":{"uri":"-"}}}`, `"a" "b"`},
		{MethodTasksList, `"result":{"tasks":[{"taskId":"a"}],"nextCursor":"b"}`, `"a" "b"`},
		{MethodPromptsGet, `"result":{"messages":[{"role":"user","name":"-","content":{"type":"resource_link","uri":"a","name":"b"}}]}`, `"a" "b"`},
		{MethodComplete, `"result":{"completion":{"values":["-"],"name":"-"},"_meta":{"a":1}}`, `{"a":1}`},
		{"vendor/list", `"result":{"items":[{"name":"-","uri":"-"}],"_meta":{"a":1}}`, `{"a":1}`},
		{"", `"result":{"tools":[{"name":"a"}],"contents":[{"uri":"b"}],"items":[{"name":"-"}]}`, `"a" "b"`},
		{"", `"result":{"tools":{"name":"-"},"contents":[{"uri":{"uri":"-"}}],"nextCursor":["-"]}`, ``},
		{"", `"method":"notifications/message","params":{"level":"info","logger":"-","data":{"name":"-","id":"-","uri":"-","_meta":{},"taskId":"-"},"name":"-","_meta":{"a":1}}`, `{"a":1}`},
		{"", `"method":"notifications/progress","params":{"progressToken":7,"progress":1,"name":"-"}`, `7`},
		{"", `"method":"notifications/cancelled","params":{"requestId":"a","reason":"-"}`, `"a"`},
		{"", `"method":"notifications/resources/updated","params":{"uri":"a","name":"-"}`, `"a"`},
		{"", `"method":"notifications/tasks/status","params":{"taskId":"a","statusMessage":"-"}`, `"a"`},
		{"", `"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a"],"taskIds":["b"],"x":["-"]}}`, `"a" "b"`},
		{"", `"method":"notifications/vendor","params":{"name":"-","uri":"-","taskId":"-"}`, ``},
		{"", `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"tool_use","id":"a","name":"b","input":{"name":"-"}},{"type":"tool_result","toolUseId":"c","content":[{"type":"resource_link","uri":"d"}],"structuredContent":{"uri":"-"}}]}],"tools":[{"name":"e"}],"metadata":{"name":"-","id":"-"}}`, `"a" "b" "c" "d" "e"`},
		{"", `"error":{"code":-32602,"message":"-","data":{"uri":"a","name":"-"}}`, `"a"`},
		{"", `"error":{"code":7,"message":"-","data":{"uri":"-","name":"-","_meta":{}}}`, ``},
		{"", `"error":{"code":-32042,"message":"-","data":{"elicitations":[{"mode":"url","url":"a","elicitationId":"b","name":"-"}],"url":"-"}}`, `"a" "b"`},
	} {
		var m Message
		body := `{"jsonrpc":"2.0",` + row.body + `}`
		if !strings.Contains(row.body, `"method":"notifications`) {
			body = `{"jsonrpc":"2.0","id":1,` + row.body + `}`
		}
		if err := Scan([]byte(body), &m); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var got []string
		for _, at := range Addresses(&m, row.asked) {
			got = append(got, string(at.Of(m.Body)))
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s %s: got %s, want %s", row.asked, row.body, got, row.want)
		}
	}
}
