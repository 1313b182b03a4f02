// Package redis keeps the control plane's request windows in Redis, or in a Redis
// Cluster, so that they are exact over all processes. It owns the client, the script and
// how long a server that fails is left alone. What a request does without an answer is
// for the caller.
package redis

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// timeout bounds one call, dialTimeout a new connection.
	timeout     = 250 * time.Millisecond
	dialTimeout = 200 * time.Millisecond
	// pausedFor is a time that no call takes while its process runs.
	pausedFor = 2 * timeout
	// leftAlone is how long windows are not asked for after a failure.
	leftAlone = time.Second
	// reloadEvery is the least time between two questions for the nodes of a cluster.
	reloadEvery = 250 * time.Millisecond
	// groups is the number of groups of windows that fail apart from each other: in a
	// cluster those of other nodes go on.
	groups = 256
	prefix = "svc:window:"
)

// ErrLeftAlone is the error of a call that was not made, because one failed less than a
// second before.
var ErrLeftAlone = errors.New("redis failed less than a second ago")

// Windows are request windows in Redis. They are safe for concurrent use and must be
// closed.
type Windows struct {
	client redis.UniversalClient
	log    *slog.Logger
	epoch  time.Time
	seed   maphash.Seed

	until    [groups]atomic.Int64 // since epoch; 0: the last call of the group succeeded
	failing  atomic.Int64         // groups whose last call failed
	failures atomic.Uint64
	reloaded atomic.Int64
}

// Open returns the windows at a URL, as in redis://user:password@host:6379/0; several
// hosts, separated by commas, are nodes of one cluster, and rediss:// is TLS. It does not
// connect: while Redis is away, calls fail.
func Open(url string, log *slog.Logger) (*Windows, error) {
	o, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("redis-url %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Windows{client: connect(o), log: log, epoch: time.Now(), seed: maphash.MakeSeed()}, nil
}

// Close closes the connections.
func (w *Windows) Close() error { return w.client.Close() }

// Failures counts the calls without an answer, those that were not made left out.
func (w *Windows) Failures() uint64 { return w.failures.Load() }

// Failing reports whether the last call for some window failed.
func (w *Windows) Failing() bool { return w.failing.Load() > 0 }

// Take counts a request in the window of a name, if fewer than limit were counted within
// length. It returns how many there are then, and how old the oldest is.
func (w *Windows) Take(ctx context.Context, name string, limit int, length time.Duration) (taken bool, count int, oldest time.Duration, err error) {
	until := &w.until[maphash.String(w.seed, name)%groups]
	was := until.Load()
	now := int64(time.Since(w.epoch))
	// Of the callers after a failure one tries again; it is followed by the others when
	// it has an answer.
	if was != 0 && (now < was || !until.CompareAndSwap(was, now+int64(leftAlone))) {
		return false, 0, 0, ErrLeftAlone
	}
	began := time.Now()
	answer, err := w.run(ctx, name, limit, length)
	// This process was stopped or had no processor, and Redis may be well: a failure would
	// have it count by itself for a second. What was counted already counts twice.
	if err != nil && time.Since(began) > pausedFor && ctx.Err() == nil {
		answer, err = w.run(ctx, name, limit, length)
	}
	if err == nil && len(answer) != 3 {
		err = errors.New("redis: an answer that the script does not give")
	}
	switch {
	case err == nil:
		w.answered(until)
		return answer[0] == 1, int(answer[1]), time.Duration(answer[2]) * time.Microsecond, nil
	case ctx.Err() == nil: // else the client left
		w.failed(until, err)
	}
	return false, 0, 0, err
}

// run asks Redis to count a request.
func (w *Windows) run(ctx context.Context, name string, limit int, length time.Duration) ([]int64, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return takeScript.Run(limited, w.client, []string{prefix + "{" + name + "}"},
		strconv.Itoa(limit), strconv.FormatInt(length.Microseconds(), 10)).Int64Slice()
}

// answered notes a success of a group.
func (w *Windows) answered(until *atomic.Int64) {
	if was := until.Load(); was != 0 && until.CompareAndSwap(was, 0) && w.failing.Add(-1) == 0 {
		w.log.Info("redis answers again: request windows are shared")
	}
}

// failed notes a failure of a group, and has a cluster's client look for its nodes.
func (w *Windows) failed(until *atomic.Int64, err error) {
	w.failures.Add(1)
	now := int64(time.Since(w.epoch))
	if until.Swap(now+int64(leftAlone)) == 0 && w.failing.Add(1) == 1 {
		w.log.Warn("redis fails: until it answers, each process has request windows of its own", "error", err)
	}
	cluster, ok := w.client.(*redis.ClusterClient)
	if last := w.reloaded.Load(); ok && now-last >= int64(reloadEvery) && w.reloaded.CompareAndSwap(last, now) {
		cluster.ReloadState(context.Background())
	}
}
