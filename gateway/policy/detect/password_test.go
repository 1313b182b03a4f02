package detect

import (
	"strings"
	"testing"
)

// TestPasswordsBehindUsersAreFound marks the password by ‹ and ›: exactly this part is found, so
// that redaction leaves the user and the host.
func TestPasswordsBehindUsersAreFound(t *testing.T) {
	for _, marked := range []string{
		"https://ada:‹correct-horse›@db.example.com/x",
		"DATABASE_URL=postgres://app:‹s3cret›@db.example.com:5432/app?sslmode=require",
		`dsn = "mysql://root:‹hunter2›@[::1]:3306/shop"`,
		"mongodb+srv://svc:‹p%40ss:w0rd!›@h1.example:27017,h2.example:27017/admin",
		"redis://:‹p4ss›@cache.internal:6379/0",
		"amqp://app:‹p@ssw0rd›@broker:5672/%2F",
		"http://127.0.0.1:9000 then ftp://mirror:‹Tr0ub4dor›@10.0.0.7/pub",
		"postgres://app:‹%24ecret›@${DB_HOST}/app",
		"curl -u ada:‹hunter2› https://api.example.com",
		"curl -sS -u 'ada:‹two words›' https://api.example.com",
		`curl --user "ada:‹hunter2›" https://api.example.com`,
		"curl --user=ada:‹hunter2› https://api.example.com",
		"curl -uada:‹hunter2› https://api.example.com",
		"curl -sku ada:‹hunter2› https://api.example.com",
		"curl https://api.example.com \\\n  -X POST \\\n  -u ada:‹hunter2›\n",
		"curl --proxy-user ada:‹hunter2› -x http://proxy.example https://api.example.com",
		"ａda://x:‹ｐw1›@host.example",
	} {
		before, rest, _ := strings.Cut(marked, "‹")
		secret, after, _ := strings.Cut(rest, "›")
		text := before + secret + after
		got := NewScanner(APIKey).Scan(nil, []byte(text))
		if want := (Match{APIKey, len(before), len(before) + len(secret)}); len(got) != 1 || got[0] != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
			continue
		}
		if out := string(Redact(nil, []byte(text), got, Replace, nil)); out != before+"[API_KEY]"+after {
			t.Errorf("%q became %q", text, out)
		}
	}
}

// TestWhatStandsBeforePasswordsIsStillRead checks that users are scanned too.
func TestWhatStandsBeforePasswordsIsStillRead(t *testing.T) {
	for text, want := range map[string]string{
		"curl -u ada@mail.example.org:hunter2 https://x.example":                                   "EMAIL=ada@mail.example.org | API_KEY=hunter2",
		"https://ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a:x-oauth-basic@github.example/a.git": "API_KEY=ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
		"https://ci:hunter2@10.0.0.7/x":                                                            "API_KEY=hunter2 | IP_ADDRESS=10.0.0.7",
	} {
		if got := findings(text); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestPlacesWithoutAPasswordAreNone: ports, paths, other options, and placeholders.
func TestPlacesWithoutAPasswordAreNone(t *testing.T) {
	for _, text := range []string{
		"https://user:password@host.example", "https://user:pass@host.example", "postgres://user:secret@host.example/db", "https://user:your_password@host.example",
		"postgres://app:$PASSWORD@host.example", "postgres://app:${PASSWORD}@host.example", "https://user:<password>@host.example", "https://{user}:{pass}@host.example",
		"https://user:%s@host.example", "smb://user[:password]@host.example/share", "https://user:****@host.example", "https://user:xxxxx@host.example", "amqp://guest:guest@broker:5672", "postgres://postgres:postgres@localhost/x",
		"https://host.example:8443/@user", "https://host.example:8443/a@b", "https://host.example:8443?x=a@b", "http://user@host.example:80/", "https://medium.example/@ada: hi", "ratio 3://4:5@",
		"git@host.example:org/repo.git", "http://a:b c@d",
		"docker run -u 1000:1000 image", "chown -u ada:staff file", "curl https://x.example\ndocker run -u 1000:1000 image", "curl -u ada https://x.example", "curl -u ada: https://x.example",
		"curl -u $USER:$PASS https://x.example", "curl -u '<user>:<password>' https://x.example", "curl -u user:password https://x.example", "curl --user-agent a:b https://x.example", "curl -H a:b",
		"the option -u user:hunter2",
	} {
		if got := NewScanner(APIKey).Scan(nil, []byte(text)); len(got) != 0 {
			t.Errorf("%q: %q", text, text[got[0].Start:got[0].End])
		}
	}
}
