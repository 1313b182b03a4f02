package session

import (
	"encoding/binary"
	"errors"
)

// maxSealed bounds texts read from a store, in bytes.
const maxSealed = 32 << 10

// errSealed is the error of a text that was not sealed for its session and field.
var errSealed = errors.New("not sealed by this gateway for this session")

// additionalData binds a sealed text to a session and a field of it. A handle is bound to
// nothing, or to a view, so a sealed text and a handle cannot be exchanged.
func additionalData(id ID, field string) []byte {
	out := make([]byte, 0, len("pairs")+len(id)+len(field))
	out = append(out, "pairs"...)
	out = append(out, id[:]...)
	return append(out, field...)
}

// seal encrypts a text, so that readers of the store learn nothing from it.
func (s *Shared) seal(id ID, field string, text []byte) string {
	return string(s.sealer.aead.Seal(nil, nil, text, additionalData(id, field)))
}

// open decrypts a text that was sealed for the same session and field.
func (s *Shared) open(id ID, field, sealed string) ([]byte, error) {
	if len(sealed) > maxSealed {
		return nil, errSealed
	}
	text, err := s.sealer.aead.Open(nil, nil, []byte(sealed), additionalData(id, field))
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}

// sealSession is seal for an upstream session.
func (s *Shared) sealSession(id ID, field string, o UpstreamSession) string {
	return s.seal(id, field, appendSession(nil, o))
}

// openSession is open for an upstream session.
func (s *Shared) openSession(id ID, field, sealed string) (UpstreamSession, error) {
	text, err := s.open(id, field, sealed)
	if err != nil {
		return UpstreamSession{}, err
	}
	return readSession(text)
}

// appendSession encodes an upstream session: the length of the id, the id, the revision.
func appendSession(to []byte, o UpstreamSession) []byte {
	to = binary.AppendUvarint(to, uint64(len(o.ID)))
	to = append(to, o.ID...)
	return append(to, o.Version...)
}

// readSession decodes the result of appendSession.
func readSession(text []byte) (UpstreamSession, error) {
	n, k := binary.Uvarint(text)
	if k <= 0 || n > uint64(len(text)-k) {
		return UpstreamSession{}, errSealed
	}
	rest := string(text[k:])
	return UpstreamSession{ID: rest[:n], Version: rest[n:]}, nil
}
