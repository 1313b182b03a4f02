package planecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/rest"
	"svc/gateway/base/retry"
	"svc/server/client"
	"svc/store/api"
)

// tailFormats are the formats of svc traces tail: those in which traces can be written as
// they arrive.
var tailFormats = []command.Format{command.FormatTable, command.FormatNDJSON}

func newTraceTailCmd(r *rest.Connection) *cobra.Command {
	t := &traceTail{r: r, wait: rest.Wait}
	f := command.FormatTable
	cmd := &cobra.Command{
		Use: "tail", Short: "Print new traces as they are stored",
		Long: `Print new traces that match the filters when the control plane stores them. After a
lost connection the command reconnects and resumes after the last trace, so that none
is missing; it waits as long as Retry-After requires. Changes of the connection are
reported on standard error.

The command ends at Ctrl-C, or after the number of traces of -n.`,
		Example: `  svc traces tail --status error
  svc traces tail --tool delete_order -o ndjson | jq .reason
  svc traces tail --agent support-bot -n 1`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.max < 0 {
				return command.Usagef("0 is no bound", "-n must not be negative, got %d", t.max)
			}
			c, err := r.Client()
			if err != nil {
				return err
			}
			t.open = c.StreamTraces
			t.show = showEach(r, f, traceColumns)
			ctx, stop := untilSignal(cmd.Context(), r)
			defer stop()
			err = t.run(ctx)
			if ctx.Err() != nil || errors.As(err, new(outputError)) && errors.Is(err, syscall.EPIPE) {
				return nil // Ctrl-C, or the reader has closed the output
			}
			return r.Explain(err)
		},
	}
	addTraceFilter(r, cmd, &t.filter)
	cmd.Flags().IntVarP(&t.max, "max", "n", 0, "end after this many traces; 0 means no limit")
	command.AddFormatFlag(cmd, &f, tailFormats...)
	return cmd
}

// untilSignal returns a context that ends with the first signal to this process. The
// returned function must be called when the work is done.
func untilSignal(ctx context.Context, r *rest.Connection) (context.Context, func()) {
	signals, ignore := r.Env.Signals()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-done; ignore() }
}

// traceTail follows the stream of traces and reconnects.
type traceTail struct {
	r      *rest.Connection
	filter client.TraceFilter
	max    int // 0 is no bound
	open   func(ctx context.Context, f client.TraceFilter, lastEventID string) (*client.TraceStream, error)
	show   func(api.TraceItem) error
	wait   func(context.Context, time.Duration) error

	cursor string
	shown  int
}

// errEnough ends a tail that has written the requested number of traces.
var errEnough = errors.New("enough traces")

// run writes traces until ctx ends, enough were written, the output cannot be written, or
// the control plane returns a permanent error. If the first connection fails, the error is
// returned; after that, run reconnects.
func (t *traceTail) run(ctx context.Context) error {
	connected, failures := false, 0
	for {
		opened, err := t.follow(ctx)
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		connected = connected || opened
		if opened {
			failures = 0
		}
		failures++
		pause, final := t.pause(err, failures, connected)
		if final {
			return err
		}
		t.note("%s; connecting again in %s", whyLost(err), pause)
		if err := t.wait(ctx, pause); err != nil {
			return err
		}
	}
}

// outputError is an error of the output, not of the connection.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// follow opens the stream and writes its traces until it ends. It reports whether the stream
// was opened.
func (t *traceTail) follow(ctx context.Context) (opened bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(cmp.Or(t.r.Timeout, client.DefaultTimeout), func() { cancel(context.DeadlineExceeded) })
	stream, err := t.open(ctx, t.filter, t.cursor)
	if !late.Stop() && err != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, err
	}
	defer stream.Close()
	t.note("connected; traces are shown as they come")
	for {
		ev, err := stream.Next()
		if err != nil {
			t.cursor = stream.LastEventID()
			return true, err
		}
		if err := t.show(ev.Trace); err != nil {
			return true, outputError{err}
		}
		t.cursor = ev.ID
		if t.shown++; t.shown == t.max {
			return true, errEnough
		}
	}
}

// pause returns the time to wait after an error, or that the error is permanent. When the
// control plane no longer knows the position in the stream, the position is dropped with a
// note.
func (t *traceTail) pause(err error, failures int, connected bool) (time.Duration, bool) {
	pause := retry.After(failures, time.Second, 15*time.Second)
	var answer *client.Error
	switch {
	case errors.As(err, new(outputError)):
		return 0, true
	case !errors.As(err, &answer):
		return pause, !connected
	case answer.RetryAfter > 0:
		return answer.RetryAfter, answer.RetryAfter > maxTailWait
	case answer.Status == http.StatusBadRequest && t.cursor != "" && connected:
		t.cursor = ""
		t.note("the control plane cannot go on behind the last trace: traces may be missing here")
		return pause, false
	case answer.Status >= http.StatusInternalServerError, answer.Status == http.StatusTooManyRequests:
		return pause, !connected
	}
	return 0, true
}

// maxTailWait bounds the Retry-After that is followed.
const maxTailWait = time.Hour

// whyLost returns the reason why a stream ended.
func whyLost(err error) string {
	var answer *client.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the stream ended"
	case errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests:
		return "the control plane limits the rate: " + answer.Message
	case errors.As(err, &answer):
		return fmt.Sprintf("control plane not available (%d)", answer.Status)
	case errors.Is(err, context.DeadlineExceeded):
		return "the control plane did not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing answers at the control plane's address"
	}
	return "the connection was lost: " + err.Error()
}

// note writes a line about the connection to standard error.
func (t *traceTail) note(format string, args ...any) {
	fmt.Fprintf(t.r.Env.Stderr, "%s\n", command.Clean(fmt.Sprintf(format, args...)))
}
