package client

import (
	"bufio"
	"bytes"
	"io"
	"testing"
)

// FuzzTraceStream: reading any stream ends and buffers at most one event.
func FuzzTraceStream(f *testing.F) {
	for _, s := range []string{
		"id: 1\ndata: {}\n\n", "data\n\n", ":\n\n", "id\n\n", "data: {\ndata: }\n\n", "\n\n\n", "id: 1\r\ndata: {}\r\n\r\n", "data: {}", "\x00: x\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := &TraceStream{body: io.NopCloser(bytes.NewReader(nil)), lines: bufio.NewReaderSize(bytes.NewReader(sent), 16)}
		for range len(sent) + 1 {
			ev, err := s.Next()
			if err != nil {
				return
			}
			if ev.ID != s.LastEventID() || len(ev.ID) > len(sent) {
				t.Fatalf("%+v of %q", ev, sent)
			}
		}
		t.Fatalf("%q gives more events than it has bytes", sent)
	})
}
