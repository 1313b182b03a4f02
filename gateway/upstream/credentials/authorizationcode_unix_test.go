//go:build unix

package credentials

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc/gateway/upstream"
)

// On a full disk no refresh token is used: the login is still valid when there is space again. A
// limit on the size of files simulates the disk.
func TestAFullDiskEndsNoLogin(t *testing.T) {
	if os.Getenv("SVC_TEST_ALONE") == "" { // the limit would also hold for the log that go test writes
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "SVC_TEST_ALONE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s := &rotating{current: "refresh-0"}
	server := httptest.NewServer(s)
	defer server.Close()
	dir, c := t.TempDir(), newClock()
	loggedIn(t, server.URL, dir, c)
	p := newAuthorizationCode(hosted(nil), Options{StateDir: dir, Now: c.now})
	c.advance(time.Hour)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := p.Fields(t.Context(), nil)
	if restored := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); restored != nil {
		t.Fatal(restored)
	}
	if !errors.Is(err, upstream.ErrCredentials) || errors.Is(err, upstream.ErrLoginRequired) || !strings.Contains(err.Error(), "cannot be saved") || s.n != 0 {
		t.Errorf("%v after %d renewals", err, s.n)
	}
	c.advance(failureTime)
	if fields, err := p.Fields(t.Context(), nil); err != nil || fields[0].Value != "Bearer token-1" {
		t.Errorf("with room again: %v %v", fields, err)
	}
}
