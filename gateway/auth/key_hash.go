package auth

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Params are the cost parameters of an argon2id hash.
type Params struct {
	// MemoryKiB is the memory of one computation, in KiB.
	MemoryKiB uint32
	// Time is the number of passes.
	Time uint32
	// Threads is the number of lanes.
	Threads uint8
}

// DefaultParams are the default costs of `svc keygen`.
func DefaultParams() Params { return Params{MemoryKiB: 19456, Time: 2, Threads: 1} }

// Bounds of hashes in a configuration: the parameters of a hash decide how much memory
// and time an unauthenticated request may use.
const (
	maxMemoryKiB = 256 << 10
	maxTime      = 10
	maxThreads   = 16
	minSalt      = 8
	maxSalt      = 64
	minSum       = 16
	maxSum       = 64
	maxPHC       = 512

	newSalt = 16
	newSum  = 32
)

// check returns an error for costs outside the accepted bounds.
func (p Params) check() error {
	switch {
	case p.Threads < 1 || p.Threads > maxThreads:
		return fmt.Errorf("parallelism p=%d is outside 1 to %d", p.Threads, maxThreads)
	case p.Time < 1 || p.Time > maxTime:
		return fmt.Errorf("passes t=%d are outside 1 to %d", p.Time, maxTime)
	case p.MemoryKiB > maxMemoryKiB:
		return fmt.Errorf("memory m=%d KiB is over %d KiB (256 MiB)", p.MemoryKiB, maxMemoryKiB)
	case p.MemoryKiB < 8*uint32(p.Threads):
		return fmt.Errorf("memory m=%d KiB is under 8 KiB for each lane", p.MemoryKiB)
	}
	return nil
}

// phc is a parsed argon2id hash.
type phc struct {
	Params
	salt, sum []byte
}

var errPHCShape = errors.New("is not an argon2id hash of the form $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH")

// parsePHC parses an argon2id hash in the PHC string format: version 19 only, the
// parameters m, t and p in this order without leading zeros, salt and hash in canonical
// base64 without padding. The error never contains the hash.
func parsePHC(s string) (phc, error) {
	var h phc
	if len(s) > maxPHC {
		return h, fmt.Errorf("is longer than %d bytes", maxPHC)
	}
	part := strings.Split(s, "$")
	if len(part) < 2 || part[0] != "" {
		return h, errPHCShape
	}
	switch part[1] {
	case "argon2id":
	case "argon2i", "argon2d", "scrypt", "pbkdf2-sha256", "2a", "2b", "2y":
		return h, fmt.Errorf("is a %s hash; only argon2id is accepted", part[1])
	default:
		return h, errPHCShape
	}
	if len(part) != 6 {
		return h, errPHCShape
	}
	if part[2] != "v=19" {
		return h, errors.New("is not argon2 version 19 (v=19)")
	}
	costs := strings.Split(part[3], ",")
	if len(costs) != 3 {
		return h, errors.New("must state m, t and p, in this order")
	}
	var v [3]uint32
	for i, name := range [...]string{"m=", "t=", "p="} {
		digits, ok := strings.CutPrefix(costs[i], name)
		if !ok {
			return h, errors.New("must state m, t and p, in this order")
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || strconv.FormatUint(n, 10) != digits {
			return h, fmt.Errorf("parameter %q is not a whole number below 2^32", costs[i])
		}
		v[i] = uint32(n)
	}
	if v[2] > maxThreads {
		return h, fmt.Errorf("parallelism p=%d is outside 1 to %d", v[2], maxThreads)
	}
	h.Params = Params{MemoryKiB: v[0], Time: v[1], Threads: uint8(v[2])}
	if err := h.check(); err != nil {
		return h, err
	}
	var err error
	if h.salt, err = decode64(part[4]); err != nil {
		return h, fmt.Errorf("salt %w", err)
	}
	if len(h.salt) < minSalt || len(h.salt) > maxSalt {
		return h, fmt.Errorf("salt of %d bytes is outside %d to %d", len(h.salt), minSalt, maxSalt)
	}
	if h.sum, err = decode64(part[5]); err != nil {
		return h, fmt.Errorf("hash %w", err)
	}
	if len(h.sum) < minSum || len(h.sum) > maxSum {
		return h, fmt.Errorf("hash of %d bytes is outside %d to %d", len(h.sum), minSum, maxSum)
	}
	return h, nil
}

// decode64 decodes canonical base64 without padding. Line breaks, which the standard
// decoder skips, are rejected.
func decode64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("is not base64 without padding")
	}
	b, err := base64.RawStdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errors.New("is not base64 without padding")
	}
	return b, nil
}

// String returns the PHC text; parsePHC(h.String()) gives h back.
func (h phc) String() string {
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		h.MemoryKiB, h.Time, h.Threads, enc.EncodeToString(h.salt), enc.EncodeToString(h.sum))
}

// matches computes the hash of text and compares it in constant time. The parameters
// determine its time and memory.
func (h phc) matches(text string) bool {
	sum := argon2.IDKey([]byte(text), h.salt, h.Time, h.MemoryKiB, h.Threads, uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1
}

// Hash returns the argon2id hash of a key text in PHC form, with a random salt. It
// returns an error when the costs are outside the bounds of [Config], and when the text
// cannot be sent in a header.
func Hash(text string, p Params) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	if presentable(text) != nil {
		return "", fmt.Errorf("a key must be 1 to %d visible ASCII characters without spaces", maxKeyBytes)
	}
	h := phc{Params: p, salt: make([]byte, newSalt)}
	if _, err := rand.Read(h.salt); err != nil {
		return "", fmt.Errorf("read random salt: %w", err)
	}
	h.sum = argon2.IDKey([]byte(text), h.salt, p.Time, p.MemoryKiB, p.Threads, newSum)
	return h.String(), nil
}
