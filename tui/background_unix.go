//go:build unix

package tui

import (
	"io"
	"os"
	"time"

	"github.com/muesli/termenv"
	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"
)

// backgroundTimeout bounds the wait for the terminal's background color. What is typed until the
// terminal responds is lost.
const backgroundTimeout = 500 * time.Millisecond

// darkBackground reports whether a terminal has a dark background. termenv itself would wait up to
// five seconds for a terminal that does not respond.
func darkBackground(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return true
	}
	fd := int(f.Fd())
	before, err := xterm.MakeRaw(fd)
	if err != nil {
		return true // not a terminal
	}
	defer func() { _ = xterm.Restore(fd, before) }()
	return termenv.NewOutput(&queried{f, time.Now().Add(backgroundTimeout)}, termenv.WithUnsafe()).HasDarkBackground()
}

// queried is a terminal that can be read until a time.
type queried struct {
	*os.File
	until time.Time
}

func (q *queried) Read(b []byte) (int, error) {
	for {
		left := time.Until(q.until)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		var set unix.FdSet
		set.Set(int(q.Fd()))
		timeout := unix.NsecToTimeval(int64(left))
		switch n, err := unix.Select(int(q.Fd())+1, &set, nil, nil, &timeout); {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, os.ErrDeadlineExceeded
		}
		n, err := q.File.Read(b)
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		return n, err
	}
}
