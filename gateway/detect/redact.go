package detect

import (
	"crypto/hmac"
	"crypto/sha256"
	"unicode"
	"unicode/utf8"
)

// Strategy is a way to take a match out of a text, as a policy's
// redactionStrategy names it.
type Strategy string

// The strategies.
const (
	Mask    Strategy = "mask"    // letters, digits and marks become *, the shape stays
	Remove  Strategy = "remove"  // nothing is left
	Hash    Strategy = "hash"    // [EMAIL:…], the same for the same value under the same key
	Replace Strategy = "replace" // [EMAIL]
)

// Redact appends text to dst with each match taken out. Matches must be sorted
// and must not overlap, as Scan returns them; one that lies outside of the text
// or begins inside of the one before is passed over. The key is used by Hash
// alone: who does not have it can neither compute the token of a value nor find
// the value of a token by trying. A strategy that is not known acts as Replace,
// so that nothing stays readable.
func Redact(dst, text []byte, matches []Match, strategy Strategy, key []byte) []byte {
	at := 0
	for _, m := range matches {
		if m.Start < at || m.End < m.Start || m.End > len(text) {
			continue
		}
		dst = append(dst, text[at:m.Start]...)
		found := text[m.Start:m.End]
		at = m.End
		switch strategy {
		case Mask:
			dst = mask(dst, found, m.Entity)
		case Remove:
		case Hash:
			dst = append(append(append(dst, '['), m.Entity...), ':')
			dst = append(token(dst, m.Entity, found, key), ']')
		default:
			dst = append(append(append(dst, '['), m.Entity...), ']')
		}
	}
	return append(dst, text[at:]...)
}

// mask hides every character but the punctuation that gives personal data its
// shape. Of secrets only line breaks and spaces stay.
func mask(dst, found []byte, e Entity) []byte {
	secret := e == APIKey || e == PrivateKey || e == JWT
	for len(found) > 0 {
		r, n := utf8.DecodeRune(found)
		switch {
		case r == ' ' || r == '\n' || r == '\r' || r == '\t',
			!secret && (r < utf8.RuneSelf && !isWord(byte(r)) || unicode.Is(unicode.Zs, r)):
			dst = append(dst, found[:n]...)
		default:
			dst = append(dst, '*')
		}
		found = found[n:]
	}
	return dst
}

// tokenLetters write a hash. No digits and no vowels, so that a token is neither
// a number nor a word that another detector could take for a finding.
const tokenLetters = "bcdfghjklmnpqrst"

// token appends 20 letters (80 bits) of the keyed hash of a value. Different
// spellings of the same value (case of a mail address, separators of a number)
// give the same token.
func token(dst []byte, e Entity, found, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(e))
	h.Write([]byte{0})
	h.Write(canonical(e, found))
	for _, b := range h.Sum(nil)[:10] {
		dst = append(dst, tokenLetters[b>>4], tokenLetters[b&15])
	}
	return dst
}

// canonical returns the spelling of a value that its hash is made of.
func canonical(e Entity, found []byte) []byte {
	v := new(view)
	plain := v.of(found)
	out := make([]byte, 0, len(plain))
	for _, c := range plain {
		switch e {
		case Email, IPAddress:
			c = lower(c)
		case Phone, CreditCard, SSN:
			if !isDigit(c) && c != '+' {
				continue
			}
		case IBAN:
			if !isWord(c) {
				continue
			}
			c = lower(c)
		}
		out = append(out, c)
	}
	return out
}
