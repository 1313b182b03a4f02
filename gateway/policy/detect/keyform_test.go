package detect

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestKeysOfProvidersAreFound generates the keys, so that this file contains none, and checks
// their exact span.
func TestKeysOfProvidersAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const mixed, hex = smallLetters + capitals + figures, "0123456789abcdef"
	const bech32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
	segment := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	jwt := segment(`{"alg":"HS256","typ":"JWT"}`) + "." + segment(`{"sub":"42","name":"Ada"}`) + "." + drawText(r, mixed, 43)
	for range 200 {
		telegram := drawText(r, "123456789", 10) + ":AA" + drawText(r, mixed+"-_", 32) + drawText(r, mixed, 1)
		slack := "T" + drawText(r, capitals+figures, 10) + "/B" + drawText(r, capitals+figures, 10) + "/" + drawText(r, mixed, 24)
		age := "AGE-SECRET-" + "KEY-1" + drawText(r, bech32, 58)
		mailchimp := drawText(r, hex, 32) + "-us30"
		airtable := "pat" + drawText(r, mixed, 14) + "." + drawText(r, hex, 64)
		grafana := base64.StdEncoding.EncodeToString([]byte(`{"k":"` + drawText(r, mixed, 32) + `","n":"ci","id":1}`))
		encoded := base64.StdEncoding.EncodeToString([]byte(jwt))
		tests := []struct {
			before, secret, after string
			entity                Entity
		}{
			{"TELEGRAM_BOT=", telegram, "\n", APIKey},
			{"https://api.telegram.org/bot", telegram, "/getMe", APIKey},
			{"curl https://hooks.slack." + "com/services/", slack, " -d '{}'", APIKey},
			{"# public key: age1xyz\n", age, "\n", APIKey},
			{"mailchimp ", mailchimp, ", list 7", APIKey},
			{"Authorization: Bearer ", airtable, "\n", APIKey},
			{"grafana: ", grafana, "\n", APIKey},
			{"token in the Secret: ", encoded, "\n", JWT},
			{`{"data":"`, encoded, `"}`, JWT},
		}
		for _, tt := range tests {
			text := tt.before + tt.secret + tt.after
			got := NewScanner().Scan(nil, []byte(text))
			if want := (Match{tt.entity, len(tt.before), len(tt.before) + len(tt.secret)}); len(got) != 1 || got[0] != want {
				t.Fatalf("%q: got %v, want %v", text, got, want)
			}
		}
	}
	old := "key" + "Q7xTz1mVb4Lw9c"
	if got := findings("AIRTABLE_API_KEY=" + old); got != "API_KEY="+old {
		t.Errorf("an old Airtable key: %q", got)
	}
}

// TestWhatResemblesKeysOfProvidersIsNone checks that placeholders and ordinary text do not match
// the shapes.
func TestWhatResemblesKeysOfProvidersIsNone(t *testing.T) {
	for _, text := range []string{
		"https://hooks.slack." + "com/services/T00000000/B00000000/" + strings.Repeat("X", 24),
		"https://hooks.slack." + "com/services/your/webhook/path-goes-here-please-1",
		"1234567890:" + "AA" + strings.Repeat("x", 33), "1234567890:A", "bot12345678:", "12345678:Application started 10 seconds ago",
		"AGE-SECRET-" + "KEY-1" + strings.Repeat("Q", 58), "d41d8cd98f00b204e9800998ecf8427e-us", "d41d8cd98f00b204e9800998ecf8427e-use1",
		"keyboardLayout123", "api_key = keyboardLayout123", "patterns.of.words" + strings.Repeat(".and.so.on", 7),
		base64.StdEncoding.EncodeToString([]byte(`eyJhbGciOiJIUzI1NiJ9 is how it begins`)), "ZXlK",
	} {
		if got := findings(text); got != "" {
			t.Errorf("%q: %s", text, got)
		}
	}
}
