package translate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// aside is a server with sessions that sends everything except responses on the standalone
// stream, like servers whose tools do not name the call. Its tool "ask" asks once, "twice"
// asks two questions at once, "tell" sends a log message. It responds to calls with a
// stream, or with JSON if plain is set.
type aside struct {
	upstream.Transport
	plain, none bool // none: it has no standalone stream

	mu      sync.Mutex
	n       int
	streams map[string]*io.PipeWriter // standalone ones, by session
	opened  int                       // standalone streams
	answers map[string]chan string    // by session
	rejects []string                  // error responses to questions
	pongs   int
}

func (s *aside) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m struct {
		ID, Result, Error json.RawMessage
		Method            string
		Params            struct{ Name string }
	}
	if err := json.Unmarshal(r.Body, &m); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.Method == "initialize":
		s.n++
		resp := upstream.Message(200, appendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"aside","version":"1"}}`)))
		resp.Header.Add(mcp.HeaderSession, fmt.Sprintf("s%d", s.n))
		if s.streams == nil {
			s.streams, s.answers = map[string]*io.PipeWriter{}, map[string]chan string{}
		}
		s.answers[fmt.Sprintf("s%d", s.n)] = make(chan string, 8)
		return resp, nil
	case m.Method == "" && string(m.ID) == `"ping"`:
		s.pongs++
		return upstream.Empty(202), nil
	case m.Method == "" && len(m.Error) > 0:
		s.rejects = append(s.rejects, string(m.Error))
		return upstream.Empty(202), nil
	case m.Method == "":
		s.answers[r.Session.ID] <- string(m.Result)
		return upstream.Empty(202), nil
	case m.Method == "logging/setLevel":
		return upstream.Message(200, appendResult(nil, m.ID, []byte("{}"))), nil
	case m.Method != "tools/call":
		return upstream.Empty(202), nil
	}
	answers, beside := s.answers[r.Session.ID], s.streams[r.Session.ID]
	run := func() string {
		given := []string{}
		switch m.Params.Name {
		case "ask", "twice":
			n := 1
			if m.Params.Name == "twice" {
				n = 2
			}
			for i := range n {
				s.send(beside, tolegacyQuestion(i))
			}
			for range n {
				select {
				case a := <-answers:
					given = append(given, a)
				case <-ctx.Done():
				}
			}
		case "tell":
			s.send(beside, `{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
			s.send(beside, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"aside"}}`)
			<-time.After(time.Millisecond) // in fake time: the log arrives before the response is sent
		}
		text, _ := json.Marshal(strings.Join(given, " "))
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, m.ID, text)
	}
	if s.plain {
		s.mu.Unlock()
		defer s.mu.Lock()
		text := run()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return upstream.Message(200, []byte(text)), nil
	}
	out, in := io.Pipe()
	go func() {
		fmt.Fprintf(in, "data: %s\n\n", run())
		in.Close()
	}()
	return upstream.Stream(out), nil
}

func (s *aside) send(to io.Writer, message string) {
	if to != (*io.PipeWriter)(nil) {
		fmt.Fprintf(to, "data: %s\n\n", message)
	}
}

func (s *aside) Listen(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	if s.none {
		return upstream.Empty(http.StatusMethodNotAllowed), nil
	}
	out, in := io.Pipe()
	s.streams[r.Session.ID] = in
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return upstream.Stream(out), nil
}

func (s *aside) End(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(204), nil
}
func (s *aside) Address() string { return "aside" }
func (s *aside) Close() error    { return nil }

// Messages of the standalone stream during a call reach the client of that call: the
// questions, one after the other, and the logs.
func TestWhatComesOnTheStandaloneStream(t *testing.T) {
	for name, plain := range map[string]bool{"answers are streams": false, "answers are JSON": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &aside{plain: plain}
				b := newBench(t, func(o *Options) { o.Direct, o.Upstream.Command = s, nil })
				defer b.Close()
				for i, tool := range []string{"ask", "twice", "ask"} {
					_, answer := b.ask(who("alice"), calling(10*i, tool, ""))
					want := `{\"action\":\"accept\"}`
					if tool == "twice" {
						_, answer = b.ask(who("alice"), retryOf(10*i+1, tool, b.state(answer)))
						want += " " + want
					}
					if _, got := b.ask(who("alice"), retryOf(10*i+2, tool, b.state(answer))); !strings.Contains(got, `"text":"`+want+`"`) || !strings.Contains(got, fmt.Sprintf(`"id":%d`, 10*i+2)) {
						t.Errorf("%s: %s", tool, got)
					}
				}
				if s.n != 1 || s.opened != 1 {
					t.Errorf("%d sessions, %d streams", s.n, s.opened)
				}
				body := strings.Replace(calling(40, "tell", ""), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"info",`, 1)
				resp, err := b.open(t.Context(), who("alice"), body)
				if err != nil {
					t.Fatal(err)
				}
				text, err := readAll(resp)
				resp.Body.Close()
				if err != nil || !strings.Contains(string(text), `"data":"aside"`) || !strings.Contains(string(text), `"id":40`) {
					t.Errorf("logs: %s %v", text, err)
				}
				if synctest.Wait(); s.pongs != 1 {
					t.Errorf("%d answers to a ping", s.pongs)
				}
				// Between calls there is no client to ask.
				s.send(s.streams["s1"], tolegacyQuestion(9))
				if synctest.Wait(); len(s.rejects) != 1 || !strings.Contains(s.rejects[0], "-32601") {
					t.Errorf("rejected %q", s.rejects)
				}
			})
		})
	}
}

// If a client disconnects during such a call, or does not come back, no stream stays open.
// An upstream without the stream is not asked for it repeatedly.
func TestTheStandaloneStreamEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, plain := range []bool{false, true} {
			s := &aside{plain: plain}
			b := newBench(t, func(o *Options) { o.Direct, o.Upstream.Command = s, nil })
			_, answer := b.ask(who("alice"), calling(1, "ask", ""))
			b.state(answer)
			<-time.After(answerTime + time.Second)
			synctest.Wait()
			if _, err := s.streams["s1"].Write([]byte(":\n\n")); err == nil {
				t.Error("the stream of a call that nobody answered is open")
			}
			if b.pool.total != 0 || b.pool.apart != 0 {
				t.Errorf("%d and %d sessions are left", b.pool.total, b.pool.apart)
			}
			b.Close()
		}
		none := &aside{none: true}
		b := newBench(t, func(o *Options) {
			o.Direct, o.Upstream.Command, o.Upstream.Sessions = none, nil, upstream.SessionsPerCall
		})
		for i := range 3 {
			if _, got := b.ask(who("alice"), calling(i, "tell", "")); !strings.Contains(got, `"complete"`) {
				t.Errorf("without the stream: %s", got)
			}
		}
		if none.opened != 1 {
			t.Errorf("asked for the stream %d times", none.opened)
		}
		b.Close()
	})
}
