package ui

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/server"
	"svc/store"
)

// door is the page itself, for requests that no browser sends.
type door struct {
	*rig
	page *Page
	api  *server.Server
	log  journal
}

// journal has what was logged.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// newDoor serves the page at 127.0.0.1:8080, and behind a TLS proxy as svc.example.
func newDoor(t testing.TB) *door {
	t.Helper()
	d := &door{rig: newRig(t)}
	log := slog.New(slog.NewTextHandler(&d.log, nil))
	var err error
	if d.api, err = server.New(server.Options{Records: d.store, Traces: d.store, Now: d.now, Logger: log, RateLimit: 5}); err != nil {
		t.Fatal(err)
	}
	d.page = New(Options{API: d.api, Records: d.store, Hosts: []string{"svc.example", "svc.example.org:8443"}, Name: "plane.internal", Port: "8080",
		Now: d.now, Logger: log, Count: d.api.CountPage})
	return d
}

// here is where requests of the tests go.
const hereURL = "http://127.0.0.1:8080"

// request makes a request as the form of the page on loopback does; change, as name, value pairs, replaces headers:
// "-" removes one; Host, Remote and TLS are no headers.
func (d *door) request(method, target string, form url.Values, change ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:40000"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", hereURL)
	}
	for i := 0; i+1 < len(change); i += 2 {
		switch name, value := change[i], change[i+1]; {
		case name == "Host":
			r.Host = value
		case name == "Remote":
			r.RemoteAddr = value
		case name == "TLS":
			r.TLS = &tls.ConnectionState{}
		case value == "-":
			r.Header.Del(name)
		case name[0] == '+':
			r.Header.Add(name[1:], value)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

func (d *door) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.page.ServeHTTP(w, r)
	return w
}

// signIn signs in with a key.
func (d *door) signInAs(key string, change ...string) *httptest.ResponseRecorder {
	return d.send(d.request("POST", "/signin", url.Values{"key": {key}}, change...))
}

// cookie signs in and returns the cookie, as a browser sends it.
func (d *door) cookie(key string) string {
	d.t.Helper()
	w := d.signInAs(key)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 {
		d.t.Fatalf("sign-in: %d %s", w.Code, w.Body)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// signedIn reports whether a cookie opens a page.
func (d *door) signedIn(cookie string) bool {
	w := d.send(d.request("GET", "/policies", nil, "Cookie", cookie))
	return w.Code == http.StatusOK
}

// token returns the token of a session.
func (d *door) token(cookie string) string {
	d.t.Helper()
	found := tokens.FindStringSubmatch(d.send(d.request("GET", "/policies", nil, "Cookie", cookie)).Body.String())
	if found == nil {
		d.t.Fatal("no token")
	}
	return found[1]
}

// wrong returns the n-th well-formed key that nobody has.
func wrong(n int) string { return fmt.Sprintf("svc_api_%032d", n) }

// problem returns the text of a page's problem, or of an error page.
func problem(w *httptest.ResponseRecorder) string {
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(w.Body.String(), "")
	return strings.Join(strings.Fields(text), " ")
}

// TestCookie: the cookie has the attributes that keep it from scripts, other sites and other ports, is new at every
// sign-in, opens nothing under /api, and replaces the session that the browser had.
func TestCookie(t *testing.T) {
	d := newDoor(t)
	for _, row := range []struct {
		what   string
		change []string
		name   string
		secure bool
	}{
		{"loopback", nil, "svc-8080", false},
		{"localhost", []string{"Host", "localhost:8080", "Origin", "http://localhost:8080"}, "svc-8080", false},
		{"IPv6 loopback", []string{"Host", "[::1]:8080", "Origin", "http://[::1]:8080"}, "svc-8080", false},
		{"a forwarded port", []string{"Host", "localhost:9", "Origin", "http://localhost:9"}, "svc-8080", false},
		{"TLS", []string{"Host", "plane.internal:8080", "TLS", "", "Origin", "https://plane.internal:8080"}, "__Host-svc-8080", true},
		{"TLS at its own port", []string{"Host", "plane.internal:443", "TLS", "", "Origin", "https://plane.internal"}, "__Host-svc-8080", true},
		{"TLS on loopback", []string{"TLS", "", "Origin", "https://127.0.0.1:8080"}, "__Host-svc-8080", true},
		{"an address with TLS", []string{"Host", "192.0.2.7:8080", "TLS", "", "Origin", "https://192.0.2.7:8080"}, "__Host-svc-8080", true},
		{"a proxy", []string{"Host", "svc.example", "Origin", "https://svc.example"}, "__Host-svc-8080", true},
		{"a proxy, in capitals", []string{"Host", "SVC.Example", "Origin", "https://svc.example"}, "__Host-svc-8080", true},
		{"a proxy at a port", []string{"Host", "svc.example.org:8443", "Origin", "https://svc.example.org:8443"}, "__Host-svc-8080", true},
	} {
		w := d.signInAs(d.admin, row.change...)
		got := strings.Join(w.Header().Values("Set-Cookie"), "|")
		want := `^` + row.name + `=one\.key_[0-9a-z]+\.[A-Z2-7]{52}; Path=/; Max-Age=43200; HttpOnly; `
		if row.secure {
			want += "Secure; "
		}
		if w.Code != http.StatusSeeOther || !regexp.MustCompile(want+`SameSite=Lax$`).MatchString(got) || w.Header().Get("Location") != "/" {
			t.Errorf("%s: %d, cookie %q: %s", row.what, w.Code, got, problem(w))
		}
	}

	first := d.cookie(d.admin)
	if again := d.cookie(d.admin); again == first || !d.signedIn(first) || !d.signedIn(again) {
		t.Error("two browsers do not have a session each")
	}
	// A session that somebody has planted ends at the sign-in, and is not taken over.
	planted := d.cookie(d.other)
	w := d.signInAs(d.admin, "Cookie", planted)
	if mine := strings.Join(w.Header().Values("Set-Cookie"), ""); strings.HasPrefix(mine, planted) || w.Code != http.StatusSeeOther {
		t.Errorf("%d, %q after %q", w.Code, mine, planted)
	}
	if d.signedIn(planted) {
		t.Error("the session before the sign-in still opens pages")
	}
	if r := d.request("GET", "/api/policies", nil, "Cookie", first); d.send(r).Code != http.StatusUnauthorized {
		t.Error("the cookie opens the API")
	}

	// What is no session.
	name, value, _ := strings.Cut(first, "=")
	parts := strings.Split(value, ".")
	for what, cookie := range map[string]string{
		"no cookie": "", "empty": name + "=", "two": first + "; " + first, "another's beside it": name + "=two.key_1.X; " + first,
		"another port": "svc-8081=" + value, "with the prefix of TLS": "__Host-" + first, "another tenant": name + "=two." + parts[1] + "." + parts[2],
		"an unknown tenant": name + "=nobody." + parts[1] + "." + parts[2], "another key": name + "=one.key_x." + parts[2], "no key": name + "=one.." + parts[2],
		"another secret": name + "=one." + parts[1] + ".0" + parts[2][1:], "a cut secret": first[:len(first)-1], "more": first + ".x", "a long one": first + strings.Repeat("x", 5000),
		"the API key as its secret": name + "=one." + parts[1] + "." + d.admin, "the API key": name + "=" + d.admin, "a zero byte": name + "=one.a\x00b." + parts[2],
	} {
		w := d.send(d.request("GET", "/policies?q=1", nil, "Cookie", cookie))
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/signin?to=%2Fpolicies%3Fq%3D1" {
			t.Errorf("%s: %d to %q", what, w.Code, w.Header().Get("Location"))
		}
	}
	if w := d.send(d.request("GET", "/signin", nil, "Cookie", first+"; "+first)); !strings.Contains(problem(w), "several cookies svc-8080") {
		t.Errorf("two cookies: %s", problem(w))
	}
	if !d.signedIn(first) {
		t.Error("the session has ended")
	}
	d.advance(store.SessionLasts)
	if d.signedIn(first) {
		t.Error("the session lasts more than 12 hours")
	}
}

// TestWrongKeys: an address has ten wrong keys a minute, a right one always passes, and nothing of a key is logged.
func TestWrongKeys(t *testing.T) {
	d := newDoor(t)
	ingest := d.key("ingest")
	for n := range 10 {
		if w := d.signInAs(wrong(n)); w.Code != http.StatusUnauthorized || w.Header().Get("Set-Cookie") != "" {
			t.Fatalf("wrong key %d: %d", n, w.Code)
		}
	}
	for _, key := range []string{wrong(11), "", "x", d.admin + "x", "svc_ingest_" + strings.TrimPrefix(d.admin, "svc_api_")} {
		if w := d.signInAs(key); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "60" {
			t.Errorf("%q: %d, Retry-After %q", key, w.Code, w.Header().Get("Retry-After"))
		}
	}
	d.cookie(" " + d.admin + "\n") // as it is pasted
	if w := d.signInAs(ingest); w.Code != http.StatusUnauthorized || !strings.Contains(problem(w), "scope ingest is for gateways") {
		t.Errorf("a key of scope ingest: %d %s", w.Code, problem(w))
	}
	d.cookie(d.key("agent", "name", "a"))
	d.advance(time.Minute)
	if w := d.signInAs(wrong(1)); w.Code != http.StatusUnauthorized {
		t.Errorf("a minute later: %d", w.Code)
	}

	// Whose window it is.
	proxy := []string{"Host", "svc.example", "Origin", "https://svc.example"}
	for _, row := range []struct {
		what        string
		first, then []string
		same        bool
	}{
		{"another address", []string{"Remote", "192.0.2.1:1"}, []string{"Remote", "192.0.2.2:1"}, false},
		{"another port", []string{"Remote", "192.0.2.3:1"}, []string{"Remote", "192.0.2.3:2"}, true},
		{"a neighbor of IPv6", []string{"Remote", "[2001:db8::1]:1"}, []string{"Remote", "[2001:db8::ffff:1]:1"}, true},
		{"another network of IPv6", []string{"Remote", "[2001:db8:1::1]:1"}, []string{"Remote", "[2001:db8:1:1::1]:1"}, false},
		{"an address of IPv4 in IPv6", []string{"Remote", "[::ffff:192.0.2.4]:1"}, []string{"Remote", "192.0.2.4:1"}, true},
		{"a header that the client sends", []string{"Remote", "192.0.2.5:1", "X-Forwarded-For", "198.51.100.1"}, []string{"Remote", "192.0.2.5:1", "X-Forwarded-For", "198.51.100.2"}, true},
		{"and with the name of the proxy", append(proxy, "Remote", "192.0.2.6:1", "X-Forwarded-For", "198.51.100.1"), append(proxy, "Remote", "192.0.2.6:1", "X-Forwarded-For", "198.51.100.2"), true},
		{"on loopback without the name of the proxy", []string{"X-Forwarded-For", "198.51.100.3"}, []string{"X-Forwarded-For", "198.51.100.4"}, true},
		{"behind the proxy", append(proxy, "X-Forwarded-For", "198.51.100.5"), append(proxy, "X-Forwarded-For", "198.51.100.6"), false},
		{"behind the proxy, with entries of the client", append(proxy, "X-Forwarded-For", "a, 198.51.100.7"), append(proxy, "X-Forwarded-For", "198.51.100.8,198.51.100.7"), true},
		{"behind the proxy, without an address", append(proxy, "X-Forwarded-For", "unknown"), append(proxy, "X-Forwarded-For", ""), true},
	} {
		d.advance(2 * time.Minute)
		for n := range 10 {
			if w := d.signInAs(wrong(n), row.first...); w.Code != http.StatusUnauthorized {
				t.Fatalf("%s: wrong key %d: %d %s", row.what, n, w.Code, problem(w))
			}
		}
		if w := d.signInAs(wrong(1), row.then...); (w.Code == http.StatusTooManyRequests) != row.same {
			t.Errorf("%s: %d", row.what, w.Code)
		}
	}

	log := d.log.String()
	for _, text := range []string{`msg="sign-in refused" address=127.0.0.1 reason="This API key is not known`, `address=198.51.100.5`, `msg="signed in" tenant=one key=key_`} {
		if !strings.Contains(log, text) {
			t.Errorf("%q is not in the log", text)
		}
	}
	for _, secret := range []string{d.admin, ingest, wrong(1)[9:]} {
		if strings.Contains(log, secret) {
			t.Error("a key is in the log")
		}
	}
	if n := strings.Count(log, "sign-in refused"); n != 10+1+11*10+3 {
		t.Errorf("%d refusals are logged", n)
	}
}

// TestWhereASignInLeads: only to a page of ours.
func TestWhereASignInLeads(t *testing.T) {
	d := newDoor(t)
	for to, want := range map[string]string{
		"/": "/", "/traces": "/traces", "/traces?tool=a%20b&limit=5": "/traces?tool=a%20b&limit=5", "/traces/a%2Fb": "/traces/a%2Fb", "/traces/%252F": "/traces/%252F",
		"/policies?q=//x": "/policies?q=//x",
		"":                "/", "//evil.example": "/", "///evil.example": "/", "/\\evil.example": "/", "\\\\evil.example": "/", "/\\/evil.example": "/", "/%2Fevil.example": "/",
		"/%2f/evil.example": "/", "/%5Cevil.example": "/", "/%5c%5cevil.example": "/", "https://evil.example": "/", "https:evil.example": "/", "https:/evil.example": "/",
		"HTTPS://evil.example/": "/", "http://127.0.0.1:8080/traces": "/", "javascript:alert(1)": "/", "data:text/html,x": "/", "evil.example": "/", ".evil.example": "/",
		"@evil.example": "/", "/\t/evil.example": "/", "/\n/evil.example": "/", "\t//evil.example": "/", " //evil.example": "/", "/ /evil.example": "/", "/\r\nSet-Cookie: a=b": "/",
		"/traces\x00": "/", "/x/..//evil.example": "/", "/.//evil.example": "/", "/./evil.example": "/", "/../evil.example": "/", "/traces/../x": "/", "/traces#x": "/",
		"/\u2028/evil.example": "/", "/／evil.example": "/", "/%": "/", "//user@evil.example": "/", "?to=//evil.example": "/", "#//evil.example": "/",
		"/signin": "/", "/signin?to=//evil.example": "/", "/signout": "/", "/api/traces": "/", "/" + strings.Repeat("a", 4000): "/",
	} {
		w := d.send(d.request("POST", "/signin", url.Values{"key": {d.admin}, "to": {to}}))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
		form := d.send(d.request("GET", "/signin?"+url.Values{"to": {to}}.Encode(), nil)).Body.String()
		if !strings.Contains(form, `name="to" value="`+strings.ReplaceAll(want, "&", "&amp;")+`"`) {
			t.Errorf("%q: the form has %s", to, form)
		}
	}
	// Paths that browsers normalize are no redirects of ours either.
	for _, path := range []string{"//evil.example", "//evil.example/..", "/x/..//evil.example", "/./traces"} {
		w := d.send(d.request("GET", "http://127.0.0.1:8080"+path, nil))
		if w.Code != http.StatusNotFound || w.Header().Get("Location") != "" {
			t.Errorf("%s: %d to %q", path, w.Code, w.Header().Get("Location"))
		}
	}
}

// TestHosts: names under which somebody else may have led a browser here get no page, and no session is looked up.
func TestHosts(t *testing.T) {
	d := newDoor(t)
	cookie := d.cookie(d.admin)
	for host, served := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.1": true, "localhost": true, "LOCALHOST:8080": true, "localhost.": true, "localhost.:8080": true, "[::1]:8080": true, "[::1]": true,
		"192.0.2.7:8080": true, "[2001:db8::1]:8080": true, "plane.internal:8080": true, "Plane.Internal": true, "svc.example": true, "svc.example:8443": true, "SVC.EXAMPLE": true,
		"svc.example.": true, "svc.example.org": true,
		"": false, "evil.example": false, "evil.example:8080": false, "svc.example.evil.example": false, "xsvc.example": false, "evil@svc.example": false, "svc.example@evil.example": false,
		"localhost.evil.example": false, "127.0.0.1.evil.example": false, "127.0.0.1.nip.io": false, "localhost:80:80": false, "svc.example..": false, "[::1": true, "[localhost]": true,
		"127.1": false, "2130706433": false, "0x7f000001": false, "localhost/": false, "local host": false, ":8080": false, "*.example": false, "xn--svc-example": false,
	} {
		w := d.send(d.request("GET", "/policies", nil, "Host", host, "Cookie", cookie))
		if (w.Code != http.StatusMisdirectedRequest) != served {
			t.Errorf("%q: %d", host, w.Code)
		}
		if !served && strings.Contains(w.Body.String(), "Sign out") {
			t.Errorf("%q: the page knows the session", host)
		}
		if w := d.send(d.request("GET", "/healthz", nil, "Host", host)); w.Code != http.StatusOK {
			t.Errorf("%q: /healthz %d", host, w.Code)
		}
		if w := d.send(d.request("GET", "/api/policies", nil, "Host", host)); w.Code != http.StatusUnauthorized && w.Code != http.StatusTooManyRequests {
			t.Errorf("%q: /api %d", host, w.Code)
		}
	}
}

// TestWrites: only a form of the page itself changes something.
func TestWrites(t *testing.T) {
	d := newDoor(t)
	cookie := d.cookie(d.admin)
	token, another := d.token(cookie), d.token(d.cookie(d.admin))
	if token == another {
		t.Fatal("two sessions have one token")
	}
	form := func(token string) url.Values { return url.Values{"token": {token}} }
	for _, row := range []struct {
		what   string
		token  string
		change []string
		status int
		says   string
	}{
		{"no Origin", token, []string{"Origin", "-"}, 403, "does not come from this page"},
		{"an Origin of null", token, []string{"Origin", "null"}, 403, "does not come from this page"},
		{"an empty Origin", token, []string{"Origin", ""}, 403, "does not come from this page"},
		{"two Origins", token, []string{"+Origin", "http://evil.example"}, 403, "does not come from this page"},
		{"another site", token, []string{"Origin", "http://evil.example"}, 403, "does not come from this page"},
		{"a neighbor on loopback", token, []string{"Origin", "http://127.0.0.1:3000"}, 403, "does not come from this page"},
		{"another name of loopback", token, []string{"Origin", "http://localhost:8080"}, 403, "does not come from this page"},
		{"another scheme", token, []string{"Origin", "https://127.0.0.1:8080"}, 403, "does not come from this page"},
		{"no port", token, []string{"Origin", "http://127.0.0.1"}, 403, "does not come from this page"},
		{"a longer Origin", token, []string{"Origin", "http://127.0.0.1:80801"}, 403, "does not come from this page"},
		{"an Origin with a path", token, []string{"Origin", hereURL + "/"}, 403, "does not come from this page"},
		{"the proxy over plain HTTP", token, []string{"Host", "svc.example", "Origin", "http://svc.example"}, 403, "does not come from this page"},
		{"a proxy that sends another Host", token, []string{"Origin", "https://svc.example"}, 403, "proxy_set_header Host $http_host;"},
		{"the name of the listener over plain HTTP", token, []string{"Host", "plane.internal:8080", "Origin", "http://plane.internal:8080"}, 403, "does not come from this page"},
		{"another site, says the browser", token, []string{"Sec-Fetch-Site", "cross-site"}, 403, "by another site"},
		{"the same site", token, []string{"Sec-Fetch-Site", "same-site"}, 403, "by another site"},
		{"this and another site", token, []string{"Sec-Fetch-Site", "same-origin", "+Sec-Fetch-Site", "cross-site"}, 403, "by another site"},
		{"nobody, says the browser", token, []string{"Sec-Fetch-Site", "none"}, 403, "by another site"},
		{"no token", "", nil, 403, "belongs to another session"},
		{"the token of another session", another, nil, 403, "belongs to another session"},
		{"a prefix of the token", token[1:], nil, 403, "belongs to another session"},
		{"JSON", token, []string{"Content-Type", "application/json"}, 415, "takes forms only"},
		{"a plain text", token, []string{"Content-Type", "text/plain"}, 415, "takes forms only"},
		{"parts", token, []string{"Content-Type", "multipart/form-data; boundary=x"}, 415, "takes forms only"},
		{"no type", token, []string{"Content-Type", "-"}, 415, "takes forms only"},
		{"a large form", strings.Repeat("x", maxForm), nil, 413, "too large"},
	} {
		change := append([]string{"Cookie", cookie + "; __Host-" + cookie}, row.change...)
		for _, path := range []string{"/signout", "/policies/pol_1", "/approvals/apr_1"} {
			w := d.send(d.request("POST", path, form(row.token), change...))
			if w.Code != row.status || !strings.Contains(problem(w), row.says) || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s: %s: %d %s", row.what, path, w.Code, problem(w))
			}
		}
	}
	// The token does not stand for the form's body.
	if w := d.send(d.request("POST", "/signout?token="+token, form(""), "Cookie", cookie)); w.Code != http.StatusForbidden {
		t.Errorf("a token in the address: %d", w.Code)
	}
	// A sign-in that another site sends (login CSRF), and a sign-out without a session.
	for _, origin := range []string{"http://evil.example", "null", "-", "https://127.0.0.1:8080"} {
		if w := d.signInAs(d.admin, "Origin", origin); w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("sign-in from %q: %d", origin, w.Code)
		}
		if w := d.send(d.request("POST", "/signout", form(""), "Origin", origin)); w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("sign-out from %q: %d", origin, w.Code)
		}
	}
	if !d.signedIn(cookie) {
		t.Fatal("the session has ended")
	}
	// Addresses in the clear that a browser would keep no cookie for.
	w := d.signInAs(d.admin, "Host", "192.0.2.7:8080", "Origin", "http://192.0.2.7:8080")
	if w.Code != http.StatusForbidden || !strings.Contains(problem(w), "not encrypted, so nobody can sign in here. Open https://svc.example instead") {
		t.Errorf("in the clear: %d %s", w.Code, problem(w))
	}

	w = d.send(d.request("POST", "/signout", form(token), "Cookie", cookie, "Sec-Fetch-Site", "same-origin"))
	if got := w.Header().Get("Set-Cookie"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/signin" || got != "svc-8080=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax" {
		t.Errorf("sign-out: %d, %q", w.Code, got)
	}
	if d.signedIn(cookie) {
		t.Error("the cookie still opens pages after the sign-out")
	}
	if w := d.send(d.request("POST", "/signout", form(token), "Cookie", cookie)); w.Code != http.StatusSeeOther {
		t.Errorf("a second sign-out: %d", w.Code)
	}
	nobody := "svc-8080=nobody.key_1.ABC"
	if w := d.send(d.request("POST", "/signout", form(session{secret: "ABC"}.token()), "Cookie", nobody)); w.Code != http.StatusSeeOther {
		t.Errorf("a sign-out of an unknown tenant: %d %s", w.Code, problem(w))
	}
}

// TestLinks: a link signs in once, within a minute, a browser on this host that no proxy stands in front of.
func TestLinks(t *testing.T) {
	d := newDoor(t)
	keyID := strings.Split(d.cookie(d.admin), ".")[1]
	link := func() string {
		t.Helper()
		path := d.page.Link("one", keyID)
		if !regexp.MustCompile(`^/signin/link\?[A-Z2-7]{52}$`).MatchString(path) {
			t.Fatalf("link %q", path)
		}
		return path
	}
	spend := func(path string, change ...string) *httptest.ResponseRecorder {
		_, secret, _ := strings.Cut(path, "?")
		return d.send(d.request("POST", "/signin/link", url.Values{"link": {secret}}, change...))
	}
	in := func(w *httptest.ResponseRecorder) bool { return w.Header().Get("Set-Cookie") != "" }

	path := link()
	for _, method := range []string{"GET", "HEAD", "GET"} { // prefetchers, scanners of mail and the like
		w := d.send(d.request(method, path, nil, "Sec-Purpose", "prefetch"))
		if w.Code != http.StatusOK || in(w) || w.Header().Get("Referrer-Policy") != "strict-origin" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
		if !strings.Contains(w.Body.String(), `name="link" value="`+path[len("/signin/link?"):]+`"`) {
			t.Errorf("no button: %s", w.Body)
		}
	}
	before := d.cookie(d.admin)
	w := spend(path, "Cookie", before)
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || !d.signedIn(cookie) || !strings.HasPrefix(cookie, "svc-8080=one."+keyID+".") {
		t.Fatalf("%d %v %s", w.Code, w.Header(), problem(w))
	}
	if d.signedIn(before) {
		t.Error("the session that the link replaces still opens pages")
	}
	if w := spend(path); w.Code != http.StatusUnauthorized || in(w) || !strings.Contains(problem(w), "was used, or is older than a minute") {
		t.Errorf("a second time: %d %s", w.Code, problem(w))
	}

	// From elsewhere: refused, and not spent.
	path = link()
	for _, change := range [][]string{
		{"Remote", "192.0.2.1:1"}, {"Remote", "[2001:db8::1]:1"}, {"Remote", "not an address"},
		{"Host", "svc.example", "Origin", "https://svc.example"}, {"Host", "192.0.2.7:8080"}, {"Host", "plane.internal", "TLS", "", "Origin", "https://plane.internal"},
		{"Forwarded", "for=192.0.2.1"}, {"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-Proto", "http"}, {"X-Forwarded-Host", "x"}, {"X-Real-IP", "127.0.0.1"}, {"Via", "1.1 proxy"},
		{"True-Client-IP", "127.0.0.1"}, {"CF-Connecting-IP", "127.0.0.1"}, {"X-Client-IP", "1"}, {"X-Original-Host", "x"}, {"X-Envoy-External-Address", "127.0.0.1"}, {"X-Forwarded-For", ""}, {"X-Azure-ClientIP", "x"}, {"Fly-Client-IP", "x"}, {"X-Request-Id", "x"}, {"Max-Forwards", "9"}, {"Wl-Proxy-Client-Ip", "x"},
	} {
		if w := spend(path, change...); w.Code != http.StatusForbidden || in(w) || !strings.Contains(problem(w), "only from a browser on the host of svc serve") {
			t.Errorf("POST with %q: %d %s", change, w.Code, problem(w))
		}
		if w := d.send(d.request("GET", path, nil, change...)); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), path[14:]) {
			t.Errorf("GET with %q: %d %s", change, w.Code, problem(w))
		}
	}
	for _, change := range [][]string{{"Origin", "-"}, {"Origin", "null"}, {"Origin", "http://evil.example"}, {"Origin", "http://127.0.0.1:3000"}, {"Sec-Fetch-Site", "cross-site"}} {
		if w := spend(path, change...); w.Code != http.StatusForbidden || in(w) {
			t.Errorf("with %q: %d", change, w.Code)
		}
	}
	for _, text := range []string{"", "x", path[14:] + "x", path[15:]} {
		if w := spend("?" + text); w.Code != http.StatusUnauthorized || in(w) {
			t.Errorf("link %q: %d", text, w.Code)
		}
	}
	if w := d.send(d.request("POST", path, url.Values{})); w.Code != http.StatusUnauthorized {
		t.Errorf("a secret in the address of the POST: %d", w.Code)
	}
	if w := spend(path, "Host", "[::1]:8080", "Origin", "http://[::1]:8080", "Remote", "[::1]:5"); !in(w) {
		t.Errorf("over IPv6: %d %s", w.Code, problem(w))
	}

	// Late, with the clock back, too many, and at the same time.
	late, back := link(), link()
	d.advance(LinkLasts)
	if w := spend(late); in(w) {
		t.Error("a link lasts too long")
	}
	d.advance(-2 * LinkLasts)
	if w := spend(back); in(w) {
		t.Error("a clock that went back makes a link longer")
	}
	var many []string
	for range maxLinks + 1 {
		many = append(many, link())
	}
	if in(spend(many[0])) || !in(spend(many[1])) || !in(spend(many[maxLinks])) {
		t.Error("the oldest link does not give way")
	}
	var wg sync.WaitGroup
	won := make(chan bool, 8)
	for range cap(won) {
		wg.Go(func() { won <- in(spend(many[2])) })
	}
	wg.Wait()
	close(won)
	n := 0
	for w := range won {
		if w {
			n++
		}
	}
	if n != 1 {
		t.Errorf("a link signed in %d times", n)
	}

	// A key that is gone meanwhile, and one that never was.
	spare := d.key("api", "name", "spare")
	spareID := strings.Split(d.cookie(spare), ".")[1]
	path = d.page.Link("one", spareID)
	if err := d.store.Tenant("one").DeleteKey(context.Background(), spareID); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, d.page.Link("two", keyID), d.page.Link("nobody", keyID)} {
		if w := spend(path); w.Code != http.StatusUnauthorized || in(w) {
			t.Errorf("a link of no key: %d %s", w.Code, problem(w))
		}
	}
	if log := d.log.String(); strings.Contains(log, many[1][14:]) || !strings.Contains(log, "with=link") {
		t.Errorf("the log has a link, or no sign-in by one: %s", log)
	}
}

// TestHeaders: every page has the headers that keep it from frames, other sites and caches, also where it fails.
func TestHeaders(t *testing.T) {
	d := newDoor(t)
	cookie := d.cookie(d.admin)
	for _, row := range []struct {
		method, path, host string
		status             int
	}{
		{"GET", "/policies", "127.0.0.1:8080", 200}, {"HEAD", "/policies", "127.0.0.1:8080", 200}, {"GET", "/signin", "127.0.0.1:8080", 200}, {"GET", "/nothing", "127.0.0.1:8080", 404},
		{"DELETE", "/policies", "127.0.0.1:8080", 405}, {"GET", "/signout", "127.0.0.1:8080", 405}, {"OPTIONS", "/", "127.0.0.1:8080", 405}, {"GET", "/policies", "evil.example", 421},
		{"GET", "/static/style.css", "127.0.0.1:8080", 200}, {"GET", "/static/..%2Fui.go", "127.0.0.1:8080", 404}, {"GET", "/policies/", "127.0.0.1:8080", 404}, {"TRACE", "/", "127.0.0.1:8080", 405},
	} {
		w := d.send(d.request(row.method, row.path, nil, "Host", row.host, "Cookie", cookie))
		h := w.Header()
		if w.Code != row.status {
			t.Errorf("%s %s: %d", row.method, row.path, w.Code)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if h.Get(name) != want {
				t.Errorf("%s %s: %s is %q", row.method, row.path, name, h.Get(name))
			}
		}
		if static := row.path == "/static/style.css"; (h.Get("Cache-Control") == "no-store") == static {
			t.Errorf("%s %s: Cache-Control %q", row.method, row.path, h.Get("Cache-Control"))
		}
		if !strings.HasPrefix(h.Get("X-Request-Id"), "req_") || !strings.HasPrefix(h.Get("Content-Type"), "text/") || strings.Contains(w.Body.String(), "style=") {
			t.Errorf("%s %s: %v", row.method, row.path, h)
		}
		if allow := h.Get("Allow"); (row.status == 405) != (allow != "") || row.path == "/policies" && row.status == 405 && allow != "GET, HEAD" || row.path == "/signout" && allow != "POST" {
			t.Errorf("%s %s: Allow %q", row.method, row.path, allow)
		}
	}
	for _, bad := range []string{"unsafe-inline", "unsafe-eval", "*", "http:", "data:"} {
		if strings.Contains(policy, bad) {
			t.Errorf("the policy has %s", bad)
		}
	}
}

// TestRequestsOfASession: a session has 600 requests a minute, static files do not count, the tenant's window of the
// API neither.
func TestRequestsOfASession(t *testing.T) {
	d := newDoor(t)
	cookie, another := d.cookie(d.admin), d.cookie(d.admin)
	for n := range sessionRequests {
		if !d.signedIn(cookie) {
			t.Fatalf("request %d is refused", n)
		}
	}
	w := d.send(d.request("GET", "/policies", nil, "Cookie", cookie))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "60" || !strings.Contains(w.Body.String(), "<h1>Too Many Requests</h1>") {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	if w := d.send(d.request("GET", "/static/style.css", nil, "Cookie", cookie)); w.Code != http.StatusOK {
		t.Errorf("a static file: %d", w.Code)
	}
	if !d.signedIn(another) {
		t.Error("another session is refused")
	}
	if w := d.send(d.request("GET", "/api/policies", nil, "Authorization", "Bearer "+d.admin)); w.Code != http.StatusOK || w.Header().Get("X-RateLimit-Remaining") != "4" {
		t.Errorf("the API: %d, remaining %s", w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	d.advance(time.Minute)
	if !d.signedIn(cookie) {
		t.Error("a minute later the session is refused")
	}
}

// TestSeeing: what a key may not see is not found and has no link; a session of one tenant sees nothing of another.
func TestSeeing(t *testing.T) {
	d := newDoor(t)
	reader, team := d.teamKey("readers", "policies:read")
	limited, agent := d.cookie(reader), d.cookie(d.key("agent", "name", "a"))
	for _, row := range []struct {
		cookie, path string
		status       int
	}{
		{limited, "/policies", 200}, {limited, "/traces", 404}, {limited, "/events", 404}, {limited, "/gateways", 404}, {limited, "/budgets", 404},
		{agent, "/events", 404}, {agent, "/policies", 404},
	} {
		if w := d.send(d.request("GET", row.path, nil, "Cookie", row.cookie)); w.Code != row.status {
			t.Errorf("%s: %d, want %d", row.path, w.Code, row.status)
		}
	}
	body := d.send(d.request("GET", "/policies", nil, "Cookie", limited)).Body.String()
	if !strings.Contains(body, `href="/policies"`) || strings.Contains(body, `href="/traces"`) || strings.Contains(body, `href="/events"`) {
		t.Errorf("links: %s", body)
	}
	// Team, user and key go under an open session.
	if err := d.store.Tenant("one").DeleteTeam(context.Background(), team); err != nil {
		t.Fatal(err)
	}
	if d.signedIn(limited) {
		t.Error("the session outlives the team")
	}
}

// TestFailures: a panic, a store that fails, and a browser that has left.
func TestFailures(t *testing.T) {
	d := newDoor(t)
	cookie := d.cookie(d.admin)
	d.page.mux.HandleFunc("/panic/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("late") {
			w.WriteHeader(200)
		}
		panic("<script>")
	})
	w := d.send(d.request("GET", "/panic/secret-id", nil))
	id := w.Header().Get("X-Request-Id")
	if w.Code != http.StatusInternalServerError || !strings.Contains(problem(w), "under "+id) || strings.Contains(w.Body.String(), "script>alert") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if log := d.log.String(); !strings.Contains(log, "request_id="+id) || strings.Contains(log, "secret-id") || !strings.Contains(log, "route=/panic/{id}") {
		t.Errorf("log %s", log)
	}
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("a response that had begun was not broken off")
			}
		}()
		d.send(d.request("GET", "/panic/x?late", nil))
	}()
	metrics := httptest.NewRecorder()
	d.api.Metrics().ServeHTTP(metrics, httptest.NewRequest("GET", "/metrics", nil))
	if text := metrics.Body.String(); !strings.Contains(text, `svc_page_requests_total{method="GET",route="/panic/{id}",status="500"} 1`) || !strings.Contains(text, `svc_page_requests_total{method="POST",route="/signin",status="303"} 1`) {
		t.Errorf("metrics: %s", text)
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*http.Request{d.request("GET", "/policies", nil, "Cookie", cookie), d.request("POST", "/signin", url.Values{"key": {d.admin}})} {
		if w := d.send(r); w.Code < 500 || !strings.Contains(problem(w), w.Header().Get("X-Request-Id")) {
			t.Errorf("%s %s: %d %s", r.Method, r.URL.Path, w.Code, problem(w))
		}
	}
}

// TestStreamEndsWithItsSession: the API asks again for the credential of an open stream.
func TestStreamEndsWithItsSession(t *testing.T) {
	for _, end := range []string{"sign-out", "key"} {
		d := newDoor(t)
		d.page.mux.HandleFunc("/test-stream", func(w http.ResponseWriter, r *http.Request) {
			d.page.visit(w, r, &place{needs: [2]string{"GET", "/api/traces/stream"}, serve: func(v *visit) error {
				req, _ := http.NewRequestWithContext(v.Context(), "GET", "http://localhost/api/traces/stream", nil)
				req.Header.Set("Accept", "text/event-stream")
				s, _ := d.page.session(r)
				resp, err := (&inProcess{d.page.o.API, d.page.keep(s, v.cred), ""}).RoundTrip(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(resp.StatusCode)
				_ = http.NewResponseController(w).Flush()
				_, err = bufio.NewReader(resp.Body).WriteTo(w)
				return err
			}})
		})
		ts := httptest.NewServer(d.page)
		t.Cleanup(ts.Close)
		cookie := d.cookie(d.key("api", "name", "streamer"))
		req, _ := http.NewRequestWithContext(t.Context(), "GET", ts.URL+"/test-stream", nil)
		req.Header.Set("Cookie", cookie)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		defer resp.Body.Close()
		if end == "key" {
			err = d.store.Tenant("one").DeleteKey(context.Background(), strings.Split(cookie, ".")[1])
		} else if w := d.send(d.request("POST", "/signout", url.Values{"token": {d.token(cookie)}}, "Cookie", cookie)); w.Code != http.StatusSeeOther {
			t.Fatalf("sign-out: %d", w.Code)
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := bufio.NewReader(resp.Body).WriteTo(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second { // a second on an idle machine
			t.Errorf("%s: the stream ended after %s", end, took)
		}
	}
}

// TestAbsoluteTarget: the host of a request's target replaces the Host header, so it decides.
func TestAbsoluteTarget(t *testing.T) {
	d := newDoor(t)
	ts := httptest.NewServer(d.page)
	t.Cleanup(ts.Close)
	for _, row := range []struct{ head, want string }{
		{"GET http://evil.example/signin HTTP/1.1\r\nHost: 127.0.0.1\r\n", "421"},
		{"GET http://127.0.0.1/signin HTTP/1.1\r\nHost: evil.example\r\n", "200"}, // the target is what counts (RFC 9112, 3.2.2)
		{"GET https://svc.example/signin HTTP/1.1\r\nHost: svc.example\r\n", "200"},
		{"GET /signin HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n", "400"},
		{"GET /signin HTTP/1.1\r\n", "400"},
		{"GET /signin HTTP/1.0\r\n", "421"},
		{"GET //evil.example/signin HTTP/1.1\r\nHost: 127.0.0.1\r\n", "404"},
		{"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n", "200"},
	} {
		conn, err := net.Dial("tcp", ts.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, row.head+"Connection: close\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err != nil || !strings.Contains(line, " "+row.want+" ") {
			t.Errorf("%q: %q, want %s", row.head, line, row.want)
		}
	}
}

// TestParseHost: names are as browsers send them.
func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"svc.example": "svc.example", "SVC.Example": "svc.example", "svc.example:8443": "svc.example:8443", "svc.example:443": "svc.example", "plane": "plane", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"192.0.2.7": "192.0.2.7", "192.0.2.7:8443": "192.0.2.7:8443", "[2001:db8::1]": "[2001:db8::1]", "[2001:db8::1]:8443": "[2001:db8::1]:8443",
		"": "", "https://svc.example": "", "svc.example/": "", "svc.example:": "", "svc.example:0": "", "svc.example:65536": "", "svc.example:x": "", "bücher.example": "", "*.example": "",
		"localhost": "", "localhost:8443": "", "127.0.0.1": "", "[::1]:8443": "", "a b": "", "user@svc.example": "", "2001:db8::1": "", "-a.example": "", "a..example": "", "a:b:c": "", ":443": "",
		"[fe80::1%<b|c>]:8443": "", "[fe80::1%eth0]": "",
		strings.Repeat("a", 64) + ".example": "",
	} {
		if got, err := ParseHost(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
