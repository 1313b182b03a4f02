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
