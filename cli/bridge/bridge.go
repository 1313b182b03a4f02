package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"svc/gateway/mcp"
)

// Options are the parameters of [Run].
type Options struct {
	// URL is the endpoint.
	URL string
	// Key returns the API key or token; empty for none. It is called at the start, and
	// again when the endpoint rejects the key.
	Key func() (string, error)
	In  io.Reader
	Out io.Writer
	// Log is called for each problem that no response reports.
	Log io.Writer
	// Version is that of this program.
	Version string
	// MaxLine bounds a message in both directions, in bytes; 0 is 16 MiB.
	MaxLine int
	// Patience is how long attempts to connect are repeated before a request fails:
	// the time that a gateway takes to restart. 0 is 20 s.
	Patience time.Duration
	// Grace is how long requests may finish after the end of the input; 0 is 10 s. A
	// client that does not wait for it ends the process earlier, and with it ctx.
	Grace time.Duration
	// Transport replaces the HTTP transport.
	Transport http.RoundTripper
}

const (
	defaultMaxLine  = 16 << 20
	defaultPatience = 20 * time.Second
	defaultGrace    = 10 * time.Second
	// maxCalls bounds the requests in flight.
	maxCalls = 256
	// maxQueue bounds the queued notifications and responses of the client.
	maxQueue = 256
	// endTimeout bounds the end of the session.
	endTimeout = time.Second
)

// bridge connects one client, on standard input and output, with the endpoint.
type bridge struct {
	o      Options
	client *http.Client
	out    *lines

	// ctx ends when the client has disconnected or the output fails.
	ctx context.Context
	end context.CancelCauseFunc
	wg  sync.WaitGroup

	queue chan queued

	mu     sync.Mutex
	key    string
	calls  map[string]*call
	modern string // the stateless revision in the client's last request
	params paramHeaders

	session session
}

// queued is a notification or a response of the client; they are sent in order.
type queued struct {
	m     *mcp.Message
	after <-chan struct{} // closed when the message may be sent; nil: at once
	done  chan struct{}   // closed when the message was sent; nil when nothing waits for it
}

// Run serves one client until its input ends, ctx ends or the output fails. The end of
// the input is not an error.
func Run(ctx context.Context, o Options) error {
	o.MaxLine = cmp.Or(o.MaxLine, defaultMaxLine)
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	key, err := o.Key()
	if err != nil {
		return err
	}
	b := &bridge{
		o: o, key: key, out: &lines{w: o.Out},
		client: newClient(o.Transport),
		queue:  make(chan queued, maxQueue),
		calls:  map[string]*call{},
	}
	b.ctx, b.end = context.WithCancelCause(ctx)
	defer b.end(nil)
	b.out.failed = func(err error) { b.end(fmt.Errorf("write to standard output: %w", err)) }
	b.wg.Go(b.sendQueued)

	input := make(chan inputLine)
	go readLines(b.ctx, o.In, o.MaxLine, input)
	err = b.serve(input)
	b.close()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// serve handles lines until the input ends.
func (b *bridge) serve(input <-chan inputLine) error {
	for {
		select {
		case <-b.ctx.Done():
			return context.Cause(b.ctx)
		case l, ok := <-input:
			switch {
			case !ok:
				return nil
			case l.err != nil:
				return fmt.Errorf("read standard input: %w", l.err)
			case l.tooLong:
				b.out.write(mcp.AppendError(nil, nil, mcp.CodeInvalidRequest, fmt.Sprintf("a line has more than %d bytes", b.o.MaxLine), "line_too_long", ""))
			default:
				b.handle(l.text)
			}
		}
	}
}

// close lets requests finish for a limited time, and ends the session.
func (b *bridge) close() {
	close(b.queue)
	idle := make(chan struct{})
	go func() {
		b.callsDone()
		close(idle)
	}()
	grace := time.NewTimer(b.o.Grace)
	defer grace.Stop()
	select {
	case <-idle:
	case <-grace.C:
	case <-b.ctx.Done():
	}
	b.end(context.Canceled)
	b.endSession()
	b.wg.Wait()
	b.client.CloseIdleConnections()
}

// callsDone waits for the requests in flight, except those without an end of their
// own.
func (b *bridge) callsDone() {
	b.mu.Lock()
	var open []*call
	for _, c := range b.calls {
		if c.m.Method != mcp.MethodListen && !c.canceled {
			open = append(open, c)
		}
	}
	b.mu.Unlock()
	for _, c := range open {
		<-c.done
	}
}

// logf logs a line for the reader of the client's log.
func (b *bridge) logf(format string, args ...any) {
	fmt.Fprintf(b.o.Log, "svc connect: "+format+"\n", args...)
}
