package probe

import (
	"os"
	"testing"

	"svc/gateway/child"
)

// The test binary is also the helper program of the probed programs.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; child.IsHelper(args) {
		os.Exit(child.Help(args))
	}
	os.Exit(m.Run())
}
