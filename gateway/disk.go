package gateway

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"svc/gateway/base/files"
)

const (
	// diskInterval is the time between two attempts to write in state_dir, and between two log
	// lines about failures.
	diskInterval = 30 * time.Second
	// diskTimeout is how long an attempt may take before state_dir counts as not writable.
	diskTimeout = 10 * time.Second
	// diskGrace bounds how long an attempt may delay the end of the gateway.
	diskGrace = time.Second
)

// diskProbe tries periodically whether state_dir can be written, and reads the free space. It
// does so in the background, because a frozen disk must not hold up a scrape.
type diskProbe struct {
	state, audit string // directories
	log          *slog.Logger

	mu      sync.Mutex
	failure error // of the last attempt
	space   map[string]float64
}

func newDiskProbe(state, auditFile string, log *slog.Logger) *diskProbe {
	return &diskProbe{state: state, audit: filepath.Dir(auditFile), log: log}
}

func (d *diskProbe) writable() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure == nil
}

// free returns the free bytes by directory. The map must not be changed.
func (d *diskProbe) free() map[string]float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.space
}

// run probes until ctx ends.
func (d *diskProbe) run(ctx context.Context) {
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	for {
		d.probe(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// errDiskTimeout is the error of an attempt that does not end.
var errDiskTimeout = errors.New("writing a file takes longer than " + diskTimeout.String())

// probe makes one attempt, and returns when it has ended, at the latest diskGrace after ctx.
func (d *diskProbe) probe(ctx context.Context) {
	done := make(chan error, 1)
	go func() { done <- d.try() }()
	slow := time.NewTimer(diskTimeout)
	defer slow.Stop()
	for {
		select {
		case err := <-done:
			d.note(err)
			return
		case <-slow.C:
			d.note(errDiskTimeout)
		case <-ctx.Done():
			select {
			case <-done:
			case <-time.After(diskGrace):
			}
			return
		}
	}
}

// try writes in state_dir, or where the gateway would create it, and reads the free space.
func (d *diskProbe) try() error {
	dir := d.state
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = files.ExistingParent(dir)
	}
	err := files.TryWrite(dir)
	space := map[string]float64{}
	for name, path := range map[string]string{"audit": d.audit, "state": dir} {
		if free, known := files.FreeSpace(path); known {
			space[name] = float64(free)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space = space
	return err
}

// note records the result of an attempt, and logs when it differs from the one before.
func (d *diskProbe) note(err error) {
	d.mu.Lock()
	before := d.failure
	d.failure = err
	d.mu.Unlock()
	switch {
	case err != nil && before == nil:
		d.log.Error("state_dir cannot be written: logins, keys, pins and the position of the reporter are lost at the next start", "state_dir", d.state,
			"error", err, "fix", "free the disk, or let the user of the gateway write to it")
	case err == nil && before != nil:
		d.log.Info("state_dir can be written again", "state_dir", d.state)
	}
}
