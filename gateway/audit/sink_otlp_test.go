package audit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// collector accepts logs as an OpenTelemetry collector does.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	lines   []string
	records []*logspb.LogRecord
	answer  func(w http.ResponseWriter) bool // reports whether the batch is accepted
}

func newCollector(t testing.TB, answer func(w http.ResponseWriter) bool) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var logs logspb.LogsData
		if err == nil {
			err = proto.Unmarshal(body, &logs)
		}
		if err != nil || r.URL.Path != "/base/v1/logs" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("X-Token") != "s3cret" {
			t.Errorf("%v %s %v", err, r.URL, r.Header)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.answer(w) {
			return
		}
		for _, resource := range logs.ResourceLogs {
			for _, scope := range resource.ScopeLogs {
				for _, record := range scope.LogRecords {
					c.lines = append(c.lines, record.Body.GetStringValue())
					c.records = append(c.records, record)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func otlpConfig(t testing.TB, url string) Config {
	t.Helper()
	c := withSink(t, SinkOTLP, url+"/base/")
	c.Sinks[0].Headers = map[string]string{"X-Token": "s3cret"}
	return c
}

// A collector receives every line as a record whose body is the line; after a 503 the batch is
// sent again.
func TestOTLPSinkGetsEveryLine(t *testing.T) {
	busy := 2
	server := newCollector(t, func(w http.ResponseWriter) bool {
		if busy > 0 {
			busy--
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		}
		return true
	})
	cfg := otlpConfig(t, server.URL)
	log, err := Open(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := log.Write(t.Context(), &Record{
			RequestID: "r", Action: "deny", RuleID: "no", Method: "tools/call", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	wantCopies(t, cfg, server.lines)
	if n := log.DroppedRecords(); n != 0 {
		t.Errorf("%d lines were dropped", n)
	}
	record := server.records[1]
	got := map[string]string{}
	for _, a := range record.Attributes {
		got[a.Key] = a.Value.GetStringValue()
	}
	if got["audit.action"] != "deny" || got["audit.rule_id"] != "no" || got["rpc.method"] != "tools/call" || len(record.TraceId) != 16 {
		t.Errorf("attributes %v, trace id %x", got, record.TraceId)
	}
}

// Records that a collector rejects permanently are counted as dropped, and not sent again.
func TestOTLPSinkCountsWhatIsRefused(t *testing.T) {
	var partial []byte
	partial = protowire.AppendTag(partial, 1, protowire.VarintType)
	partial = protowire.AppendVarint(partial, 1)
	partial = append(protowire.AppendTag(partial, 2, protowire.BytesType), 2, 'n', 'o')
	response := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter) bool
		want   func(lines, batches uint64) uint64
	}{
		{"a bad request", func(w http.ResponseWriter) bool { w.WriteHeader(400); return false }, func(lines, _ uint64) uint64 { return lines }},
		{"partial success", func(w http.ResponseWriter) bool { w.Write(response); return true }, func(_, batches uint64) uint64 { return batches }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var batches uint64
			server := newCollector(t, func(w http.ResponseWriter) bool { batches++; return tt.answer(w) })
			cfg := otlpConfig(t, server.URL)
			log, err := Open(cfg, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := log.Write(t.Context(), &Record{RequestID: "r"}); err != nil {
				t.Fatal(err)
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			lines := uint64(len(readLines(t, cfg.Path)))
			if got, want := log.DroppedRecords(), tt.want(lines, batches); got != want {
				t.Errorf("%d lines counted as dropped, want %d", got, want)
			}
		})
	}
}

func FuzzRejectedLogs(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x05})
	f.Fuzz(func(t *testing.T, answer []byte) {
		if int64(rejectedLogs(answer)) < 0 {
			t.Error("a negative count")
		}
	})
}
