package redis

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

	"svc/gateway/base/retry"
)

// Redis stores buckets in a Redis server or a Redis Cluster, so that all replicas of a
// gateway share them (gateway specification, rate_limit_store, type redis). Each decision
// is one script on one key, with the clock of the server, so that the clocks of the
// replicas do not matter.
//
// A call takes no longer than operation_timeout. After a failure the calls to the same
// server fail at once for a second; in a cluster the other shards are not affected. The
// caller decides what a failure means for the request. It is safe for concurrent use
// and must be closed.
type Redis struct {
	prefix  string
	timeout time.Duration
	script  *redis.Script
	log     *slog.Logger
	epoch   time.Time
	since   func(epoch time.Time) time.Duration // time.Since, except in tests
	key     []byte                              // of Authenticate
	forged  atomic.Int64                        // time of the last warning about a forged record, since epoch

	labelEpochs epochs

	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil for a single server
	// clock adds the caller's time to the arguments of the script; nil, except for a test
	// whose script uses it.
	clock func(now time.Time) string

	breakers    sync.Map // from the address of a server, "" for the store, to *breaker
	reloaded    atomic.Int64
	foreignKeys breaker // for the warning about keys that are not buckets
	// noDescriptors bounds the warnings about a process without free file descriptors.
	noDescriptors retry.Repeats
	counts        struct{ allowed, refused, failed, skipped atomic.Uint64 }
}

var _ Store = (*Redis)(nil)

// errShortCircuit is the error of a call that was not made because the store failed less
// than a second ago.
var errShortCircuit = errors.New("rate-limit store failed less than a second ago")

// errAnswer is the error for a server that is not Redis.
var errAnswer = errors.New("the server returned a reply that the script cannot return")

// reloadEvery is the minimum time between requests for the topology of the cluster after
// failures: with short timeouts, the client does not detect a failover itself.
const reloadEvery = 250 * time.Millisecond

// RedisStats counts the outcomes of the calls since the start.
type RedisStats struct {
	// Allowed and Refused are decisions of the store.
	Allowed, Refused uint64
	// Failed counts calls without a decision, ShortCircuited calls that were not made
	// because of an earlier failure.
	Failed, ShortCircuited uint64
	// Failing is set when the store, or a server of it, failed less than a minute ago and
	// has not responded since.
	Failing bool
}

// NewRedis returns a store for a validated configuration. It reads the CA file and does
// not connect: while the store is unavailable, calls fail. log gets the
// first failure and the recovery of each server; nil discards them.
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

// Allow implements [Store]. now is not used, because the server has the clock. A call
// whose ctx ends first is not a failure of the store.
func (r *Redis) Allow(ctx context.Context, key Key, rate float64, burst int, now time.Time) (bool, time.Duration, error) {
	if burst < 1 {
		return false, maxRetryAfter, nil
	}
	if !(rate > 0) { // never refills; also true for NaN
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

// Ping checks whether the server, or one server of the cluster, responds within the
// operation timeout. It does not affect the breakers of Allow.
func (r *Redis) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("rate-limit store: %w", err)
	}
	return nil
}

// Stats returns the current counts.
func (r *Redis) Stats() RedisStats {
	s := RedisStats{
		Allowed: r.counts.allowed.Load(), Refused: r.counts.refused.Load(),
		Failed: r.counts.failed.Load(), ShortCircuited: r.counts.skipped.Load(),
	}
	now := r.since(r.epoch)
	r.breakers.Range(func(_, b any) bool { // includes servers that have left the cluster
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

// call makes one call within the operation timeout, subject to the breaker of the server
// that has the key.
func (r *Redis) call(ctx context.Context, key string, do func(context.Context) error) error {
	store := r.breaker("")
	if store.open(r.since(r.epoch)) {
		r.counts.skipped.Add(1)
		return errShortCircuit
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
				return errShortCircuit
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

// ended returns the reason why the caller no longer waits, or nil. The deadline of a
// socket may expire before the deadline of the context from which it was derived.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// fail classifies the error of a call and trips the breaker. A caller that left and a key that is
// no bucket are no failures of the store: otherwise one caller could stop it for all.
func (r *Redis) fail(ctx context.Context, b *breaker, server string, err error) error {
	if gone := ended(ctx); gone != nil {
		return fmt.Errorf("rate-limit store: %w", gone)
	}
	r.counts.failed.Add(1)
	now := r.since(r.epoch)
	if redis.HasErrorPrefix(err, badBucket) {
		// The server works, and other buckets are not affected. The warning is logged at
		// most once a second.
		if !r.foreignKeys.open(now) {
			r.foreignKeys.trip(now)
			r.log.Warn("a key of the rate-limit store is not a bucket: fail_open decides for the callers that it limits", "error", err,
				"fix", "delete the keys under rate_limit_store.key_prefix that other programs wrote, or choose another prefix")
		}
		return fmt.Errorf("rate-limit store: %w", err)
	}
	if retry.NoDescriptors(err) {
		// This process failed, not the server.
		if n, due := r.noDescriptors.Due(time.Now(), time.Minute); due {
			r.log.Warn("the rate-limit store cannot be asked: the process has no free file descriptors; fail_open decides", "error", err, "calls", n,
				"fix", "raise the limit of file descriptors (LimitNOFILE of systemd, ulimit -n)")
		}
		return fmt.Errorf("rate-limit store: %w", err)
	}
	if b.trip(now) {
		r.log.Warn("rate-limit store fails: fail_open decides until it responds", "server", server, "error", err)
	}
	r.reload()
	return fmt.Errorf("rate-limit store: %w", err)
}

// reload makes a cluster client request the topology, in the background.
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
