package detect

import (
	"crypto/hmac"
	"crypto/sha256"
	"unicode"
	"unicode/utf8"
)

// Strategy is a redaction strategy, as named by a policy's redactionStrategy.
type Strategy string

// The strategies.
const (
	Mask    Strategy = "mask"    // letters, digits and marks become *, and the punctuation remains
	Remove  Strategy = "remove"  // the match is removed
	Hash    Strategy = "hash"    // [EMAIL:…], the same for the same value under the same key
	Replace Strategy = "replace" // [EMAIL]
)

// Redact appends text to dst with each match redacted. Matches must be sorted and must not
// overlap, as Scan returns them; one that is outside of the text or begins inside of the previous
// one is ignored. Only Hash uses the key: without it nobody can compute the token of a value, or
// find the value of a token by trying. An unknown strategy acts as Replace, so that the match is
// always redacted.
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

// mask replaces every character except the punctuation that gives personal data its form. In
// secrets only line breaks and spaces remain.
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

// tokenLetters are the letters of a hash: no digits and no vowels, so that a token is neither a
// number nor a word that another detector could find.
const tokenLetters = "bcdfghjklmnpqrst"

// token appends 20 letters (80 bits) of the keyed hash of a value. Different spellings of the
// same value (case of a mail address, separators of a number) have the same token.
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

// canonical returns the spelling of a value that is hashed.
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
		case IBAN, NHSNumber, NIF, CPF:
			if !isWord(c) {
				continue
			}
			c = lower(c)
		}
		out = append(out, c)
	}
	return out
}
