package session

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

func TestTags(t *testing.T) {
	for _, name := range []string{"second", "a~b", "50%", "a~b~1", "%7E"} {
		for _, raw := range []string{`1`, `"a"`, `"with \"quotes\" and ~ tildes"`, `""`, `-5`} {
			up, value, tagged, ok := UntagValue(Value(name, []byte(raw)))
			if !tagged || !ok || up != name || string(value) != raw {
				t.Errorf("%s at %s became %q %s %v %v", raw, name, up, value, tagged, ok)
			}
		}
		src := Stream{Kind: Post, Upstream: name}
		if up, id, ok := UntagPost(string(src.Event([]byte("1~2")))); !ok || up != name || id != "1~2" {
			t.Errorf("event id at %s became %q %q %v", name, up, id, ok)
		}
	}
	for _, foreign := range []string{``, `1`, `"svc"`, `"other~x~1"`, `["svc~x~1"]`} {
		if _, _, tagged, ok := UntagValue([]byte(foreign)); tagged || ok {
			t.Errorf("%s was taken for a tag", foreign)
		}
	}
	long := strings.Repeat("1", mcp.MaxIDDigits+1)
	for _, forged := range []string{
		`"svc~"`, `"svc~x"`, `"svc~x~"`, `"svc~~1"`, `"svc~%zz~1"`, `"svc~x~nope"`, `"svc~x~1 "`, `"svc~x~ 1"`, `"svc~x~1,2"`, `"svc~x~1.5"`, `"svc~x~1e3"`,
		`"svc~x~01"`, `"svc~x~-"`, `"svc~x~null"`, `"svc~x~{}"`, `"svc~x~[1]"`, `"svc~x~\"a\",\"b\":\"c\""`, `"svc~x~\"a"`, `"svc~x~\"\\ud800\""`, `"svc~x~\"\u0001\""`,
		`"svc~x~1},\"id\":77,\"x\":{\"y\":1"`, `"svc~x~` + long + `"`, `"svc~x~\"` + strings.Repeat("a", mcp.MaxID) + `\""`, `"\u0073vc~x~nope"`,
	} {
		if _, _, tagged, ok := UntagValue([]byte(forged)); !tagged || ok {
			t.Errorf("%.60s: tagged %v, issued %v", forged, tagged, ok)
		}
	}
	src := Stream{Kind: Post, Upstream: "second"}
	up, id, ok := UntagPost(string(src.Event([]byte("a~b_0"))))
	if !ok || up != "second" || id != "a~b_0" {
		t.Errorf("event id became %q %q %v", up, id, ok)
	}
	for _, foreign := range []string{"", "7", "x~y~z", "p~second", "g~second=1"} {
		if _, _, ok := UntagPost(foreign); ok {
			t.Errorf("%q was taken for the event id of an answer", foreign)
		}
	}
}

// An event id of the merged stream contains the positions at all upstreams.
func TestStandingEventIDHoldsAllPositions(t *testing.T) {
	at := UntagStanding("")
	first := Stream{Kind: Standing, Upstream: "first", At: at}
	second := Stream{Kind: Standing, Upstream: "second", At: at}
	first.Event([]byte("1"))
	second.Event([]byte("a&b=c ~"))
	back := UntagStanding(string(first.Event([]byte("2"))))
	if back.Of("first") != "2" || back.Of("second") != "a&b=c ~" || back.Of("third") != "" {
		t.Errorf("got %v", back.at)
	}
	for _, foreign := range []string{"7", "p~first~1", "g~%zz", "g~" + strings.Repeat("x", maxPositions+1)} {
		if p := UntagStanding(foreign); len(p.at) != 0 {
			t.Errorf("%.20q became %v", foreign, p.at)
		}
	}
	long := UntagStanding("")
	other := Stream{Kind: Standing, Upstream: "other", At: long}
	other.Event([]byte(strings.Repeat("x", maxPositions)))
	src := Stream{Kind: Standing, Upstream: "second", At: long}
	if got := string(src.Event([]byte("1"))); got != "g~second=1" {
		t.Errorf("an overlong position became %.40q", got)
	}
}

// A progress token that could not be restored is forwarded unchanged.
func TestOnlyStringsAndIntegersAreTagged(t *testing.T) {
	src := Stream{Kind: Post, Upstream: "second"}
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"_meta":{"progressToken":{"a":1}}}}`)
	var m mcp.Message
	if err := mcp.Scan(body, &m); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":"svc~second~7","method":"sampling/createMessage","params":{"_meta":{"progressToken":{"a":1}}}}`
	if got := string(src.Message(&m, body)); got != want {
		t.Errorf("got %s", got)
	}
}

// FuzzTag checks the properties of all tags: a value that UntagValue accepts is
// exactly one JSON value, so that putting it into a message changes nothing else;
// and the result of Value is parsed back unchanged.
//
// Ten minutes: go test ./gateway/session -run '^$' -fuzz '^FuzzTag$' -fuzztime 10m
// -fuzzminimizetime 1x -parallel 1
func FuzzTag(f *testing.F) {
	for _, text := range []string{"svc~two~1", "svc~two~\"a\"", "svc~two~1},\"id\":77,\"x\":{\"y\":1", "svc~a%7Eb~-5", "svc~~1", "svc~two~\"a\\\"", "nope", "svc~two~1e9"} {
		f.Add(text, "two", `"a"`)
	}
	f.Fuzz(func(t *testing.T, text, name, raw string) {
		checkUntag(t, text)
		if !mcp.ValidID([]byte(raw)) || name == "" || strings.ToValidUTF8(name, "") != name {
			return
		}
		var v any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatalf("%q counts as an id: %v", raw, err)
		}
		up, value, tagged, ok := UntagValue(Value(name, []byte(raw)))
		if !tagged || !ok || up != name || string(value) != raw {
			t.Fatalf("%q at %q comes back as %q at %q, %v %v", raw, name, value, up, tagged, ok)
		}
	})
}

// checkUntag puts a client's text where tags are expected, and removes the tag.
func checkUntag(t *testing.T, text string) {
	t.Helper()
	token := mcp.AppendString(nil, text)
	for _, body := range [][]byte{
		[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":1}}`),
		[]byte(`{"jsonrpc":"2.0","id":` + string(token) + `,"result":{"a":1}}`),
	} {
		var m, after mcp.Message
		if mcp.Scan(body, &m) != nil {
			continue
		}
		at := m.Spans.ID
		if m.Kind == mcp.Notification {
			at = m.Spans.ProgressToken
		}
		_, value, _, ok := UntagValue(at.Of(body))
		if !ok {
			continue
		}
		out := mcp.Splice(nil, body, mcp.Edit{At: at, With: value})
		if err := mcp.Scan(out, &after); err != nil {
			t.Fatalf("%s becomes %s: %v", body, out, err)
		}
		to := after.Spans.ID
		if after.Kind == mcp.Notification {
			to = after.Spans.ProgressToken
		}
		if after.Kind != m.Kind || after.Method != m.Method || !bytes.Equal(to.Of(out), value) ||
			!bytes.Equal(out[:to.Start], body[:at.Start]) || !bytes.Equal(out[to.End:], body[at.End:]) {
			t.Fatalf("%s becomes %s", body, out)
		}
	}
}
