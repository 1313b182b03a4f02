package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/audit"
	"svc/gateway/http1"
)

// frozenDisk blocks the writes of an audit file until it is thawed.
type frozenDisk struct {
	frozen atomic.Pointer[chan struct{}]
	waits  atomic.Int64
}

type frozenFile struct {
	*os.File
	d *frozenDisk
}

func (d *frozenDisk) open(name string, flag int, perm os.FileMode) (audit.File, error) {
	f, err := os.OpenFile(name, flag, perm)
	return frozenFile{f, d}, err
}

func (d *frozenDisk) freeze() {
	c := make(chan struct{})
	d.frozen.Store(&c)
}

func (d *frozenDisk) thaw() { close(*d.frozen.Swap(nil)) }

func (f frozenFile) Write(b []byte) (int, error) {
	if c := f.d.frozen.Load(); c != nil {
		f.d.waits.Add(1)
		<-*c
	}
	return f.File.Write(b)
}

// byFront serves the rig's gateway with gateway/http1, as in production.
func byFront(t *testing.T, r *rig) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := http1.NewServer(http1.Options{Paths: []string{gateway.Path}, Handler: r.gateway, Fallback: &http.Server{Handler: r.gateway}, BodyRate: 1})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return "http://" + ln.Addr().String() + "/mcp"
}

// onFrozenDisk starts a gateway whose audit disk can freeze, and calls do with the address of
// each HTTP server.
func onFrozenDisk(t *testing.T, more string, do func(t *testing.T, r *rig, up *upstreamServer, d *frozenDisk, url string)) {
	for _, server := range []string{"front", "net/http"} {
		t.Run(server, func(t *testing.T) {
			d := &frozenDisk{}
			up := newUpstream(t, echo)
			audit := "\naudit: {path: " + filepath.Join(t.TempDir(), "audit.jsonl") + ", write_timeout: 500ms" + more + "}\n"
			r := newRig(t, basic(up.URL)+audit)
			r.onDisk(d.open)
			url := r.url
			if server == "front" {
				url = byFront(t, r)
			}
			if a := r.do(http.MethodPost, url, call("1", "safe")); a.status != http.StatusOK {
				t.Fatalf("before: %d %s", a.status, a.body)
			}
			d.freeze()
			thawed := false
			defer func() {
				if !thawed {
					d.thaw()
				}
			}()
			do(t, r, up, d, url)
			d.thaw()
			thawed = true
			for r.services().Audit.Ready() != nil { // until the write has ended
			}
			if a := r.do(http.MethodPost, url, call("9", "safe")); a.status != http.StatusOK {
				t.Errorf("after: %d %s", a.status, a.body)
			}
		})
	}
}

// While the audit disk is frozen, a call is refused after write_timeout with an error that the
// tool was executed. Later calls are refused before they reach the upstream, and probes are
// answered.
func TestAFrozenAuditDiskRefusesCallsInTime(t *testing.T) {
	onFrozenDisk(t, "", func(t *testing.T, r *rig, up *upstreamServer, d *frozenDisk, url string) {
		began := time.Now()
		a := r.do(http.MethodPost, url, call("2", "safe"))
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, `"message":"audit_unavailable"`) || !strings.Contains(a.body, `"executed":true`) || !strings.Contains(a.body, `"id":2`) {
			t.Errorf("a call that was executed: %d %s", a.status, a.body)
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("it took %v", waited)
		}
		asked := len(up.seen())
		a = r.do(http.MethodPost, url, call("3", "safe"))
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, `"message":"audit_unavailable"`) || strings.Contains(a.body, "executed") {
			t.Errorf("a call behind a write that waits: %d %s", a.status, a.body)
		}
		if n := len(up.seen()); n != asked {
			t.Errorf("the upstream received %d further requests", n-asked)
		}
		if a := r.do(http.MethodGet, strings.TrimSuffix(url, "/mcp")+"/healthz", ""); a.status != http.StatusOK {
			t.Errorf("/healthz: %d", a.status)
		}
		if d.waits.Load() != 1 {
			t.Errorf("%d writes wait, want 1", d.waits.Load())
		}
	})
}

// With on_write_error: count, calls pass: the first one after write_timeout.
func TestAFrozenAuditDiskLetsCountedCallsPass(t *testing.T) {
	onFrozenDisk(t, ", on_write_error: count", func(t *testing.T, r *rig, _ *upstreamServer, _ *frozenDisk, url string) {
		for _, id := range []string{"2", "3"} {
			if a := r.do(http.MethodPost, url, call(id, "safe")); a.status != http.StatusOK {
				t.Errorf("call %s: %d %s", id, a.status, a.body)
			}
		}
		if n := r.services().Audit.Lost(); n != 2 {
			t.Errorf("%d lines were counted as lost, want 2", n)
		}
	})
}

// unsyncedFile is a file whose writes succeed and whose Sync fails.
type unsyncedFile struct {
	*os.File
	fails *atomic.Bool
}

func (f unsyncedFile) Sync() error {
	if f.fails.Load() {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: syscall.EIO}
	}
	return f.File.Sync()
}

// With fsync: always and on_write_error: refuse, an answer whose line did not reach the disk is
// withheld.
func TestALineThatCannotBeSyncedRefusesTheAnswer(t *testing.T) {
	for _, server := range []string{"front", "net/http"} {
		t.Run(server, func(t *testing.T) {
			var fails atomic.Bool
			up := newUpstream(t, echo)
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			r := newRig(t, basic(up.URL)+"\naudit: {path: "+path+", fsync: always, on_write_error: refuse}\n")
			r.onDisk(func(name string, flag int, perm os.FileMode) (audit.File, error) {
				f, err := os.OpenFile(name, flag, perm)
				return unsyncedFile{f, &fails}, err
			})
			url := r.url
			if server == "front" {
				url = byFront(t, r)
			}
			if a := r.do(http.MethodPost, url, call("1", "safe")); a.status != http.StatusOK {
				t.Fatalf("before: %d %s", a.status, a.body)
			}
			fails.Store(true)
			a := r.do(http.MethodPost, url, call("2", "safe"))
			fails.Store(false) // so that the gateway can close the file
			if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, `"message":"audit_unavailable"`) || !strings.Contains(a.body, `"id":2`) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}
