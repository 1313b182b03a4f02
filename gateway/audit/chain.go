package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"strconv"
)

// Hash is the hash of a line. It covers the line and, through the hash before, all lines
// before.
type Hash [sha256.Size]byte

// String returns the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the hex form.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != hex.EncodedLen(len(h)) {
		return h, errors.New("a chain hash has 64 hex digits")
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return h, errors.New("a chain hash has 64 hex digits")
	}
	return h, nil
}

const (
	lineStart  = `{"seq":`
	hashStart  = `,"hash":"`
	sealedTail = len(hashStart) + 2*sha256.Size + len(`"}`)
)

// chainWriter turns encoded records into lines: it assigns the number and, with a chain,
// the hash. Only one goroutine at a time uses it.
type chainWriter struct {
	hashed bool
	sha    hash.Hash
	seq    uint64 // of the last line
	prev   Hash   // of the last line

	unsigned
}

// appendLine appends the line of an encoded record, with its line feed.
func (s *chainWriter) appendLine(b, body []byte) []byte {
	start := len(b)
	b = append(b, lineStart...)
	b = strconv.AppendUint(b, s.seq+1, 10)
	b = append(b, body...)
	s.seq++
	s.bytes += int64(len(b) - start)
	if !s.hashed {
		return append(b, "}\n"...)
	}
	s.sha.Reset()
	s.sha.Write(s.prev[:])
	s.sha.Write(b[start:])
	s.sha.Sum(s.prev[:0])
	b = append(b, hashStart...)
	b = hex.AppendEncode(b, s.prev[:])
	return append(b, "\"}\n"...)
}

// splitLine splits a line without its line feed into its number, the bytes that its hash
// covers, and its hash, if there is one. ok is false when the line does not have the form
// that the log writes.
func splitLine(line []byte) (seq uint64, covered []byte, h Hash, chained, ok bool) {
	rest, found := bytes.CutPrefix(line, []byte(lineStart))
	if !found || len(line) < len(lineStart)+2 || line[len(line)-1] != '}' {
		return 0, nil, h, false, false
	}
	digits := 0
	for digits < len(rest) && digits <= 20 && rest[digits] >= '0' && rest[digits] <= '9' {
		d := uint64(rest[digits] - '0')
		if seq > (1<<64-1-d)/10 {
			return 0, nil, h, false, false
		}
		seq = seq*10 + d
		digits++
	}
	if digits == 0 || rest[0] == '0' || rest[digits] != ',' {
		return 0, nil, h, false, false
	}
	if n := len(line) - sealedTail; n > 0 && string(line[n:n+len(hashStart)]) == hashStart && line[len(line)-2] == '"' {
		if _, err := hex.Decode(h[:], line[n+len(hashStart):len(line)-2]); err != nil {
			return 0, nil, h, false, false
		}
		return seq, line[:n], h, true, true
	}
	return seq, line, h, false, true
}
