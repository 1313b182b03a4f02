//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// revision is the protocol revision of the callers: one with sessions, which must
// survive faults of the gateways and of Redis.
const revision = "2025-06-18"

// caller is an MCP client with one session at all gateways. It is used by one goroutine.
type caller struct {
	*client
	key     string
	session string
	id      int64
}

var tokens atomic.Int64

func newCaller(c *cluster, key string) *caller {
	return &caller{client: newClient(c.caller, c.gatewayURLs(), 6*time.Second), key: key}
}

// outcome is the result of a call.
type outcome struct {
	answer
	reason  string // of the JSON-RPC error, as documented for the gateway
	message string
	ok      bool
}

// open begins a session at any gateway.
func (c *caller) open(ctx context.Context) error {
	c.session = ""
	a := c.post(ctx, int(c.next.Load()), "initialize", map[string]any{
		"protocolVersion": revision, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "cluster", "version": "1"},
	})
	if a.err != nil || a.status != 200 {
		c.next.Add(1)
		return fmt.Errorf("initialize: %d %v %.200s", a.status, a.err, a.body)
	}
	c.session = a.header.Get("Mcp-Session-Id")
	body := []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if a := c.once(ctx, int(c.next.Load()), "POST", "/mcp", c.headers(""), body); a.err != nil || a.status >= 300 {
		return fmt.Errorf("initialized: %d %v %.200s", a.status, a.err, a.body)
	}
	return nil
}

func (c *caller) headers(_ string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + c.key}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.session != "" {
		h.Set("Mcp-Session-Id", c.session)
		h.Set("Mcp-Protocol-Version", revision)
	}
	return h
}

func (c *caller) post(ctx context.Context, gateway int, method string, params any) answer {
	c.id++
	body, err := json.Marshal(request(c.id, method, params))
	if err != nil {
		return answer{err: err}
	}
	return c.once(ctx, gateway, "POST", "/mcp", c.headers(method), body)
}

// call calls a tool through one of the gateways and verifies the response.
func (c *caller) call(ctx context.Context, gateway int, tool string) (o outcome) {
	token := fmt.Sprintf("%s-%d", tool, tokens.Add(1))
	o.answer = c.post(ctx, gateway, "tools/call", map[string]any{"name": tool, "arguments": map[string]any{"token": token}})
	if o.err != nil {
		return o
	}
	var m rpc
	if err := json.Unmarshal(payload(o.answer), &m); err != nil {
		o.message = fmt.Sprintf("not JSON-RPC: %v: %.200q", err, o.body)
		return o
	}
	if m.Error != nil {
		o.reason, o.message = m.Error.Data.Reason, m.Error.Message
		return o
	}
	server, _, _ := strings.Cut(tool, "_")
	want := server + ":" + token
	if m.Result == nil || m.Result.IsError || len(m.Result.Content) != 1 || m.Result.Content[0].Text != want || string(m.ID) != fmt.Sprint(c.id) {
		o.message = fmt.Sprintf("the answer to %s is %.300s", token, o.body)
		return o
	}
	o.ok = true
	return o
}

// payload is the message of a response: its body, or the last event of its stream.
func payload(a answer) []byte {
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		return a.body
	}
	var last []byte
	for line := range bytes.Lines(a.body) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			last = bytes.TrimSpace(data)
		}
	}
	return last
}

// unavailableReasons are the reasons that the documents of the gateway name for a part of
// the cluster that is unavailable or stopping.
var unavailableReasons = []string{
	"upstream_unreachable", "upstream_timeout", "upstream_busy", "stream_ended", "canceled", "overloaded", "shutting_down",
	"session_store_unavailable", "rate_limit_store_unavailable", "audit_unavailable",
}

// specified reports whether a gateway's response is documented for an unavailable part.
// An error message without a reason is a wrong response.
func (o outcome) specified() error {
	if o.ok || o.err != nil || slices.Contains(unavailableReasons, o.reason) {
		return nil
	}
	return fmt.Errorf("%d %s %s", o.status, o.reason, o.message)
}
