package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestMadeTask(t *testing.T) {
	for _, tt := range []struct{ name, result, handle string }{
		{"2026-07-28", `{"resultType":"task","taskId":"t1","status":"working"}`, "t1"},
		{"2025-11-25", `{"task":{"status":"working","taskId":"t1"}}`, "t1"},
		{"2025-11-25, escaped", `{"t\u0061sk":{"t\u0061skId":"t\u0031"}}`, "t1"},
		{"a task that is asked about", `{"resultType":"complete","taskId":"t1","status":"working"}`, ""},
		{"2025-11-25, a task that is asked about", `{"taskId":"t1","status":"working"}`, ""},
		{"no handle", `{"resultType":"task"}`, ""},
		{"an empty handle", `{"resultType":"task","taskId":""}`, ""},
		{"a handle that is no string", `{"resultType":"task","taskId":7}`, ""},
		{"a nested one beside a result type", `{"resultType":"complete","task":{"taskId":"t1"}}`, ""},
		{"a nested one beside content", `{"content":[],"task":{"taskId":"t1"}}`, ""},
		{"task is no object", `{"task":"t1"}`, ""},
		{"a nested handle that is no string", `{"task":{"taskId":{}}}`, ""},
		{"a nested handle that is too long", `{"task":{"taskId":"` + strings.Repeat("x", MaxName+1) + `"}}`, ""},
		{"a nested handle with a control character", `{"task":{"taskId":"a\u0000b"}}`, ""},
		{"no object", `[{"task":{"taskId":"t1"}}]`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m Message
			if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":`+tt.result+`}`), &m); err != nil {
				t.Fatal(err)
			}
			handle, ok := MadeTask(&m)
			if ok != (tt.handle != "") || ok && handle != tt.handle {
				t.Errorf("got %q, %v, want %q", handle, ok, tt.handle)
			}
		})
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","resultType":"task","taskId":"t1","task":{"taskId":"t1"}}}`,
	} {
		var m Message
		if err := Scan([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		if handle, ok := MadeTask(&m); ok {
			t.Errorf("%s made task %q", body, handle)
		}
	}
}

func TestListenTasks(t *testing.T) {
	for _, tt := range []struct {
		name, params string
		handles      []string
		alone        bool
	}{
		{"tasks alone", `{"notifications":{"taskIds":["a","b"]}}`, []string{"a", "b"}, true},
		{"tasks, the rest switched off", `{"notifications":{"toolsListChanged":false,"resourceSubscriptions":[],"taskIds":["a"]}}`, []string{"a"}, true},
		{"tasks and lists", `{"notifications":{"taskIds":["a"],"toolsListChanged":true}}`, []string{"a"}, false},
		{"lists", `{"notifications":{"toolsListChanged":true}}`, nil, false},
		{"nothing", `{"notifications":{}}`, nil, true},
		{"handles that are none", `{"notifications":{"taskIds":[1,{},"a"]}}`, []string{"a"}, true},
		{"no list", `{"notifications":{"taskIds":"a"}}`, nil, false},
		{"no object", `{"notifications":[]}`, nil, false},
		{"no notifications", `{}`, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m Message
			if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":`+tt.params+`}`), &m); err != nil {
				t.Fatal(err)
			}
			handles, alone := ListenTasks(&m)
			if !slices.Equal(handles, tt.handles) || alone != tt.alone {
				t.Errorf("got %q, %v, want %q, %v", handles, alone, tt.handles, tt.alone)
			}
		})
	}
}

// FuzzTask compares the parsed members of tasks with encoding/json on every
// accepted message.
func FuzzTask(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t1"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t\u00311","x":[{}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["a"],"x":false}}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var m Message
		if Scan(body, &m) != nil {
			return
		}
		var whole any
		if err := json.Unmarshal(body, &whole); err != nil {
			return // numbers out of the range of Go's types
		}
		at := func(path ...string) any { // exact names: struct fields would ignore case
			v := whole
			for _, name := range path {
				object, _ := v.(map[string]any)
				v = object[name]
			}
			return v
		}
		handle, made := MadeTask(&m)
		if made && (m.Kind != Response || handle == "") {
			t.Fatalf("%q made task %q", body, handle)
		}
		if made && m.ResultType == "" && any(handle) != at("result", "task", "taskId") {
			t.Fatalf("%q made task %q", body, handle)
		}
		handles, _ := ListenTasks(&m)
		asked, _ := at("params", "notifications", "taskIds").([]any)
		for _, h := range handles {
			if !slices.Contains(asked, any(h)) {
				t.Fatalf("%q listens to task %q", body, h)
			}
		}
	})
}
