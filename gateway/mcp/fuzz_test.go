package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// FuzzScan checks the properties of all bodies: Scan does not panic; an
// accepted body is JSON without duplicate names, spans are the positions of
// their values, and encoding/json and the official SDK read the same method and
// tool name.
//
// Ten minutes: go test ./gateway/mcp -run '^$' -fuzz '^FuzzScan$' -fuzztime 10m
// -fuzzminimizetime 1x -parallel 1
func FuzzScan(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		var m Message
		err := Scan(body, &m)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		id := PeekID(body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Reason == "" || e.Code == 0 || m.Kind != Invalid || m.Method != "" {
				t.Fatalf("refused with %#v and %+v", err, m)
			}
			return
		}
		if !bytes.Equal(id, m.ID) {
			t.Fatalf("PeekID reads %q, Scan %q", id, m.ID)
		}
		if !jsontext.Value(bytes.Clone(body)).IsValid() { // strict: UTF-8, no duplicates
			t.Fatalf("accepted, and is not strict JSON: %q", body)
		}
		checkSpans(t, &m)
		agree(t, &m)
	})
}

// checkSpans checks that the spans of a message are the positions of their
// values.
func checkSpans(t *testing.T, m *Message) {
	t.Helper()
	for _, c := range []struct {
		at   Span
		want string
	}{
		{m.Spans.Method, m.Method}, {m.Spans.Name, m.Name}, {m.Spans.URI, m.URI},
		{m.Spans.ProtocolVersion, m.ProtocolVersion},
	} {
		if !c.at.Present() {
			if c.want != "" {
				t.Fatalf("%q has no span", c.want)
			}
			continue
		}
		var got string
		if err := json.Unmarshal(c.at.Of(m.Body), &got); err != nil || got != c.want {
			t.Fatalf("the span holds %q, the value is %q", c.at.Of(m.Body), c.want)
		}
	}
	for _, s := range []Span{m.Spans.ID, m.Spans.Params, m.Spans.Result, m.Spans.Error, m.Spans.Meta, m.Spans.Content, m.Spans.Arguments, m.Spans.RequestID, m.Spans.ProgressToken} {
		if s.Present() && !json.Valid(s.Of(m.Body)) {
			t.Fatalf("a span holds %q", s.Of(m.Body))
		}
	}
}

// agree checks that encoding/json and the official SDK read the same message as
// Scan.
func agree(t *testing.T, m *Message) {
	t.Helper()
	var v struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(m.Body, &v); err != nil {
		t.Fatalf("encoding/json refuses what we accept: %v in %q", err, m.Body)
	}
	var p struct {
		Name any `json:"name"`
	}
	if m.Kind != Response && len(v.Params) > 0 {
		if err := json.Unmarshal(v.Params, &p); err != nil {
			t.Fatalf("encoding/json refuses params that we accept: %v in %q", err, m.Body)
		}
	}
	name, isString := p.Name.(string)
	if v.Method != m.Method || m.Kind != Response && m.HasName && (name != m.Name || !isString) {
		t.Fatalf("encoding/json reads %q %q, we %q %q", v.Method, name, m.Method, m.Name)
	}
	if m.ID != nil && !bytes.Equal(v.ID, m.ID) {
		t.Fatalf("encoding/json reads id %q, we %q", v.ID, m.ID)
	}
	msg, err := jsonrpc.DecodeMessage(m.Body)
	if err != nil {
		return // The SDK is stricter; it responds with an error.
	}
	switch msg := msg.(type) {
	case *jsonrpc.Request:
		var p struct {
			Name any `json:"name"`
		}
		if len(msg.Params) > 0 {
			if err := json.Unmarshal(msg.Params, &p); err != nil {
				t.Fatalf("params as the SDK has them: %v", err)
			}
		}
		name, _ := p.Name.(string)
		if m.Kind == Response || msg.Method != m.Method || m.HasName && name != m.Name || msg.IsCall() != (m.Kind == Request) {
			t.Fatalf("the SDK reads %q %q, we %v %q %q", msg.Method, name, m.Kind, m.Method, m.Name)
		}
	case *jsonrpc.Response:
		if m.Kind != Response {
			t.Fatalf("the SDK reads a response, we a %v", m.Kind)
		}
	}
}

// FuzzCanonicalize checks that the canonical form is the same JSON value, is
// not longer, is canonical itself, and has no unneeded escapes.
//
// Ten minutes: go test ./gateway/mcp -run '^$' -fuzz '^FuzzCanonicalize$'
// -fuzztime 10m -fuzzminimizetime 1x -parallel 1
func FuzzCanonicalize(f *testing.F) {
	f.Add([]byte(`{"a":"AK\u0049A\/\u000a\ud83d\ude00"}`))
	f.Add([]byte(`"\u00`))
	f.Add([]byte(`["\\u0041","\u005c\u0022\u2028"]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in := bytes.Clone(body)
		out := Canonicalize(nil, body)
		if len(out) > len(body) || !bytes.Equal(in, body) {
			t.Fatalf("%q becomes %q", in, out)
		}
		if !jsontext.Value(bytes.Clone(body)).IsValid() {
			return
		}
		var want, got any
		if json.Unmarshal(body, &want) != nil {
			return
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		a, errA := json.Marshal(want)
		b, errB := json.Marshal(got)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("%q becomes %q", body, out)
		}
		if again := Canonicalize(nil, out); !bytes.Equal(again, out) {
			t.Fatalf("%q becomes %q becomes %q", body, out, again)
		}
		if i := bytes.Index(out, []byte(`\u`)); i >= 0 && !bytes.Contains(out, []byte(`\\u`)) && !strings.HasPrefix(string(out[i:]), `\u00`) {
			t.Fatalf("%q keeps an escape that is not needed", out)
		}
	})
}

// FuzzEventReader checks that the events do not depend on how the stream is
// split into reads, that no event exceeds the limit, and that events survive
// writing and reading again.
//
// Ten minutes: go test ./gateway/mcp -run '^$' -fuzz '^FuzzEventReader$'
// -fuzztime 10m -fuzzminimizetime 1x -parallel 1
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{
		"event: message\ndata: {}\n\n", "data: 1\r\rdata:2\r\n\r\n", "\xEF\xBB\xBF: c\nid: 1\nretry: 5\ndata\ndata: x\n\n",
		"data: a\nid: 42\nevent: x\n: in\ndata: b\n\n", "data: cut", "\r\n\r\n:\r:x\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 1 << 12
		whole, wantErr := readEvents(t, bytes.NewReader(stream), limit)
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(stream)), iotest.HalfReader(bytes.NewReader(stream)), iotest.DataErrReader(bytes.NewReader(stream))} {
			got, err := readEvents(t, r, limit)
			if len(stream) < limit && (err != wantErr || !slices.EqualFunc(got, whole, sameEvent)) {
				t.Fatalf("%q\nat once: %q %v\nin parts: %q %v", stream, showAll(whole), wantErr, showAll(got), err)
			}
		}
		var again []byte
		for _, e := range whole {
			again = AppendEvent(again, e)
		}
		back, err := readEvents(t, bytes.NewReader(again), 8*limit)
		if err != io.EOF || !slices.EqualFunc(back, whole, sameEvent) {
			t.Fatalf("%q is written as %q and read as %q, %v; was %q", stream, again, showAll(back), err, showAll(whole))
		}
	})
}

// readEvents reads a stream to its end and returns copies of the whole events.
func readEvents(t *testing.T, r io.Reader, limit int) ([]Event, error) {
	er := NewEventReader(r, limit)
	var list []Event
	for {
		e, err := er.Next()
		if err != nil {
			return list, err
		}
		if len(e.Type)+len(e.ID)+len(e.Data)+len(e.Comment) > limit+firstBuffer {
			t.Fatalf("an event of %d bytes", len(e.Data))
		}
		e.Type, e.ID, e.Data, e.Comment = bytes.Clone(e.Type), bytes.Clone(e.ID), bytes.Clone(e.Data), bytes.Clone(e.Comment)
		list = append(list, e)
	}
}

func showAll(events []Event) []string {
	var list []string
	for _, e := range events {
		list = append(list, show(e))
	}
	return list
}

func sameEvent(a, b Event) bool {
	return bytes.Equal(a.Type, b.Type) && bytes.Equal(a.ID, b.ID) && bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Comment, b.Comment) &&
		a.HasID == b.HasID && a.HasData == b.HasData && a.HasRetry == b.HasRetry && a.Retry == b.Retry && a.IsComment == b.IsComment
}

// FuzzAppendEvent checks that an event with any contents is written as one
// event and read back with the same data, except for line ends.
//
// Ten minutes: go test ./gateway/mcp -run '^$' -fuzz '^FuzzAppendEvent$'
// -fuzztime 10m -fuzzminimizetime 1x -parallel 1
func FuzzAppendEvent(f *testing.F) {
	f.Add([]byte("message"), []byte("1"), []byte("{\n}"), true)
	f.Add([]byte("a\nb"), []byte("x\x00"), []byte("a\r\n\r\ndata: x\n\n"), true)
	f.Add([]byte(""), []byte(""), []byte(""), false)
	f.Fuzz(func(t *testing.T, typ, id, data []byte, hasID bool) {
		stream := AppendEvent(nil, Event{Type: typ, ID: id, HasID: hasID, Data: data, HasData: true})
		for _, line := range bytes.Split(bytes.TrimSuffix(stream, []byte("\n\n")), []byte("\n")) {
			if i := bytes.Index(line, []byte(": ")); i < 0 || bytes.IndexByte(line, '\r') >= 0 {
				t.Fatalf("%q holds the line %q", stream, line)
			}
		}
		got, err := readEvents(t, bytes.NewReader(stream), len(stream)+100)
		if err != io.EOF || len(got) != 1 {
			t.Fatalf("%q reads as %d events, %v", stream, len(got), err)
		}
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
		if string(got[0].Data) != want {
			t.Fatalf("data %q comes back as %q", want, got[0].Data)
		}
		if ok := lineEnd(typ) < 0; ok != bytes.Equal(got[0].Type, typ) && len(typ) > 0 {
			t.Fatalf("type %q comes back as %q", typ, got[0].Type)
		}
		if got[0].HasID != (hasID && writableID(id)) || got[0].HasID && !bytes.Equal(got[0].ID, id) {
			t.Fatalf("id %q comes back as %q", id, got[0].ID)
		}
	})
}

// FuzzStripApp checks that the stripped body is still a message, and that
// stripping it again finds nothing.
//
// Ten minutes: go test ./gateway/mcp -run '^$' -fuzz '^FuzzStripApp$' -fuzztime
// 10m -fuzzminimizetime 1x -parallel 1
func FuzzStripApp(f *testing.F) {
	for _, content := range []string{
		`[{"type":"ui"}]`, `[ {"type":"text"} , {"type":"ui"} ],"x":1`, `[{"resource":{"mimeType":"text/html;profile=mcp-app"}},{}]`, `[]`, `{"type":"ui"}`,
		`[{"mimeType":"text/html;profile*=utf-8''mcp-app"},{"mimeType":"text/html;profile=\"mcp\\-app\""}]`, `[{"Type":"ui"}]`,
	} {
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":"b","content":`+content+`}}`), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, modern bool) {
		var m, again Message
		if Scan(body, &m) != nil {
			return
		}
		out, n, ok := StripApp(&m, modern)
		if err := Scan(out, &again); err != nil {
			t.Fatalf("%q becomes %q: %v", body, out, err)
		}
		if n == 0 && !bytes.Equal(out, body) {
			t.Fatalf("%q becomes %q", body, out)
		}
		if !ok {
			if !bytes.Equal(out, body) || n != 0 {
				t.Fatalf("%q is refused and becomes %q", body, out)
			}
			return
		}
		if _, left, ok := StripApp(&again, modern); left != 0 || !ok {
			t.Fatalf("%q becomes %q with %d blocks left", body, out, left)
		}
		if !bytes.Equal(m.ID, again.ID) || m.Kind != again.Kind || m.ResultType != again.ResultType {
			t.Fatalf("%q becomes %q", body, out)
		}
	})
}

// FuzzCallForm holds the canonical form of two calls against a plain decoder: the forms are equal
// exactly when the values are.
//
// Ten minutes: go test ./gateway/mcp -run '^$' -fuzz '^FuzzCallForm$' -fuzztime
// 10m -fuzzminimizetime 1x -parallel 1
func FuzzCallForm(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"name":"x","arguments":{"a":1e2,"b":"\u0041"}}`, `{"arguments":{"b":"A","a":100.0},"name":"x"}`},
		{`{"a":0.1}`, `{"a":1e-1}`}, {`{"a":1}`, `{"a":"1"}`}, {`{"a":[1,2]}`, `{"a":[2,1]}`}, {`{"a":-0}`, `{"a":0}`},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`}, {`{"_meta":{"x":1},"a":1}`, `{"a":1,"requestState":"s"}`},
		{`{"é":1}`, `{"\u00e9":1}`}, {`{"a":{"_meta":1}}`, `{"a":{}}`}, {`{"a":"\ud83d\ude00"}`, `{"a":"😀"}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var form [2][]byte
		var value [2]any
		for i, params := range [][]byte{a, b} {
			var m Message
			if Scan(slices.Concat([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`), params, []byte(`}`)), &m) != nil {
				return
			}
			var err error
			if form[i], err = CallForm(&m); err != nil {
				t.Fatalf("%q: %v", params, err)
			}
			if value[i], err = plainCall(m.Spans.Params.Of(m.Body)); err != nil {
				return // the model has smaller bounds
			}
			if again, err := JSON(form[i]); err != nil || !bytes.Equal(again, form[i]) {
				t.Fatalf("%q has the form %q, and that %q, %v", params, form[i], again, err)
			}
		}
		if equal := reflect.DeepEqual(value[0], value[1]); equal != bytes.Equal(form[0], form[1]) {
			t.Fatalf("%q and %q: equal is %v, and the forms are %q and %q", a, b, equal, form[0], form[1])
		}
	})
}

// plainCall decodes parameters with numbers as exact fractions; an error for numbers with an exponent
// that the fractions have no room for.
func plainCall(params []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(params))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	for _, name := range []string{"_meta", "inputResponses", "requestState"} {
		delete(v, name)
	}
	var exact func(v any) (any, error)
	exact = func(v any) (_ any, err error) {
		switch v := v.(type) {
		case json.Number:
			_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
			if len(exponent) > 4 {
				return nil, errors.New("too large")
			}
			r, ok := new(big.Rat).SetString(v.String())
			if !ok {
				return nil, errors.New("no number")
			}
			return []string{"number", r.String()}, nil
		case map[string]any:
			for name := range v {
				if v[name], err = exact(v[name]); err != nil {
					return nil, err
				}
			}
		case []any:
			for i := range v {
				if v[i], err = exact(v[i]); err != nil {
					return nil, err
				}
			}
		}
		return v, nil
	}
	return exact(v)
}
