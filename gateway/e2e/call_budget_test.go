//go:build !race

package e2e

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"svc/gateway"
	"svc/gateway/http1"
)

// callBudget is the largest number of allocations of a small tools/call, from the client's bytes
// to the response's, with key, rules, upstream and audit line. Eight are needed: two header
// fields that differ from the previous call, the request id, two for the detection of a
// disconnected client, the upstream's response and its header, and the Content-Length of the
// response.
const callBudget = 9

// federatedBudget is callBudget for a call with federation, which needs three more: the message
// with the upstream's own name of the tool, that name as JSON, and the entry of the requests in
// flight.
const federatedBudget = callBudget + 3

// TestCallBudget checks that a call stays within its budget.
func TestCallBudget(t *testing.T) {
	t.Run("routed", func(t *testing.T) { budget(t, basic(cannedUpstream(t)), "safe", callBudget) })
	t.Run("federated", func(t *testing.T) { budget(t, federatedOf(cannedUpstream(t)), "u_safe", federatedBudget) })
}

// budget counts the allocations of calls to a tool.
func budget(t *testing.T, text, tool string, most float64) {
	r := newRig(t, text)
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := http1.NewServer(http1.Options{Paths: []string{gateway.Path}, Handler: r.gateway, Fallback: &http.Server{Handler: r.gateway}, BodyRate: 1})
	served := make(chan error, 1)
	go func() { served <- server.Serve(near) }()
	defer func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-served
	}()
	c, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Two alternating requests with different lengths and keys.
	var requests [2][]byte
	for i, key := range []string{r.key, r.other} {
		body := call("1", tool) + strings.Repeat(" ", i)
		var b strings.Builder
		req, err := http.NewRequest(http.MethodPost, "http://"+near.Addr().String()+gateway.Path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		if err := req.Write(&b); err != nil {
			t.Fatal(err)
		}
		requests[i] = []byte(b.String())
	}
	buf := make([]byte, 4096)
	n := 0
	once := func() {
		if _, err := c.Write(requests[n%2]); err != nil {
			t.Fatal(err)
		}
		n++
		k, err := c.Read(buf) // the response is one write
		if err != nil || !bytes.HasPrefix(buf[:k], []byte("HTTP/1.1 200 ")) {
			t.Fatalf("%q %v", buf[:k], err)
		}
	}
	for range 10 {
		once()
	}
	if got := testing.AllocsPerRun(1000, once); got > most {
		t.Errorf("%v allocations a call, want at most %v", got, most)
	} else {
		t.Logf("%v allocations a call", got)
	}
}
