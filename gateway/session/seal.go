package session

import (
	"encoding/binary"
	"errors"
)

// maxSealed bounds the texts that are read from a store, in bytes.
const maxSealed = 32 << 10

// errSealed is the error of a text that seal did not make for its place.
var errSealed = errors.New("not sealed by this gateway for this session")

// additionalData is what a sealed text is bound to: a session and a field of it. A handle
// is bound to nothing, or to a view, so neither is ever taken for the other.
func additionalData(id ID, field string) []byte {
	out := make([]byte, 0, len("pairs")+len(id)+len(field))
	out = append(out, "pairs"...)
	out = append(out, id[:]...)
	return append(out, field...)
}

// seal makes a text that whoever reads the store can do nothing with.
func (s *Shared) seal(id ID, field string, text []byte) string {
	return string(s.sealer.aead.Seal(nil, nil, text, additionalData(id, field)))
}

// open reads what seal made for the same session and field.
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

// sealPair is seal for a pair.
func (s *Shared) sealPair(id ID, field string, o UpstreamSession) string {
	return s.seal(id, field, appendPair(nil, o))
}

// openPair reads what sealPair made.
func (s *Shared) openPair(id ID, field, sealed string) (UpstreamSession, error) {
	text, err := s.open(id, field, sealed)
	if err != nil {
		return UpstreamSession{}, err
	}
	return readPair(text)
}

// appendPair writes a pair: the length of the id, the id, the revision.
func appendPair(to []byte, o UpstreamSession) []byte {
	to = binary.AppendUvarint(to, uint64(len(o.ID)))
	to = append(to, o.ID...)
	return append(to, o.Version...)
}

// readPair reads what appendPair wrote.
func readPair(text []byte) (UpstreamSession, error) {
	n, k := binary.Uvarint(text)
	if k <= 0 || n > uint64(len(text)-k) {
		return UpstreamSession{}, errSealed
	}
	rest := string(text[k:])
	return UpstreamSession{ID: rest[:n], Version: rest[n:]}, nil
}
