package federation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// The pauses and bounds of readings that package catalog documents.
const (
	minBurst     = 100 * time.Millisecond
	minAnnounced = 5 * time.Second
	maxAnnounced = 10
	firstBackoff = 30 * time.Second
	linger       = 30 * time.Second
	maxReadings  = 4
)

// announcing is an upstream that answers subscriptions/listen with streams of the test.
type announcing struct {
	upstream.Transport
	mu       sync.Mutex
	asked    int            // for lists
	lists    *io.PipeWriter // the last stream; nil while there is none
	resource *io.PipeWriter // the same of resources
	last     string         // the last other request
	status   int            // sent instead of a stream
}

func (a *announcing) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	resources := bytes.Contains(r.Body, []byte("resourceSubscriptions")) || bytes.Contains(r.Body, []byte("taskIds"))
	if resources {
		a.last = string(r.Body)
	} else {
		a.asked++
	}
	if !bytes.Contains(r.Body, []byte(`"method":"subscriptions/listen"`)) || r.Session.Version != mcp.Revision20260728 {
		return nil, errors.New("another message")
	}
	if a.status != 0 {
		return upstream.Empty(a.status), nil
	}
	in, out := io.Pipe()
	context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
	if resources {
		a.resource = out
	} else {
		a.lists = out
	}
	return upstream.Stream(in), nil
}

func (a *announcing) state() (asked int, stream *io.PipeWriter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked, a.lists
}

func changed(out *io.PipeWriter) {
	fmt.Fprint(out, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{}}\n\n")
}

// Every watching client is notified of a change at an upstream where no client has a session,
// private lists included. No subscription is open while no client watches; a stream that ends is
// opened again.
func TestUpstreamsAnnounceChangesToWhoeverWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, up := &server{modern: true, scope: "private", tools: []string{"x"}}, &announcing{}
		b := start(t, "", func(o *setup) { o.Reader.Targets["a"].Transport = up }, own)
		defer b.stop()
		pass(time.Minute)
		if asked, _ := up.state(); asked != 0 {
			t.Errorf("%d subscriptions while no client watched", asked)
		}
		resp, err := b.Post(t.Context(), &upstream.Request{
			Session: mcp.Session{Version: mcp.Revision20260728}, Caller: key("k"),
			Body: []byte(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan string, 100)
		go func() {
			events := mcp.NewEventReader(resp.Body, 0)
			for {
				ev, err := events.Next()
				if err != nil {
					return
				}
				heard <- string(ev.Data)
			}
		}()
		if got := <-heard; !strings.Contains(got, mcp.NotificationAcknowledged) {
			t.Fatalf("first came %s", got)
		}
		synctest.Wait()
		asked, stream := up.state()
		if asked != 1 || stream == nil {
			t.Fatalf("asked %d times", asked)
		}
		pass(10 * time.Second)
		changed(stream)
		if got := <-heard; !strings.Contains(got, "notifications/tools/list_changed") {
			t.Errorf("heard %s", got)
		}
		own.change(func(s *server) { s.tools = append(s.tools, "y") })
		stream.Close()
		pass(10 * time.Second)
		if asked, _ := up.state(); asked != 2 {
			t.Errorf("after the stream ended: asked %d times, want 2", asked)
		}
		if got := <-heard; !strings.Contains(got, "notifications/tools/list_changed") { // changes in between may have been missed
			t.Errorf("heard %s", got)
		}
		resp.Body.Close()
		pass(2 * linger)
		_, stream = up.state()
		if _, err := stream.Write([]byte("x")); err == nil {
			t.Error("the subscription is open although no client watches")
		}
	})
}

// The resources in the subscription of a client of 2026-07-28 are subscribed to at their owners,
// as the client; resources without an owner are not acknowledged.
func TestResourcesAreSubscribedToAtTheirOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &server{modern: true, scope: "private", capabilities: `,"resources":{}`, templates: []string{"test://named/{id}"}}
		other, up := &announcing{status: http.StatusNotFound}, &announcing{}
		b := start(t, "", func(o *setup) { o.Reader.Targets["a"].Transport, o.Reader.Targets["b"].Transport = other, up }, &server{tools: []string{"x"}}, own)
		defer b.stop()
		synctest.Wait()
		resp, err := b.Post(t.Context(), &upstream.Request{
			Session: mcp.Session{Version: mcp.Revision20260728}, Caller: key("k"),
			Body: []byte(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"resourceSubscriptions":["test://named/5","test://nobody/5","test://named/5"]}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		events := mcp.NewEventReader(resp.Body, 0)
		next := func() string {
			ev, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			return string(ev.Data)
		}
		if got := next(); !strings.Contains(got, `"notifications":{"resourceSubscriptions":["test://named/5"]}`) {
			t.Errorf("acknowledged %s", got)
		}
		synctest.Wait()
		up.mu.Lock()
		stream := up.resource
		up.mu.Unlock()
		for _, uri := range []string{"test://other/1", "test://named/5"} {
			fmt.Fprintf(stream, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":%q}}\n\n", uri)
		}
		if got, want := next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"test://named/5"}}`; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		stream.Close()
		if got := next(); !strings.Contains(got, "test://named/5") { // it may have changed meanwhile
			t.Errorf("got %s", got)
		}
		resp.Body.Close()
	})
}

// madeBy returns the upstreams of tasks.
type madeBy map[string]string

func (m madeBy) TaskUpstream(_ context.Context, who *auth.Principal, handle string) string {
	return m[who.Value+" "+handle]
}

// Tasks are subscribed to at the upstreams that created them, as the client and with its
// capabilities; notifications of another upstream, and of tasks of other callers, are not
// forwarded.
func TestTasksAreFollowedAtTheirUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &announcing{}, &announcing{}
		tune := func(o *setup) {
			o.Reader.Targets["a"].Transport, o.Reader.Targets["b"].Transport = one, two
			o.Tasks = func() Tasks { return madeBy{"k 1": "a", "k 2": "b", "other 3": "b"} }
		}
		b := start(t, "", tune, &server{tools: []string{"x"}}, &server{tools: []string{"y"}})
		defer b.stop()
		resp, err := b.Post(t.Context(), &upstream.Request{
			Session: mcp.Session{Version: mcp.Revision20260728}, Caller: key("k"),
			Body: []byte(`{"jsonrpc":"2.0","id":"me","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"notifications":{"taskIds":["1","2","3","4","1"],"promptsListChanged":true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		events := mcp.NewEventReader(resp.Body, 0)
		want := func(text string) {
			t.Helper()
			ev, err := events.Next()
			if err != nil || string(ev.Data) != text {
				t.Errorf("got %s, %v\nwant %s", ev.Data, err, text)
			}
		}
		const meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":"me"`
		want(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + meta + `},"notifications":{"promptsListChanged":true,"taskIds":["1","2"]}}}`)
		synctest.Wait()
		for handle, up := range map[string]*announcing{`["1"]`: one, `["2"]`: two} {
			if !strings.Contains(up.last, `"taskIds":`+handle) || !strings.Contains(up.last, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
				t.Errorf("asked for %s", up.last)
			}
		}
		send := func(up *announcing, params string) { // it waits for the client, which reads below
			go fmt.Fprintf(up.resource, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":%s}\n\n", params)
		}
		send(two, `{"taskId":"1","status":"completed"}`) // not its own
		synctest.Wait()
		send(two, `{ "taskId":"2","_meta":{"io.modelcontextprotocol/subscriptionId":99,"x":1},"status":"working"}`)
		want(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{ "taskId":"2",` + meta + `,"x":1},"status":"working"}}`)
		send(one, `{"taskId":"1","_meta":{},"status":"working"}`)
		want(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"1",` + meta + `},"status":"working"}}`)
		send(one, `{"taskId":"1","status":"completed"}`)
		want(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + meta + `},"taskId":"1","status":"completed"}}`)
		resp.Body.Close()
	})
}

// An upstream that refuses a stream is not requested at a high rate.
func TestAnUpstreamThatAnnouncesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &announcing{status: http.StatusNotFound}
		b := start(t, "", func(o *setup) { o.Reader.Targets["a"].Transport = up }, &server{modern: true, tools: []string{"x"}})
		defer b.stop()
		resp, err := b.Listen(t.Context(), &upstream.Request{})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		pass(4 * time.Minute)
		if asked, _ := up.state(); asked != 1 {
			t.Errorf("asked %d times in 4 minutes, want once", asked)
		}
	})
}

// A change after a quiet time is announced at once, and so are further ones; changes in close
// succession are merged.
func TestChangesAreAnnouncedAtOnceAfterAQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, up := &server{modern: true, scope: "public", tools: []string{"x"}}, &announcing{}
		b := start(t, "", func(o *setup) { o.Reader.Targets["a"].Transport = up }, own)
		defer b.stop()
		pass(30 * time.Second)
		for i := range maxAnnounced + 4 { // a client for each notification, because the streams of one client are limited in rate
			resp, err := b.Listen(t.Context(), &upstream.Request{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_, stream := up.state()
			own.change(func(s *server) { s.tools = append(s.tools, fmt.Sprint("new", i)) })
			began := time.Now()
			changed(stream)
			if ev, err := mcp.NewEventReader(resp.Body, 0).Next(); err != nil || !strings.Contains(string(ev.Data), mcp.NotificationToolsChanged) {
				t.Fatalf("%s, %v", ev.Data, err)
			}
			resp.Body.Close()
			switch took := time.Since(began); {
			case i == 0 && took != 0, i < maxAnnounced && took > minBurst, took > minAnnounced:
				t.Errorf("change %d was announced after %s", i, took)
			case i > maxAnnounced && took <= minBurst:
				t.Errorf("change %d was announced after %s: the upstream is read too often", i, took)
			}
		}
	})
}

// Changes from before the subscription are read when it begins.
func TestListsAreReadWhenTheirChangesAreAnnouncedFromThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, up := &server{modern: true, scope: "public", tools: []string{"x"}}, &announcing{}
		b := start(t, "", func(o *setup) { o.Reader.Targets["a"].Transport = up }, own)
		defer b.stop()
		pass(30 * time.Second)
		own.change(func(s *server) { s.tools = append(s.tools, "y") })
		resp, err := b.Listen(t.Context(), &upstream.Request{})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		synctest.Wait()
		_, stream := up.state()
		began := time.Now()
		fmt.Fprintf(stream, "data: {\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":{}}\n\n", mcp.NotificationAcknowledged)
		if ev, err := mcp.NewEventReader(resp.Body, 0).Next(); err != nil || !strings.Contains(string(ev.Data), mcp.NotificationToolsChanged) || time.Since(began) > minBurst {
			t.Errorf("%s, %v after %s", ev.Data, err, time.Since(began))
		}
	})
}

// Failed readings that others requested early do not lengthen the pause until the next reading.
func TestEarlyReadingsDoNotLengthenTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &server{modern: true, scope: "public", tools: []string{"x"}}
		b := start(t, "", nil, own)
		defer b.stop()
		pass(5 * time.Second)
		own.change(func(s *server) { s.down = true })
		for range maxAnnounced {
			b.opts.Lists.Changed("a", "")
			pass(2 * minBurst)
		}
		if failures := b.Stats()[0].Failures; failures != maxAnnounced {
			t.Fatalf("%d failures", failures)
		}
		own.change(func(s *server) { s.down = false })
		pass(firstBackoff)
		if s := b.Stats()[0]; s.Unavailable || s.Items != 1 {
			t.Errorf("%+v", s)
		}
	})
}
