package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxMail bounds the texts in a mailbox that no replica reads.
const maxMail = 4096

// maxReplicas bounds the replicas that are listed.
const maxReplicas = 64

// errMailboxFull is the error of Put for a full mailbox.
var errMailboxFull = errors.New("the mailbox in the store is full")

// mailboxPut appends a text to a list of bounded length, and extends the list's time to
// live.
var mailboxPut = redis.NewScript(`
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`)

// Mailboxes pass texts from one replica to another, in order; each text is taken once.
// Names must not be chosen by a client. It is safe for concurrent use.
type Mailboxes struct{ r *Redis }

// Mailboxes returns the mailboxes of the store. The mailboxes of a nil Redis must not be
// used.
func (r *Redis) Mailboxes() Mailboxes { return Mailboxes{r} }

// Put puts a text into a mailbox, whose texts expire ttl from now. It fails like Allow,
// and with errMailboxFull.
func (m Mailboxes) Put(ctx context.Context, name, text string, ttl time.Duration) error {
	key := mailboxKey(m.r.prefix, name)
	full := false
	err := m.r.call(ctx, key, func(ctx context.Context) error {
		n, err := mailboxPut.Run(ctx, m.r.client, []string{key}, text, millis(ttl), maxMail).Int()
		full = err == nil && n == 0
		return err
	})
	if full {
		return errMailboxFull
	}
	return err
}

// replicasPut lists a member with an expiry time, and removes expired members. It uses
// the clock of the store.
var replicasPut = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`)

// replicasList lists the members that have not expired.
var replicasList = redis.NewScript(`
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], t[1] * 1000 + math.floor(t[2] / 1000), '+inf', 'LIMIT', 0, ARGV[1])
`)

// Announce registers a replica as present, for ttl from now. It fails like Allow.
func (m Mailboxes) Announce(ctx context.Context, replica string, ttl time.Duration) error {
	key := mailboxKey(m.r.prefix, "replicas")
	return m.r.call(ctx, key, func(ctx context.Context) error {
		return replicasPut.Run(ctx, m.r.client, []string{key}, replica, millis(ttl)).Err()
	})
}

// Present lists the present replicas, at most maxReplicas. It fails like Allow.
func (m Mailboxes) Present(ctx context.Context) (replicas []string, err error) {
	key := mailboxKey(m.r.prefix, "replicas")
	err = m.r.call(ctx, key, func(ctx context.Context) error {
		replicas, err = replicasList.Run(ctx, m.r.client, []string{key}, maxReplicas).StringSlice()
		return err
	})
	return replicas, err
}

// Take removes and returns the oldest text of a mailbox, and waits for one up to wait; ok
// is false when none arrived. It holds a connection while it waits.
func (m Mailboxes) Take(ctx context.Context, name string, wait time.Duration) (text string, ok bool, err error) {
	got, err := m.r.client.BLPop(ctx, wait, mailboxKey(m.r.prefix, name)).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", false, nil
	case err != nil:
		return "", false, err
	case len(got) != 2:
		return "", false, errAnswer
	}
	return got[1], true, nil
}

// mailboxKey returns the key of a mailbox, with its hash slot in braces.
func mailboxKey(prefix, name string) string { return prefix + "{mail:" + name + "}" }
