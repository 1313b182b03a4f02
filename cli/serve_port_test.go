package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process/processtest"
)

// TestServeChecksItsPortsFirst: with a port in use the start fails before it makes the first tenant
// and its key, whose file would surprise the next start.
func TestServeChecksItsPortsFirst(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for _, flag := range []string{"--listen", "--metrics-listen"} {
		dir := t.TempDir()
		env, _, stderr := processtest.New(t)
		env.Now = time.Now
		args := []string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", flag, used.Addr().String()}
		if code := Main(env, args); code != command.ExitFailed || !strings.Contains(stderr.String(), flag) {
			t.Errorf("%s: exit code %d\n%s", flag, code, stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "bootstrap-key")); !os.IsNotExist(err) {
			t.Errorf("%s: a key was made (%v)\n%s", flag, err, stderr)
		}
	}
}
