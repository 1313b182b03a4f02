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

// Store stores records for the replicas of a gateway: a small map of texts for each name,
// which can be ended. Each call is atomic in the store, is bounded by the store's own
// timeout, and fails at once while the store is known to fail.
type Store interface {
	// Touch returns the creation time of a record, empty if there is none, and whether it
	// has ended. It extends the record's time to live: by at least half of ttl, or of
	// endedTTL when it has ended.
	Touch(ctx context.Context, name string, ttl, endedTTL time.Duration) (born string, ended bool, err error)
	// Field returns one field; ok is false when there is none.
	Field(ctx context.Context, name, field string) (text string, ok bool, err error)
	// Fields returns all fields.
	Fields(ctx context.Context, name string) (map[string]string, error)
	// Claim sets a field that is absent, and returns the field's value afterwards. In a
	// record that has ended nothing is set.
	Claim(ctx context.Context, name, field, text string, ttl time.Duration) (holds string, ended bool, err error)
	// Set sets a field and replaces its value, unless the record has ended.
	Set(ctx context.Context, name, field, text string, ttl time.Duration) error
	// Drop removes a field if its value is text.
	Drop(ctx context.Context, name, field, text string) error
	// End ends a record for ttl, whether or not it exists, and returns its fields.
	End(ctx context.Context, name string, ttl time.Duration) (map[string]string, error)
}

const (
	// sharedTTL is the time to live of an unused session in the store: longer than a long
	// weekend. After that its upstream sessions are opened again.
	sharedTTL = 4 * 24 * time.Hour
	// endedTTL is the time for which the store remembers that a session ended.
	endedTTL = 30 * 24 * time.Hour
	// maxUnsynced bounds the sessions with state that the store lacks.
	maxUnsynced = 4096
)

// The fields of a session's record. The field of an upstream session is a prefix and the
// name of the upstream.
const (
	fieldParams  = "params"
	fieldLevel   = "level"
	fieldSession = "at:"
)

// Shared is [UpstreamSessions] and [ClientSettings] for a gateway with several replicas: all
// use the upstream sessions that one of them opens, and a session that one of them ends is
// ended everywhere. The values in the store are sealed, bound to their session and field.
//
// Each replica also keeps the sessions that it has used in a bounded memory. While the store
// fails it uses that memory; the error for an upstream session that it does not know is
// ErrUnavailable, because another replica may have it. State that the store missed, or lost,
// is written to it when it responds again.
type Shared struct {
	local   *Memory
	store   Store
	sealer  *Sealer
	discard func(open map[string]UpstreamSession)

	mu            sync.Mutex
	unsynced      map[ID]struct{}
	unsyncedCount atomic.Int32 // number of unsynced sessions, read without the lock
}

var (
	_ UpstreamSessions = (*Shared)(nil)
	_ ClientSettings   = (*Shared)(nil)
)

// NewShared returns the state over a store; this process remembers at most max sessions.
// discard is called with upstream sessions that this replica opened although another had
// opened one before, or the session had ended meanwhile; the caller must close them. discard
// must not block and not call back.
func NewShared(max int, store Store, sealer *Sealer, discard func(open map[string]UpstreamSession)) *Shared {
	// The upstream sessions of an evicted session are not closed: other replicas use them.
	return &Shared{
		local: NewMemory(max, nil), store: store, sealer: sealer, discard: discard,
		unsynced: make(map[ID]struct{}),
	}
}

// Session implements UpstreamSessions. If two replicas open a session concurrently, one
// wins; the other discards its own and uses the winner's.
func (s *Shared) Session(ctx context.Context, id ID, upstream string, open OpenFunc) (UpstreamSession, error) {
	return s.local.Session(ctx, id, upstream, func(ctx context.Context) (UpstreamSession, error) {
		there, _, err := s.stored(ctx, id, upstream)
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

// stored reads an upstream session from the store; nil when there is none. sealed is its
// text there. A text that cannot be decrypted counts as absent, and is replaced.
func (s *Shared) stored(ctx context.Context, id ID, upstream string) (there *UpstreamSession, sealed string, err error) {
	field := fieldSession + upstream
	sealed, ok, err := s.store.Field(ctx, name(id), field)
	if err != nil {
		return nil, "", unavailable(err)
	}
	if !ok {
		return nil, "", nil
	}
	opened, err := s.openSession(id, field, sealed)
	if err != nil {
		if err := s.store.Drop(ctx, name(id), field, sealed); err != nil {
			return nil, "", unavailable(err)
		}
		return nil, "", nil
	}
	return &opened, sealed, nil
}

// claim makes opened the upstream session of all replicas, unless another replica was first.
func (s *Shared) claim(ctx context.Context, id ID, upstream string, opened UpstreamSession) (UpstreamSession, error) {
	field := fieldSession + upstream
	sealed := s.sealSession(id, field, opened)
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
	first, err := s.openSession(id, field, holds)
	if err != nil { // not written by a replica with the same key: better no session than two
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
	// If that fails, the next caller finds the session in the store, and forgets it again.
	if there, sealed, err := s.stored(ctx, id, upstream); err == nil && there != nil && *there == lost {
		_ = s.store.Drop(ctx, name(id), fieldSession+upstream, sealed)
	}
}

// All implements UpstreamSessions. While the store fails it returns the sessions that this
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

// Level implements ClientSettings: the value of the store, because another replica may have
// set it since, otherwise the value that was set here.
func (s *Shared) Level(ctx context.Context, id ID) []byte {
	if level, err := s.field(ctx, id, fieldLevel, maxLevel); err == nil && level != nil {
		return level
	}
	return s.local.Level(ctx, id)
}

// End implements UpstreamSessions. If the store is unavailable, the end is written to it
// later.
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

// Ended implements UpstreamSessions. While the store fails a session counts as not ended
// unless its end is known here.
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
		s.publish(ctx, id) // the store was emptied, or another replica created the record since
	}
	s.syncOne(ctx)
	return false
}

// Len returns the number of sessions stored in this process, including ended ones.
func (s *Shared) Len() int { return s.local.Len() }

// set stores a text of a session in the store, now or later.
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
		return nil, nil // not written by a replica with the same key
	}
	return text, nil
}

// upstreamSessions reads the upstream sessions among the fields of a record.
func (s *Shared) upstreamSessions(id ID, fields map[string]string) map[string]UpstreamSession {
	all := make(map[string]UpstreamSession, len(fields))
	for field, sealed := range fields {
		if len(field) <= len(fieldSession) || field[:len(fieldSession)] != fieldSession {
			continue
		}
		if opened, err := s.openSession(id, field, sealed); err == nil {
			all[field[len(fieldSession):]] = opened
		}
	}
	return all
}

// name is the name of a session's record in the store.
func name(id ID) string { return "session:" + base64.RawURLEncoding.EncodeToString(id[:]) }

func value(o *UpstreamSession) UpstreamSession {
	if o == nil {
		return UpstreamSession{}
	}
	return *o
}

// unavailable returns ErrUnavailable, unless the caller's context has ended.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
