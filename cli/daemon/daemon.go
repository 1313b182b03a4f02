package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Options configure a Daemon. The zero value is usable: no signals, no hooks, an
// immediate shutdown when the context ends.
type Options struct {
	// Logger logs starts, reloads, shutdowns and failed connections; nil
	// discards.
	Logger *slog.Logger

	// Signals delivers SIGHUP (reload) and SIGTERM or SIGINT (stop).
	Signals <-chan os.Signal

	// Reload is called on SIGHUP, one call at a time. Signals that arrive
	// meanwhile lead to one more call. An error is logged and the old state is
	// kept.
	Reload func(context.Context) error

	// Drain is called once, at the first signal to stop, before anything else. It
	// should make readiness false.
	Drain func()

	// Windows returns how long connections are still accepted after Drain, and
	// how long requests in flight may then take. It is called when the shutdown
	// begins, so that a reload can change the values.
	Windows func() (drain, grace time.Duration)

	// CloseTimeout bounds the wait for each background work after its context has
	// ended. Default 15 s.
	CloseTimeout time.Duration

	// NotifySocket is NOTIFY_SOCKET of systemd; empty means no notifications.
	NotifySocket string

	// Watchdog is the watchdog interval of systemd; 0 for none.
	Watchdog time.Duration
}

// Daemon starts and stops a list of listeners, background work and closers
// together. Build it, add to it, and call Run once. The adding methods must not
// be called concurrently or after Run.
type Daemon struct {
	opts   Options
	log    *slog.Logger
	notify notifier
	parts  []part
	// repeated is repeatedSignal; tests set it.
	repeated time.Duration
}

// part is a listener, background work or a closer. Parts start in the order in
// which they were added and stop in reverse, so that each one can use the parts
// added before it until it has stopped.
type part interface {
	// start starts the part; an error that ends it early is sent to failures.
	start(failures chan<- error)
	// stop stops the part. Requests in flight may take until ctx ends, everything
	// else at most the given time.
	stop(ctx context.Context, patience time.Duration) error
}

// errForced is returned by Run when a second signal ended the shutdown early.
var errForced = errors.New("stopped by a second signal before requests had finished")

// New returns a daemon without parts.
func New(opts Options) *Daemon {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.CloseTimeout <= 0 {
		opts.CloseTimeout = 15 * time.Second
	}
	if opts.Windows == nil {
		opts.Windows = func() (time.Duration, time.Duration) { return 0, 0 }
	}
	return &Daemon{opts: opts, log: opts.Logger, notify: notifier{opts.NotifySocket}, repeated: repeatedSignal}
}

// Go adds background work. Its context ends during the shutdown, after everything
// that was added later has stopped. When it returns an error earlier, the whole
// daemon stops with that error.
func (d *Daemon) Go(name string, run func(context.Context) error) {
	d.parts = append(d.parts, &work{name: name, run: run})
}

// OnClose adds a closer, which is called during the shutdown, after everything
// that was added later has stopped.
func (d *Daemon) OnClose(name string, close func() error) {
	d.parts = append(d.parts, closer{name, close})
}

// Close stops the parts of a daemon that was never run.
func (d *Daemon) Close() error { return d.stopParts(context.Background()) }

// Run serves until a signal, the end of ctx, or a failure. Then it drains and
// closes everything, and returns the errors, joined. A stop by one signal or by
// ctx returns nil, even if requests were canceled at the end of the grace time.
func (d *Daemon) Run(ctx context.Context) error {
	failures := make(chan error, len(d.parts))
	for _, p := range d.parts {
		p.start(failures)
	}
	d.tell("READY=1")
	err := d.live(ctx, failures)
	d.tell("STOPPING=1")
	return errors.Join(err, d.drain())
}

// live runs between start and shutdown. It returns nil after a signal or the end
// of ctx, and otherwise the failure.
func (d *Daemon) live(ctx context.Context, failures <-chan error) error {
	var watchdog <-chan time.Time
	if d.opts.Watchdog > 0 {
		t := time.NewTicker(d.opts.Watchdog / 2)
		defer t.Stop()
		watchdog = t.C
	}
	reloaded := make(chan struct{})
	reloading, again := false, false
	start := func() {
		reloading = true
		go func() {
			d.reload(context.WithoutCancel(ctx))
			reloaded <- struct{}{}
		}()
	}
	// Wait for a reload in progress, so that nothing that it uses is closed.
	defer func() {
		if reloading {
			<-reloaded
		}
	}()
	for {
		select {
		case <-ctx.Done():
			d.log.Info("stopping", "reason", context.Cause(ctx))
			return nil
		case err := <-failures:
			d.log.Error("stopping", "error", err)
			return err
		case s := <-d.opts.Signals:
			if s != syscall.SIGHUP {
				d.log.Info("stopping", "signal", s.String())
				return nil
			}
			if reloading {
				again = true
			} else {
				start()
			}
		case <-reloaded:
			reloading = false
			if again {
				again = false
				start()
			}
		case <-watchdog:
			d.tell("WATCHDOG=1")
		}
	}
}

func (d *Daemon) reload(ctx context.Context) {
	if d.opts.Reload == nil {
		d.log.Info("nothing to reload")
		return
	}
	d.tell(reloading()...)
	if err := d.opts.Reload(ctx); err != nil {
		d.log.Error("reload refused, the previous configuration stays in use", "error", err)
	}
	d.tell("READY=1")
}

// drain stops everything: first readiness, then the drain window, then the parts
// in reverse order, with the grace time for requests in flight.
func (d *Daemon) drain() error {
	if d.opts.Drain != nil {
		d.opts.Drain()
	}
	window, grace := d.opts.Windows()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { d.watchSecondSignal(done, cancel) })
	defer func() {
		close(done)
		watching.Wait()
	}()

	if window > 0 {
		t := time.NewTimer(window)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	graceCtx, stop := context.WithTimeout(ctx, grace)
	defer stop()
	err := d.stopParts(graceCtx)
	if errors.Is(context.Cause(ctx), errForced) {
		return errors.Join(errForced, err)
	}
	return err
}

func (d *Daemon) stopParts(ctx context.Context) error {
	var errs []error
	for i := len(d.parts) - 1; i >= 0; i-- {
		errs = append(errs, d.parts[i].stop(ctx, d.opts.CloseTimeout))
	}
	return errors.Join(errs...)
}

// repeatedSignal is the time in which another SIGTERM is part of the same stop: supervisors and
// shells send it to the process and to its group.
const repeatedSignal = time.Second

func (d *Daemon) watchSecondSignal(done <-chan struct{}, cancel context.CancelCauseFunc) {
	began := time.Now()
	for {
		select {
		case <-done:
			return
		case s := <-d.opts.Signals:
			if s == syscall.SIGTERM && time.Since(began) < d.repeated {
				continue
			}
			if s != syscall.SIGHUP {
				d.log.Warn("stopping at once", "signal", s.String())
				cancel(errForced)
				return
			}
		}
	}
}

func (d *Daemon) tell(state ...string) {
	if err := d.notify.send(state...); err != nil {
		d.log.Warn("notification of systemd failed", "error", err)
	}
}

// explainListen adds advice to the two most common errors.
func explainListen(addr string, err error) error {
	var op *net.OpError
	var bad *net.AddrError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: the address is in use; stop the program that uses it or choose another address", addr)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listen on %s: permission denied; ports below 1024 need CAP_NET_BIND_SERVICE", addr)
	case errors.As(err, &bad):
		return fmt.Errorf("listen on %q: it is no address with a port: write HOST:PORT, such as 127.0.0.1:8080", addr)
	case errors.As(err, &op) && op.Err != nil:
		return fmt.Errorf("listen on %s: %w", addr, op.Err)
	}
	return fmt.Errorf("listen on %s: %w", addr, err)
}
