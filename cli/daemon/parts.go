package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// work is a function that runs in the background.
type work struct {
	name   string
	run    func(context.Context) error
	cancel context.CancelFunc // nil until started
	ended  chan struct{}
}

func (w *work) start(failures chan<- error) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.ended = cancel, make(chan struct{})
	go func() {
		defer close(w.ended)
		if err := w.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			failures <- fmt.Errorf("%s: %w", w.name, err)
		}
	}()
}

func (w *work) stop(_ context.Context, patience time.Duration) error {
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-w.ended:
		return nil
	case <-t.C:
		return fmt.Errorf("%s did not end within %s", w.name, patience)
	}
}

// closer is a resource that has to be closed.
type closer struct {
	name  string
	close func() error
}

func (c closer) start(chan<- error) {}

func (c closer) stop(context.Context, time.Duration) error {
	if err := c.close(); err != nil {
		return fmt.Errorf("close %s: %w", c.name, err)
	}
	return nil
}
