package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis keeps buckets in a Redis server or a Redis Cluster, so that all replicas
// of a gateway share them (gateway specification, rate_limit_store, type redis).
// Each decision is one script on one key, under the clock of the server, so that
// the clocks of the replicas do not matter.
//
// A call takes no longer than operation_timeout. One that fails makes the calls
// to the same server fail at once for a second; in a cluster the other shards go
// on. What a failure means for the request is the caller's decision. It is safe
// for concurrent use and must be closed.
type Redis struct {
	prefix  string
	timeout time.Duration
	script  *redis.Script
	log     *slog.Logger
	epoch   time.Time
	since   func(epoch time.Time) time.Duration // time.Since but in tests

	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil for a single server
	// clock adds the caller's time to the arguments of the script; nil unless a
	// test brings a script that takes it.
	clock func(now time.Time) string

	breakers sync.Map // address of a server, "" for the store, to *breaker
	reloaded atomic.Int64
	strange  breaker // of the warning about keys that are no buckets
	counts   struct{ allowed, refused, failed, skipped atomic.Uint64 }
}

var _ Store = (*Redis)(nil)

// ErrShortCircuit is the error of a call that was not made because the store
// failed less than a second ago.
var ErrShortCircuit = errors.New("rate-limit store failed less than a second ago")

// errAnswer is the error of something that is no Redis.
var errAnswer = errors.New("the server did not answer as the script does")

// reloadEvery is how often failures make the client ask for the cluster's
// topology: it does not notice a failover by itself when calls are short.
const reloadEvery = 250 * time.Millisecond

// RedisStats counts what became of the calls since the start.
type RedisStats struct {
	// Allowed and Refused are decisions of the store.
	Allowed, Refused uint64
	// Failed is how many calls got no decision, ShortCircuited how many were not
	// made because of an earlier failure.
	Failed, ShortCircuited uint64
	// Failing tells that the store, or a server of it, failed less than a minute
	// ago and has not answered since.
	Failing bool
}

// NewRedis returns a store for a configuration that Validate accepts. It reads
// the CA file and connects to nothing: a store that is down when the gateway
// starts fails its calls, and is used as soon as it is there. log hears when
// servers begin to fail and when they answer again; nil discards.
func NewRedis(cfg StoreConfig, log *slog.Logger) (*Redis, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Redis{
		prefix: cfg.KeyPrefix, timeout: cfg.OperationTimeout, script: takeScript(),
		log: log, epoch: time.Now(), since: time.Since,
	}
	if err := r.connect(cfg); err != nil {
		return nil, err
	}
	return r, nil
}

// Allow implements [Store]. now is not used: the server has the clock. A call
// whose ctx ends first is no failure of the store.
func (r *Redis) Allow(ctx context.Context, key Key, rate float64, burst int, now time.Time) (bool, time.Duration, error) {
	if burst < 1 {
		return false, maxRetryAfter, nil
	}
	if !(rate > 0) { // never refills
		rate = 0
	}
	name := bucketKey(r.prefix, key)
	args := make([]any, 2, 3)
	args[0], args[1] = strconv.FormatFloat(rate, 'g', -1, 64), strconv.Itoa(burst)
	if r.clock != nil {
		args = append(args, r.clock(now))
	}
	var answer []int64
	err := r.call(ctx, name, func(ctx context.Context) (err error) {
		answer, err = r.script.Run(ctx, r.client, []string{name}, args...).Int64Slice()
		if err == nil && len(answer) != 2 {
			err = errAnswer
		}
		return err
	})
	switch {
	case err != nil:
		return false, 0, err
	case answer[0] == 1:
		r.counts.allowed.Add(1)
		return true, 0, nil
	default:
		r.counts.refused.Add(1)
		return false, time.Duration(answer[1]), nil
	}
}

// Ping asks the server, or one of the cluster, whether it answers within the
// operation time-out. It changes nothing for the calls of Allow.
func (r *Redis) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("rate-limit store: %w", err)
	}
	return nil
}

// Stats returns the counts so far.
func (r *Redis) Stats() RedisStats {
	s := RedisStats{
		Allowed: r.counts.allowed.Load(), Refused: r.counts.refused.Load(),
		Failed: r.counts.failed.Load(), ShortCircuited: r.counts.skipped.Load(),
	}
	now := r.since(r.epoch)
	r.breakers.Range(func(_, b any) bool { // also of servers that left the cluster
		s.Failing = b.(*breaker).failed(now)
		return !s.Failing
	})
	return s
}

// Close closes the connections. Calls after it fail.
func (r *Redis) Close() error {
	if err := r.client.Close(); err != nil {
		return fmt.Errorf("close rate-limit store: %w", err)
	}
	return nil
}

// call makes one call within the operation time-out, under the breaker of the
// server that has the key.
func (r *Redis) call(ctx context.Context, key string, do func(context.Context) error) error {
	store := r.breaker("")
	if store.open(r.since(r.epoch)) {
		r.counts.skipped.Add(1)
		return ErrShortCircuit
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	b, server := store, ""
	var err error
	if r.cluster != nil {
		var node *redis.Client
		if node, err = r.cluster.MasterForKey(limited, key); err == nil {
			server = node.Options().Addr
			if b = r.breaker(server); b.open(r.since(r.epoch)) {
				r.counts.skipped.Add(1)
				r.reload()
				return ErrShortCircuit
			}
		}
	}
	if err == nil {
		err = do(limited)
	}
	if err == nil {
		for _, b := range []*breaker{store, b} {
			if b.answered() {
				r.log.Info("rate-limit store answers again", "server", server)
			}
		}
		return nil
	}
	return r.fail(ctx, b, server, err)
}

// ended returns why the caller no longer waits, or nil. A socket's deadline may
// be seen before that of the context that it is from.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// fail says what an error of a call means.
func (r *Redis) fail(ctx context.Context, b *breaker, server string, err error) error {
	if gone := ended(ctx); gone != nil {
		return fmt.Errorf("rate-limit store: %w", gone)
	}
	r.counts.failed.Add(1)
	now := r.since(r.epoch)
	if redis.HasErrorPrefix(err, badBucket) {
		// The server is well: other buckets go on. Told once a second.
		if !r.strange.open(now) {
			r.strange.trip(now)
			r.log.Warn("a key of the rate-limit store is no bucket: the callers that it limits get no decision", "error", err,
				"fix", "delete the keys under rate_limit_store.key_prefix that others wrote, or choose another prefix")
		}
		return fmt.Errorf("rate-limit store: %w", err)
	}
	if b.trip(now) {
		r.log.Warn("rate-limit store fails: fail_open decides until it answers", "server", server, "error", err)
	}
	r.reload()
	return fmt.Errorf("rate-limit store: %w", err)
}

// reload makes a cluster client ask for the topology, in the background.
func (r *Redis) reload() {
	if r.cluster == nil {
		return
	}
	now, last := int64(r.since(r.epoch)), r.reloaded.Load()
	if last != 0 && now-last < int64(reloadEvery) || !r.reloaded.CompareAndSwap(last, now) {
		return
	}
	r.cluster.ReloadState(context.Background())
}

func (r *Redis) breaker(server string) *breaker {
	if b, ok := r.breakers.Load(server); ok {
		return b.(*breaker)
	}
	b, _ := r.breakers.LoadOrStore(server, new(breaker))
	return b.(*breaker)
}
