package arguments

import (
	"encoding/json"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// read scans a request with arguments and reads the values of a plan's pointers.
func read(t testing.TB, p *Plan, arguments string) *Values {
	t.Helper()
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	if arguments != "" {
		body = []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":` + arguments + `}}`)
	}
	var m mcp.Message
	if err := mcp.Scan(body, &m); err != nil {
		t.Fatalf("%s: %v", arguments, err)
	}
	return p.Read(m.Body, m.Spans.Arguments)
}

// decide compiles a condition, written in JSON, and decides it.
func decide(t testing.TB, condition string, all bool, arguments string) Outcome {
	t.Helper()
	var cfg Config
	dec := json.NewDecoder(strings.NewReader(condition))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cfg); err != nil {
		t.Fatalf("%s: %v", condition, err)
	}
	var p Plan
	c, err := p.Add(cfg, all)
	if err != nil {
		t.Fatalf("%s: %v", condition, err)
	}
	v := read(t, &p, arguments)
	defer v.Release()
	return c.Decide(v)
}

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		condition, arguments string
		want                 Outcome
	}{
		{`{"/a":{"equals":"x"}}`, `{"a":"x"}`, Holds},
		{`{"/a":{"equals":"x"}}`, `{"a":"\u0078"}`, Holds},
		{`{"/a":{"equals":"x"}}`, `{"a":"X"}`, Fails},
		{`{"/a":{"equals":"x"}}`, `{"a":1}`, Fails},
		{`{"/a":{"equals":"x"}}`, `{"a":["x"]}`, Fails},
		{`{"/a":{"equals":"x"}}`, `{}`, Missing},
		{`{"/a":{"equals":"x"}}`, ``, Missing},
		{`{"/a":{"equals":null}}`, `{"a":null}`, Holds},
		{`{"/a":{"equals":true}}`, `{"a":true}`, Holds},
		{`{"/a":{"equals":true}}`, `{"a":"true"}`, Fails},
		{`{"/a":{"equals":1}}`, `{"a":1.0}`, Holds},
		{`{"/a":{"equals":1}}`, `{"a":10e-1}`, Holds},
		{`{"/a":{"equals":0}}`, `{"a":-0.0e5}`, Holds},
		{`{"/a":{"equals":9007199254740993}}`, `{"a":9007199254740992}`, Fails},
		{`{"/a":{"one_of":["x",2,null]}}`, `{"a":2.0}`, Holds},
		{`{"/a":{"one_of":["x",2,null]}}`, `{"a":false}`, Fails},
		{`{"/a":{"prefix":"/srv/"}}`, `{"a":"/srv/x"}`, Holds},
		{`{"/a":{"prefix":"/srv/"}}`, `{"a":7}`, WrongType},
		{`{"/a":{"prefix":"/srv/"}}`, `{"a":null}`, WrongType},
		{`{"/a":{"suffix":".csv","contains":"x"}}`, `{"a":"x.csv"}`, Holds},
		{`{"/a":{"suffix":".csv","contains":"x"}}`, `{"a":"y.csv"}`, Fails},
		{`{"/a":{"glob":"/srv/*.csv"}}`, `{"a":"/srv/a/b.csv"}`, Holds},
		{`{"/a":{"regex":"a|b"}}`, `{"a":"ab"}`, Fails},
		{`{"/a":{"regex":"a|b"}}`, `{"a":"b"}`, Holds},
		{`{"/a":{"min":1,"max":2.5}}`, `{"a":2.50}`, Holds},
		{`{"/a":{"min":1,"max":2.5}}`, `{"a":2.5000000000000000000001}`, Fails},
		{`{"/a":{"min":1}}`, `{"a":1e400}`, Holds},
		{`{"/a":{"max":1}}`, `{"a":1e99999999999999999999}`, Fails},
		{`{"/a":{"max":0}}`, `{"a":-1e99999999999999999999}`, Holds},
		{`{"/a":{"max":1}}`, `{"a":1e-99999999999999999999}`, Holds},
		{`{"/a":{"max":1}}`, `{"a":"1"}`, WrongType},
		{`{"/a":{"max_length":2}}`, `{"a":"éé"}`, Holds},
		{`{"/a":{"max_length":2}}`, `{"a":"ééé"}`, Fails},
		{`{"/a":{"max_length":2}}`, `{"a":[1,2]}`, Holds},
		{`{"/a":{"max_length":2}}`, `{"a":[1,2,[]]}`, Fails},
		{`{"/a":{"max_length":0}}`, `{"a":{}}`, Holds},
		{`{"/a":{"max_length":1}}`, `{"a":{"b":1,"c":2}}`, Fails},
		{`{"/a":{"max_length":2}}`, `{"a":1}`, WrongType},
		{`{"/a":{"type":"integer"}}`, `{"a":1.50e1}`, Holds},
		{`{"/a":{"type":"integer"}}`, `{"a":1.5}`, Fails},
		{`{"/a":{"type":"string"}}`, `{"a":[]}`, Fails},
		{`{"/a":{"type":"array"}}`, `{"a":[]}`, Holds},
		{`{"/a":{"absent":true}}`, `{}`, Holds},
		{`{"/a":{"absent":true}}`, ``, Holds},
		{`{"/a":{"absent":true}}`, `{"a":null}`, Fails},
		{`{"/a":{"absent":true}}`, `{"A":1}`, WrongType},
		{`{"/a":{"not":{"absent":true}}}`, `{}`, Fails},
		{`{"/a":{"not":{"absent":true}}}`, `{"a":1}`, Holds},
		{`{"/a":{"not":{"prefix":"x"}}}`, `{"a":"y"}`, Holds},
		{`{"/a":{"not":{"prefix":"x"}}}`, `{"a":"x"}`, Fails},
		{`{"/a":{"not":{"prefix":"x"}}}`, `{"a":1}`, WrongType},
		{`{"/a":{"not":{"prefix":"x"}}}`, `{}`, Missing},
		{`{"/a":{"not":{"equals":"x"}}}`, `{"a":1}`, Holds},
		{`{"/a":{"prefix":"/srv","not":{"prefix":"/srv/keys"}}}`, `{"a":"/srv/keys/x"}`, Fails},
		// The whole value, and steps into it.
		{`{"":{"max_length":1}}`, `{"a":1,"b":2}`, Fails},
		{`{"":{"absent":true}}`, ``, Holds},
		{`{"/a/b":{"equals":1}}`, `{"a":{"b":1}}`, Holds},
		{`{"/a/b":{"equals":1}}`, `{"a":{}}`, Missing},
		{`{"/a/b":{"equals":1}}`, `{"a":"b"}`, WrongType},
		{`{"/a/b":{"absent":true}}`, `{"a":"b"}`, WrongType},
		{`{"/a/b":{"equals":1}}`, `{"a":[{"b":1}]}`, WrongType},
		{`{"/a/1":{"equals":2}}`, `{"a":[1,2]}`, Holds},
		{`{"/a/1":{"equals":2}}`, `{"a":{"1":2}}`, Holds},
		{`{"/a/2":{"equals":2}}`, `{"a":[1,2]}`, Missing},
		{`{"/a~1b/~0":{"equals":1}}`, `{"a/b":{"~":1}}`, Holds},
		{`{"/":{"equals":1}}`, `{"":1}`, Holds},
		{`{"/a":{"equals":1}}`, `[1]`, WrongType},
		{`{"/0":{"equals":1}}`, `[1]`, Holds},
		// Names that some programs treat as equal.
		{`{"/path":{"equals":"x"}}`, `{"path":"x","PATH":"y"}`, WrongType},
		{`{"/path":{"not":{"equals":"x"}}}`, `{"path":"x","pAth":"y"}`, WrongType},
		{`{"/path":{"type":"string"}}`, `{"\u0050ath":"y"}`, WrongType},
		{`{"/key":{"equals":"x"}}`, `{"key":"x","\u212aey":"y"}`, WrongType},
		{`{"/straße":{"equals":"x"}}`, `{"straße":"x","STRASSE":"y"}`, WrongType},
		{`{"/é":{"equals":"x"}}`, `{"é":"x","e\u0301":"y"}`, WrongType},
		{`{"/a/b":{"equals":1}}`, `{"a":{"b":1},"A":2}`, WrongType},
		{`{"/a":{"equals":1},"/b":{"equals":1}}`, `{"a":1,"c":1,"C":2,"b":1}`, Holds},
		// Several entries: a failing one decides, then a missing one.
		{`{"/a":{"equals":1},"/b":{"prefix":"x"}}`, `{"a":2,"b":7}`, Fails},
		{`{"/a":{"equals":1},"/b":{"prefix":"x"}}`, `{"a":1,"b":7}`, WrongType},
		{`{"/a":{"equals":1},"/b":{"prefix":"x"}}`, `{"b":7}`, Missing},
		{`{"/a":{"equals":1},"/a/b":{"absent":true}}`, `{"a":1}`, WrongType},
	} {
		for _, all := range []bool{false, true} {
			if got := decide(t, tt.condition, all, tt.arguments); got != tt.want {
				t.Errorf("%s of %s is %d, want %d (all %v)", tt.condition, tt.arguments, got, tt.want, all)
			}
		}
	}
}

func TestWildcards(t *testing.T) {
	for _, tt := range []struct {
		condition, arguments string
		any, all             Outcome
	}{
		{`{"/a/*":{"prefix":"x"}}`, `{"a":["x","xy"]}`, Holds, Holds},
		{`{"/a/*":{"prefix":"x"}}`, `{"a":["y","x"]}`, Holds, Fails},
		{`{"/a/*":{"prefix":"x"}}`, `{"a":["y",1]}`, WrongType, WrongType},
		{`{"/a/*":{"prefix":"x"}}`, `{"a":["x",1]}`, Holds, WrongType},
		{`{"/a/*":{"prefix":"x"}}`, `{"a":[]}`, Missing, Missing},
		{`{"/a/*":{"prefix":"x"}}`, `{"a":{}}`, Missing, Missing},
		{`{"/a/*":{"prefix":"x"}}`, `{"a":{"b":"x","c":"x"}}`, Holds, Holds},
		{`{"/a/*":{"prefix":"x"}}`, `{"a":"x"}`, WrongType, WrongType},
		{`{"/a/*":{"absent":true}}`, `{"a":[]}`, Holds, Holds},
		{`{"/a/*":{"absent":true}}`, `{"a":[1]}`, Fails, Fails},
		{`{"/a/*/b":{"equals":1}}`, `{"a":[{"b":1},{"b":1}]}`, Holds, Holds},
		{`{"/a/*/b":{"equals":1}}`, `{"a":[{"b":1},{}]}`, Holds, Missing},
		{`{"/a/*/b":{"equals":1}}`, `{"a":[{"b":2},{}]}`, Missing, Fails},
		{`{"/a/*/b":{"equals":1}}`, `{"a":[{"b":2},3]}`, WrongType, WrongType},
		{`{"/a/*/b":{"equals":1}}`, `{"a":[{"b":1},{"b":1,"B":1}]}`, Holds, WrongType},
		{`{"/a/*/b":{"absent":true}}`, `{"a":[{"b":1},{}]}`, Holds, Fails},
		{`{"/*":{"prefix":"x"},"/a":{"equals":"x"}}`, `{"a":"x","b":"x2"}`, Holds, Holds},
		{`{"/*/*":{"max":3}}`, `{"a":[1,2],"b":{"c":3}}`, Holds, Holds},
		{`{"/*/*":{"max":3,"match":"any"}}`, `{"a":[4,2]}`, Holds, Holds},
		{`{"/*/*":{"max":3,"match":"all"}}`, `{"a":[4,2]}`, Fails, Fails},
	} {
		if got := decide(t, tt.condition, false, tt.arguments); got != tt.any {
			t.Errorf("%s of %s is %d, want %d with any", tt.condition, tt.arguments, got, tt.any)
		}
		if got := decide(t, tt.condition, true, tt.arguments); got != tt.all {
			t.Errorf("%s of %s is %d, want %d with all", tt.condition, tt.arguments, got, tt.all)
		}
	}
}

// The work for one message is bounded; over the bound the outcome is TooMuch.
func TestBounds(t *testing.T) {
	nested := func(n int) string { return `"/` + strings.Repeat("%25252e%25252e/", n/15) + `"` }
	list := func(n int, item string) string { return `{"a":[` + strings.Repeat(item+",", n-1) + item + `]}` }
	for _, tt := range []struct {
		name, condition, arguments string
		want                       Outcome
	}{
		{"values", `{"/a/*":{"equals":1}}`, list(maxValues, "0"), Fails},
		{"too many values", `{"/a/*":{"equals":1}}`, list(maxValues+1, "0"), TooMuch},
		{"too many under two steps", `{"/a/*/b":{"equals":1}}`, list(maxValues+1, "{}"), TooMuch},
		{"a million values", `{"/a/*":{"equals":1}}`, list(1_000_000, "0"), TooMuch},
		{"a million values of which the first is enough", `{"/a/*":{"equals":1}}`, list(1_000_000, "1"), TooMuch},
		{"too many of no interest", `{"/b":{"equals":1}}`, list(maxValues+1, "0"), Missing},
		{"few escaped paths", `{"/a/*":{"path_within":"/srv"}}`, list(30, nested(4000)), Fails},
		{"nested escapes in many paths", `{"/a/*":{"path_within":"/srv"}}`, list(1000, nested(4000)), TooMuch},
		{"nested escapes in a path over the bound", `{"/a/*":{"path_within":"/srv"}}`, list(1000, nested(5000)), WrongType},
		{"many paths with escapes of names", `{"/a/*":{"path_within":"/srv"}}`, list(1000, `"/srv/my%20files/`+strings.Repeat("x", 200)+`"`), Holds},
		{"many URLs", `{"/a/*":{"host_in":["a.example"]}}`, list(1000, `"https://a.example/`+strings.Repeat("x", 900)+`"`), Holds},
		{"many internationalized hosts", `{"/a/*":{"host_in":["a.example"]}}`, list(8000, `"`+strings.Repeat("ü", 120)+`"`), Fails},
		{"too many internationalized hosts", `{"/a/*":{"host_in":["a.example"]}}`, list(9000, `"`+strings.Repeat("ü", 120)+`"`), TooMuch},
		{"too many bytes", `{"/a":{"prefix":"x","suffix":"x","contains":"y","glob":"*x*","regex":".*"}}`, `{"a":"` + strings.Repeat("x", 12<<20) + `"}`, TooMuch},
	} {
		if got := decide(t, tt.condition, false, tt.arguments); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct{ condition, want string }{
		{`{}`, "there is no argument"},
		{`{"a":{"equals":1}}`, "begins with /"},
		{`{"/a~2":{"equals":1}}`, "~ is written ~0"},
		{`{"/a/-":{"equals":1}}`, "behind the end of an array"},
		{`{"/` + strings.Repeat("a/", 40) + `":{"equals":1}}`, "32 steps"},
		{`{"/a":{}}`, "the matcher is empty"},
		{`{"/a":{"not":{}}}`, "not is empty"},
		{`{"/a":{"equals":[1]}}`, "equals compares strings"},
		{`{"/a":{"one_of":[]}}`, "one_of is empty"},
		{`{"/a":{"one_of":[{}]}}`, "one_of compares strings"},
		{`{"/a":{"prefix":""}}`, "prefix is empty"},
		{`{"/a":{"regex":"("}}`, "missing closing"},
		{`{"/a":{"regex":"a)(b"}}`, "unexpected )"},
		{`{"/a":{"glob":"[a"}}`, "class"},
		{`{"/a":{"min":"1"}}`, "min is not a number"},
		{`{"/a":{"max":1e5000}}`, "max is out of range"},
		{`{"/a":{"max_length":-1}}`, "max_length is -1"},
		{`{"/a":{"type":"text"}}`, `type is "text"`},
		{`{"/a":{"absent":true,"equals":1}}`, "has no value"},
		{`{"/a":{"min":1,"prefix":"x"}}`, "no value is both"},
		{`{"/a":{"equals":1,"match":"all"}}`, "this one has none"},
		{`{"/a/*":{"equals":1,"match":"some"}}`, `match is "some"`},
		{`{"/a":{"path_within":"srv"}}`, `path_within is "srv"`},
		{`{"/a":{"path_within":"/srv/"}}`, `path_within is "/srv/"`},
		{`{"/a":{"path_within":"/srv/../etc"}}`, "path_within is"},
		{`{"/a":{"host_in":[]}}`, "host_in is empty"},
		{`{"/a":{"host_in":["https://x.example"]}}`, "is not a host"},
		{`{"/a":{"host_in":["x.example:80"]}}`, "is not a host"},
		{`{"/a":{"host_in":["a.*.example"]}}`, "is not a host"},
		{`{"/a":{"host_in":["*.10.0.0.1"]}}`, "no subdomains"},
	} {
		var cfg Config
		if err := json.Unmarshal([]byte(tt.condition), &cfg); err != nil {
			t.Fatal(err)
		}
		errs := Check(cfg)
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.condition, errs, tt.want)
		}
	}
}

// Conditions of one plan share the walk, and their values are separate.
func TestPlanIsShared(t *testing.T) {
	var p Plan
	one := func(s string) json.RawMessage { return json.RawMessage(s) }
	a, err := p.Add(Config{"/a": {Test: Test{Equals: one("1")}}, "/x/*": {Test: Test{Equals: one("1")}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Add(Config{"/a": {Test: Test{Equals: one("2")}}, "/b/c": {Test: Test{Equals: one("1")}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a pooled Values is used again
		v := read(t, &p, `{"a":2,"b":{"c":1},"x":[3,1]}`)
		if a.Decide(v) != Fails || b.Decide(v) != Holds {
			t.Errorf("%d %d, want %d %d", a.Decide(v), b.Decide(v), Fails, Holds)
		}
		v.Release()
		v = read(t, &p, `{"a":1,"x":[1]}`)
		if a.Decide(v) != Holds || b.Decide(v) != Fails {
			t.Errorf("%d %d, want %d %d", a.Decide(v), b.Decide(v), Holds, Fails)
		}
		v.Release()
	}
}
