package mcp

import "testing"

func TestAppendObject(t *testing.T) {
	isB := func(name []byte) bool { return string(name) == "b" }
	for _, tt := range []struct {
		body string
		drop func([]byte) bool
		add  []Member
		want string
	}{
		{`{}`, nil, nil, `{}`},
		{`{ "a" : 1 , "b" : [ 2 ] }`, nil, nil, `{"a":1,"b":[ 2 ]}`},
		{`{"a":1,"b":2,"c":3}`, isB, nil, `{"a":1,"c":3}`},
		{`{"b":2}`, isB, []Member{{"x", []byte(`"y"`)}}, `{"x":"y"}`},
		{`{"a":1,"c":3}`, nil, []Member{{"a", []byte("9")}, {"d", nil}}, `{"c":3,"a":9}`},
		{`{"\u0062":2,"a":1}`, isB, nil, `{"a":1}`},
		{`[1]`, nil, []Member{{"a", []byte("1")}}, `{"a":1}`},
	} {
		if got := string(AppendObject(nil, []byte(tt.body), Span{0, len(tt.body)}, tt.drop, tt.add...)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.body, got, tt.want)
		}
	}
	if got := string(AppendObject(nil, nil, Span{}, nil, Member{"a", []byte("1")})); got != `{"a":1}` {
		t.Errorf("of nothing: %s", got)
	}
}
