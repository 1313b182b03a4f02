package clickhouse

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"
)

// maxHomes bounds the tenants whose shards a process remembers.
const maxHomes = 100_000

// home returns the shard of a tenant: where it is already, whatever shards were added
// since, or the one that its id and the names of the shards choose.
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

// findHome asks every shard. The one that has had the tenant for longest keeps it. noted
// is false where none has it.
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

// learnEvery is how often the shards of tenants are read that came at other processes.
const learnEvery = time.Minute

// learnNowAndThen reads the shards of all tenants now and then.
func (s *Store) learnNowAndThen() {
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		_ = s.learnHomes(s.ended) // a shard that is away is logged where it is watched
	}
}

// learnHomes remembers the shards of all tenants, up to maxHomes: while a shard is away
// nothing can be found out about tenants that this process has not served yet, not even
// that they are on another one.
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
			last = id // of the tenants behind it the shard has not told all
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

// chosen is the shard with the highest hash of its name and the id: adding one moves
// the fewest new tenants.
func (s *Store) chosen(id string) (best *shard) {
	most := uint64(0)
	for _, sh := range s.shards {
		h := fnv.New64a()
		_, _ = h.Write([]byte(sh.name + "\x00" + id))
		n := h.Sum64()
		n ^= n >> 33 // the end of the id is in all bits
		n *= 0xff51afd7ed558ccd
		n ^= n >> 33
		if best == nil || n > most {
			best, most = sh, n
		}
	}
	return best
}

// settleHome notes that a tenant has its traces on a shard, before the first is there.
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
	if since == 0 { // also where there is one shard alone, so that a second one finds it
		if err := sh.exec(ctx, fmt.Sprintf("INSERT INTO homes SELECT %s, toInt64(%d)", quote(id), sh.clock())); err != nil {
			return err
		}
	}
	s.rememberHome(id, sh)
	return nil
}
