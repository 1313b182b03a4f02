package mcp

import (
	"fmt"
	"strings"
	"testing"
)

// smallCall is a tools/call of 267 bytes.
func smallCall() []byte {
	return []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"search_documents","arguments":{"query":"quarterly report","limit":10,"filters":{"owner":"alice","tags":["a","b"]}},"_meta":{"progressToken":17,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7-01"}}}`)
}

// nestedCall is a tools/call of about 4 KiB of small members.
func nestedCall() []byte {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"import_rows","arguments":{"rows":[`)
	for i := 0; b.Len() < 4000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"row %d","price":%d.5,"tags":["x","y"],"open":true}`, i, i, i)
	}
	b.WriteString(`]}}}`)
	return []byte(b.String())
}

// longCall is a tools/call of about 100 KiB in one string.
func longCall() []byte {
	return []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"/tmp/x","text":"` +
		strings.Repeat("the quick brown fox jumps over the lazy dog ", 100*1024/44) + `"}}}`)
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name string
		body []byte
	}{{"small", smallCall()}, {"nested", nestedCall()}, {"long", longCall()}} {
		b.Run(fmt.Sprintf("%s/%d", c.name, len(c.body)), func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			var m Message
			for b.Loop() {
				if err := Scan(c.body, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFrame measures one inspected frame of an event stream: reading,
// scanning and writing it.
func BenchmarkFrame(b *testing.B) {
	frame := []byte("event: message\nid: 12\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n")
	r := NewEventReader(&repeat{frame: frame}, 0)
	var m Message
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		e, err := r.Next()
		if err != nil {
			b.Fatal(err)
		}
		if err := Scan(e.Data, &m); err != nil {
			b.Fatal(err)
		}
		out = AppendEvent(out[:0], e)
	}
}
