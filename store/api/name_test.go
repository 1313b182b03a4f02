package api

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// anyName generates texts that exercise normalization: marks, precomposed characters,
// spaces, invisible characters, and everything else.
func anyName() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]rune(" \t\n*aéА\u00a0\u0301\u0308\u0327\u0344\u034f\u1100\u1161\u11a8\u1d160" +
		"\u200b\u200d\u200e\u2028\u202e\u2066\ufe0f\ufeff\u3000\u3164\uac00\U000e0041\U0001d15e"))
	return rapid.OneOf(
		rapid.StringOfN(odd, 0, 300, -1), rapid.String(),
		rapid.Map(rapid.IntRange(0, 300), func(n int) string { return "a" + strings.Repeat("\u0301", n) }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

// A stored name is normalized again when it is sent again, and must not change.
func TestNormalizeNameIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := NormalizeName(anyName().Draw(t, "name"))
		if twice := NormalizeName(once); twice != once {
			t.Fatalf("normalized %q, normalized again %q", once, twice)
		}
		if once != strings.TrimSpace(once) || utf8.ValidString(once) && !norm.NFC.IsNormalString(once) {
			t.Fatalf("%q is not trimmed and in NFC", once)
		}
	})
}

// For any agent name of a producer, its traces get a name that is allowed, and a name
// that is allowed is not changed.
func TestCleanAgentNameIsAlwaysAName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := anyName().Draw(t, "name")
		name := CleanAgentName(sent)
		if problem := NameProblem(name); problem != "" || name == AllAgents || len(name) > maxCleanBytes {
			t.Fatalf("%q: %s (%d bytes)", name, problem, len(name))
		}
		if again := CleanAgentName(name); again != name || NormalizeName(name) != name {
			t.Fatalf("%q becomes %q", name, again)
		}
		normal := NormalizeName(sent)
		if NameProblem(normal) == "" && normal != AllAgents && len(normal) <= maxCleanBytes && name != normal {
			t.Fatalf("%q became %q", normal, name)
		}
	})
}

func TestNamesByExample(t *testing.T) {
	for _, test := range []struct{ what, sent, stored, problem, cleaned string }{
		{"plain", "support-bot", "support-bot", "", "support-bot"},
		{"spaces around", " \tDup\u3000\n", "Dup", "", "Dup"},
		{"spaces inside", "a  b", "a  b", "", "a  b"},
		{"decomposed", "cafe\u0301", "caf\u00e9", "", "caf\u00e9"},
		{"Hangul jamo", "\u1112\u1161\u11ab", "\ud55c", "", "\ud55c"},
		{"variation selector", "\u2699\ufe0f ops", "\u2699 ops", "", "\u2699 ops"},
		{"blank", " \u00a0 ", "", "is required", UnnamedAgent},
		{"zero-width space", "Dup\u200b", "Dup\u200b", "U+200B", "Dup"},
		{"byte order mark", "\ufeffDup", "\ufeffDup", "U+FEFF", "Dup"},
		{"direction override", "a\u202eb", "a\u202eb", "U+202E", "ab"},
		{"direction isolate", "\u2066a\u2069", "\u2066a\u2069", "U+2066", "a"},
		{"tag characters", "a\U000e0041", "a\U000e0041", "U+E0041", "a"},
		{"filler", "\u3164", "\u3164", "U+3164", UnnamedAgent},
		{"line separator inside", "a\u2028b", "a\u2028b", "U+2028", "ab"},
		{"control character", "a\x1bb", "a\x1bb", "control characters", "ab"},
		{"all agents, disguised", "\u200b* ", "\u200b*", "U+200B", UnnamedAgent},
		{"not UTF-8", "a\xff", "a\xff", "UTF-8", "a\ufffd"},
		{"too long", strings.Repeat("\u00fc", 201), strings.Repeat("\u00fc", 201), "at most 200", strings.Repeat("\u00fc", 200)},
		{"too many marks", "a" + strings.Repeat("\u0316", 40), "", "U+034F", "a" + strings.Repeat("\u0316", maxCleanMarks)},
	} {
		t.Run(test.what, func(t *testing.T) {
			stored := NormalizeName(test.sent)
			if stored != test.stored && test.stored != "" {
				t.Errorf("stored as %q, want %q", stored, test.stored)
			}
			if p := NameProblem(stored); (p == "") != (test.problem == "") || !strings.Contains(p, test.problem) {
				t.Errorf("problem %q, want %q", p, test.problem)
			}
			if cleaned := CleanAgentName(test.sent); cleaned != test.cleaned {
				t.Errorf("cleaned %q, want %q", cleaned, test.cleaned)
			}
		})
	}
}

// Names of producers are cleaned for each trace and for each request of a gateway.
func TestCleanAgentNameAllocatesNothingForANormalName(t *testing.T) {
	for _, name := range []string{"support-bot", "caf\u00e9"} {
		if n := testing.AllocsPerRun(100, func() { CleanAgentName(name) }); n > 0 {
			t.Errorf("%q: %v allocations", name, n)
		}
	}
}
