// Package redis keeps the control plane's request windows in Redis, or in a Redis
// Cluster, so that they are exact over all processes. It contains the client, the script,
// and the pause in calls after a failure. The caller decides about requests that could
// not be counted.
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
	// pausedFor is longer than any call takes, unless the process was stopped meanwhile.
	pausedFor = 2 * timeout
	// leftAlone is the pause in calls after a failure.
	leftAlone = time.Second
	// reloadEvery is the least time between two reads of the nodes of a cluster.
	reloadEvery = 250 * time.Millisecond
	// groups is the number of groups of windows that fail independently of each other: in
	// a cluster, groups on other nodes continue to work.
	groups = 256
	prefix = "svc:window:"
)

// errLeftAlone is the error of a call that was not made, because another one failed less
// than a second before.
var errLeftAlone = errors.New("redis failed less than a second ago")

// Windows are request windows in Redis. They are safe for concurrent use and must be
// closed.
type Windows struct {
	client redis.UniversalClient
	log    *slog.Logger
	epoch  time.Time
	seed   maphash.Seed

	until    [groups]atomic.Int64 // time of the failure since epoch; 0: the last call of the group succeeded
	failing  atomic.Int64         // number of groups whose last call failed
	failures atomic.Uint64
	reloaded atomic.Int64
}

// Open returns the windows at a URL, such as redis://user:password@host:6379/0. Several
// hosts, separated by commas, are nodes of one cluster, and rediss:// means TLS. Open
// does not connect: while Redis is unavailable, calls fail.
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

// Failures returns the number of failed calls, without the calls that were not made.
func (w *Windows) Failures() uint64 { return w.failures.Load() }

// Failing reports whether the last call of any group failed.
func (w *Windows) Failing() bool { return w.failing.Load() > 0 }

// Take counts a request in the window of a name when fewer than limit requests were
// counted within length. It returns the count after that and the age of the oldest
// request. It is safe for concurrent use.
func (w *Windows) Take(ctx context.Context, name string, limit int, length time.Duration) (taken bool, count int, oldest time.Duration, err error) {
	until := &w.until[maphash.String(w.seed, name)%groups]
	was := until.Load()
	now := int64(time.Since(w.epoch))
	// After a failure only one caller tries again; the others continue when it succeeds.
	if was != 0 && (now < was || !until.CompareAndSwap(was, now+int64(leftAlone))) {
		return false, 0, 0, errLeftAlone
	}
	began := time.Now()
	answer, err := w.run(ctx, name, limit, length)
	// This process was stopped or got no CPU time, and Redis may be available: a failure would
	// make it count by itself for a second. A request that was already counted counts twice.
	if err != nil && time.Since(began) > pausedFor && ctx.Err() == nil {
		answer, err = w.run(ctx, name, limit, length)
	}
	if err == nil && len(answer) != 3 {
		err = errors.New("redis: unexpected result of the script")
	}
	switch {
	case err == nil:
		w.answered(until)
		return answer[0] == 1, int(answer[1]), time.Duration(answer[2]) * time.Microsecond, nil
	case ctx.Err() == nil: // otherwise the client disconnected
		w.failed(until, err)
	}
	return false, 0, 0, err
}

// run counts a request in Redis, with the timeout of a call.
func (w *Windows) run(ctx context.Context, name string, limit int, length time.Duration) ([]int64, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return takeScript.Run(limited, w.client, []string{prefix + "{" + name + "}"},
		strconv.Itoa(limit), strconv.FormatInt(length.Microseconds(), 10)).Int64Slice()
}

// answered records a success of a group.
func (w *Windows) answered(until *atomic.Int64) {
	if was := until.Load(); was != 0 && until.CompareAndSwap(was, 0) && w.failing.Add(-1) == 0 {
		w.log.Info("redis is available again: request windows are shared")
	}
}

// failed records a failure of a group, and makes the client of a cluster read its nodes
// again.
func (w *Windows) failed(until *atomic.Int64, err error) {
	w.failures.Add(1)
	now := int64(time.Since(w.epoch))
	if until.Swap(now+int64(leftAlone)) == 0 && w.failing.Add(1) == 1 {
		w.log.Warn("redis is unavailable: until it responds, each process uses its own request windows", "error", err)
	}
	cluster, ok := w.client.(*redis.ClusterClient)
	if last := w.reloaded.Load(); ok && now-last >= int64(reloadEvery) && w.reloaded.CompareAndSwap(last, now) {
		cluster.ReloadState(context.Background())
	}
}
