package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svc/server/background"
	"svc/store"
	"svc/store/api"
	"svc/store/bolt"
)

// TestFullDisk: while the disk of the embedded store is full, ingest is 503 with Retry-After,
// OTLP included, a change by an administrator is 507 and names the disk, and the store is not ready and not writable although small
// writes still succeed. All of that ends after space was freed, and no acknowledged trace is
// lost.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, 64<<20)
	path := filepath.Join(disk, "svc.db")
	st, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	t.Cleanup(func() {
		if !closed {
			st.Close()
		}
	})
	r := &rig{t: t, store: st, clock: &clock{t: time.Now()}, log: &journal{}}
	r.admin = r.tenant("one", "org_one")
	prober := background.New(background.ReadinessOptions{Store: st, Interval: 20 * time.Millisecond})
	if r.srv, err = New(Options{Records: st, Traces: st, RateLimit: 1 << 20, IngestRateLimit: 1 << 20, Writable: prober.Err,
		Logger: slog.New(slog.NewTextHandler(r.log, nil))}); err != nil {
		t.Fatal(err)
	}
	probing, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); prober.Run(probing) }()
	defer func() { stop(); <-done }()

	acknowledged := 0
	post := func() *reply {
		var b strings.Builder
		for i := range 200 {
			fmt.Fprintf(&b, `,{"id":"%d-%d","agentName":"a","status":"success","durationMs":1,"sessionId":%q}`, acknowledged, i, strings.Repeat("s", 100))
		}
		a := r.ask(r.admin, "POST", "/api/traces", `{"traces":[`+b.String()[1:]+`]}`)
		if a.status == 201 {
			acknowledged += 200
		}
		return a
	}
	span := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":%q,"startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[{"key":"gen_ai.agent.name","value":{"stringValue":"a"}}]}]}]}]}`,
		"chat", r.clock.Now().Add(-time.Second).UnixNano(), r.clock.Now().UnixNano())
	metric := func(name string) string {
		rec := httptest.NewRecorder()
		r.srv.Metrics().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(rec.Body.String()) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		t.Fatalf("no metric %s", name)
		return ""
	}
	ready := func() int { return r.send(httptest.NewRequest("GET", "/readyz", nil)).status }

	post().want(201)
	if got := metric("svc_store_disk_free_bytes"); got == "0" || metric("svc_store_writable") != "1" || ready() != 200 {
		t.Fatalf("before: %s bytes free, writable %s, ready %d", got, metric("svc_store_writable"), ready())
	}

	filler := fill(t, disk)
	var last *reply
	for range 2000 { // until the free pages of the file and of the disk are used
		if last = post(); last.status != 201 {
			break
		}
	}
	for what, a := range map[string]*reply{"batch": last, "OTLP": r.ask(r.admin, "POST", "/api/otlp/v1/traces", span)} {
		if a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s on a full disk: %d %s, Retry-After %q", what, a.status, a.raw, a.header.Get("Retry-After"))
		}
	}
	change := 201
	for i := 0; i < 100 && change == 201; i++ {
		a := r.ask(r.admin, "POST", "/api/agents", fmt.Sprintf(`{"name":"large-%d","configYaml":%q}`, i, strings.Repeat("# a comment\n", 40_000)))
		if change = a.status; change != 201 && (change != 507 || !strings.Contains(string(a.raw), "the disk of the store is full")) {
			t.Errorf("a change on a full disk: %d %s", a.status, a.raw)
		}
	}
	if change == 201 {
		t.Error("all changes on a full disk were stored")
	}
	// A probe of a few bytes fits into free pages; it must not make the store ready.
	for range 3 {
		if err := st.SetWatermark(t.Context(), store.MarkWritten, time.Now()); !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the probe on a full disk: %v", err)
		}
	}
	if got := metric("svc_store_writable"); got != "0" || ready() != 503 {
		t.Errorf("on a full disk: writable %s, ready %d", got, ready())
	}
	if !strings.Contains(r.log.String(), "no space left on device") {
		t.Errorf("the log does not name the cause: %s", r.log)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(10 * time.Second); ready() != 200; {
		select {
		case <-deadline:
			t.Fatal("not ready after space was freed")
		case <-time.After(20 * time.Millisecond):
		}
	}
	post().want(201)
	r.ask(r.admin, "POST", "/api/otlp/v1/traces", span).want(200)
	if got := metric("svc_store_writable"); got != "1" {
		t.Errorf("after space was freed: writable %s", got)
	}
	stop()
	<-done
	closed = true
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = bolt.Open(path, bolt.Options{}); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, total, err := st.TracesOf("one").ListTraces(t.Context(), store.TraceFilter{}, store.Page{Limit: api.MaxLimit}); err != nil || total != acknowledged+1 {
		t.Errorf("%d traces after a restart, %v; %d were acknowledged", total, err, acknowledged+1)
	}
}

// smallDisk mounts an empty file system of a size for the time of a test, which needs the right
// to mount. Only a user without that right skips the test.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		t.Skip("needs the right to mount a file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the disk is full, and returns its path.
func fill(t *testing.T, disk string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return f.Name()
}
