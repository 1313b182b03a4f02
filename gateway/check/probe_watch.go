package check

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// maxPrefix bounds the stored beginning of a response, in bytes.
const maxPrefix = 4 << 10

// seen is the stored part of a response.
type seen struct {
	status      int
	contentType string
	challenge   string
	location    string
	date        time.Time
	prefix      []byte
}

// watched is a transport that stores the last response to a message. It forwards
// everything unchanged.
type watched struct {
	upstream.Transport

	mu   sync.Mutex
	last seen
}

// Post implements [upstream.Transport].
func (w *watched) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	resp, err := w.Transport.Post(ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.last = seen{date: w.last.date}
		return nil, err
	}
	w.last = seen{
		status: resp.Status, date: w.last.date,
		contentType: strings.Clone(resp.Header.Get("Content-Type")),
		challenge:   strings.Clone(resp.Header.Get("WWW-Authenticate")),
		location:    strings.Clone(resp.Header.Get("Location")),
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		w.last.date = date
	}
	if resp.Status != http.StatusOK || !strings.Contains(w.last.contentType, "event-stream") {
		resp.Body = &keptBody{ReadCloser: resp.Body, watched: w}
	}
	return resp, nil
}

// saw returns the last response.
func (w *watched) saw() *seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.last
	return &s
}

// keptBody stores the beginning of a body while it is read, and reads it when it is
// closed unread.
type keptBody struct {
	io.ReadCloser
	watched *watched
	began   bool
}

func (b *keptBody) Read(p []byte) (int, error) {
	b.began = true
	n, err := b.ReadCloser.Read(p)
	b.watched.mu.Lock()
	defer b.watched.mu.Unlock()
	room := maxPrefix - len(b.watched.last.prefix)
	b.watched.last.prefix = append(b.watched.last.prefix, p[:min(n, max(room, 0))]...)
	return n, err
}

// prefixWait bounds the wait for the beginning of a body that the caller did not
// read.
const prefixWait = time.Second

func (b *keptBody) Close() error {
	if !b.began {
		stop := time.AfterFunc(prefixWait, func() { b.ReadCloser.Close() })
		_, _ = io.CopyN(io.Discard, readerOnly{b}, maxPrefix)
		stop.Stop()
	}
	return b.ReadCloser.Close()
}

type readerOnly struct{ io.Reader }

// errorMessage is the message of a JSON-RPC error; empty for anything else.
func errorMessage(body []byte) string {
	var m struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	return m.Error.Message
}

// endpointWait bounds the wait for the first event of a stream.
const endpointWait = 3 * time.Second

// oldTransport reports whether the server at the address of t has the transport of
// 2024-11-05: its event stream begins with the address for messages.
func oldTransport(ctx context.Context, t upstream.Transport) bool {
	ctx, cancel := context.WithTimeout(ctx, endpointWait)
	defer cancel()
	resp, err := t.Listen(ctx, &upstream.Request{Header: mcp.Header{
		{Name: "Accept", Value: "text/event-stream"}, {Name: mcp.HeaderHops, Value: mcp.FirstHop},
	}})
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.Status != http.StatusOK || resp.MediaType() != "text/event-stream" {
		return false
	}
	events := mcp.NewEventReader(io.LimitReader(resp.Body, maxPrefix), maxPrefix)
	for {
		ev, err := events.Next()
		if err != nil {
			return false
		}
		if !ev.IsComment {
			return string(ev.Type) == "endpoint"
		}
	}
}
