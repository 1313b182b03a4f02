package redis

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestDescriptorsDoNotTrip: a process without free descriptors does not blame the store, so that
// calls succeed as soon as it has some, and logs it once.
func TestDescriptorsDoNotTrip(t *testing.T) {
	var c StoreConfig
	c.SetDefaults()
	c.Type, c.URL = TypeRedis, "redis://127.0.0.1:9"
	var out bytes.Buffer
	r, err := NewRedis(c, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 3 {
		cause := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		if err := r.fail(t.Context(), r.breaker(""), "", cause); err == nil {
			t.Error("no error")
		}
	}
	if r.breaker("").open(r.since(r.epoch)) || r.Stats().Failing {
		t.Error("the store counts as failing")
	}
	if text := out.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "file descriptors") {
		t.Errorf("the log has:\n%s", text)
	}
}
