package detect

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// findings scans text for all entities and writes the findings as ENTITY=text.
func findings(text string) string {
	var out []string
	for _, m := range NewScanner().Scan(nil, []byte(text)) {
		out = append(out, fmt.Sprintf("%s=%s", m.Entity, text[m.Start:m.End]))
	}
	return strings.Join(out, " | ")
}

func TestScan(t *testing.T) {
	tests := []struct{ text, want string }{
		{"write to ada.lovelace+x@mail.example.co.uk.", "EMAIL=ada.lovelace+x@mail.example.co.uk"},
		{"<mailto:bob@example.com>", "EMAIL=bob@example.com"},
		{"https://user:secret@db.example.com/x", ""},
		{"git@github.com:org/repo.git", ""},
		{"icon@2x.png lodash@4.17.21", ""},
		{"card 4111 1111 1111 1111, thanks", "CREDIT_CARD=4111 1111 1111 1111"},
		{"4242424242424242", "CREDIT_CARD=4242424242424242"},
		{"4242424242424241", ""},
		{"3782 822463 10005", "CREDIT_CARD=3782 822463 10005"},
		{"４２４２ ４２４２ ４２４２ ４２４２", "CREDIT_CARD=４２４２ ４２４２ ４２４２ ４２４２"},
		{"4242\u200b4242\u200b4242\u200b4242!", "CREDIT_CARD=4242\u200b4242\u200b4242\u200b4242"},
		{"DE89 3704 0044 0532 0130 00 please", "IBAN=DE89 3704 0044 0532 0130 00"},
		{"GB82WEST12345698765432", "IBAN=GB82WEST12345698765432"},
		{"DE89 3704 0044 0532 0130 01", ""},
		{"ssn 536-22-8841", "SSN=536-22-8841"},
		{"666-22-8841 000-12-3456 900-12-3456", ""},
		{"host 192.168.1.20:8080 and 10.0.0.0/8", "IP_ADDRESS=192.168.1.20 | IP_ADDRESS=10.0.0.0"},
		{"version 1.2.3.4, Chrome/120.0.0.0", ""},
		{"at 2a02:8071::8a2e:370:7334 or fe80::1%eth0 or [2a02:8071::7]:80", "IP_ADDRESS=2a02:8071::8a2e:370:7334 | IP_ADDRESS=fe80::1 | IP_ADDRESS=2a02:8071::7"},
		{"std::vector 12:34:56 00:1a:2b:3c:4d:5e a[::1] dead::beef", ""},
		{"AKIAIOSFODNN7EXAMPLE", "API_KEY=AKIAIOSFODNN7EXAMPLE"},
		{"token=ghp_16C7e42F292c6912E7710c838347Ae178B4a;", "API_KEY=ghp_16C7e42F292c6912E7710c838347Ae178B4a"},
		{"sk-ant-api03-Zx81kqW0m2LrT7vNc5-aB_9", "API_KEY=sk-ant-api03-Zx81kqW0m2LrT7vNc5-aB_9"},
		{"sk-learn-something-else ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", ""},
		{`aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"`, "API_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n", "PRIVATE_KEY=-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"},
		{"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
			"JWT=eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"},
		{"call +49 30 1234567 or (030) 1234567", "PHONE=+49 30 1234567 | PHONE=(030) 1234567"},
		{"(415) 555-2671, 415-555-2671, 415.555.2671", "PHONE=(415) 555-2671 | PHONE=415-555-2671 | PHONE=415.555.2671"},
		{"01 23 45 67 89", "PHONE=01 23 45 67 89"},
		{"+44 (0)20 7946 0958", "PHONE=+44 (0)20 7946 0958"},
		{"手机13812345678", "PHONE=13812345678"},
		{"550e8400-e29b-41d4-a716-446655440000 2024-01-15T10:30:00Z 1700000000000", ""},
		{"order 5551234567, 12.01.2024 10:30, 0.123456789", ""},
	}
	for _, tt := range tests {
		if got := findings(tt.text); got != tt.want {
			t.Errorf("%q:\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// TestEightBytesAtOnce: the words of a text, and the places that a scan for personal data stops at,
// are the same as byte by byte, wherever they begin and whatever is around them.
func TestEightBytesAtOnce(t *testing.T) {
	const bytes = "abzAZ_09@:`[/{-. \n\\;?\x00\x7f\xc3\xa9\xe3\x81\x82\xff"
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		text := make([]byte, r.IntN(40))
		for i := range text {
			text[i] = bytes[r.IntN(len(bytes))]
		}
		p, from := pass{text: text}, r.IntN(len(text)+1)
		want := len(text)
		for i, start := from, from; i < len(text); i++ {
			if text[i] == '@' || text[i] == ':' {
				want = i
				break
			}
			if !isWord(text[i]) {
				start = i + 1
			} else if isDigit(text[i]) {
				want = start
				break
			}
		}
		if got := p.skip(from); got != want {
			t.Fatalf("%q from %d: stopped at %d, want %d", text, from, got, want)
		}
		folds := nextFold(text, 0)
		if i := nextFold(append([]byte("1234567"), text...), 0); i != folds+7 {
			t.Fatalf("%q: folds at %d, and behind seven bytes at %d", text, folds, i)
		}
		if from == len(text) || !wordByte(text[from]) || text[from] >= 0x80 {
			continue
		}
		end := from
		for end < len(text) && wordByte(text[end]) {
			if c, _ := utf8.DecodeRune(text[end:]); spaceless(c) {
				break
			}
			end++
		}
		hash, got := hashWord(text, from)
		word := text[from:end]
		if alone, n := hashWord(word, 0); got != end || alone != hash || n != len(word) {
			t.Fatalf("%q from %d: a word up to %d, want %d; its hash alone differs: %v", text, from, got, end, alone != hash)
		}
		small := make([]byte, len(word))
		for i, c := range word {
			small[i] = lower(c)
		}
		if other, _ := hashWord(small, 0); other != hash {
			t.Fatalf("%q and %q have different hashes", word, small)
		}
		small[r.IntN(len(small))] ^= 1
		if wordByte(small[0]) {
			if other, n := hashWord(small, 0); n == len(word) && other == hash {
				t.Fatalf("%q and %q have the same hash", word, small)
			}
		}
	}
}
