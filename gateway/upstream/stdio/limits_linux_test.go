package stdio

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A resource limit that another process lowered is raised again and described; one that was
// raised stays.
func TestLimitsThatWereLowered(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &was); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prlimit(0, unix.RLIMIT_CORE, &was, nil) }()
	begin := unix.Rlimit{Cur: min(4096, was.Max), Max: was.Max}
	if begin.Cur == 0 {
		t.Skip("the limit cannot be lowered")
	}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &begin, nil); err != nil {
		t.Fatal(err)
	}
	l := ReadLimits()
	if got := l.Restore(); len(got) > 0 {
		t.Errorf("nothing changed: %q", got)
	}
	if err := unix.Prlimit(os.Getpid(), unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
	if got := l.Restore(); len(got) != 1 || !strings.HasPrefix(got[0], "core: 0/") || !strings.Contains(got[0], ", was 4096/") {
		t.Errorf("%q", got)
	}
	var is unix.Rlimit
	if _ = unix.Prlimit(0, unix.RLIMIT_CORE, nil, &is); is != begin {
		t.Errorf("%v, want %v", is, begin)
	}
	raised := unix.Rlimit{Cur: min(8192, was.Max), Max: was.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &raised, nil); err != nil {
		t.Fatal(err)
	}
	if got := l.Restore(); len(got) > 0 {
		t.Errorf("a raised limit: %q", got)
	}
	if _ = unix.Prlimit(0, unix.RLIMIT_CORE, nil, &is); is != raised {
		t.Errorf("%v, want %v", is, raised)
	}
}
