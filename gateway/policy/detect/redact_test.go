package detect

import (
	"bytes"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	text := "Ada, ada@mail.example.org or +49 30 1234567, key ghp_16C7e42F292c6912E7710c838347Ae178B4a."
	tests := []struct {
		strategy Strategy
		want     string
	}{
		{Mask, "Ada, ***@****.*******.*** or +** ** *******, key ****************************************."},
		{Remove, "Ada,  or , key ."},
		{Replace, "Ada, [EMAIL] or [PHONE], key [API_KEY]."},
		{Strategy("unheard of"), "Ada, [EMAIL] or [PHONE], key [API_KEY]."},
	}
	found := NewScanner().Scan(nil, []byte(text))
	for _, tt := range tests {
		if got := string(Redact(nil, []byte(text), found, tt.strategy, nil)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.strategy, got, tt.want)
		}
	}
}

// TestRedactHash: the token is the same for every spelling of a value, differs under another key,
// and is no finding itself.
func TestRedactHash(t *testing.T) {
	s := NewScanner()
	hash := func(text, key string) string {
		found := s.Scan(nil, []byte(text))
		if len(found) != 1 {
			t.Fatalf("%q: found %v", text, found)
		}
		return string(Redact(nil, []byte(text), found, Hash, []byte(key)))
	}
	for _, pair := range [][2]string{
		{"4111 1111 1111 1111", "4111-1111-1111-1111"},
		{"ADA@example.org", "ada@example.org"},
		{"DE89370400440532013000", "DE89 3704 0044 0532 0130 00"},
		{"４１１１111111111111", "4111111111111111"},
	} {
		one, two := hash(pair[0], "a"), hash(pair[1], "a")
		if one != two {
			t.Errorf("%q is %s, %q is %s", pair[0], one, pair[1], two)
		}
		if other := hash(pair[0], "b"); other == one {
			t.Errorf("%q is %s under two keys", pair[0], one)
		}
		if found := s.Scan(nil, []byte(one)); len(found) > 0 {
			t.Errorf("the token %s is a finding: %v", one, found)
		}
	}
}

// TestRedactPassesOverBadMatches: matches that do not fit the text are ignored.
func TestRedactPassesOverBadMatches(t *testing.T) {
	text := []byte("some text")
	for _, m := range []Match{{Email, -1, 2}, {Email, 3, 2}, {Email, 0, 99}} {
		if got := Redact(nil, text, []Match{m}, Remove, nil); !bytes.Equal(got, text) {
			t.Errorf("%v: %q", m, got)
		}
	}
	if got := Redact(nil, text, []Match{{Email, 0, 4}, {Email, 2, 6}}, Remove, nil); string(got) != " text" {
		t.Errorf("overlapping: %q", got)
	}
}

func TestScannerOfSomeEntities(t *testing.T) {
	text := []byte("ada@example.org 10.0.0.1")
	if got := NewScanner(IPAddress).Scan(nil, text); len(got) != 1 || got[0].Entity != IPAddress {
		t.Errorf("found %v", got)
	}
	if got := NewScanner("NOTHING").Scan(nil, text); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

// TestScanValueKnowsTheMember: the name of a member is context for its digits.
func TestScanValueKnowsTheMember(t *testing.T) {
	s := NewScanner()
	if got := s.ScanValue(nil, "phoneNumber", []byte("612345678")); len(got) != 1 || got[0].Entity != Phone {
		t.Errorf("phoneNumber: %v", got)
	}
	if got := s.ScanValue(nil, "orderNumber", []byte("612345678")); len(got) != 0 {
		t.Errorf("orderNumber: %v", got)
	}
}

// TestScanAllocatesNothing is about texts that need no folding. Folded ones use pooled buffers,
// which the race detector drops now and then.
func TestScanAllocatesNothing(t *testing.T) {
	s := NewScanner()
	for _, tt := range []struct {
		text  string
		limit float64
	}{
		{prose[:4000], 0}, {code[:4000], 0}, {logs[:4000], 0},
		{strings.Repeat("请按照以上说明操作，然后重新启动电脑。", 40), 2},
	} {
		b := []byte(tt.text)
		s.Scan(nil, b)
		if n := testing.AllocsPerRun(50, func() { s.Scan(nil, b) }); n > tt.limit {
			t.Errorf("%.40q: %v allocations", tt.text, n)
		}
	}
}

func TestParseEntity(t *testing.T) {
	for name, want := range map[string]Entity{"EMAIL": Email, "email_address": Email, "US_SSN": SSN, "IP": IPAddress} {
		if got, ok := ParseEntity(name); !ok || got != want {
			t.Errorf("%s is %s, %v", name, got, ok)
		}
	}
	if got, ok := ParseEntity("SHOE_SIZE"); ok {
		t.Errorf("SHOE_SIZE is %s", got)
	}
	for _, e := range Entities() {
		if got, ok := ParseEntity(string(e)); !ok || got != e {
			t.Errorf("%s is %s, %v", e, got, ok)
		}
	}
}
