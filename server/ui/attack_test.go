package ui

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"svc/store/api"
)

// endless is a body that never ends; it counts what was read.
type endless int

func (e *endless) Read(b []byte) (int, error) {
	if *e += endless(len(b)); *e > 1<<20 {
		return 0, io.ErrUnexpectedEOF
	}
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// TestBodyOfAPage: nobody reads the body of a request that has no form; parts of multipart bodies would go to files.
func TestBodyOfAPage(t *testing.T) {
	d := newDoor(t)
	cookie := d.cookie(d.admin)
	for _, method := range []string{"GET", "HEAD", "DELETE", "POST"} {
		for _, path := range []string{"/", "/traces", "/traces/a", "/approvals", "/approvals/a", "/gateways", "/gateways/a", "/agents", "/agents/a", "/policies",
			"/policies/a", "/budgets", "/events", "/signin", "/signin/link", "/signout", "/static/page.js", "/nothing"} {
			r := d.request(method, path, nil, "Cookie", cookie, "Origin", hereURL, "Content-Type", "multipart/form-data; boundary=x")
			var body endless
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"to\"; filename=\"f\"\r\n\r\n"), &body))
			if d.send(r); body > 0 {
				t.Errorf("%s %s: read", method, path)
			}
		}
	}
}

// TestPathsOfHostileIDs: whatever the id of a trace is, its link leads to the page of it and not to the API.
func TestPathsOfHostileIDs(t *testing.T) {
	d := newDoor(t)
	cookie := d.cookie(d.admin)
	for _, id := range []string{"x/../../api/keys", "x/../../healthz", "/api", "../api", "a/b", "%2e%2e", "a?b#c", "{{.}}", "</a>", "live"} {
		w := d.send(d.request("GET", path("traces", id), nil, "Cookie", cookie))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "No trace has this id") {
			t.Errorf("%q: %d %.80s", id, w.Code, w.Body)
		}
	}
	for _, target := range []string{"/api", "/%61pi/keys", "//api/keys", "/traces/../api/keys"} {
		if w := d.send(d.request("GET", target, nil, "Cookie", cookie)); strings.Contains(w.Header().Get("Content-Type"), "text/html") && w.Code != http.StatusMovedPermanently {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// TestVisible: every text can be seen, in its own line.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a b": "a b", "": "", "é e\u0301 กี่ ๙": "é e\u0301 กี่ ๙", "日本語": "日本語", "  ": `\u{20}\u{20}`, "\u2800": `\u{2800}`, "\u00a0": `\u{A0}`, "\u3164": `\u{3164}`,
		"e" + strings.Repeat("\u0301", 6) + "f": "e" + strings.Repeat("\u0301", 4) + `\u{301}\u{301}f`, "\u20dd\u20dd\u20dd\u20dd\u20dd": "\u20dd\u20dd\u20dd\u20dd" + `\u{20DD}`,
		"\u202e\u2066\u200b\U000e0041\x00\r\n\t\u2028\xff": `\u{202E}\u{2066}\u{200B}\u{E0041}\u{0}\u{D}\u{A}\u{9}\u{2028}\u{FFFD}`,
	} {
		if got := visible(text, false); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestAddressOfAWrite: the administrators' event of a write has the address of the browser.
func TestAddressOfAWrite(t *testing.T) {
	d := newDoor(t)
	policy, cookie := d.policy("p", ""), d.cookie(d.admin)
	for _, row := range []struct {
		want   string
		change []string
	}{
		{"127.0.0.1", nil}, {"192.0.2.7", []string{"Remote", "192.0.2.7:1"}}, {"2001:db8::7", []string{"Remote", "[2001:db8::7]:1", "X-Forwarded-For", "192.0.2.9"}},
	} {
		page := d.send(d.request("GET", "/policies/"+policy+"?change=disable", nil, "Cookie", cookie)).Body.String()
		change := "disable"
		if !strings.Contains(page, "Disable this policy?") {
			change = "enable"
			page = d.send(d.request("GET", "/policies/"+policy+"?change=enable", nil, "Cookie", cookie)).Body.String()
		}
		etag := html.UnescapeString(regexp.MustCompile(`name="etag" value="([^"]+)"`).FindStringSubmatch(page)[1])
		w := d.send(d.request("POST", "/policies/"+policy, url.Values{"token": {d.token(cookie)}, "change": {change}, "etag": {etag}}, append(row.change, "Cookie", cookie)...))
		var events struct{ Data []api.AuditEvent }
		d.decode(d.admin, "GET", "/api/audit/events?limit=1", "", &events)
		if e := events.Data[0]; w.Code >= 400 || e.Object.ID != policy || e.Address != row.want {
			t.Errorf("%d, %s %s from %q, want %q", w.Code, e.Object.Kind, e.Object.Name, e.Address, row.want)
		}
	}
}

// TestLinkOverHTTP10: a link is not taken from a proxy that sends nothing but HTTP/1.0.
func TestLinkOverHTTP10(t *testing.T) {
	d := newDoor(t)
	for _, method := range []string{"GET", "POST"} {
		r := d.request(method, d.page.Link("one", "key_1"), url.Values{})
		r.ProtoMinor = 0
		if w := d.send(r); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}
