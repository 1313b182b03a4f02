package check

import (
	"os"
	"syscall"
	"testing"

	"svc/gateway/upstream/stdio"
)

// The test binary is also the helper program of the probed programs.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; stdio.IsHelper(args) {
		syscall.Exit(stdio.Help(args))
	}
	os.Exit(m.Run())
}
