package mcp

import "testing"

// Invisible characters are removed, and all others remain.
func TestRemoveInvisible(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "Send mail.\n\tNow – §€ 日本", "Send mail.\n\tNow – §€ 日本"},
		{"escape sequences", "a\x1b[31mred\x07\x00b\r", "a[31mredb"},
		{"bidirectional", "safe\u202e evil\u2066x\u2069\u200f", "safe evilx"},
		{"tags", "hi\U000E0049\U000E0067\U000E006E", "hi"},
		{"zero width", "i\u200bg\u2060n\ufeffore\u00ad", "ignore"},
		{"variation selectors", "x\ufe0fy\U000E0101", "xy"},
		{"private use and C1", "a\ue000b\u0085c", "abc"},
		{"line separators", "a\u2028b\u2029c", "abc"},
	}
	for _, tt := range tests {
		if got := RemoveInvisible(tt.in); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Escapes replace invisible characters only, and do not change the JSON value.
func TestEscapeInvisible(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"a":"plain – §€ 日本"}`, `{"a":"plain – §€ 日本"}`},
		{"\"safe\u202e evil\u2066x\"", `"safe\u202e evil\u2066x"`},
		{"\"hi\U000E0049\"", `"hi\udb40\udc49"`},
		{"\"i\u200bg\u00ad\ufeff\u2065\"", `"i\u200bg\u00ad\ufeff\u2065"`},
		{"\"\u009b31m\u007f\u2028\"", `"\u009b31m\u007f\u2028"`},
		{"[\n\t1]", "[\n\t1]"},
	} {
		got := string(EscapeInvisible([]byte(tt.in)))
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
		before, errA := JSON([]byte(tt.in))
		after, errB := JSON([]byte(got))
		if errA != nil || errB != nil || string(before) != string(after) {
			t.Errorf("%q changed its value: %s, %v %v", tt.in, got, errA, errB)
		}
	}
}
