package audit

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
)

// withSink is a configuration with one sink.
func withSink(t testing.TB, kind, url string) Config {
	t.Helper()
	c := testConfig(t)
	var s SinkConfig
	s.SetDefaults()
	s.Type, s.URL, s.Timeout = kind, url, time.Second
	c.Sinks = []SinkConfig{s}
	return c
}

// wantCopies checks that the lines in a sink are those of the file.
func wantCopies(t testing.TB, c Config, got []string) {
	t.Helper()
	want := readLines(t, c.Path)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the sink got %d lines of %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
}

func TestHTTPSinkGetsEveryLine(t *testing.T) {
	var mu sync.Mutex
	var got []string
	fail := 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if fail > 0 {
			fail--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err != nil || r.Header.Get("Content-Type") != "application/x-ndjson" || r.Header.Get("Authorization") != "Splunk s3cret" {
			t.Errorf("%v %v", err, r.Header)
		}
		got = append(got, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
	}))
	defer server.Close()
	c := withSink(t, SinkHTTP, server.URL)
	c.Sinks[0].Headers = map[string]string{"Authorization": "Splunk s3cret"}
	c.Sinks[0].Batch = 3
	l := mustOpen(t, c, Options{})
	for i := range 20 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	wantCopies(t, c, got)
	if l.DroppedRecords() != 0 {
		t.Errorf("%d dropped", l.DroppedRecords())
	}
}

// TestHTTPSinkDropsOnlyWhatIsRefused: a line that the receiver refuses is dropped and counted alone, and
// holds up no other; answers about credentials and load are retried.
func TestHTTPSinkDropsOnlyWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		status  int
		dropped uint64
	}{{400, 1}, {413, 1}, {415, 1}, {422, 1}, {401, 0}, {403, 0}, {404, 0}, {408, 0}, {429, 0}, {500, 0}} {
		t.Run(strconv.Itoa(c.status), func(t *testing.T) {
			var mu sync.Mutex
			var got []string
			refused := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				if lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"); !strings.Contains(string(body), `"seq":4,`) || c.dropped == 0 && refused > 0 {
					got = append(got, lines...)
					return
				}
				refused++
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			conf := withSink(t, SinkHTTP, server.URL)
			conf.Sinks[0].Batch = 8
			l := mustOpen(t, conf, Options{})
			for i := range 20 {
				if err := l.Write(context.Background(), sample(i)); err != nil {
					t.Fatal(err)
				}
			}
			mustClose(t, l)
			want := len(readLines(t, conf.Path)) - int(c.dropped)
			if len(got) != want || l.DroppedRecords() != c.dropped || refused == 0 {
				t.Errorf("%d lines of %d arrived, %d were dropped, %d requests refused", len(got), want, l.DroppedRecords(), refused)
			}
		})
	}
}

// Each kind of sink sends requests as OCSF and other lines as they are in the file.
func TestSinksSendOCSF(t *testing.T) {
	web := func(read func(body []byte) []string) func(t *testing.T) (string, <-chan string) {
		return func(t *testing.T) (string, <-chan string) {
			got := make(chan string, 10)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				for _, line := range read(body) {
					got <- line
				}
			}))
			t.Cleanup(server.Close)
			return server.URL, got
		}
	}
	for _, row := range []struct {
		kind     string
		receiver func(t *testing.T) (url string, got <-chan string)
	}{
		{SinkHTTP, web(func(body []byte) []string { return strings.Split(strings.TrimSuffix(string(body), "\n"), "\n") })},
		{SinkOTLP, web(func(body []byte) (lines []string) {
			var logs logspb.LogsData
			if err := proto.Unmarshal(body, &logs); err != nil {
				t.Error(err)
			}
			for _, record := range logs.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords() {
				lines = append(lines, record.GetBody().GetStringValue())
			}
			return lines
		})},
		{SinkSyslog, func(t *testing.T) (string, <-chan string) {
			conn, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			got := make(chan string, 10)
			go func() {
				for buf := make([]byte, MaxLine); ; {
					n, _, err := conn.ReadFrom(buf)
					if err != nil {
						return
					}
					got <- string(buf[bytes.IndexByte(buf[:n], '{'):n])
				}
			}()
			return "udp://" + conn.LocalAddr().String(), got
		}},
	} {
		t.Run(row.kind, func(t *testing.T) {
			url, got := row.receiver(t)
			c := withSink(t, row.kind, url)
			c.Sinks[0].Format = FormatOCSF
			l := mustOpen(t, c, Options{})
			if err := l.Write(t.Context(), &Record{Action: ActionAllow, Method: "tools/call", Tool: "read_file"}); err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			lines := readLines(t, c.Path)
			if len(lines) != 3 {
				t.Fatalf("%d lines", len(lines))
			}
			lines[1] = string(c.Sinks[0].form([]byte(lines[1])))
			for _, want := range lines {
				if line := <-got; line != want {
					t.Errorf("got %s, want %s", line, want)
				}
			}
			if !strings.Contains(lines[1], `"class_uid":6003`) {
				t.Errorf("no event: %s", lines[1])
			}
		})
	}
}

func TestSinkThatTakesNothingDropsAndCountsAndNeverDelays(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hang)
	c := withSink(t, SinkHTTP, server.URL)
	c.Sinks[0].Buffer, c.Sinks[0].Batch = 10, 5
	l := mustOpen(t, c, Options{})
	began := time.Now()
	for i := range 1000 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("1000 lines took %s", d)
	}
	if n := l.DroppedRecords(); n < 900 || n > 1000 {
		t.Errorf("%d dropped of 1000 with a buffer of 10", n)
	}
	began = time.Now()
	mustClose(t, l)
	if d := time.Since(began); d > 2*sinkGrace {
		t.Errorf("closing took %s", d)
	}
	// 1000, and the lines of the log itself.
	if n := l.DroppedRecords(); n != 1002 {
		t.Errorf("%d dropped after the end, want 1002", n)
	}
}

func TestHTTPSinkFollowsNoRedirect(t *testing.T) {
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL+"/lines?token=s3cret", http.StatusTemporaryRedirect))
	defer server.Close()
	cfg := SinkConfig{URL: server.URL, Headers: map[string]string{"Authorization": "secret"}}
	for name, s := range map[string]deliverer{"http": newHTTPSink(cfg), "otlp": newOTLPSink(cfg)} {
		err := s.deliver(context.Background(), [][]byte{[]byte("{}")})
		s.close()
		if err == nil || reached.Load() || !strings.Contains(err.Error(), "answered 307, which redirects to "+other.URL+"/lines?…:") {
			t.Errorf("%s: %v, reached %v, want an error with the target of the redirect", name, err, reached.Load())
		}
	}
}

func TestSinkErrorsDoNotTellTheURL(t *testing.T) {
	s := newHTTPSink(SinkConfig{URL: "http://127.0.0.1:1/?token=s3cret"})
	defer s.close()
	if err := s.deliver(context.Background(), nil); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

var syslogHead = regexp.MustCompile(`^<110>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \S+ svc \d+ audit - \{`)

func TestSyslogOverTCP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := make(chan []string, 1)
	go func() {
		var lines []string
		defer func() { got <- lines }()
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for {
			size, err := in.ReadString(' ')
			if err != nil {
				return
			}
			n, err := strconv.Atoi(strings.TrimSpace(size))
			if err != nil {
				t.Errorf("length %q", size)
				return
			}
			msg := make([]byte, n)
			if _, err := io.ReadFull(in, msg); err != nil {
				t.Error(err)
				return
			}
			if !syslogHead.Match(msg) {
				t.Errorf("message %s", msg)
			}
			lines = append(lines, string(msg[bytes.IndexByte(msg, '{'):]))
		}
	}()
	c := withSink(t, SinkSyslog, "tcp://"+ln.Addr().String())
	l := mustOpen(t, c, Options{})
	for i := range 20 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	wantCopies(t, c, <-got)
}

func TestSyslogOverDatagrams(t *testing.T) {
	for _, network := range []string{"udp", "unixgram"} {
		t.Run(network, func(t *testing.T) {
			address, url := "127.0.0.1:0", ""
			if network == "unixgram" {
				dir, err := os.MkdirTemp("", "svc")
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(dir)
				address = filepath.Join(dir, "s") // socket names are short
				url = "unix://" + address
			}
			conn, err := net.ListenPacket(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if url == "" {
				url = "udp://" + conn.LocalAddr().String()
			}
			c := withSink(t, SinkSyslog, url)
			l := mustOpen(t, c, Options{})
			var got []string
			buf := make([]byte, MaxLine)
			for i := range 6 {
				if i > 0 {
					if err := l.Write(context.Background(), sample(i)); err != nil {
						t.Fatal(err)
					}
				}
				if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
					t.Fatal(err)
				}
				n, _, err := conn.ReadFrom(buf)
				if err != nil {
					t.Fatal(err)
				}
				if !syslogHead.Match(buf[:n]) {
					t.Errorf("message %s", buf[:n])
				}
				got = append(got, string(buf[bytes.IndexByte(buf[:n], '{'):n]))
			}
			wantCopies(t, c, got)
			mustClose(t, l)
		})
	}
}

func TestReconfigureChangesSinksAndKeepsTheCount(t *testing.T) {
	var lines atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lines.Add(int64(bytes.Count(body, []byte("\n"))))
	}))
	defer server.Close()
	c := withSink(t, SinkHTTP, "http://127.0.0.1:1/")
	c.Sinks[0].Buffer, c.Sinks[0].Batch = 1, 1
	l := mustOpen(t, c, Options{})
	for i := range 50 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	before := l.DroppedRecords()
	if before == 0 {
		t.Fatal("nothing was dropped")
	}
	next := withSink(t, SinkHTTP, server.URL)
	next.Path = c.Path
	if err := l.Reconfigure(next); err != nil {
		t.Fatal(err)
	}
	if got := l.DroppedRecords(); got < before {
		t.Errorf("the count went from %d to %d", before, got)
	}
	for i := range 5 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	if got := lines.Load(); got != 6 {
		t.Errorf("the new sink got %d lines, want 6", got)
	}
}
