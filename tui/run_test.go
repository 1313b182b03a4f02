package tui_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/tui"
	"svc/tui/recording"
)

// terminal is an output that can be read while it is written.
type terminal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

const altScreenOff = "\x1b[?1049l"

// run calls Run and returns its result; keys are typed by writing.
func run(t *testing.T, ctx context.Context, o tui.Options) (*terminal, io.Writer, <-chan error) {
	t.Helper()
	out := &terminal{}
	in, keys := io.Pipe()
	o.Input, o.Output = in, out
	t.Cleanup(func() { keys.Close() })
	ended := make(chan error, 1)
	go func() { ended <- tui.Run(ctx, o) }()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(out.String(), "\x1b[?1049h"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was drawn")
		}
	}
	return out, keys, ended
}

func wait(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("it did not end")
		return nil
	}
}

// q and the end of the context are not errors, and the terminal is restored.
func TestRunEnds(t *testing.T) {
	for _, how := range []string{"q", "ctx"} {
		ctx, cancel := context.WithCancel(t.Context())
		o := plainOptions(newFakeSource(), &recording.Plane{})
		o.Mouse = true
		out, keys, ended := run(t, ctx, o)
		if how == "q" {
			io.WriteString(keys, "q")
		} else {
			cancel()
		}
		if err := wait(t, ended); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		if s := out.String(); !strings.Contains(s, altScreenOff) || !strings.Contains(s, "\x1b[?1002l") {
			t.Errorf("%s: the terminal was not given back", how)
		}
		cancel()
	}
}

// panicking is a source that panics.
type panicking struct{}

func (panicking) Open(context.Context, string) (tui.Stream, error) { panic("a mistake") }

// After a panic the terminal is restored, and Run returns an error.
func TestPanicGivesTheTerminalBack(t *testing.T) {
	out, _, ended := run(t, t.Context(), plainOptions(panicking{}, nil))
	if err := wait(t, ended); !errors.Is(err, tea.ErrProgramPanic) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), altScreenOff) {
		t.Error("the terminal was not given back")
	}
}
