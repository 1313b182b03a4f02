package detect

import (
	_ "embed"
	"slices"
	"strings"
)

// charset is the set of characters of the body of a key.
type charset uint8

const (
	urlSafe     charset = iota // letters, digits, - and _
	alnum                      // letters and digits
	hexadecimal                // lower-case hexadecimal digits
	upperDigits                // capital letters and digits
	dotted                     // urlSafe and dots
	pathText                   // urlSafe, slashes and @
	base64Text                 // letters, digits, +, / and =
)

// keyShape is the form of the keys of one provider: their prefix, and the characters after it
// with their number in bytes. max 0 means no fixed length.
type keyShape struct {
	prefix   string
	chars    charset
	min, max int
}

// formedShape is a shape with further conditions.
type formedShape struct {
	keyShape
	form   func(body []byte) bool // further condition on the body, nil for none
	public bool                   // the prefix is no secret and is not redacted
	named  bool                   // matches only after the name of a secret
}

//go:embed keyshapes.txt
var keyTable string

// charsets are the names of the character sets in keyshapes.txt.
var charsets = map[string]charset{"urlSafe": urlSafe, "alnum": alnum, "hexadecimal": hexadecimal, "upperDigits": upperDigits,
	"dotted": dotted, "pathText": pathText, "base64Text": base64Text}

// keyShapes are the shapes of keyshapes.txt; ~ in a prefix is a space.
var keyShapes = func() (shapes []keyShape) {
	for line := range strings.Lines(keyTable) {
		if f := strings.Fields(line); len(f) == 4 && f[0] != "#" {
			chars, known := charsets[f[1]]
			if !known {
				panic("detect: keyshapes.txt: " + line) // the table is compiled in
			}
			shapes = append(shapes, keyShape{strings.ReplaceAll(f[0], "~", " "), chars, number(f[2]), number(f[3])})
		}
	}
	return shapes
}()

// formedShapes take precedence over keyShapes.
var formedShapes = []formedShape{
	{keyShape: keyShape{"hooks.slack.com/services/", pathText, 32, 0}, form: slackHook, public: true},
	{keyShape: keyShape{"hooks.slack.com/workflows/", pathText, 32, 0}, form: slackHook, public: true},
	{keyShape: keyShape{"hooks.slack.com/triggers/", pathText, 32, 0}, form: slackHook, public: true},
	{keyShape: keyShape{"pat", dotted, 79, 79}, form: airtable},
	{keyShape: keyShape{"key", alnum, 14, 14}, named: true}, // Airtable's older ones
	{keyShape: keyShape{"discord.com/api/webhooks/", pathText, 80, 0}, form: discordHook, public: true},
	{keyShape: keyShape{"discordapp.com/api/webhooks/", pathText, 80, 0}, form: discordHook, public: true},
	{keyShape: keyShape{"webhook.office.com/webhookb2/", pathText, 100, 0}, form: teamsHook, public: true},
	{keyShape: keyShape{"SSWS ", urlSafe, 42, 42}, public: true}, // Okta
	{keyShape: keyShape{"A3-", urlSafe, 30, 40}, form: onePassword},
	{keyShape: keyShape{"v1.0-", urlSafe, 171, 171}},          // Cloudflare's origin certificates
	{keyShape: keyShape{"sdk-", urlSafe, 36, 36}, form: uuid}, // LaunchDarkly
	{keyShape: keyShape{"api-", urlSafe, 36, 36}, form: uuid, named: true},
	{keyShape: keyShape{"re_", urlSafe, 24, 40}, form: resend},
	{keyShape: keyShape{"eyJrIjoi", base64Text, 48, 0}}, // Grafana's older ones: {"k":"…
}

// starts determines where a key may begin: hashes of three bytes, and the shapes by their first
// two.
type starts struct {
	three  [1 << 16 / 64]uint64
	shapes map[[2]byte][]*formedShape
}

func hash3(a, b, c byte) uint {
	return uint((uint32(a)|uint32(b)<<8|uint32(c)<<16)*0x9E3779B1) >> 16 & 0xFFFF
}

// has reports whether a key may begin at i.
func (s *starts) has(t []byte, i int) bool {
	if i+2 >= len(t) {
		return false
	}
	n := hash3(t[i], t[i+1], t[i+2])
	return s.three[n/64]&(1<<(n%64)) != 0
}

// keyStarts has the starts of keyShapes, of JWTs and their base64, and of curl.
var keyStarts = func() *starts {
	s := starts{shapes: make(map[[2]byte][]*formedShape)}
	add := func(a, b, c byte) {
		n := hash3(a, b, c)
		s.three[n/64] |= 1 << (n % 64)
	}
	all := slices.Clone(formedShapes)
	for _, k := range keyShapes {
		all = append(all, formedShape{keyShape: k})
	}
	for i := range all {
		k := &all[i]
		two := [2]byte{k.prefix[0], k.prefix[1]}
		s.shapes[two] = append(s.shapes[two], k)
		if len(k.prefix) > 2 {
			add(k.prefix[0], k.prefix[1], k.prefix[2])
			continue
		}
		for c := range 128 {
			if k.in(byte(c)) {
				add(two[0], two[1], byte(c))
			}
		}
	}
	add('e', 'y', 'J')
	add('Z', 'X', 'l')
	add('c', 'u', 'r')
	add('c', 'o', 'o') // cookies
	add('C', 'o', 'o')
	return &s
}()
