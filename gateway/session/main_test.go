package session

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaks a goroutine or a connection.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
