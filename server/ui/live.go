package ui

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc/server"
	"svc/server/client"
	"svc/store"
	"svc/store/api"
)

// livePace bounds what an open page costs: rows come together every interval, those beyond most are counted and not
// shown, and a browser that does not read for the time of write is disconnected.
var livePace = struct {
	interval, write time.Duration
	most            int
}{500 * time.Millisecond, 10 * time.Second, 20}

// liveTraces serves GET /traces/live: the rows of new traces, as the list has them, as server-sent events. A stream
// without Last-Event-ID begins with all rows of the first page (event fresh), so that none is missing between the page
// and the stream. Every stream is one of the API, which looks at the session each second; the page may not use the
// credential of the visit for that, because the session can end meanwhile.
func liveTraces(v *visit) error {
	if !strings.Contains(v.Header.Get("Accept"), "text/event-stream") { // a trace can have the id live
		at := *v.at
		at.title, v.at = "Trace", &at
		v.SetPathValue("id", "live")
		return showTrace(v)
	}
	s, _ := v.page.session(v.Request)
	ctx, cancel := context.WithCancel(v.Context())
	defer cancel()
	plane := v.page.client(v.Request, func(ctx context.Context) (store.Credential, error) { return v.page.resume(ctx, s) })
	f, last := typedFilter(v), v.Header.Get("Last-Event-ID")
	stream, err := plane.StreamTraces(ctx, f.api(), last)
	if refusal(err, http.StatusBadRequest) != nil && last != "" { // an id of another store, or after a restore
		last = ""
		stream, err = plane.StreamTraces(ctx, f.api(), "")
	}
	if err != nil {
		return v.failLive(err)
	}
	defer stream.Close()
	if w, ok := v.w.(*server.Writer); ok {
		w.Identified()
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no")
	l := &live{v: v, control: http.NewResponseController(v.w)}
	_ = l.control.SetReadDeadline(time.Time{}) // a server's read timeout would end the stream
	if last == "" {
		page, err := plane.ListTraces(ctx, client.TraceQuery{Page: client.Page{Limit: tracesPage}, TraceFilter: f.api()})
		if err != nil {
			return v.failLive(err)
		}
		l.listed = map[string]bool{}
		for _, t := range page.Data {
			l.listed[t.ID] = true
		}
		if !l.send("fresh", "", page.Data) {
			return nil
		}
	}
	l.pump(ctx, stream)
	if _, err := v.page.resume(v.Context(), s); store.KindOf(err) == store.Unauthorized {
		l.write([]byte("event: signedout\ndata:\n\n"))
	}
	return nil
}

// failLive answers a stream that cannot begin, in one line that the script shows.
func (v *visit) failLive(err error) error {
	answer := refusal(err)
	if answer == nil {
		return err
	}
	http.Error(v.w, answer.Message, answer.Status)
	return nil
}

// live is a stream to a browser.
type live struct {
	v       *visit
	control *http.ResponseController
	listed  map[string]bool // ids of the rows that the stream began with
}

// received is what the API has sent: a trace, or a position alone.
type received struct {
	client.TraceEvent
	moved bool
}

// pump passes traces on until the stream of the API or the browser ends.
func (l *live) pump(ctx context.Context, stream *client.TraceStream) {
	events := make(chan received)
	go func() {
		defer close(events)
		for {
			ev, moved, err := stream.Receive()
			if err != nil {
				return
			}
			select {
			case events <- received{ev, moved}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var rows []api.TraceItem // newest last
	var last string
	most, skipped := tracesPage, 0 // what a browser missed while it was away comes at once
	var due <-chan time.Time
	for {
		select {
		case ev, open := <-events:
			switch {
			case !open:
				return // what was not sent is sent again after Last-Event-ID
			case ev.moved && len(rows) == 0:
				if !l.write([]byte("id: " + ev.ID + "\n\n")) {
					return
				}
				continue
			case !ev.moved && !l.listed[ev.Trace.ID]:
				if rows = append(rows, ev.Trace); len(rows) > most {
					rows, skipped = rows[1:], skipped+1
				}
			}
			if last = ev.ID; due == nil {
				due = time.After(livePace.interval)
			}
		case <-due:
			if skipped > 0 && !l.write([]byte("event: skipped\ndata: "+strconv.Itoa(skipped)+"\n\n")) || !l.send("rows", last, rows) {
				return
			}
			rows, most, skipped, due = nil, livePace.most, 0, nil
		}
	}
}

// send sends rows as one event; those of the stream come in the order of their arrival, and are shown newest first.
func (l *live) send(event, id string, traces []api.TraceItem) bool {
	var b bytes.Buffer
	b.WriteString("event: " + event + "\n")
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	for i := range traces {
		t := traces[i]
		if event == "rows" {
			t = traces[len(traces)-1-i]
		}
		b.WriteString("data: ")
		var row bytes.Buffer
		if err := l.v.page.all.ExecuteTemplate(&row, "tracerow", t); err != nil {
			l.v.page.o.Logger.Error("page failed", "path", l.v.URL.Path, "error", err)
			return false
		}
		b.Write(bytes.ReplaceAll(row.Bytes(), []byte("\n"), nil)) // texts from outside have none
		b.WriteByte('\n')
	}
	if len(traces) == 0 {
		b.WriteString("data:\n")
	}
	b.WriteByte('\n')
	return l.write(b.Bytes())
}

// write reports whether the browser took a block in time.
func (l *live) write(block []byte) bool {
	_ = l.control.SetWriteDeadline(time.Now().Add(livePace.write)) // not every connection supports deadlines
	if _, err := l.v.w.Write(block); err != nil {
		return false
	}
	return l.control.Flush() == nil
}
