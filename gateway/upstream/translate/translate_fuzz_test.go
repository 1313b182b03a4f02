package translate

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// echo is a server of 2026-07-28 that answers every call with one text, and records the messages
// that it receives.
type echo struct {
	upstream.Transport
	member string // result or error, with its value
	got    mcp.Message
}

func (e *echo) Post(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	if !mcp.Modern(r.Session.Version) {
		return upstream.Message(400, mcp.AppendError(nil, m.ID, mcp.CodeUnsupportedVersion, "m", "r", "r")), nil
	}
	if m.Method == mcp.MethodDiscover {
		return upstream.Message(200, appendResult(nil, m.ID, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`))), nil
	}
	e.got = m
	e.got.Detach()
	return upstream.Message(200, []byte(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+e.member+`}`)), nil
}

func (e *echo) End(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(204), nil
}
func (e *echo) Address() string { return "echo" }
func (e *echo) Close() error    { return nil }

// thereAndBack returns a transport for clients of 2026-07-28 whose messages are translated twice
// on the way to a server: to a revision with sessions, and back.
func thereAndBack(t testing.TB, server upstream.Transport) *Transport {
	log := slog.New(slog.DiscardHandler)
	calls := background.New(log)
	replicas, err := NewHandover(func() (Store, bool) { return nil, false }, make([]byte, 32), log)
	if err != nil {
		t.Fatal(err)
	}
	through := server
	for _, protocol := range []string{mcp.Revision20260728, mcp.Revision20251125} {
		c := upstream.Config{Name: "u", URL: "http://127.0.0.1/mcp"}
		c.SetDefaults()
		c.Protocol = protocol
		tr, err := New(Options{
			Upstream: &c, Direct: through, Key: make([]byte, 32), Replicas: replicas, Version: "1", Background: calls,
			Limits: NewLimits(), Logger: log, Now: time.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		through = tr
	}
	t.Cleanup(func() {
		through.Close()
		calls.Stop()
	})
	return through.(*Transport)
}

// decode is a simple model of a JSON text, with numbers as written.
func decode(text []byte) (out map[string]any, ok bool) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	return out, d.Decode(&out) == nil
}

// within returns an object inside of an object, empty if there is none.
func within(in map[string]any, name string) map[string]any {
	out, ok := in[name].(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return out
}

// without removes members, and the object itself if it is empty afterwards.
func without(in map[string]any, object string, names ...string) {
	of, ok := in[object].(map[string]any)
	if !ok {
		return
	}
	before := len(of)
	for _, name := range names {
		delete(of, name)
	}
	if len(of) == 0 && before > 0 {
		delete(in, object)
	}
}

// FuzzThereAndBack translates a call and its response to the other protocol generation and back.
// The server gets the client's parameters, and the client the server's response, except for the
// losses listed in docs/generations.md.
func FuzzThereAndBack(f *testing.F) {
	for _, params := range []string{
		`{"name":"t","arguments":{"a":[1,2.50,1e400,null,{"é":"\ud83d\ude00"}]}}`, `{"name":"t","_meta":{"progressToken":7,"own":{"k":1}}}`, `{"uri":"a:b"}`,
	} {
		for _, answer := range []string{
			`"result":{"content":[{"type":"text","text":"t"}],"structuredContent":{"n":1.10},"isError":true,"_meta":{"k":1}}`,
			`"result":{"resultType":"complete","contents":[{"uri":"a:b","text":"t"}],"ttlMs":9,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}}}`,
			`"error":{"code":-32602,"message":"m","data":{"uri":"a:b"}}`, `"error":{"code":-32601,"message":"m"}`, `"error":{"code":7,"message":"m"}`,
		} {
			f.Add([]byte(params), []byte(answer), true)
			f.Add([]byte(params), []byte(answer), false)
		}
	}
	server := &echo{}
	tr := thereAndBack(f, server)
	f.Fuzz(func(t *testing.T, params, member []byte, reads bool) {
		want, ok := decode(params)
		if !ok || want == nil {
			return
		}
		method := mcp.MethodToolsCall
		if reads {
			method = mcp.MethodResourcesRead
		}
		meta := within(want, "_meta")
		meta[mcp.MetaProtocolVersion], meta[mcp.MetaClientCapabilities] = mcp.Revision20260728, map[string]any{}
		if _, ok := want["_meta"].(map[string]any); !ok {
			want["_meta"] = meta
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		request := []byte(`{"jsonrpc":"2.0","id":"c","method":"` + method + `","params":` + string(text) + `}`)
		var m, answer mcp.Message
		if mcp.Scan(request, &m) != nil || want["inputResponses"] != nil || want["requestState"] != nil || want["task"] != nil {
			return
		}
		if _, err := mcp.ScanReplacing([]byte(`{"jsonrpc":"2.0","id":1,`+string(member)+`}`), &answer); err != nil || answer.Kind != mcp.Response ||
			answer.ResultType != "" && answer.ResultType != mcp.ResultComplete || answer.IsError && (answer.ErrorCode <= -32020 && answer.ErrorCode >= -32099) {
			return // an input request, a task, or an error of the protocol itself
		}
		server.member = string(member)
		resp, err := tr.Post(t.Context(), &upstream.Request{
			Session: mcp.Session{Version: mcp.Revision20260728}, Body: request, RequestID: "r",
			Caller: &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: "k", KeyID: "k"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		body, err := readAll(resp)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		sent, _ := decode(server.got.Spans.Params.Of(server.got.Body))
		own := []string{mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel}
		without(sent, "_meta", own...)
		without(want, "_meta", own...)
		if server.got.Method != method || !reflect.DeepEqual(sent, want) {
			t.Errorf("the server got %s\nof %s", server.got.Body, request)
		}
		given, _ := decode([]byte(`{` + string(answer.Body[1:])))
		got, ok := decode(body)
		if !ok || got["id"] != "c" {
			t.Fatalf("the client got %s of %s", body, member)
		}
		if !answer.IsError {
			result := within(given, "result")
			without(result, "_meta", mcp.MetaServerInfo)
			result["resultType"] = mcp.ResultComplete
			delete(result, "ttlMs")
			delete(result, "cacheScope")
			if reads {
				result["ttlMs"], result["cacheScope"] = json.Number("0"), "private"
			}
			given["result"] = result
		}
		if !reflect.DeepEqual(got["result"], given["result"]) || !reflect.DeepEqual(got["error"], given["error"]) {
			t.Errorf("the client got %s\nof %s", body, member)
		}
	})
}
