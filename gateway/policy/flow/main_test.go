package flow

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedEnv); dir != "" {
		setAndWait(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
