package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"svc/store/api"
)

// A stream that receives nothing ends even if its connection stays open;
// keep-alives keep it open.
func TestSilentStreamEnds(t *testing.T) {
	alive := make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 5 {
			io.WriteString(w, ": keep-alive\nid: 7\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(60 * time.Millisecond)
		}
		close(alive)
		<-r.Context().Done()
	}))
	defer ts.Close()
	c := New(ts.URL, "k")
	c.silence = 200 * time.Millisecond
	s, err := c.StreamTraces(t.Context(), TraceFilter{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Next()
	if !errors.Is(err, context.DeadlineExceeded) || s.LastEventID() != "7" {
		t.Errorf("got %v after event %q", err, s.LastEventID())
	}
	select {
	case <-alive:
	default:
		t.Error("the stream ended while it gave signs of life")
	}
}

// An export that receives nothing ends with an error even if its connection stays open, before and
// after its first trace.
func TestSilentExportEnds(t *testing.T) {
	for _, first := range []string{"", "{\"id\":\"t1\"}\n"} {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if first != "" {
				io.WriteString(w, first)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}))
		c := New(ts.URL, "k")
		c.silence = 200 * time.Millisecond
		err := c.EachTrace(t.Context(), TraceFilter{}, func(api.TraceItem) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %q: %v", first, err)
		}
		ts.Close()
	}
}
