package targets

import (
	"testing"

	"golang.org/x/sys/unix"
)

const large = 1 << 40

// lowerALimit lowers a soft limit of this process, as another process could.
func lowerALimit(t *testing.T) (restore func(), ok bool) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_FSIZE, nil, &was); err != nil {
		t.Fatal(err)
	}
	return func() { _ = unix.Prlimit(0, unix.RLIMIT_FSIZE, &was, nil) },
		was.Cur > large && unix.Prlimit(0, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: large, Max: was.Max}, nil) == nil
}
