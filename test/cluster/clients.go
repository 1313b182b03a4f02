//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agentName is the agent of the traces that clients send themselves, each with the cost
// traceCost; a budget of the agent adds them up.
const (
	agentName = "ingested"
	traceCost = 0.001
	batchSize = 5
)

// clients send requests until ctx ends.
func (r *run) clients(ctx context.Context, wg *sync.WaitGroup) {
	r.ledger.stored = time.Now()
	for i := range callerThreads {
		wg.Go(func() { r.callTools(ctx, i) })
	}
	for i, t := range r.tenants {
		wg.Go(func() { r.sendTraces(ctx, t, i) })
		wg.Go(func() { r.readTraces(ctx, t, i) })
	}
	wg.Go(func() { r.changeRecords(ctx) })
	wg.Go(func() { r.useWindow(ctx) })
	wg.Go(func() { r.useBucket(ctx) })
	wg.Go(func() { r.useSDK(ctx) })
}

// every calls fn at an interval until ctx ends.
func every(ctx context.Context, interval time.Duration, fn func(n int)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fn(n)
		}
	}
}

// callTools calls tools of all servers within one session, through both gateways.
func (r *run) callTools(ctx context.Context, i int) {
	c := newCaller(r.c, r.c.gatewayKey)
	defer c.close()
	begin := func() {
		_ = until(time.Minute, func() error { return c.open(ctx) })
	}
	begin()
	every(ctx, 150*time.Millisecond, func(n int) {
		tool := fmt.Sprintf("tool%d_call%d", n%tools+1, i)
		r.ledger.mu.Lock()
		r.ledger.called[tool]++
		r.ledger.mu.Unlock()
		gateway := int(c.next.Load())
		o := c.call(ctx, gateway, tool)
		switch {
		case ctx.Err() != nil:
		case o.ok:
			r.ledger.mu.Lock()
			r.ledger.answered[tool]++
			r.ledger.mu.Unlock()
			if n%8 == 7 { // so that both gateways are used
				c.next.Add(1)
			}
		default:
			what := o.kind()
			if o.reason != "" {
				what += " " + o.reason
			}
			r.ledger.failed("call", what)
			if o.err != nil || o.status >= 500 && o.reason != "upstream_unreachable" {
				c.next.CompareAndSwap(int64(gateway), int64(gateway)+1)
			}
			if o.reason == "session_not_found" {
				r.ledger.mu.Lock()
				r.ledger.sessions++
				r.ledger.mu.Unlock()
				begin()
				return
			}
			if err := o.specified(); err != nil {
				r.ledger.unexpected("%s at %s: %v", tool, o.url, err)
			}
		}
	})
}

// useBucket calls a limited tool through both gateways, above its rate.
func (r *run) useBucket(ctx context.Context) {
	c := newCaller(r.c, r.c.limitedGatewayKey)
	defer c.close()
	_ = until(time.Minute, func() error { return c.open(ctx) })
	every(ctx, 60*time.Millisecond, func(n int) {
		sent := time.Now()
		o := c.call(ctx, n, "tool2_limited")
		switch {
		case ctx.Err() != nil:
		case o.ok:
			r.ledger.mu.Lock()
			r.ledger.passed = append(r.ledger.passed, span{sent, time.Now()})
			r.ledger.mu.Unlock()
		case o.reason == "rate_limited":
		case o.reason == "session_not_found":
			_ = until(time.Minute, func() error { return c.open(ctx) })
		default:
			if err := o.specified(); err != nil {
				r.ledger.unexpected("limited call at %s: %v", o.url, err)
			}
		}
	})
}

// useWindow sends requests of the limited tenant to both control planes, more than its
// rate window permits.
func (r *run) useWindow(ctx context.Context) {
	c := newREST(r.c, r.c.limitedKey)
	c.limit = 3 * time.Second
	defer c.close()
	every(ctx, 60*time.Millisecond, func(n int) {
		sent := time.Now()
		a := c.once(ctx, n, "GET", "/api/whoami", c.header(), nil)
		switch {
		case ctx.Err() != nil:
		case a.err == nil && a.status == 200:
			r.ledger.mu.Lock()
			r.ledger.accepted = append(r.ledger.accepted, span{sent, time.Now()})
			r.ledger.mu.Unlock()
		default:
			if err := specified(a); err != nil {
				r.ledger.unexpected("limited tenant at %s: %v", a.url, err)
			}
		}
	})
}

// sendTraces sends batches of traces of a tenant, and retries each until it is
// acknowledged.
func (r *run) sendTraces(ctx context.Context, t *tenant, i int) {
	c := newREST(r.c, t.ingestKey)
	c.limit = 5 * time.Second
	c.next.Add(int64(i))
	defer c.close()
	every(ctx, 150*time.Millisecond, func(n int) {
		at := time.Now().UTC()
		ids, list := []string{}, []map[string]any{}
		for k := range batchSize {
			id := fmt.Sprintf("sent-%d-%d-%d", i, n, k)
			ids = append(ids, id)
			list = append(list, map[string]any{"id": id, "agentName": agentName, "status": "success", "durationMs": 3, "costUsd": traceCost, "createdAt": at.Format(time.RFC3339Nano)})
		}
		body, err := json.Marshal(map[string]any{"traces": list})
		if err != nil {
			r.ledger.unexpected("%v", err)
			return
		}
		r.ledger.mu.Lock()
		r.ledger.of(t).attempts += batchSize
		r.ledger.mu.Unlock()
		if n%8 == 7 { // so that all control planes are used
			c.next.Add(1)
		}
		batch := fmt.Sprintf("batch-%d-%d", i, n)
		r.again(ctx, t.client("ingest"), func() answer {
			return c.send(ctx, "POST", "/api/traces", c.header("Svc-Batch-Id", batch), body)
		}, func(answer) { r.ledger.acknowledged(t, ids, at) })
	})
}

// readTraces reads the newest trace of a tenant that was acknowledged, at both control
// planes in turn: it must be there at once.
func (r *run) readTraces(ctx context.Context, t *tenant, i int) {
	c := newREST(r.c, t.adminKey)
	c.limit = 5 * time.Second
	defer c.close()
	every(ctx, 500*time.Millisecond, func(n int) {
		r.ledger.mu.Lock()
		id := r.ledger.of(t).newest
		r.ledger.mu.Unlock()
		if id == "" {
			return
		}
		a := c.once(ctx, i+n, "GET", "/api/traces/"+id, c.header(), nil)
		if ctx.Err() != nil {
			return
		}
		if a.kind() != "" {
			r.ledger.failed(t.client("read"), a.kind())
		} else if got, err := member(string(a.body), "id"); err != nil || got != id {
			r.ledger.unexpected("trace %s of tenant %s at %s: %.200s", id, t.name, a.url, a.body)
		}
		if err := specified(a); err != nil {
			r.ledger.unexpected("read %s of tenant %s at %s: %v", id, t.name, a.url, err)
		}
	})
}

// again sends a request until it is acknowledged or ctx ends.
func (r *run) again(ctx context.Context, who string, send func() answer, acknowledged func(answer)) {
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	for {
		a := send()
		switch {
		case ctx.Err() != nil && a.err != nil:
			return
		case a.err == nil && a.status < 300:
			acknowledged(a)
			return
		}
		r.ledger.failed(who, a.kind())
		if err := specified(a); err != nil {
			r.ledger.unexpected("%s at %s: %v", who, a.url, err)
			if a.status < 500 {
				return
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// changeRecords creates policies, keys and budgets, each with an Idempotency-Key with
// which it is retried until it is acknowledged.
func (r *run) changeRecords(ctx context.Context) {
	c := newREST(r.c, r.c.adminKey)
	c.limit = 5 * time.Second
	defer c.close()
	every(ctx, 700*time.Millisecond, func(n int) {
		kind, path := "policy", "/api/policies"
		name := fmt.Sprintf("r-%d", n)
		body := map[string]any{"name": name, "enabled": false, "phase": "request", "action": "warn", "condition": map[string]any{"type": "always"}}
		switch n % 3 {
		case 1:
			kind, path, body = "key", "/api/keys", map[string]any{"name": name, "scope": "api"}
		case 2:
			kind, path, body = "budget", "/api/costs/budgets", map[string]any{"name": name, "agentId": r.tenants[0].agentID, "limitUsd": 1000, "period": "monthly"}
		}
		raw, err := json.Marshal(body)
		if err != nil {
			r.ledger.unexpected("%v", err)
			return
		}
		if n%4 == 3 {
			c.next.Add(1)
		}
		r.again(ctx, "change", func() answer {
			return c.send(ctx, "POST", path, c.header("Idempotency-Key", r.seed+name), raw)
		}, func(a answer) {
			id, err := member(string(a.body), "id")
			if err != nil {
				r.ledger.unexpected("a %s was answered with %.200s", kind, a.body)
			}
			secret, _ := member(string(a.body), "key") // a replayed response has none
			r.ledger.mu.Lock()
			r.ledger.records[name] = record{kind, id, secret}
			r.ledger.mu.Unlock()
		})
	})
}

// roundRobin sends each request of an SDK to the gateway that responded last.
type roundRobin struct {
	*client
	key string
}

func (t *roundRobin) RoundTrip(req *http.Request) (*http.Response, error) {
	server := t.next.Load()
	clone := req.Clone(req.Context())
	clone.URL.Host = t.urls[int(server)%len(t.urls)][len("http://"):]
	clone.Host = clone.URL.Host
	clone.Header.Set("Authorization", "Bearer "+t.key)
	res, err := t.http.Transport.RoundTrip(clone)
	if err != nil || res.StatusCode >= 500 {
		t.next.CompareAndSwap(server, server+1)
	}
	return res, err
}

// useSDK calls a tool with the official client, which negotiates its protocol revision,
// and connects again when its session has ended.
func (r *run) useSDK(ctx context.Context) {
	transport := &roundRobin{newClient(r.c.caller, r.c.gatewayURLs(), 0), r.c.gatewayKey}
	defer transport.close()
	var session *mcp.ClientSession
	every(ctx, 300*time.Millisecond, func(n int) {
		limited, cancel := context.WithTimeout(ctx, 6*time.Second)
		defer cancel()
		if session == nil {
			client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
			s, err := client.Connect(limited, &mcp.StreamableClientTransport{Endpoint: transport.urls[0] + "/mcp", HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
			if err != nil {
				r.ledger.failed("sdk", "connect")
				return
			}
			session = s
		}
		token := fmt.Sprintf("sdk-%d", tokens.Add(1))
		res, err := session.CallTool(limited, &mcp.CallToolParams{Name: "tool3_sdk", Arguments: map[string]any{"token": token}})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.ledger.failed("sdk", "call")
			go session.Close()
			session = nil
			return
		}
		text, ok := &mcp.TextContent{}, false
		if len(res.Content) == 1 {
			text, ok = res.Content[0].(*mcp.TextContent)
		}
		if !ok || text.Text != "tool3:"+token {
			r.ledger.unexpected("the SDK got %+v for %s", res.Content, token)
		}
	})
}
