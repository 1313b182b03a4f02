package clickhouse

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"
)

// maxHomes bounds the tenants whose shards a process caches.
const maxHomes = 100_000

// home returns the shard of a tenant: the one that has its traces, even if shards were
// added since, or the one chosen by the hash of its id and the names of the shards.
func (s *Store) home(ctx context.Context, id string) (*shard, error) {
	if len(s.shards) == 1 {
		return s.shards[0], nil
	}
	s.mu.Lock()
	sh := s.homes[id]
	s.mu.Unlock()
	if sh != nil {
		return sh, nil
	}
	sh, noted, err := s.findHome(ctx, id)
	if noted {
		s.rememberHome(id, sh)
	}
	return sh, err
}

func (s *Store) rememberHome(id string, sh *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.homes) >= maxHomes {
		clear(s.homes)
	}
	s.homes[id] = sh
}

// findHome queries every shard. The shard that has had the tenant for the longest time
// keeps it. noted is false when none has it.
func (s *Store) findHome(ctx context.Context, id string) (found *shard, noted bool, err error) {
	first := int64(0)
	for _, sh := range s.shards {
		var since int64
		if err := sh.row(ctx, "SELECT min(since) FROM homes WHERE tenant = "+quote(id), &since); err != nil {
			return nil, false, fmt.Errorf("look for the shard of a tenant: %w", err)
		}
		if since > 0 && (found == nil || since < first) {
			found, first = sh, since
		}
	}
	if found != nil {
		return found, true, nil
	}
	return s.chosen(id), false, nil
}

// learnEvery is the interval at which the shards of tenants that other processes have
// placed are read.
const learnEvery = time.Minute

// learnNowAndThen reads the shards of all tenants periodically.
func (s *Store) learnNowAndThen() {
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		_ = s.learnHomes(s.ended) // watch logs that the shard is unavailable
	}
}

// learnHomes caches the shards of all tenants, up to maxHomes. Without the cache, while
// one shard is unavailable, a process could not find the shard of any tenant that it has
// not served before, not even of tenants on other shards.
func (s *Store) learnHomes(ctx context.Context) error {
	type home struct {
		sh    *shard
		since int64
	}
	found, last := map[string]home{}, ""
	for _, sh := range s.shards {
		var id string
		var since int64
		n := 0
		err := sh.rows(ctx, fmt.Sprintf("SELECT tenant, min(since) FROM homes GROUP BY tenant ORDER BY tenant LIMIT %d", maxHomes), []any{&id, &since}, func() error {
			if h, known := found[id]; !known || since < h.since {
				found[id] = home{sh, since}
			}
			n++
			return nil
		})
		if err != nil {
			return err
		}
		if n == maxHomes && (last == "" || id < last) {
			last = id // the shard has not returned all tenants after it
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range found {
		if len(s.homes) < maxHomes && (last == "" || id <= last) && s.homes[id] == nil {
			s.homes[id] = h.sh
		}
	}
	return nil
}

// chosen returns the shard with the highest hash of its name and the id (rendezvous
// hashing), so that an added shard moves the fewest new tenants.
func (s *Store) chosen(id string) (best *shard) {
	most := uint64(0)
	for _, sh := range s.shards {
		h := fnv.New64a()
		_, _ = h.Write([]byte(sh.name + "\x00" + id))
		n := h.Sum64()
		n ^= n >> 33 // mix, so that the end of the id changes all bits
		n *= 0xff51afd7ed558ccd
		n ^= n >> 33
		if best == nil || n > most {
			best, most = sh, n
		}
	}
	return best
}

// settleHome records the shard of a tenant, before its first trace is stored.
func (s *Store) settleHome(ctx context.Context, sh *shard, id string) error {
	s.mu.Lock()
	noted := s.homes[id] != nil
	s.mu.Unlock()
	if noted {
		return nil
	}
	var since int64
	if err := sh.row(ctx, "SELECT min(since) FROM homes WHERE tenant = "+quote(id), &since); err != nil {
		return err
	}
	if since == 0 { // also if there is only one shard, so that a second one can find it
		if err := sh.exec(ctx, fmt.Sprintf("INSERT INTO homes SELECT %s, toInt64(%d)", quote(id), sh.clock())); err != nil {
			return err
		}
	}
	s.rememberHome(id, sh)
	return nil
}
