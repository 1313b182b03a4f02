package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// TestStreamParsing: events in every permitted form, resumption with
// Last-Event-ID, and bounds.
func TestStreamParsing(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       []string // id:trace id
		err        string   // part of the error that ends the stream; empty: io.EOF
		after      string   // Last-Event-ID of a reconnection
	}{
		{"one", "id: 1\ndata: {\"id\":\"a\"}\n\n", []string{"1:a"}, "", "1"},
		{"CRLF, comments, retry, no space", ": hi\r\nretry: 5\r\nid:1\r\ndata:{\"id\":\"a\"}\r\n\r\n", []string{"1:a"}, "", "1"},
		{"data on two lines", "id: 1\ndata: {\"id\":\ndata: \"a\"}\n\n", []string{"1:a"}, "", "1"},
		{"a cursor alone moves the id", "id: 5\n\nid: 6\ndata: {\"id\":\"a\"}\n\ndata: {\"id\":\"b\"}\n\n", []string{"6:a", "6:b"}, "", "6"},
		{"an event that is not finished is none", "id: 1\ndata: {\"id\":\"a\"}\n", nil, "", "41"},
		{"not a trace", "id: 1\ndata: hello\n\n", nil, "is not a trace", "1"},
		{"an endless line", "data: " + strings.Repeat("x", 2<<20) + "\n\n", nil, "longer than", "41"},
		{"endless lines", strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 2000), nil, "longer than", "41"},
		{"an event that is cut off comes again", "id: 1\ndata: {\"id\":\"a\"}\n\nid: 2\ndata: {\"id\":\"b", []string{"1:a"}, "", "1"},
		{"an event that is too long does not", "id: 7\ndata: " + strings.Repeat("x", 2<<20) + "\n\n", nil, "longer than", "7"},
		{"nor one of too many lines", "id: 7\n" + strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 2000), nil, "longer than", "7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") != "41" || r.URL.Query().Get("status") != "error" {
					t.Errorf("%v %v", r.Header, r.URL)
				}
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				io.WriteString(w, tc.body)
			}))
			defer ts.Close()
			s, err := client.New(ts.URL, "k").StreamTraces(context.Background(), client.TraceFilter{Status: "error"}, "41")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var got []string
			for {
				ev, err := s.Next()
				if err == nil {
					got = append(got, ev.ID+":"+ev.Trace.ID)
					continue
				}
				if tc.err == "" && err != io.EOF || tc.err != "" && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("ended with %v", err)
				}
				break
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if s.LastEventID() != tc.after {
				t.Errorf("resumes after %q, want %q", s.LastEventID(), tc.after)
			}
		})
	}
	t.Run("not a stream", func(t *testing.T) {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") }))
		defer ts.Close()
		if _, err := client.New(ts.URL, "k").StreamTraces(context.Background(), client.TraceFilter{}, ""); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("refused", func(t *testing.T) {
		_, _, url := plane(t)
		var e *client.Error
		if _, err := client.New(url, "svc_api_x").StreamTraces(context.Background(), client.TraceFilter{}, ""); !errors.As(err, &e) || e.Status != 401 {
			t.Errorf("%v", err)
		}
	})
}

// TestStreamResumes: traces that were committed while the client was
// disconnected come first.
func TestStreamResumes(t *testing.T) {
	c, _, _ := plane(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	post := func(id string) {
		t.Helper()
		must[api.IngestResult](t)(c.PostTraces(ctx, []api.TraceInput{{ID: id, AgentName: "a", Status: "success"}}))
	}
	s := must[*client.TraceStream](t)(c.StreamTraces(ctx, client.TraceFilter{}, ""))
	post("one")
	first := must[client.TraceEvent](t)(s.Next())
	s.Close()
	if _, err := s.Next(); err == nil {
		t.Error("a closed stream goes on")
	}
	post("two")
	post("three")
	s = must[*client.TraceStream](t)(c.StreamTraces(ctx, client.TraceFilter{}, first.ID))
	defer s.Close()
	for _, want := range []string{"two", "three"} {
		if got := must[client.TraceEvent](t)(s.Next()); got.Trace.ID != want {
			t.Errorf("got %s, want %s", got.Trace.ID, want)
		}
	}
}
