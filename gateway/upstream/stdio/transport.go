package stdio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Options are the parameters of a transport.
type Options struct {
	// Config is the validated configuration of the upstream.
	Config upstream.Config
	// Command is the command that is started.
	Command Command
	// Hidden returns the paths that a process cannot open which starts now; may be nil. It is
	// safe for concurrent use.
	Hidden func() []string
	// Version is the gateway's version, for the clientInfo of processes that several
	// sessions share.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
	// Changed is called when a process that does not belong to a single caller
	// announced that a list has changed; may be nil.
	Changed func()
}

// Transport carries messages to the processes of one program.
type Transport struct {
	opts   Options
	config *upstream.ProcessConfig
	notes  *notes
	// generation is the protocol generation of the program, as far as known; patience
	// is discoverPatience.
	generation generations
	patience   time.Duration
	// room is the limit of messages that wait to be read.
	room room

	running context.Context // canceled by Close
	stop    context.CancelFunc

	mu       sync.Mutex
	closed   bool
	slots    map[string]*slot // of shared processes, by key
	sessions sessions
	live     map[*process]struct{}
	starting int
	ending   int
	hidden   []string       // by the last ReplaceOpen
	owned    map[string]int // running and starting processes by their owner
	failures failures
	starts   uint64
	exits    uint64         // unexpected ends
	ended    sync.WaitGroup // waits for the ends of processes
}

var _ upstream.Transport = (*Transport)(nil)

// Open returns the transport. It starts no process.
func Open(o Options) *Transport {
	t := &Transport{
		patience: discoverPatience,
		opts:     o, config: &o.Config.ProcessConfig, notes: newNotes(o.Logger, o.Config.Name),
		slots: map[string]*slot{}, sessions: newSessions(), live: map[*process]struct{}{}, owned: map[string]int{},
		failures: failures{},
	}
	t.running, t.stop = context.WithCancel(context.Background())
	return t
}

// Address implements upstream.Transport: the program, without its arguments, which may
// contain secrets.
func (t *Transport) Address() string {
	return "command " + upstream.Printable(filepath.Base(t.config.Command[0]), 64)
}

// Stats is the state of the processes of a transport.
type Stats struct {
	// Processes counts those that run or start, Starts those ever started, and Exits those that ended
	// by themselves or failed to start.
	Processes     int
	Starts, Exits uint64
	// Dropped counts the lines that carried no message and were not forwarded.
	Dropped uint64
}

// Stats returns the state of the processes.
func (t *Transport) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Processes: len(t.live) + t.starting, Starts: t.starts, Exits: t.exits, Dropped: t.notes.dropped.Load()}
}

// Close implements upstream.Transport: it ends all processes, and returns when all
// have ended.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.stop()
	for p := range t.live {
		t.retire(p, "the gateway stops")
	}
	t.mu.Unlock()
	t.ended.Wait()
	t.notes.close()
	return nil
}

// Post implements upstream.Transport.
func (t *Transport) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, t.fail(opWrite, upstream.ErrInvalidRequest, false, err)
	}
	if m.Kind == mcp.Request && m.Method == mcp.MethodInitialize {
		return t.initialize(ctx, r, &m)
	}
	s, sl := t.find(r, &m)
	switch {
	case r.Session.ID != "" && s == nil:
		return upstream.Empty(http.StatusNotFound), nil
	case m.Kind != mcp.Request:
		if err := r.Ready(ctx); err != nil {
			return nil, err
		}
		t.pass(ctx, s, sl, &m)
		return upstream.Empty(http.StatusAccepted), nil
	}
	if body := t.answerShared(s, &m); body != nil {
		return message(body, ""), nil
	}
	if s == nil && m.Method == mcp.MethodDiscover {
		return t.discover(ctx, sl, &m)
	}
	return t.call(ctx, r, s, sl, &m)
}

// call sends a request to a process, and returns its response when the first message
// has arrived: JSON if that message is the response, otherwise a stream.
func (t *Transport) call(ctx context.Context, r *upstream.Request, s *session, sl *slot, m *mcp.Message) (*upstream.Response, error) {
	limits := r.Timeouts
	if limits == nil {
		limits = &upstream.Timeouts{FirstByte: t.opts.Config.Timeout, Between: t.opts.Config.Timeout}
	}
	p, err := t.acquire(ctx, sl)
	var rejected *rejectedError
	if errors.As(err, &rejected) {
		return message(withID(rejected.body, m.ID), ""), nil
	}
	if err != nil {
		return nil, err
	}
	if err := r.Ready(ctx); err != nil {
		t.release(p)
		return nil, err
	}
	c, err := p.ask(ctx, &call{session: s}, m)
	if err != nil {
		t.release(p)
		return nil, err
	}
	return c.respond(ctx, p.atStart(*limits))
}

// Listen implements upstream.Transport. The stream of a session lasts longer than its
// processes.
func (t *Transport) Listen(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	s, _ := t.find(r, nil)
	switch {
	case r.Session.ID == "":
		return upstream.Empty(http.StatusMethodNotAllowed), nil
	case s == nil:
		return upstream.Empty(http.StatusNotFound), nil
	}
	return upstream.Events(s.sessionStream.listen(ctx, t)), nil
}

// End implements upstream.Transport.
func (t *Transport) End(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions.get(r.Session.ID)
	if s == nil {
		return upstream.Empty(http.StatusNotFound), nil
	}
	t.forget(s, "its session ended")
	return upstream.Empty(http.StatusNoContent), nil
}

// The steps named in errors.
const (
	opStart = "start the process"
	opWrite = "send the request"
	opRead  = "read the response"
)

// fail returns an error of the package.
func (t *Transport) fail(op string, kind error, sent bool, err error) error {
	return &upstream.Error{Upstream: t.opts.Config.Name, Op: op, Kind: kind, Sent: sent, Err: err}
}

// failContext returns the error of a context that has ended.
func (t *Transport) failContext(ctx context.Context, op string, sent bool) error {
	kind := error(context.Canceled)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = upstream.ErrTimeout
	}
	return t.fail(op, kind, sent, ctx.Err())
}

// message is a response of one message; session is empty unless a session begins.
func message(body []byte, session string) *upstream.Response {
	resp := upstream.Message(http.StatusOK, body)
	if session != "" {
		resp.Header.Add(mcp.HeaderSession, session)
	}
	return resp
}

// result is a result message of the gateway itself.
func result(id []byte, value string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, value)
}

// rejection is an error message of the gateway itself.
func rejection(id []byte, code int, text string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, mcp.AppendString(nil, text))
}
