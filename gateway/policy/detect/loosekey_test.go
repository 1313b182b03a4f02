package detect

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	smallLetters = "abcdefghijklmnopqrstuvwxyz"
	capitals     = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	figures      = "0123456789"
)

// drawText returns n random characters of an alphabet.
func drawText(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// TestRandomKeysBehindTheirNamesAreFound generates 2,000 keys of each kind. Of every kind more
// than 98 of 100 must be found completely.
func TestRandomKeysBehindTheirNamesAreFound(t *testing.T) {
	kinds := []struct {
		name, alphabet string
		lengths        []int
	}{
		{"small letters and digits", smallLetters + figures, []int{24, 32, 40, 64}},
		{"small base32", smallLetters + "234567", []int{24, 26, 32, 40, 52, 64}},
		{"capital base32", capitals + "234567", []int{26, 32, 52}},
		{"hexadecimal", "0123456789abcdef", []int{32, 40, 64}},
		{"letters of both cases and digits", smallLetters + capitals + figures, []int{24, 32, 40, 64}},
	}
	names := []string{"api_key = %s", "API_KEY=%s", `"apiKey": "%s",`, "client_secret: '%s'", "X_AUTH_TOKEN=%s\n"}
	r := rand.New(rand.NewPCG(1, 2))
	s := NewScanner()
	for _, k := range kinds {
		for _, n := range k.lengths {
			const drawn = 2000
			found := 0
			var missed string
			for i := range drawn {
				key := drawText(r, k.alphabet, n)
				text := fmt.Sprintf(names[i%len(names)], key)
				got := s.Scan(nil, []byte(text))
				at := strings.Index(text, key)
				if len(got) == 1 && got[0] == (Match{APIKey, at, at + n}) {
					found++
				} else {
					missed = text
				}
			}
			if found*100 <= drawn*98 {
				t.Errorf("%s, %d characters: %d of %d found; missed %q", k.name, n, found, drawn, missed)
			}
		}
	}
}

// TestNamesAndWordsBehindKeyWordsAreNoKeys checks that text that consists of words is no key,
// whatever precedes it and however many digits it has.
func TestNamesAndWordsBehindKeyWordsAreNoKeys(t *testing.T) {
	values := []string{
		"authenticationrequired", "internationalization", "responsibilitiesandduties", "counterrevolutionaries",
		"application_default_credentials", "get_access_token_from_environment2", "process.env.MY_SERVICE_API_KEY_2",
		"my-service-account-2024-production", "quarterly-report-2026-final-v2", "how-to-rotate-your-api-keys-in-2026",
		"kubernetes-dashboard-token-reader1", "tokenizer_config_v2.backup.json", "config/secrets/production-2026.yaml",
		"src/main/resources/application2.properties", "TestTheTokenIsRefreshed2Times", "refreshTokenExpiresInSeconds30",
		"com.example.security.TokenProviderV2", "vault:secret/data/payments2/database", "abcdefghijklmnopqrstuvwxyz0123456789",
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "your_api_key_goes_here_123456", "zugriffsschluesselverwaltung2026",
		"donaudampfschifffahrtsgesellschaft", "anticonstitutionnellement1", "sha256-checksum-of-the-archive",
		"secretsmanager.eu-central-1.amazonaws.com", "next-page-of-results-00017", "2026-03-01T10-00-00-backup-nightly",
	}
	for _, name := range []string{"api_key = ", "API_KEY=", `"secret": "`, "token: ", "client_secret: "} {
		for _, v := range values {
			if got := findings(name + v); got != "" {
				t.Errorf("%s%s: %s", name, v, got)
			}
		}
	}
}

// TestAUUIDIsAKeyOnlyBehindTheNameOfOne checks that a UUID is a key only after the name of one,
// because most UUIDs are no secrets.
func TestAUUIDIsAKeyOnlyBehindTheNameOfOne(t *testing.T) {
	const id = "7c41f0ae-93d2-4b58-a6e1-0f2d9b83c5e7"
	for _, format := range []string{
		"HEROKU_API_KEY=%s", "//registry.example/:_authToken=%s", "secret: %s", "{\"client_secret\": \"%s\"}", "export PINGDOM_API_TOKEN='%s'",
		"X-Api-Key: %s", "apiKey = \"%s\";", "<api_key>%s</api_key>", "API_KEY=%s\nREGION=eu",
	} {
		text := fmt.Sprintf(format, id)
		if got, want := findings(text), "API_KEY="+id; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for _, format := range []string{
		"%s", "id: %s", "request_id=%s", "trace %s done", "secret_id: %s", "api_key_id=%s", "tenant: %s", "X-Request-Id: %s", "https://shop.example/orders/%s",
		"page_token=%s", "sync token: %s", "secret version %s", "the api key of %s", "secrets/%s", "key: %s", "signature=%s",
	} {
		text := fmt.Sprintf(format, id)
		if got := findings(text); got != "" {
			t.Errorf("%q: got %q", text, got)
		}
	}
	if got := NewScanner().ScanValue(nil, "api_key", []byte(id)); len(got) != 1 || got[0] != (Match{APIKey, 0, len(id)}) {
		t.Errorf("the value of a member api_key: %v", got)
	}
	if got := NewScanner().ScanValue(nil, "request_id", []byte(id)); len(got) != 0 {
		t.Errorf("the value of a member request_id: %v", got)
	}
}
