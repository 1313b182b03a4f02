package mcp

import "testing"

func TestStripOutcome(t *testing.T) {
	const text, ui = `{"type":"text","text":"t"}`, `{"type":"ui"}`
	answer := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t",` + members + `}}`
	}
	for _, c := range []struct {
		name, in, want string
		stripped       int
		has, ok        bool
	}{
		{"still working", answer(`"status":"working"`), "", 0, false, true},
		{"nothing to strip", answer(`"result":{"content":[` + text + `]}`), "", 0, true, true},
		{"one of two", answer(`"result":{"content":[` + ui + `,` + text + `]}`), answer(`"result":{"content":[` + text + `]}`), 1, true, true},
		{"all", answer(`"result":{"content":[` + ui + `]}`), answer(`"result":{"content":[]}`), 1, true, true},
		{"of no object", answer(`"result":[1]`), "", 0, true, true},
		{"content of no list", answer(`"result":{"content":{}}`), "", 0, true, true},
		{"another result by case", answer(`"result":{},"rESULT":{"content":[` + ui + `]}`), "", 0, true, false},
		{"another content by case", answer(`"result":{"Content":[` + ui + `]}`), "", 0, true, false},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","result":{"content":[` + ui + `]}}}`, "", 0, false, true},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"result":{"content":[` + ui + `]}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"result":{"content":[]}}}`, 1, true, true},
		{"another notification", `{"jsonrpc":"2.0","method":"notifications/x","params":{"result":{"content":[` + ui + `]}}}`, "", 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			if err := Scan([]byte(c.in), &m); err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				c.want = c.in
			}
			body, n, ok := StripOutcome(&m)
			if string(body) != c.want || n != c.stripped || ok != c.ok || HasOutcome(&m) != c.has {
				t.Errorf("%s, %d, %v, has %v", body, n, ok, HasOutcome(&m))
			}
		})
	}
}
