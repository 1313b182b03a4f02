package record

import (
	"context"
	"encoding/hex"
	"time"

	"svc/store"
)

// sessionRow is a session as it is stored, under the id of its key and the digest of its secret.
type sessionRow struct {
	Created time.Time
	Used    time.Time // written at most once in store.SessionWritten
}

// ended reports whether a session has lasted long enough. A clock that went back does not make it longer.
func (s *sessionRow) ended(now time.Time) bool {
	return now.Sub(s.Created).Abs() >= store.SessionLasts
}

func sessionKey(keyID string, digest store.KeyDigest) []byte {
	return joined(keyID, hex.EncodeToString(digest[:]))
}

// errNoSession is the error for a session that has ended.
var errNoSession = store.Errorf(store.Unauthorized, "the session has ended")

// CreateSession begins a session of a key.
func (t *Tenant) CreateSession(ctx context.Context, keyID string, digest store.KeyDigest) error {
	if bad(keyID) {
		return ErrRefused
	}
	return t.e.Update(ctx, t.id, func(tx Tx) error {
		if _, err := t.workingKey(tx, keyID); err != nil {
			return err
		}
		now := t.e.Now()
		var gone [][]byte
		var unused []byte // the session that was not used for the longest time
		var since time.Time
		n := 0
		err := tx.Scan(sessionRows, prefixed(keyID), func(key, value []byte) (bool, error) {
			var s sessionRow
			if err := decode(key, value, &s); err != nil {
				return false, err
			}
			if s.ended(now) {
				gone = append(gone, append([]byte(nil), key...))
				return true, nil
			}
			if n++; unused == nil || s.Used.Before(since) {
				unused, since = append([]byte(nil), key...), s.Used
			}
			return true, nil
		})
		if err != nil {
			return err
		}
		if n >= store.MaxKeySessions {
			gone = append(gone, unused)
		}
		if err := tx.Delete(sessionRows, gone...); err != nil {
			return err
		}
		return put(tx, sessionRows, sessionKey(keyID, digest), sessionRow{Created: now, Used: now})
	})
}

// ResumeSession returns the credential of the key of a session.
func (t *Tenant) ResumeSession(ctx context.Context, keyID string, digest store.KeyDigest) (cred store.Credential, err error) {
	if bad(keyID) {
		return cred, errNoSession
	}
	key, now := sessionKey(keyID, digest), t.e.Now()
	var s sessionRow
	read := func(tx Tx) error {
		var known bool
		if s, known, err = get[sessionRow](tx, sessionRows, key); err != nil {
			return err
		}
		if !known || s.ended(now) {
			return errNoSession
		}
		cred, err = t.workingKey(tx, keyID)
		return err
	}
	if err := t.e.View(ctx, t.id, read); err != nil {
		return store.Credential{}, err
	}
	if now.Sub(s.Used).Abs() < store.SessionWritten {
		return cred, nil
	}
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		if err := read(tx); err != nil {
			return err
		}
		s.Used = now
		return put(tx, sessionRows, key, s)
	})
	if store.KindOf(err) == store.Unauthorized { // it has ended meanwhile
		return store.Credential{}, err
	}
	// Who may read does so too while the store takes no writes: the time orders sessions only.
	return cred, nil
}

// EndSession ends a session. One that is not known costs no write: whoever invents a cookie may ask for that.
func (t *Tenant) EndSession(ctx context.Context, keyID string, digest store.KeyDigest) error {
	if bad(keyID) {
		return nil
	}
	key, known := sessionKey(keyID, digest), false
	err := t.e.View(ctx, t.id, func(tx Tx) (err error) {
		_, known, err = get[sessionRow](tx, sessionRows, key)
		return err
	})
	if err != nil || !known {
		return err
	}
	return t.e.Update(ctx, t.id, func(tx Tx) error { return tx.Delete(sessionRows, key) })
}

// workingKey returns the credential of a key that works.
func (t *Tenant) workingKey(tx Tx, keyID string) (store.Credential, error) {
	k, known, err := get[keyRecord](tx, KeyRows, []byte(keyID))
	if err == nil && !known {
		err = ErrRefused
	}
	if err != nil {
		return store.Credential{}, err
	}
	var digest store.KeyDigest
	copy(digest[:], k.Digest) // the session stands for the secret
	return t.withOwner(tx, &k, digest)
}

// endSessions ends the sessions of a key.
func endSessions(tx Tx, keyID string) error {
	var gone [][]byte
	err := tx.Scan(sessionRows, prefixed(keyID), func(key, _ []byte) (bool, error) {
		gone = append(gone, append([]byte(nil), key...))
		return true, nil
	})
	if err != nil {
		return err
	}
	return tx.Delete(sessionRows, gone...)
}

// trimSessions removes sessions that have ended.
func trimSessions(tx Tx, now time.Time, limit int) (int, error) {
	var gone [][]byte
	err := tx.Scan(sessionRows, Range{}, func(key, value []byte) (bool, error) {
		var s sessionRow
		if err := decode(key, value, &s); err != nil {
			return false, err
		}
		if s.ended(now) {
			gone = append(gone, append([]byte(nil), key...))
		}
		return len(gone) < limit, nil
	})
	if err != nil {
		return 0, err
	}
	return len(gone), tx.Delete(sessionRows, gone...)
}
