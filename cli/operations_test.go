package cli

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOperationsDocument runs the sh blocks of docs/operations.md in order, in one
// shell, with directories and an address of the test's own.
func TestOperationsDocument(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	doc, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(doc, -1)
	if len(blocks) < 6 {
		t.Fatalf("%d blocks", len(blocks))
	}
	dir := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	if err := os.Mkdir(filepath.Join(dir, "backup"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := "set -eux\ntrap 'kill \"$server\" 2>/dev/null || :' EXIT\n"
	for _, b := range blocks {
		script += string(b[1]) + "\n"
	}
	script = strings.NewReplacer("127.0.0.1:8080", address, "/var/lib/svc", filepath.Join(dir, "data"),
		"/backup/", filepath.Join(dir, "backup")+"/", "sleep 1", "sleep 0.05").Replace(script)
	cmd := exec.CommandContext(t.Context(), sh, "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=atexit_sleep_ms=10"} // TestMain has put svc there
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"svc-monday.db is sound", "restored from", "kept as", "gateway-2"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
}
