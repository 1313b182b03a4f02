package session

import "context"

// markUnsynced records that the shared store lacks state that this process has for a
// session. Beyond the limit nothing is recorded: then the session is opened again, or
// its end is known in this process only.
func (s *Shared) markUnsynced(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unsynced) < maxUnsynced {
		s.unsynced[id] = struct{}{}
		s.unsyncedCount.Store(int32(len(s.unsynced)))
	}
}

// syncOne writes one unsynced session to the shared store. Every request, of whatever
// session, syncs at most one, which bounds the added latency. The order is random. A
// session whose write fails is unsynced again.
func (s *Shared) syncOne(ctx context.Context) {
	if s.unsyncedCount.Load() == 0 {
		return
	}
	var id ID
	s.mu.Lock()
	for id = range s.unsynced {
		delete(s.unsynced, id)
		break
	}
	s.unsyncedCount.Store(int32(len(s.unsynced)))
	s.mu.Unlock()
	if id != (ID{}) {
		s.publish(ctx, id)
	}
}

// publish writes to the store what this process knows of a session: its end, or its open
// upstream sessions. An upstream session that another replica wrote before stays, and
// this replica's is discarded.
func (s *Shared) publish(ctx context.Context, id ID) {
	ctx = context.WithoutCancel(ctx)
	if s.local.Ended(ctx, id) {
		fields, err := s.store.End(ctx, name(id), endedTTL)
		if err != nil {
			s.markUnsynced(id)
		} else if open := s.upstreamSessions(id, fields); len(open) > 0 {
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
		field := fieldSession + upstream
		sealed := s.sealSession(id, field, opened)
		holds, ended, err := s.store.Claim(ctx, name(id), field, sealed, sharedTTL)
		switch {
		case err != nil:
			s.markUnsynced(id)
			return
		case ended:
			return // the next access detects that
		case holds == sealed:
			continue
		}
		// The other replica's session is used from the next access on.
		if first, err := s.openSession(id, field, holds); err == nil && first != opened {
			s.local.Forget(ctx, id, upstream, opened)
			s.discard(map[string]UpstreamSession{upstream: opened})
		}
	}
}
