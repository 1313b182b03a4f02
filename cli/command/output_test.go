package command

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "support-bot", "support-bot"},
		{"accents and signs", "Zoë · 東京 €", "Zoë · 東京 €"},
		{"terminal escape", "a\x1b[31mred", "a\ufffd[31mred"},
		{"clipboard escape", "\x1b]52;c;ZXZpbA==\x07", "\ufffd]52;c;ZXZpbA==\ufffd"},
		{"one-byte control sequence introducer", "a\u009b31m", "a\ufffd31m"},
		{"line ends and tabs", "a\r\nb\tc", "a  b c"},
		{"backspace", "ok\b\bno", "ok\ufffd\ufffdno"},
		{"direction override", "user\u202etxt.exe", "user\ufffdtxt.exe"},
		{"zero width", "ad\u200bmin", "ad\ufffdmin"},
		{"tag character", "a\U000e0041", "a\ufffd"},
		{"line separator", "a\u2028b", "a\ufffdb"},
		{"invalid utf-8", "a\xff\xfeb", "a\ufffd\ufffdb"},
		{"nul", "a\x00b", "a\ufffdb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("clean(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestCleanLeavesNothingThatMovesACursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Clean(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		for _, r := range s {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Fatalf("%q holds %U", s, r)
			}
		}
		if again := Clean(s); again != s {
			t.Fatalf("clean is not stable: %q, then %q", s, again)
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mred")
	f.Add("\u202e\u009b\xff")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Clean(s); strings.ContainsAny(got, "\x1b\x07\x08\r\n\x00\u009b\u202e") {
			t.Errorf("clean(%q) = %q", s, got)
		}
	})
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	err := WriteTable(&b, []string{"ID", "NAME"}, [][]string{{"agt_1", "Zoë"}, {"agt_22", "x\x1b[2Jy"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "ID      NAME\nagt_1   Zoë\nagt_22  x\ufffd[2Jy\n"
	if got := b.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteRaw(t *testing.T) {
	const body = `{"b":"x","a":{"n":12345678901234567890,"f":0.1,"list":[],"on":"true","none":null,"text":"two\nlines"}}`
	tests := []struct {
		name   string
		format Format
		want   string
	}{
		{"json keeps order and digits", FormatJSON, `{
  "b": "x",
  "a": {
    "n": 12345678901234567890,
    "f": 0.1,
    "list": [],
    "on": "true",
    "none": null,
    "text": "two\nlines"
  }
}
`},
		{"yaml too, and quotes what would change its type", FormatYAML, `b: x
a:
  "n": 12345678901234567890
  f: 0.1
  list: []
  "on": "true"
  none: null
  text: |-
    two
    lines
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := WriteRaw(&b, tt.format, []byte(body)); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// JSON on a terminal must not contain control sequences either.
func TestJSONEscapesControls(t *testing.T) {
	var b strings.Builder
	if err := WriteValue(&b, FormatJSON, map[string]string{"name": "a\u009b31m\u202e\x1b"}); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"name\": \"a\\u009b31m\\u202e\\u001b\"\n}\n"
	if got := b.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
