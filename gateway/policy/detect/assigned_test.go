package detect

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

// drawPassword returns a random password of four kinds of characters.
func drawPassword(r *rand.Rand, n int) string {
	return drawText(r, capitals, 1) + drawText(r, smallLetters, 2) + drawText(r, figures, 2) + drawText(r, "!#%^*-+=", 1) + drawText(r, smallLetters+capitals+figures, n-6)
}

// TestSecretsInCommonClothesAreFound: passwords, tokens, hashes and cookies as environment files,
// YAML, JSON, headers, .netrc, Kubernetes, Docker, password files and webhooks hold them, and tokens of
// providers, also inside of base64 and hexadecimal. The values are random, so that this file has no
// secret; 98 of 100 of each kind must be covered by a finding.
func TestSecretsInCommonClothesAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	const mixed, hexes = smallLetters + capitals + figures, "0123456789abcdef"
	b64 := base64.StdEncoding.EncodeToString
	id := func() string {
		return drawText(r, hexes, 8) + "-" + drawText(r, hexes, 4) + "-4" + drawText(r, hexes, 3) + "-a" + drawText(r, hexes, 3) + "-" + drawText(r, hexes, 12)
	}
	word := func(n int) func() string { return func() string { return drawPassword(r, n) } }
	draw := func(prefix, alphabet string, n int) func() string {
		return func() string { return prefix + drawText(r, alphabet, n) }
	}
	of := func(f func() string, wrap func(string) string) func() string {
		return func() string { return wrap(f()) }
	}
	encode := func(s string) string { return b64([]byte(s)) }
	pem := func() string {
		return "-----BEGIN " + "RSA PRIVATE KEY-----\n" + drawText(r, mixed, 64) + "\n" + drawText(r, mixed, 64) + "\n-----END " + "RSA PRIVATE KEY-----\n"
	}
	access := draw("AKI"+"A", capitals, 16)
	live := draw("sk_"+"live_", mixed, 24)
	for _, row := range []struct {
		name, before string
		value        func() string
		after        string
	}{
		{"environment", "DB_HOST=db\nDB_PASSWORD=", word(14), "\nDB_NAME=shop\n"},
		{"environment, quoted", "export MYSQL_PWD='", word(12), "'\n"},
		{"environment, short name", "SMTP_PASS=", word(16), "\n"},
		{"YAML", "database:\n  user: shop\n  password: \"", word(12), "\"\n"},
		{"YAML without quotes", "redis:\n  password: ", word(20), "\n  port: 6379\n"},
		{"JSON", `{"user":"ada","password":"`, word(14), `","host":"db"}`},
		{"JSON in JSON", `{"text":"{\"password\":\"`, word(14), `\"}"}`},
		{"XML", "<datasource><password>", word(14), "</password></datasource>"},
		{"properties", "spring.datasource.password = ", word(14), "\n"},
		{"program", `conn = connect(host="db", password="`, word(14), `")`},
		{"option", "deploy --user ada --password=", word(14), " --now"},
		{"passphrase", "key_passphrase: '", word(18), "'"},
		{"Basic", "GET / HTTP/1.1\r\nAuthorization: Basic ", of(word(14), func(s string) string { return encode("ada:" + s) }), "\r\n"},
		{"cookie", "Cookie: theme=dark; sessionid=", draw("", mixed, 32), "; lang=de\n"},
		{"cookie of a server", "Set-Cookie: connect.sid=", draw("", mixed, 40), "; Path=/; HttpOnly\n"},
		{"Kubernetes Secret", "apiVersion: v1\nkind: Secret\ndata:\n  db: ", of(word(15), encode), "\n"},
		{"Kubernetes Secret as JSON", `{"kind":"Secret","data":{"db":"`, of(word(15), encode), `"}}`},
		{"kubeconfig", "users:\n- name: ada\n  user:\n    client-key-data: ", of(pem, encode), "\n"},
		{"Docker", `{"auths":{"registry.example":{"auth":"`, of(word(16), func(s string) string { return encode("ci:" + s) }), `"}}}`},
		{"npm", "//registry.example/:_auth=", of(word(16), func(s string) string { return encode("ci:" + s) }), "\n"},
		{".netrc", "machine api.example login ada password ", word(12), "\n"},
		{".netrc in lines", "machine api.example\n  login ada\n  password ", word(12), "\n"},
		{"shadow, SHA-512", "ada:", func() string { return "$6$" + drawText(r, mixed, 16) + "$" + drawText(r, mixed+"./", 86) }, ":19700:0:99999:7:::\n"},
		{"shadow, yescrypt", "ada:", func() string { return "$y$j9T$" + drawText(r, mixed, 22) + "$" + drawText(r, mixed+"./", 43) }, ":19700:0:99999:7:::\n"},
		{"htpasswd, MD5", "ada:", func() string { return "$apr1$" + drawText(r, mixed, 8) + "$" + drawText(r, mixed+"./", 22) }, "\n"},
		{"htpasswd, bcrypt", "ada:", func() string { return "$2y$05$" + drawText(r, mixed+"./", 53) }, "\n"},
		{"Azure SAS", "https://shop.blob.example/a?sv=2024-11-04&sp=r&sig=", func() string { return drawText(r, mixed, 20) + "%2B" + drawText(r, mixed, 22) + "%3D" }, "\n"},
		{"Discord", "https://discord.com/api/webhooks/", func() string { return drawText(r, "123456789", 18) + "/" + drawText(r, mixed+"-_", 67) + "x" }, " hook"},
		{"Teams", "https://shop.webhook.office.com/webhookb2/", func() string {
			return id() + "@" + id() + "/IncomingWebhook/" + drawText(r, hexes, 32) + "/" + id()
		}, "\n"},
		{"Terraform", "credentials \"app.terraform.io\" {\n  token = \"", func() string { return drawText(r, mixed, 14) + ".atlasv1." + drawText(r, mixed, 67) }, "\"\n}"},
		{"Cloudflare", "CLOUDFLARE_API_TOKEN=", draw("", mixed, 40), "\n"},
		{"1Password", "", draw("ops_"+"eyJ", mixed, 250), "\n"},
		{"Azure DevOps", "remote ", func() string { return drawText(r, mixed, 76) + "AZ" + "DO" + drawText(r, mixed, 4) }, " set"},
		{"Azure DevOps, older", "AZURE_DEVOPS_EXT_PAT=", draw("", smallLetters+"234567", 52), "\n"},
		{"Okta", "Authorization: SSWS ", draw("00", mixed, 40), "\n"},
		{"Pinecone", "use ", func() string { return "pcs" + "k_" + drawText(r, mixed, 6) + "_" + drawText(r, mixed, 63) }, "."},
		{"Tavily", "use ", draw("tv"+"ly-dev-", mixed, 32), "."},
		{"Neon", "use ", draw("na"+"pi_", smallLetters+figures, 64), "."},
		{"LaunchDarkly", "use ", func() string { return "sd" + "k-" + id() }, "."},
		{"key without a digit", "id ", access, "."},
		{"base64 of a key", "see ", of(access, func(s string) string { return encode("aws: " + s) }), " there"},
		{"base64 of an assignment", "env ", of(live, func(s string) string { return encode("STRIPE=" + s + "\n") }), "\n"},
		{"hexadecimal of a key", "dump ", of(live, func(s string) string { return hex.EncodeToString([]byte(s)) }), "\n"},
	} {
		const drawn = 200
		found, missed := 0, ""
		for range drawn {
			value := row.value()
			text := row.before + value + row.after
			if isCovered(NewScanner(APIKey, PrivateKey, JWT).Scan(nil, []byte(text)), len(row.before), strings.TrimRight(value, "=")) {
				found++
			} else {
				missed = text
			}
		}
		if found*100 < drawn*98 {
			t.Errorf("%s: %d of %d found; missed %q", row.name, found, drawn, missed)
		}
	}
	password := drawPassword(r, 14)
	if got := NewScanner(APIKey).ScanValue(nil, "dbPassword", []byte(password)); len(got) != 1 || got[0] != (Match{APIKey, 0, len(password)}) {
		t.Errorf("the value of a member dbPassword: %v", got)
	}
}

// isCovered reports that one finding has the whole value at start.
func isCovered(found []Match, start int, value string) bool {
	for _, m := range found {
		if m.Start <= start && m.End >= start+len(value) {
			return true
		}
	}
	return false
}

// TestWhatIsAssignedAndNoSecret: words, code, references and samples behind the name of a password,
// cookies without a session, public certificates, and encoded texts without a secret.
func TestWhatIsAssignedAndNoSecret(t *testing.T) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, text := range []string{
		"password: str", "password = getpass()", "password=os.environ['DB_PASSWORD1']", "password: ${DB_PASSWORD_2}", "password=$PGPASS9", "password = user.Password2", "password: string; // 8 to 64",
		`"password": "changeMe123!"`, "password=Example#2026", "password: <your-password-1>", "password: {{ vault_db_password_2 }}", "pwd=/home/ada/Project2", "password=https://vault.example/V2",
		"password: required|min:8|max:64", "password_changed_at: 2026-03-01T10:00:00Z", `{"password_hint":"the 3rd dog"}`, "Password: at least 8 characters", "password=********", "forgot password? Call 3 times.",
		"password=vault:secret/data/shop#db1", "PASSWORD=7c41f0ae-93d2-4b58-a6e1-0f2d9b83c5e7", "type=\"password\" id=\"loginField2\"", "the password is not set", "compass: 17.5N", "basic training2", "Basic SGVsbG8gdGhlcmUsIGhvdyBhcmU=",
		"Cookie: theme=dark; lang=de; _ga=GA1.2.1234567890.1234567890", "a cookie: 3 eggs", "session=warm-up-of-the-committee-2026",
		"kind: ConfigMap\ndata:\n  greeting: SGVsbG8sIHdvcmxk\n", "kind: Secret\nmetadata:\n  name: shop-database\n", "certificate-authority-data: " + encode("-----BEGIN CERTIFICATE-----\n"+strings.Repeat("MIIDazCCAlOgAwIB", 8)),
		"machine learning: login page, password reset", "echo $1 $2 $6$x", "costs $5$ or $6$", "x&sig=abc", "discord.com/api/webhooks/ID/TOKEN", "api-7c41f0ae-93d2-4b58-a6e1-0f2d9b83c5e7",
		encode("The committee meets on Tuesday, all members have received the minutes."), hex.EncodeToString([]byte("The committee meets on Tuesday")), "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
		"AKIA" + "EXAMPLEEXAMPLEEX", "sk_live_" + "yourSecretKeyGoesHere", "SSWS ${api_token}", "tvly-" + "YOUR_API_KEY_GOES_RIGHT_HERE_PLEASE",
	} {
		if got := NewScanner(APIKey, PrivateKey, JWT).Scan(nil, []byte(text)); len(got) != 0 {
			t.Errorf("%q: %q", text, text[got[0].Start:got[0].End])
		}
	}
}
