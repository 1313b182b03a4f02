package session

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Store keeps records for the replicas of a gateway: a small map of texts for
// each name, which can be ended. Each call is one decision of the store, takes no
// longer than the store's own limit, and fails at once while the store is known
// to fail.
type Store interface {
	// Touch tells when a record was made, empty where there is none, and whether
	// it has ended, and lets it live for half of ttl at the least, or of endedTTL.
	Touch(ctx context.Context, name string, ttl, endedTTL time.Duration) (born string, ended bool, err error)
	// Field returns one field; ok is false when there is none.
	Field(ctx context.Context, name, field string) (text string, ok bool, err error)
	// Fields returns all fields.
	Fields(ctx context.Context, name string) (map[string]string, error)
	// Claim sets a field that is not there, and returns what it holds from now
	// on. In a record that ended it sets nothing.
	Claim(ctx context.Context, name, field, text string, ttl time.Duration) (holds string, ended bool, err error)
	// Set sets a field in the place of what was there, unless the record ended.
	Set(ctx context.Context, name, field, text string, ttl time.Duration) error
	// Drop removes a field while it holds text.
	Drop(ctx context.Context, name, field, text string) error
	// End ends a record for ttl, whether there was one or not, and returns the
	// fields that it had.
	End(ctx context.Context, name string, ttl time.Duration) (map[string]string, error)
}

const (
	// sharedTTL is how long a session that nobody uses is kept in the store: over
	// a long weekend. It is opened again at its upstreams after that.
	sharedTTL = 4 * 24 * time.Hour
	// endedTTL is how long the store remembers that a session ended.
	endedTTL = 30 * 24 * time.Hour
	// maxUnsynced bounds the sessions that the store lacks.
	maxUnsynced = 4096
)

// The fields of a session's record. Those of upstream sessions have the name of
// the upstream behind a prefix.
const (
	fieldParams = "params"
	fieldLevel  = "level"
	fieldPair   = "at:"
)

// Shared is [UpstreamSessions] and [ClientSettings] for a gateway with several
// replicas: what one of them opens all
// of them use, and what one of them ends is ended everywhere. What is in the
// store is sealed, for the session and the field it stands in.
//
// Each replica keeps what it has used itself in a bounded memory too. While the
// store fails it goes on with that; an upstream session that it does not know is
// ErrUnavailable, because another replica may hold it. What the store has missed,
// or lost, is told to it when it answers again.
type Shared struct {
	local   *Memory
	store   Store
	sealer  *Sealer
	discard func(open map[string]UpstreamSession)

	mu            sync.Mutex
	unsynced      map[ID]struct{}
	unsyncedCount atomic.Int32 // of unsynced, to be read without the lock
}

var (
	_ UpstreamSessions = (*Shared)(nil)
	_ ClientSettings   = (*Shared)(nil)
)

// NewShared returns the state over a store that remembers at most max sessions in
// this process. discard gets what this replica opened and another had opened
// before, or ended meanwhile, for the caller to close; it must not block and not
// call back.
func NewShared(max int, store Store, sealer *Sealer, discard func(open map[string]UpstreamSession)) *Shared {
	// A session that has to make room here is not closed: others use it.
	return &Shared{
		local: NewMemory(max, nil), store: store, sealer: sealer, discard: discard,
		unsynced: make(map[ID]struct{}),
	}
}

// Session implements UpstreamSessions. Of two replicas that open a session at once one wins;
// the other discards its own and uses the winner's.
func (s *Shared) Session(ctx context.Context, id ID, upstream string, open OpenFunc) (UpstreamSession, error) {
	return s.local.Session(ctx, id, upstream, func(ctx context.Context) (UpstreamSession, error) {
		there, _, err := s.pair(ctx, id, upstream)
		if err != nil || there != nil {
			return value(there), err
		}
		opened, err := open(ctx)
		if err != nil {
			return opened, err
		}
		return s.claim(ctx, id, upstream, opened)
	})
}

// pair reads a pair from the store; nil when there is none. sealed is as it
// stands there. One that cannot be read is as good as none, and makes room.
func (s *Shared) pair(ctx context.Context, id ID, upstream string) (there *UpstreamSession, sealed string, err error) {
	field := fieldPair + upstream
	sealed, ok, err := s.store.Field(ctx, name(id), field)
	if err != nil {
		return nil, "", unavailable(err)
	}
	if !ok {
		return nil, "", nil
	}
	opened, err := s.openPair(id, field, sealed)
	if err != nil {
		if err := s.store.Drop(ctx, name(id), field, sealed); err != nil {
			return nil, "", unavailable(err)
		}
		return nil, "", nil
	}
	return &opened, sealed, nil
}

// claim makes opened the pair of all replicas, unless another was first.
func (s *Shared) claim(ctx context.Context, id ID, upstream string, opened UpstreamSession) (UpstreamSession, error) {
	field := fieldPair + upstream
	sealed := s.sealPair(id, field, opened)
	holds, ended, err := s.store.Claim(ctx, name(id), field, sealed, sharedTTL)
	switch {
	case err != nil:
		s.discard(map[string]UpstreamSession{upstream: opened})
		return UpstreamSession{}, unavailable(err)
	case ended:
		s.local.End(ctx, id)
		return opened, ErrUnknown
	case holds == sealed:
		return opened, nil
	}
	first, err := s.openPair(id, field, holds)
	if err != nil { // written by nobody of ours: rather none for all than two
		return opened, nil
	}
	s.discard(map[string]UpstreamSession{upstream: opened})
	return first, nil
}

// Known implements UpstreamSessions.
func (s *Shared) Known(id ID, upstream string) (UpstreamSession, bool) {
	return s.local.Known(id, upstream)
}

// Forget implements UpstreamSessions.
func (s *Shared) Forget(ctx context.Context, id ID, upstream string, lost UpstreamSession) {
	ctx = context.WithoutCancel(ctx)
	s.local.Forget(ctx, id, upstream, lost)
	// Where that fails the next one finds it there, and forgets it again.
	if there, sealed, err := s.pair(ctx, id, upstream); err == nil && there != nil && *there == lost {
		_ = s.store.Drop(ctx, name(id), fieldPair+upstream, sealed)
	}
}

// All implements UpstreamSessions. While the store fails these are the sessions that this
// replica has used.
func (s *Shared) All(ctx context.Context, id ID) map[string]UpstreamSession {
	fields, err := s.store.Fields(ctx, name(id))
	if err != nil {
		return s.local.All(ctx, id)
	}
	return s.upstreamSessions(id, fields)
}

// SetParams implements ClientSettings.
func (s *Shared) SetParams(ctx context.Context, id ID, params []byte) {
	if len(params) > maxParams {
		return
	}
	s.local.SetParams(ctx, id, params)
	s.set(ctx, id, fieldParams, params)
}

// Params implements ClientSettings.
func (s *Shared) Params(ctx context.Context, id ID) ([]byte, error) {
	if params, _ := s.local.Params(ctx, id); params != nil {
		return params, nil
	}
	return s.field(ctx, id, fieldParams, maxParams)
}

// SetLevel implements ClientSettings.
func (s *Shared) SetLevel(ctx context.Context, id ID, params []byte) {
	if len(params) > maxLevel {
		return
	}
	s.local.SetLevel(ctx, id, params)
	s.set(ctx, id, fieldLevel, params)
}

// Level implements ClientSettings: what the store says, because another replica may have
// been told since, else what this one was told.
func (s *Shared) Level(ctx context.Context, id ID) []byte {
	if level, err := s.field(ctx, id, fieldLevel, maxLevel); err == nil && level != nil {
		return level
	}
	return s.local.Level(ctx, id)
}

// End implements UpstreamSessions. What the store does not take now it is told later.
func (s *Shared) End(ctx context.Context, id ID) map[string]UpstreamSession {
	ctx = context.WithoutCancel(ctx)
	open := s.local.End(ctx, id)
	fields, err := s.store.End(ctx, name(id), endedTTL)
	if err != nil {
		s.markUnsynced(id)
		return open
	}
	all := s.upstreamSessions(id, fields)
	for upstream, opened := range open {
		if _, ok := all[upstream]; !ok {
			all[upstream] = opened
		}
	}
	return all
}

// Ended implements UpstreamSessions. While the store fails a session that is not known to
// have ended goes on.
func (s *Shared) Ended(ctx context.Context, id ID) bool {
	if s.local.Ended(ctx, id) {
		s.syncOne(ctx)
		return true
	}
	born, ended, err := s.store.Touch(ctx, name(id), sharedTTL, endedTTL)
	switch {
	case err != nil:
		return false
	case ended:
		s.local.End(ctx, id)
		return true
	case s.local.recordReplaced(id, born):
		s.publish(ctx, id) // the store was emptied, whoever came first since
	}
	s.syncOne(ctx)
	return false
}

// Len returns how many sessions are remembered in this process, ended ones
// included.
func (s *Shared) Len() int { return s.local.Len() }

// set keeps a text of a session in the store, now or later.
func (s *Shared) set(ctx context.Context, id ID, field string, text []byte) {
	ctx = context.WithoutCancel(ctx)
	if err := s.store.Set(ctx, name(id), field, s.seal(id, field, text), sharedTTL); err != nil {
		s.markUnsynced(id)
	}
}

// field reads a text of a session; nil when there is none.
func (s *Shared) field(ctx context.Context, id ID, field string, max int) ([]byte, error) {
	sealed, ok, err := s.store.Field(ctx, name(id), field)
	if err != nil {
		return nil, unavailable(err)
	}
	if !ok {
		return nil, nil
	}
	text, err := s.open(id, field, sealed)
	if err != nil || len(text) > max {
		return nil, nil // nobody of ours has written it
	}
	return text, nil
}

// upstreamSessions reads the upstream sessions among the fields of a record.
func (s *Shared) upstreamSessions(id ID, fields map[string]string) map[string]UpstreamSession {
	all := make(map[string]UpstreamSession, len(fields))
	for field, sealed := range fields {
		if len(field) <= len(fieldPair) || field[:len(fieldPair)] != fieldPair {
			continue
		}
		if opened, err := s.openPair(id, field, sealed); err == nil {
			all[field[len(fieldPair):]] = opened
		}
	}
	return all
}

// name is the name of a session's record.
func name(id ID) string { return "session:" + base64.RawURLEncoding.EncodeToString(id[:]) }

func value(o *UpstreamSession) UpstreamSession {
	if o == nil {
		return UpstreamSession{}
	}
	return *o
}

// unavailable says that the store did not answer, unless the caller left.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
