package session

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine behind: neither an open that others wait for nor a
// connection outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
