package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// show writes an event on one line.
func show(e Event) string {
	if e.IsComment {
		return ":" + string(e.Comment)
	}
	var b strings.Builder
	if len(e.Type) > 0 {
		b.WriteString("event=" + string(e.Type) + " ")
	}
	if e.HasID {
		b.WriteString("id=" + string(e.ID) + " ")
	}
	if e.HasRetry {
		fmt.Fprintf(&b, "retry=%d ", e.Retry)
	}
	if e.HasData {
		b.WriteString("data=" + strings.ReplaceAll(string(e.Data), "\n", "⏎"))
	}
	return strings.TrimRight(b.String(), " ")
}

// readAll reads a stream to its end.
func readAll(r io.Reader, limit int) (events []string, err error) {
	er := NewEventReader(r, limit)
	for {
		e, err := er.Next()
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) && (e.HasData || e.HasID) {
			events = append(events, show(e))
		}
		if err != nil {
			return events, err
		}
	}
}

func TestEventReader(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []string
		err          error
	}{
		{"one frame", "event: message\ndata: {}\n\n", []string{"event=message data={}"}, io.EOF},
		{"no event field", "data: {}\n\n", []string{"data={}"}, io.EOF},
		{"no space after the colon", "data:{}\n\n", []string{"data={}"}, io.EOF},
		{"only one space is dropped", "data:  x\n\n", []string{"data= x"}, io.EOF},
		{"CR", "data: 1\rid: a\r\rdata: 2\r\r", []string{"id=a data=1", "data=2"}, io.EOF},
		{"CRLF", "data: 1\r\nid: a\r\n\r\ndata: 2\r\n\r\n", []string{"id=a data=1", "data=2"}, io.EOF},
		{"mixed line ends", "data: 1\r\n\rdata: 2\n\ndata: 3\r\r\n", []string{"data=1", "data=2", "data=3"}, io.EOF},
		{"byte order mark", "\xEF\xBB\xBFdata: 1\n\n", []string{"data=1"}, io.EOF},
		{"byte order mark in the middle is a name", "data: 1\n\n\xEF\xBB\xBFdata: 2\n\n", []string{"data=1"}, io.EOF},
		{"multi-line data", "data: a\ndata: b\ndata\ndata: c\n\n", []string{"data=a⏎b⏎⏎c"}, io.EOF},
		{"fields between lines of data", "data: aaa\nid: 42\nevent: x\ndata: bbbbbbbbbbbbbbbbb\n\n", []string{"event=x id=42 data=aaa⏎bbbbbbbbbbbbbbbbb"}, io.EOF},
		{"data without colon", "data\n\n", []string{"data="}, io.EOF},
		{"priming event", "id: 7\ndata:\n\n", []string{"id=7 data="}, io.EOF},
		{"id alone", "id: 7\n\n", []string{"id=7"}, io.EOF},
		{"empty id", "id\ndata: 1\n\n", []string{"id= data=1"}, io.EOF},
		{"id with NUL is ignored", "id: a\x00b\ndata: 1\n\n", []string{"data=1"}, io.EOF},
		{"retry", "retry: 15\n\n", []string{"retry=15"}, io.EOF},
		{"retry that is no number", "retry: 1x\ndata: 1\n\n", []string{"data=1"}, io.EOF},
		{"retry too large", "retry: 99999999999999999999\ndata: 1\n\n", []string{"data=1"}, io.EOF},
		{"unknown fields", "foo: bar\nDATA: x\ndata: 1\n\n", []string{"data=1"}, io.EOF},
		{"event alone is nothing", "event: x\n\ndata: 1\n\n", []string{"data=1"}, io.EOF},
		{"last of a field wins", "event: a\nevent: b\nid: 1\nid: 2\ndata: 1\n\n", []string{"event=b id=2 data=1"}, io.EOF},
		{"comment", ": keepalive\n\ndata: 1\n\n", []string{":keepalive", "data=1"}, io.EOF},
		{"empty comment", ":\n", []string{":"}, io.EOF},
		{"comment inside an event", "data: 1\n: ping\ndata: 2\n\n", []string{":ping", "data=1⏎2"}, io.EOF},
		{"comment after an event field", "event:\n: ping\ndata: 2\n\n", []string{":ping", "data=2"}, io.EOF},
		{"many blank lines", "\n\n\ndata: 1\n\n\n\n", []string{"data=1"}, io.EOF},
		{"empty stream", "", nil, io.EOF},
		{"no blank line at the end", "data: 1\n\ndata: {}\n", []string{"data=1", "data={}"}, io.ErrUnexpectedEOF},
		{"cut in a line", "data: 1\n\ndata: {", []string{"data=1"}, io.ErrUnexpectedEOF},
		{"cut in a later line", "data: 1\ndata: {", []string{"data=1"}, io.ErrUnexpectedEOF},
		{"ends with CR", "data: 1\r\r", []string{"data=1"}, io.EOF},
		{"payload that looks like fields", `data: {"a":"\n\ndata: x"}` + "\n\n", []string{`data={"a":"\n\ndata: x"}`}, io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, by := range []struct {
				how string
				r   io.Reader
			}{
				{"at once", strings.NewReader(c.stream)},
				{"one byte at a time", iotest.OneByteReader(strings.NewReader(c.stream))},
				{"with the error beside the data", iotest.DataErrReader(strings.NewReader(c.stream))},
				{"halves", iotest.HalfReader(strings.NewReader(c.stream))},
			} {
				got, err := readAll(by.r, 0)
				if d := cmp.Diff(c.want, got); d != "" || !errors.Is(err, c.err) {
					t.Errorf("%s: error %v, want %v; events (-want +got):\n%s", by.how, err, c.err, d)
				}
			}
		})
	}
}

func TestEventReaderEndIsEOFOnceTheCutIsReported(t *testing.T) {
	r := NewEventReader(strings.NewReader("data: 1\ndata: {"), 0)
	if _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := r.Next(); err != io.EOF {
			t.Fatal(err)
		}
	}
}

func TestEventReaderLimit(t *testing.T) {
	const limit = 100 << 10
	ok := "data: " + strings.Repeat("x", limit-20) + "\n\n"
	for _, c := range []struct {
		name, stream string
		events       int
		err          error
	}{
		{"64 KiB line", "data: " + strings.Repeat("x", 64<<10) + "\n\n", 1, io.EOF},
		{"just below", ok + ok + ok, 3, io.EOF},
		{"one line over", "data: " + strings.Repeat("x", 2*limit) + "\n\n", 0, ErrEventTooLarge},
		{"frame without newline", strings.Repeat("x", 10*limit), 0, ErrEventTooLarge},
		{"many lines over", strings.Repeat("data: xxxxxxx\n", limit), 0, ErrEventTooLarge},
		{"comment over", ":" + strings.Repeat("x", 2*limit), 0, ErrEventTooLarge},
		{"comments alone", strings.Repeat(": k\n\n", limit), limit / 5, ErrEventTooLarge},
		{"blank lines alone", strings.Repeat("\n", 2*limit), 0, ErrEventTooLarge},
		{"types without data", strings.Repeat("event: x\n\n", limit), 0, ErrEventTooLarge},
		{"a comment before each of many events", strings.Repeat(": k\n\ndata: 1\n\n", limit), 2 * limit, io.EOF},
		{"many small events", strings.Repeat("data: 1\n\n", limit), limit, io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(c.stream), limit)
			if len(got) != c.events || !errors.Is(err, c.err) {
				t.Errorf("%d events and %v, want %d and %v", len(got), err, c.events, c.err)
			}
		})
	}
}

// An event far over the limit is refused before it is buffered: the buffer
// exceeds the limit only slightly.
func TestEventReaderMemory(t *testing.T) {
	const limit = 1 << 20
	r := NewEventReader(strings.NewReader(strings.Repeat("x", 64<<20)), limit)
	if _, err := r.Next(); !errors.Is(err, ErrEventTooLarge) {
		t.Fatal(err)
	}
	if cap(r.buf) > limit+64<<10 {
		t.Errorf("the buffer has %d bytes", cap(r.buf))
	}
	r = NewEventReader(strings.NewReader("data: "+strings.Repeat("x", 900<<10)+"\n\ndata: 1\n\ndata: 2\n\n"), limit)
	for range 3 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatal(err)
	}
	if cap(r.buf) > largeBuffer {
		t.Errorf("after a rare large event the buffer still has %d bytes", cap(r.buf))
	}
}

type endless struct{}

func (endless) Read([]byte) (int, error) { return 0, nil }

func TestEventReaderWithoutProgress(t *testing.T) {
	if _, err := NewEventReader(endless{}, 0).Next(); err != io.ErrNoProgress {
		t.Error(err)
	}
	want := errors.New("connection reset")
	if _, err := NewEventReader(iotest.ErrReader(want), 0).Next(); err != want {
		t.Error(err)
	}
}

func TestEventReaderDoesNotAllocate(t *testing.T) {
	frame := []byte("event: message\nid: 12\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n")
	src := &repeat{frame: frame}
	r := NewEventReader(src, 0)
	for range 1000 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a frame allocates %v times", n)
	}
}

// repeat returns the same frame forever.
type repeat struct {
	frame []byte
	at    int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.frame[r.at:])
	r.at = (r.at + n) % len(r.frame)
	return n, nil
}

// An event that is no message is left out of a stream only when no client could read it as
// the response: the type of the event is another than message, or the data cannot be meant as
// one.
func TestAnEventThatIsNoMessageIsDroppedUnlessItMayBeTheResponse(t *testing.T) {
	for _, tt := range []struct {
		kind, data string
		want       bool
	}{
		{"heartbeat", "alive", true},
		{"heartbeat", `{"jsonrpc":"2.0","id":4,"result":{},"result":{}}`, true},
		{"", "alive", true},
		{"message", `"alive"`, true},
		{"", "12", true},
		{"", "{}", true},
		{"", `{"type":"heartbeat"}`, true},
		{"", `{"jsonrpc":"2.0","id":null}`, true},
		{"", `{"jsonrpc":"2.0","id":null,"result":{}}`, true},
		{"", "[]", true},
		{"message", " [ \n] ", true},
		{"", `{"jsonrpc":"2.0","method":"notifications/x","params":"x"}`, true},
		{"", `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":3}}`, true},
		{"", `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,"a":2}}`, true},
		{"", `{"jsonrpc":"2.0","id":9,"method":"roots/list","params":[]}`, true},
		{"", `{"method":"notifications/x"}`, true},
		{"", `{"jsonrpc":"2.0","id":4,"result":{},"result":{}}`, false},
		{"message", `{"jsonrpc":"1.0","id":4,"result":{}}`, false},
		{"", `{"jsonrpc":"2.0","id":4,"Result":{}}`, false},
		{"", `{"jsonrpc":"2.0","id":4,"method":"x","result":{}}`, false},
		{"", `{"jsonrpc":"2.0","id":4}`, false},
		{"", `{"jsonrpc":"2.0","id":4,"result":{`, false},
		{"", ` {"result":`, false},
		{"", `{"jsonrpc":"2.0","result":{}}`, false},
		{"", `{"jsonrpc":"2.0","id":null,"id":4,"result":{}}`, false},
		{"", `{"jsonrpc":"2.0","id":null,"Id":4,"result":{}}`, false},
		{"", `{"jsonrpc":"2.0","ID":4,"x":1,"x":2,"id":null,"result":{}}`, false},
		{"", `{"jsonrpc":"2.0","id":null,"result":{},"error":{}}`, false},
		{"", `[[]]`, false},
		{"", `[`, false},
		{"", `[{"jsonrpc":"2.0","id":4,"result":{}}]`, false},
		{"", "\xEF\xBB\xBF" + `{"jsonrpc":"2.0","id":4,"result":{}}`, false},
		{"", `{"jsonrpc":"2.0","id":4,"result":{}} x`, false},
	} {
		ev := Event{Type: []byte(tt.kind), Data: []byte(tt.data), HasData: true}
		var m Message
		if err := Scan(ev.Data, &m); err == nil {
			t.Fatalf("%s is a message", tt.data)
		}
		if got := ev.Droppable(); got != tt.want {
			t.Errorf("type %q, data %s: %v, want %v", tt.kind, tt.data, got, tt.want)
		}
	}
}

func TestAppendEvent(t *testing.T) {
	for _, c := range []struct {
		name string
		ev   Event
		want string
	}{
		{"message", Event{Type: []byte("message"), Data: []byte("{}"), HasData: true}, "event: message\ndata: {}\n\n"},
		{"id and retry", Event{ID: []byte("7"), HasID: true, Retry: 500, HasRetry: true, HasData: true}, "id: 7\nretry: 500\ndata: \n\n"},
		{"multi-line data", Event{Data: []byte("a\r\nb\rc\nd"), HasData: true}, "data: a\ndata: b\ndata: c\ndata: d\n\n"},
		{"data that would end the event", Event{Data: []byte("a\n\ndata: x"), HasData: true}, "data: a\ndata: \ndata: data: x\n\n"},
		{"comment", Event{Comment: []byte("keepalive"), IsComment: true}, ": keepalive\n\n"},
		{"comment with a line feed", Event{Comment: []byte("a\ndata: x"), IsComment: true}, ": a\n: data: x\n\n"},
		{"type that cannot be written", Event{Type: []byte("a\nid: 1"), HasData: true}, "data: \n\n"},
		{"id that cannot be written", Event{ID: []byte("a\rb"), HasID: true, HasData: true}, "data: \n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(AppendEvent(nil, c.ev)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// What AppendEvent writes, EventReader reads back.
func TestEventRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SliceOf(rapid.ByteRange(1, 255).Filter(func(b byte) bool { return b != '\n' && b != '\r' }))
		var events []Event
		var stream []byte
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			e := Event{Data: bytes.Join(rapid.SliceOfN(line, 1, 3).Draw(t, "data"), []byte("\n")), HasData: true,
				Type: line.Draw(t, "type"), HasID: rapid.Bool().Draw(t, "hasID")}
			if e.HasID {
				e.ID = line.Draw(t, "id")
			}
			events = append(events, e)
			stream = AppendEvent(stream, e)
		}
		r := NewEventReader(iotest.HalfReader(bytes.NewReader(stream)), 0)
		for i, want := range events {
			got, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Type, want.Type) || !bytes.Equal(got.ID, want.ID) || got.HasID != want.HasID {
				t.Fatalf("event %d: got %q, want %q, in %q", i, show(got), show(want), stream)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatal(err)
		}
	})
}
