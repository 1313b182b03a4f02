package e2e

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const shortGrace = "shutdown: {grace: 100ms}\n"

// waiting is an upstream that sends no response until the test ends; reached has one element for
// each request.
func waiting(t *testing.T, begin func(w http.ResponseWriter, method string)) (up *upstreamServer, reached chan struct{}) {
	reached = make(chan struct{}, 16)
	up = newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
		if begin != nil {
			begin(w, r.Method)
			w.(http.Flusher).Flush()
		}
		reached <- struct{}{}
		<-r.Context().Done()
	})
	return up, reached
}

func beginEvents(w http.ResponseWriter, _ string) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: "+progress+"\n\n")
}

// A request that is still in flight at the end of the grace period gets a response, with its id,
// and its audit line has the reason.
func TestRequestsCutAtTheEndOfGraceAreAnswered(t *testing.T) {
	up, reached := waiting(t, nil)
	r := newRig(t, basic(up.URL)+shortGrace)
	answered := make(chan answer, 1)
	go func() { answered <- r.post(call(`"q-7"`, "slow")) }()
	<-reached
	r.terminate()
	got := <-answered
	if e := got.rpc(t); got.status != 503 || string(e.ID) != `"q-7"` || e.Error.Code != -32603 || e.Error.Message != "shutting_down" {
		t.Errorf("%d %s", got.status, got.body)
	}
	line := r.lines(1)[0]
	if line["error_kind"] != "shutdown" || line["status"] != 503.0 {
		t.Errorf("line %v", line)
	}
}

// A stream that waits for its answer gets an error as its last event.
func TestStreamsCutAtTheEndOfGraceGetALastEvent(t *testing.T) {
	up, reached := waiting(t, beginEvents)
	r := newRig(t, basic(up.URL)+shortGrace)
	resp := r.open(http.MethodPost, call("7", "slow"))
	<-reached
	r.terminate()
	body, err := io.ReadAll(resp.Body)
	events := strings.Split(strings.TrimSpace(string(body)), "\n\n")
	if last := events[len(events)-1]; err != nil || !strings.Contains(last, `"id":7,"error":{"code":-32603,"message":"shutting_down"`) {
		t.Errorf("%v, events %q", err, events)
	}
	lines := r.lines(2)
	if line := lines[1]; line["error_kind"] != "shutdown" || line["is_error"] != true {
		t.Errorf("line %v", line)
	}
}

// A client with an open standalone stream does not delay shutdown until the end of the grace
// period, whether its upstream has begun that stream or not.
func TestStandaloneStreamsEndWhenConnectionsAreRefused(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter, string){"begun": beginEvents, "not begun": nil} {
		t.Run(name, func(t *testing.T) {
			up, reached := waiting(t, begin)
			r := newRig(t, basic(up.URL)+"shutdown: {grace: 30s}\n")
			ended := make(chan answer, 1)
			var resp *http.Response
			if begin != nil {
				resp = r.open(http.MethodGet, "", "Accept", "text/event-stream")
			} else {
				go func() { ended <- r.do(http.MethodGet, r.url, "", "Accept", "text/event-stream") }()
			}
			<-reached
			began := time.Now()
			r.terminate()
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the stop took %v", took)
			}
			if begin != nil {
				if got := finish(t, resp); got != "data: "+progress+"\n\n" {
					t.Errorf("%q", got)
				}
			} else if got := <-ended; got.status != 503 || !strings.Contains(got.body, "shutting_down") {
				t.Errorf("%d %s", got.status, got.body)
			}
			lines := r.all()
			if line := lines[len(lines)-1]; line["error_kind"] != "shutdown" {
				t.Errorf("line %v", line)
			}
		})
	}
}

// The merged stream of several upstreams does not delay shutdown either.
func TestMergedStreamsEndWhenConnectionsAreRefused(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"shutdown: {grace: 30s}\n")
	sid := r.begin()
	resp := r.open(http.MethodGet, "", "Mcp-Session-Id", sid)
	began := time.Now()
	r.terminate()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
}

// A listen stream ends with the result of its request, while shutdown waits for a call in flight.
func TestListenStreamsEndWithTheirResult(t *testing.T) {
	release := make(chan struct{})
	up, reached := waiting(t, beginEvents)
	slow := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		reached <- struct{}{}
		<-release
		echo(w, body, r)
	})
	r := newRig(t, rules(twoUpstreams(up.URL, slow.URL), listenRule)+"shutdown: {grace: 30s}\n")
	resp := r.open(http.MethodPost, modern(`"sub-1"`, "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen")...)
	<-reached
	called := make(chan answer, 1)
	go func() { called <- r.post(call("8", "slow")) }()
	<-reached
	stopped := make(chan struct{})
	go func() { r.terminate(); close(stopped) }()
	in := bufio.NewReader(resp.Body)
	body, err := io.ReadAll(in)
	want := `"id":"sub-1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"}}}`
	if err != nil || !strings.Contains(string(body), want) {
		t.Errorf("%v: %s", err, body)
	}
	close(release)
	if got := <-called; got.status != 200 {
		t.Errorf("the call in flight: %d %s", got.status, got.body)
	}
	<-stopped
	for _, line := range r.all() {
		if line["method"] == "subscriptions/listen" && line["kind"] == nil && (line["error_kind"] != "shutdown" || line["is_error"] == true) {
			t.Errorf("line %v", line)
		}
	}
}
