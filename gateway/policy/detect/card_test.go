package detect

import "testing"

// TestOnlyNumbersDividedAsCardsAreCards checks that a valid check digit alone does not make a row
// of digits a card number.
func TestOnlyNumbersDividedAsCardsAreCards(t *testing.T) {
	tests := []struct{ text, want string }{
		{"4111111111111111", "CREDIT_CARD=4111111111111111"},
		{"4111 1111 1111 1111", "CREDIT_CARD=4111 1111 1111 1111"},
		{"4111-1111-1111-1111", "CREDIT_CARD=4111-1111-1111-1111"},
		{"4111.1111.1111.1111", "CREDIT_CARD=4111.1111.1111.1111"},
		{"4111  1111  1111  1111", "CREDIT_CARD=4111  1111  1111  1111"},
		{"4111 1111  1111 1111", "CREDIT_CARD=4111 1111  1111 1111"},
		{"4111 - 1111 - 1111 - 1111", "CREDIT_CARD=4111 - 1111 - 1111 - 1111"},
		{"3782 822463 10005", "CREDIT_CARD=3782 822463 10005"},
		{"3782-822463-10005", "CREDIT_CARD=3782-822463-10005"},
		{"3056 930902 5904", "CREDIT_CARD=3056 930902 5904"},
		// with a word for card another division is accepted
		{"card: 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "CREDIT_CARD=4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"},
		{"visa 41111111 11111111", "CREDIT_CARD=41111111 11111111"},
		{"visa 4111 1111-1111 1111", "CREDIT_CARD=4111 1111-1111 1111"},

		{"6 7 5 4 3 4 2 1 2 1 4 6 3 6 1 7", ""},
		{"[6 7 5 4 3 4 2 1 2 1 4 6 3 6 1 7]", ""},
		{"Session: 30546174_97402578 initialized", ""},
		{"30546174 97402578", ""},
		{"4111_1111_1111_1111", ""},
		{"4111/1111/1111/1111", ""},
		{"4111 1111-1111 1111", ""},
		{"41 11 11 11 11 11 11 11", ""},
		{"411 111 111 111 1111", ""},
		{"37828 22463 10005", ""},
	}
	for _, tt := range tests {
		if got := findings(tt.text); got != tt.want {
			t.Errorf("%q:\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}
