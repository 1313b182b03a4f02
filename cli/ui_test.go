package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process/processtest"
)

// pageBrowser is a browser of the page; it follows redirects.
type pageBrowser struct {
	t   *testing.T
	url string
	c   *http.Client
}

func newPageBrowser(t *testing.T, base string, transport http.RoundTripper) *pageBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &pageBrowser{t, base, &http.Client{Jar: jar, Transport: transport}}
}

// open gets a page, or sends a form; it returns the status and the text.
func (b *pageBrowser) open(path string, form url.Values) (*http.Response, string) {
	b.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.url)
	}
	resp, err := b.c.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp, string(text)
}

// uiLink runs 'svc ui link' and returns what it prints.
func uiLink(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	env, out, errs := processtest.New(t)
	code = Main(env, append([]string{"ui", "link", "--data-dir", dir}, args...))
	return code, strings.TrimSpace(out.String()), errs.String()
}

// TestUILink: a link of the command signs a browser in on the page of a running server, at its real port.
func TestUILink(t *testing.T) {
	dir := t.TempDir()
	p := startServe(t, nil, false, "--data-dir", dir, "--ui")
	key, err := os.ReadFile(filepath.Join(dir, "bootstrap-key"))
	if err != nil {
		t.Fatal(err)
	}
	p.key = strings.TrimSpace(string(key))
	code, link, note := uiLink(t, dir)
	if code != command.ExitOK || !regexp.MustCompile(`^`+regexp.QuoteMeta(p.url)+`/signin/link\?[A-Z2-7]{52}$`).MatchString(link) || !strings.Contains(note, "within a minute") {
		t.Fatalf("exit code %d, %q, %q", code, link, note)
	}
	b := newPageBrowser(t, p.url, nil)
	path, secret, _ := strings.Cut(strings.TrimPrefix(link, p.url), "?")
	if resp, text := b.open(path+"?"+secret, nil); resp.StatusCode != http.StatusOK || !strings.Contains(text, secret) {
		t.Fatalf("%s: %s", resp.Status, text)
	}
	if resp, text := b.open(path, url.Values{"link": {secret}}); resp.StatusCode != http.StatusOK || !strings.Contains(text, "<h1>Overview</h1>") || !strings.Contains(text, "bootstrap") {
		t.Fatalf("%s: %s", resp.Status, text)
	}
	if resp, text := b.open("/traces/none", nil); resp.StatusCode != http.StatusNotFound || !strings.Contains(text, "Traces are kept for 90 days.") {
		t.Errorf("%s: %s", resp.Status, text)
	}
	u, _ := url.Parse(p.url)
	if cookies := b.c.Jar.Cookies(u); len(cookies) != 1 || cookies[0].Name != "svc-"+u.Port() {
		t.Errorf("cookies %v, want svc-%s", cookies, u.Port())
	}
	if resp, text := newPageBrowser(t, p.url, nil).open(path, url.Values{"link": {secret}}); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a second time: %s: %s", resp.Status, text)
	}
	if log := p.err.String(); strings.Contains(log, secret) || !strings.Contains(log, `"msg":"signed in","tenant":"default","key":"key_`) {
		t.Errorf("log: %s", log)
	}

	// Other keys, and what cannot be.
	made := func(body string) (id string) {
		t.Helper()
		_, text := p.ask("POST", p.url+"/api/keys", body)
		found := regexp.MustCompile(`"id":"(key_[^"]+)"`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no key: %s", text)
		}
		return found[1]
	}
	agent, ingest := made(`{"name":"mine","scope":"agent"}`), made(`{"name":"gw","scope":"ingest"}`)
	if code, link, note := uiLink(t, dir, "--key", agent, "--tenant", "default"); code != command.ExitOK || !strings.HasPrefix(link, p.url) {
		t.Errorf("a key of scope agent: exit code %d, %q %s", code, link, note)
	}
	for _, row := range []struct {
		args []string
		says string
	}{
		{[]string{"--key", "key_x"}, "svc keys list shows them"},
		{[]string{"--key", ingest}, "has scope ingest, which is for gateways"},
		{[]string{"--tenant", "nobody"}, "svc tenant list shows them"},
	} {
		if code, link, note := uiLink(t, dir, row.args...); code != command.ExitFailed || link != "" || !strings.Contains(note, row.says) {
			t.Errorf("%v: exit code %d, %q %s", row.args, code, link, note)
		}
	}
	made(`{"name":"spare","scope":"api"}`)
	_, text := p.ask("GET", p.url+"/api/keys", "")
	first := regexp.MustCompile(`"id":"(key_[^"]+)","name":"bootstrap"`).FindStringSubmatch(text)
	if first == nil {
		t.Fatalf("no bootstrap key: %s", text)
	}
	if status, text := p.ask("DELETE", p.url+"/api/keys/"+first[1], ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if code, _, note := uiLink(t, dir); code != command.ExitFailed || !strings.Contains(note, "the bootstrap key was deleted") || !strings.Contains(note, "svc tenant key creates one") {
		t.Errorf("without the key: exit code %d, %s", code, note)
	}
	if resp, text := b.open("/", nil); !strings.Contains(text, "<h1>Sign in</h1>") {
		t.Errorf("the session outlives its key: %s: %s", resp.Status, text)
	}

	// Servers without a page, and none.
	plain := t.TempDir()
	startServe(t, nil, false, "--data-dir", plain)
	if code, _, note := uiLink(t, plain); code != command.ExitFailed || !strings.Contains(note, "start it with 'svc serve --ui'") {
		t.Errorf("without --ui: exit code %d, %s", code, note)
	}
	if code, _, note := uiLink(t, t.TempDir()); code != command.ExitFailed || !strings.Contains(note, "no server runs on this data directory") {
		t.Errorf("no server: exit code %d, %s", code, note)
	}
}

// TestPageOverTLS: on a TLS listener, over HTTP/2, the cookie is for TLS alone.
func TestPageOverTLS(t *testing.T) {
	ts := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(ts.Close)
	dir := t.TempDir()
	cert := ts.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}}
	for name, block := range files {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := startServe(t, nil, false, "--data-dir", dir, "--ui", "--listen", "0.0.0.0:0", "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	base := strings.Replace(strings.Replace(p.url, "http:", "https:", 1), "[::]", "127.0.0.1", 1)
	base = strings.Replace(base, "0.0.0.0", "127.0.0.1", 1)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ts.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
	t.Cleanup(transport.CloseIdleConnections)
	b := newPageBrowser(t, base, transport)
	secret, err := os.ReadFile(filepath.Join(dir, "bootstrap-key"))
	if err != nil {
		t.Fatal(err)
	}
	resp, text := b.open("/signin", url.Values{"key": {strings.TrimSpace(string(secret))}, "to": {"/policies"}})
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/policies" || !strings.Contains(text, "<h1>Policies</h1>") {
		t.Fatalf("%s %s at %s: %s", resp.Proto, resp.Status, resp.Request.URL, text)
	}
	u, _ := url.Parse(base)
	if cookies := b.c.Jar.Cookies(u); len(cookies) != 1 || cookies[0].Name != "__Host-svc-"+u.Port() {
		t.Errorf("cookies %v", cookies)
	}
	if code, link, note := uiLink(t, dir); code != command.ExitOK || !strings.HasPrefix(link, base+"/signin/link?") {
		t.Errorf("link: exit code %d, %q %s", code, link, note)
	}
}

// TestServeWithoutAPage: a browser at the address of the API learns what is there.
func TestServeWithoutAPage(t *testing.T) {
	p := startServe(t, nil, false)
	for _, row := range []struct {
		method, path, accept string
		status               int
		kind, has            string
	}{
		{"GET", "/", "text/html,application/xhtml+xml,*/*;q=0.8", 200, "text/html; charset=utf-8", "<code>svc serve --ui</code>"},
		{"HEAD", "/", "text/html", 200, "text/html; charset=utf-8", ""},
		{"GET", "/", "*/*", 404, "application/json; charset=utf-8", "the API is under /api"},
		{"GET", "/", "", 404, "application/json; charset=utf-8", "the API is under /api"},
		{"POST", "/", "text/html", 404, "application/json; charset=utf-8", "the API is under /api"},
		{"GET", "/signin", "text/html", 404, "application/json; charset=utf-8", "the API is under /api"},
		{"GET", "/favicon.ico", "image/*", 204, "", ""},
		{"GET", "/robots.txt", "", 200, "text/plain; charset=utf-8", "Disallow: /"},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), row.method, p.url+row.path, nil)
		req.Header.Set("Accept", row.accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != row.status || resp.Header.Get("Content-Type") != row.kind || !strings.Contains(string(text), row.has) {
			t.Errorf("%s %s with %q: %s %q %s", row.method, row.path, row.accept, resp.Status, resp.Header.Get("Content-Type"), text)
		}
	}
}

// TestServeRefusesAPageInTheClear: keys of the page must not cross a network in the clear.
func TestServeRefusesAPageInTheClear(t *testing.T) {
	for _, row := range []struct {
		args []string
		says string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "ui-host must name the host under which a TLS proxy serves the page"},
		{[]string{"--listen", ":0"}, "tls-cert and tls-key must be set"},
		{[]string{"--listen", "192.0.2.1:0"}, "listen must be a loopback address"},
		{[]string{"--ui-host", "https://svc.example"}, "without a scheme and a path"},
		{[]string{"--ui-host", "svc.example,localhost"}, "is this host itself"},
		{[]string{"--ui-host", "bücher.example"}, "must be in the ASCII form"},
	} {
		env, _, errs := processtest.New(t)
		env.Now = time.Now
		args := append([]string{"serve", "--ui", "--data-dir", t.TempDir()}, row.args...)
		if code := Main(env, args); code != command.ExitUsage || !strings.Contains(errs.String(), row.says) {
			t.Errorf("%v: exit code %d, %s", row.args, code, errs)
		}
	}
}
