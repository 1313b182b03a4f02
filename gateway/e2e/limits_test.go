package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sized is a tools/call of exactly n bytes.
func sized(n int) string {
	body := strings.Replace(call(`"big"`, "safe"), "{}", `{"x":""}`, 1)
	return strings.Replace(body, `""`, `"`+strings.Repeat("a", n-len(body))+`"`, 1)
}

// Limits, inbound request body: exactly 16 MiB pass, one byte more is 413 with the request's id,
// with and without Content-Length.
func TestInboundRequestBodyLimit(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	const limit = 16 << 20
	for _, tt := range []struct {
		name    string
		size    int
		chunked bool
		status  int
	}{
		{"exactly", limit, false, 200}, {"one more", limit + 1, false, 413},
		{"exactly, chunked", limit, true, 200}, {"one more, chunked", limit + 1, true, 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var body io.Reader = strings.NewReader(sized(tt.size))
			if tt.chunked {
				body = io.MultiReader(body) // hides the length
			}
			req, err := http.NewRequest(http.MethodPost, r.url, body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+r.key)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.status || !strings.Contains(string(got), `"id":"big"`) {
				t.Errorf("got %d %s", resp.StatusCode, got)
			}
		})
	}
	if n := len(up.seen()); n != 2 {
		t.Errorf("the upstream saw %d requests, want 2", n)
	}
}

// impatient is basic with an upstream time-out.
func impatient(url, timeout string) string {
	return strings.Replace(basic(url), "    url: "+url+"\n", "    url: "+url+"\n    timeout: "+timeout+"\n", 1)
}

// Limits, upstream client time-out: before the first byte it is 504, error_kind upstream_timeout.
func TestUpstreamTimeoutIs504(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) { <-r.Context().Done() })
	r := newRig(t, impatient(up.URL, "100ms"))
	got := r.post(call("1", "safe"))
	if e := got.rpc(t); got.status != 504 || e.Error.Code != -32603 || e.Error.Message != "upstream_unreachable" || string(e.ID) != "1" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if line := r.lines(1)[0]; line["error_kind"] != "upstream_timeout" || line["action"] != "allow" {
		t.Errorf("audit line %v", line)
	}
}

// The time-out applies between bytes, not to the whole call: a call that lasts several times as
// long is not cut while frames or bytes arrive, and an idle one is.
func TestUpstreamTimeoutRunsBetweenBytes(t *testing.T) {
	t.Parallel()
	slowly := func(w http.ResponseWriter, text string, pieces int) {
		size := (len(text) + pieces - 1) / pieces
		for len(text) > 0 {
			n := min(size, len(text))
			io.WriteString(w, text[:n])
			text = text[n:]
			_ = http.NewResponseController(w).Flush()
			time.Sleep(400 * time.Millisecond)
		}
	}
	frames := strings.Repeat("data: "+progress+"\n\n", 6) + "data: " + result + "\n\n"
	for _, tt := range []struct {
		name, media, text string
		want              string
	}{
		{"frames flow", "text/event-stream", frames, frames},
		{"bytes flow", "application/json", result, result},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
				w.Header().Set("Content-Type", tt.media)
				slowly(w, tt.text, 7)
			})
			r := newRig(t, impatient(up.URL, "2s"))
			if got := r.post(call("1", "slow")); got.body != tt.want {
				t.Errorf("got %q", got.body)
			}
		})
	}
	t.Run("a stream that falls silent", func(t *testing.T) {
		up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", progress)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		r := newRig(t, impatient(up.URL, "200ms"))
		if got := r.post(call("1", "slow")).body; !strings.Contains(got, `"reason":"upstream_timeout"`) {
			t.Errorf("got %q", got)
		}
	})
}

// The standalone stream and listen streams may be idle: the upstream time-out does not cut them.
func TestGetAndListenAreExemptFromTheUpstreamTimeout(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(500 * time.Millisecond)
		fmt.Fprintf(w, "data: %s\n\n", progress)
	})
	r := newRig(t, rules(impatient(up.URL, "100ms"), listenRule))
	if got := r.do(http.MethodGet, r.url, "").body; got != "data: "+progress+"\n\n" {
		t.Errorf("GET: %q", got)
	}
	if got := r.post(modern("1", "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen")...).body; got != "data: "+progress+"\n\n" {
		t.Errorf("listen: %q", got)
	}
}

func TestMaxResponseBytes(t *testing.T) {
	for _, sse := range []bool{false, true} {
		up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
			big := strings.Replace(result, "[]", `[{"type":"text","text":"`+strings.Repeat("x", 5000)+`"}]`, 1)
			if sse { // frames bound a stream, not bytes
				w.Header().Set("Content-Type", "text/event-stream")
				big = "data: " + big + "\n\n"
			} else {
				w.Header().Set("Content-Type", "application/json")
			}
			io.WriteString(w, big)
		})
		r := newRig(t, strings.Replace(basic(up.URL), "    url: "+up.URL+"\n", "    url: "+up.URL+"\n    max_response_bytes: 4096\n", 1))
		got := r.post(call("1", "safe"))
		if sse {
			if got.status != 200 || !strings.Contains(got.body, "xxx") {
				t.Errorf("a stream: %d %.100s", got.status, got.body)
			}
			continue
		}
		if e := got.rpc(t); got.status != 502 || e.Error.Data["reason"] != "upstream_response_too_large" || string(e.ID) != "1" {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if line := r.lines(1)[0]; line["error_kind"] != "upstream_response_too_large" {
			t.Errorf("audit line %v", line)
		}
	}
}

// subscriptions.idle_timeout: a listen stream without frames is cut with sse_truncated. Comments
// are not frames, on either side.
func TestListenIdleTimeoutCommentsAreNotFrames(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			io.WriteString(w, ": alive\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	})
	r := newRig(t, rules(basic(up.URL), listenRule)+"subscriptions: {idle_timeout: 2s}\n")
	r.edit("sse_keepalive: 0s", "sse_keepalive: 1s")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	got := r.post(modern(`"l"`, "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen")...).body
	if took := time.Since(began); took < 2*time.Second || took > 20*time.Second {
		t.Errorf("cut after %s", took)
	}
	if strings.Contains(got, "alive\n\n: alive") || !strings.Contains(got, `"id":"l"`) || !strings.Contains(got, `"message":"sse_truncated"`) {
		t.Errorf("got %q", got)
	}
	if line := r.lines(2)[1]; line["error_kind"] != "sse_truncated" || line["method"] != "subscriptions/listen" {
		t.Errorf("request line %v", line)
	}
}

// subscriptions.max_frames, and the lines of a listen stream: one per frame, with the
// subscription id.
func TestListenMaxFramesAndFrameLines(t *testing.T) {
	frame := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}`
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) {
		for range 4 {
			fmt.Fprintf(w, "data: %s\n\n", frame)
		}
	}))
	r := newRig(t, rules(basic(up.URL), listenRule)+"subscriptions: {max_frames: 3}\n")
	got := r.post(modern("1", "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen")...).body
	if strings.Count(got, "list_changed") != 3 || !strings.Contains(got, `"message":"sse_truncated"`) {
		t.Errorf("got %q", got)
	}
	lines := r.kinds("frame")
	if len(lines) != 3 || lines[0]["subscription_id"] != "l" || lines[0]["direction"] != "server_to_client" {
		t.Errorf("frame lines %v", lines)
	}
}

// With audit.frames: all every frame of an ordinary stream has a line too; by default only frames
// that a rule matched have one.
func TestAuditFrames(t *testing.T) {
	for frames, want := range map[string]int{"matched": 0, "all": 3} {
		up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) {
			fmt.Fprintf(w, "data: %s\n\ndata: %s\n\ndata: %s\n\n", progress, progress, result)
		}))
		r := newRig(t, basic(up.URL))
		r.edit("audit:\n", "audit:\n  frames: "+frames+"\n")
		if err := r.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.post(call("1", "slow"))
		if got := len(r.kinds("frame")); got != want {
			t.Errorf("frames: %s left %d frame lines, want %d", frames, got, want)
		}
	}
}

// A client that never reads holds back its upstream (flow control); the gateway does not buffer
// in between.
func TestBackPressureReachesTheUpstream(t *testing.T) {
	var written atomic.Int64
	frame := "data: " + strings.Replace(progress, `"progress":1`, `"progress":1,"message":"`+strings.Repeat("x", 8000)+`"`, 1) + "\n\n"
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
		for range 9_000 { // 72 MB
			n, err := io.WriteString(w, frame)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	r := newRig(t, basic(up.URL))
	r.open(http.MethodPost, call("1", "slow")) // and the client never reads
	var before int64
	for i := 0; ; i++ {
		time.Sleep(300 * time.Millisecond)
		if now := written.Load(); now == before && now > 0 {
			break
		} else if before = now; i == 50 {
			t.Fatal("the upstream is never held back")
		}
	}
	if before > 32<<20 { // socket buffers on both sides, and little else
		t.Errorf("%d MiB were taken from the upstream for a client that reads nothing", before>>20)
	}
}

// The audit file contains no body, argument, result or credential.
func TestAuditHoldsNoBodyAndNoSecret(t *testing.T) {
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) {
		fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", strings.Replace(progress, `"progress":1`, `"progress":1,"message":"canary-frame"`, 1),
			strings.Replace(result, "[]", `[{"type":"text","text":"canary-result"}]`, 1))
	}))
	r := newRig(t, basic(up.URL)+"forward_headers: [X-Canary]\n")
	r.edit("audit:\n", "audit:\n  frames: all\n")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.post(strings.Replace(call("1", "safe"), "{}", `{"k":"canary-argument"}`, 1), "X-Canary", "canary-header", "Mcp-Param-K", "canary-param")
	r.post(`{"jsonrpc":"2.0","id":1,"canary`)
	r.post(call("1", "safe"), "Authorization", "Bearer canary-key")
	data, err := os.ReadFile(r.auditPath())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "canary") || strings.Contains(string(data), r.key) {
		t.Errorf("the audit file holds a canary:\n%s", data)
	}
	if strings.Contains(r.logs.String(), "canary") || strings.Contains(r.logs.String(), r.key) {
		t.Errorf("the log holds a canary:\n%s", r.logs)
	}
}

// Rules of a reload apply to the next frame of a running stream.
func TestReloadDuringAStream(t *testing.T) {
	frames := make(chan string)
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
		for frame := range frames {
			fmt.Fprintf(w, "data: %s\n\n", frame)
			flush()
		}
	}))
	r := newRig(t, basic(up.URL))
	resp := r.open(http.MethodPost, call("1", "slow"))
	frames <- progress
	first := make([]byte, len("data: "+progress+"\n\n"))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	r.edit("    - id: no-danger\n", "    - {id: quiet, action: deny, when: {direction: server_to_client, method: notifications/progress}}\n    - id: no-danger\n")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	frames <- progress
	frames <- result
	close(frames)
	if got := finish(t, resp); got != "data: "+result+"\n\n" {
		t.Errorf("got %q", got)
	}
}

func TestPolicyRateLimit(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(up.URL), "    - id: tools\n", "    - id: slowly\n      action: rate_limit\n      tokens_per_second: 0.01\n      burst: 2\n      when: {tool_name: slow}\n    - id: tools\n", 1))
	for i := range 2 {
		if got := r.post(call("1", "slow")); got.status != 200 {
			t.Fatalf("call %d: %d %s", i, got.status, got.body)
		}
	}
	got := r.post(call("1", "slow"))
	if e := got.rpc(t); got.status != 429 || e.Error.Code != -32003 || e.Error.Message != "rate_limited" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s %v", got.status, got.body, got.header)
	}
	if got := r.post(call("1", "slow"), "Authorization", "Bearer "+r.other); got.status != 200 {
		t.Errorf("another principal shares the bucket: %d", got.status)
	}
	if line := r.lines(4)[2]; line["action"] != "rate_limit_blocked" || line["rule_id"] != "slowly" {
		t.Errorf("audit line %v", line)
	}
}

func TestInputRateLimit(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"input_rate_limit: {enabled: true, requests_per_second: 0.01, burst: 1}\n")
	r.post(call("1", "safe"))
	got := r.post(call("2", "safe"))
	if e := got.rpc(t); got.status != 429 || e.Error.Code != -32003 || string(e.ID) != "null" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	base := strings.TrimSuffix(r.url, "/mcp")
	for range 3 {
		if got := r.do(http.MethodGet, base+"/readyz", ""); got.status != 200 {
			t.Errorf("the input limit reached /readyz: %d", got.status)
		}
	}
}

// The addresses of one IPv6 /64 share one bucket, because a single subscriber has a whole /64.
func TestInputRateLimitCountsNetworksOfIPv6(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"trusted_proxies: [127.0.0.0/8]\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 3}\n")
	var statuses []int
	for _, from := range []string{"2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::3", "2001:db8:0:1::4", "2001:db8:0:2::1", "192.0.2.1"} {
		statuses = append(statuses, r.post(call("1", "safe"), "X-Forwarded-For", from).status)
	}
	if diff := cmp.Diff([]int{200, 200, 200, 429, 200, 200}, statuses); diff != "" {
		t.Error(diff)
	}
	if line := r.lines(6)[3]; line["client_ip"] != "2001:db8:0:1::4" {
		t.Errorf("client_ip %v: the address itself is recorded", line["client_ip"])
	}
}
