package session

import "context"

// fellBehind remembers that the store is to be told of a session. Past the bound
// it is not: then the session is opened again, or its end is known here alone.
func (s *Shared) fellBehind(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.behind) < maxBehind {
		s.behind[id] = struct{}{}
		s.waiting.Store(int32(len(s.behind)))
	}
}

// catchUp tells the store of one session that it missed. The requests of all
// sessions do that, one each, so that none has to wait long.
func (s *Shared) catchUp(ctx context.Context) {
	if s.waiting.Load() == 0 {
		return
	}
	var id ID
	s.mu.Lock()
	for id = range s.behind {
		delete(s.behind, id)
		break
	}
	s.waiting.Store(int32(len(s.behind)))
	s.mu.Unlock()
	if id != (ID{}) {
		s.publish(ctx, id)
	}
}

// publish tells the store what this process knows of a session: that it ended,
// or what is open. A pair that another replica has told before stays, and this
// one's is discarded.
func (s *Shared) publish(ctx context.Context, id ID) {
	ctx = context.WithoutCancel(ctx)
	if s.local.Ended(ctx, id) {
		fields, err := s.store.End(ctx, name(id), endedTTL)
		if err != nil {
			s.fellBehind(id)
		} else if open := s.pairs(id, fields); len(open) > 0 {
			s.discard(open)
		}
		return
	}
	if params, _ := s.local.Params(ctx, id); params != nil {
		s.set(ctx, id, fieldParams, params)
	}
	if level := s.local.Level(ctx, id); level != nil {
		s.set(ctx, id, fieldLevel, level)
	}
	for upstream, opened := range s.local.All(ctx, id) {
		field := fieldPair + upstream
		sealed := s.sealPair(id, field, opened)
		holds, ended, err := s.store.Claim(ctx, name(id), field, sealed, sharedTTL)
		switch {
		case err != nil:
			s.fellBehind(id)
			return
		case ended:
			return // the next question finds that out
		case holds == sealed:
			continue
		}
		// The other's is taken up when it is next asked for.
		if first, err := s.openPair(id, field, holds); err == nil && first != opened {
			s.local.Forget(ctx, id, upstream, opened)
			s.discard(map[string]UpstreamSession{upstream: opened})
		}
	}
}
