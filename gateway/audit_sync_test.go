package gateway

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"svc/gateway/audit"
)

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
			r := newRigWith(t, basic(up.URL)+"\naudit: {path: "+path+", fsync: always, on_write_error: refuse}\n", func(o *Options) {
				o.openAudit = func(name string, flag int, perm os.FileMode) (audit.File, error) {
					f, err := os.OpenFile(name, flag, perm)
					return unsyncedFile{f, &fails}, err
				}
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
