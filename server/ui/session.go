package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	slashed "path"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/server"
	"svc/store"
)

const (
	// wrongKeys is how many wrong keys a minute an address may send before it is told to wait.
	wrongKeys = 10
	// sessionRequests is how many requests a minute a session may make.
	sessionRequests = 600
	// maxCookie bounds the value of the cookie, in bytes.
	maxCookie = 1024
	// asksAgain is the time after which the API, during one request, asks the store again for the credential of the
	// session: an open stream ends within a second of it.
	asksAgain = 250 * time.Millisecond
)

// session is what the cookie of a browser has: which session it is, and its secret.
type session struct {
	tenant, key, secret string
}

// token is what forms of the session send back, so that other sites cannot make the browser send them.
func (s session) token() string {
	d := sha256.Sum256([]byte("form " + s.secret))
	return base64.RawURLEncoding.EncodeToString(d[:16])
}

// digest is what the store knows of the session.
func (s session) digest() store.KeyDigest { return store.DigestKey(s.secret) }

// cookieName returns the name of the cookie: it has the port, because browsers keep one set of cookies for all ports
// of a host.
func (p *Page) cookieName(r *http.Request) string {
	if p.secure(r) {
		return "__Host-svc-" + p.o.Port
	}
	return "svc-" + p.o.Port
}

// session returns the session that a request names. Of two cookies with one name somebody else has set one, such as
// another server on loopback; it cannot be told which.
func (p *Page) session(r *http.Request) (s session, ok bool) {
	cookies := r.CookiesNamed(p.cookieName(r))
	if len(cookies) != 1 || len(cookies[0].Value) > maxCookie {
		return s, false
	}
	parts := strings.Split(cookies[0].Value, ".")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return s, false
	}
	return session{parts[0], parts[1], parts[2]}, true
}

// setCookie sets the cookie of a session; the empty one removes it.
func (p *Page) setCookie(w http.ResponseWriter, r *http.Request, s session) {
	c := http.Cookie{Name: p.cookieName(r), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: p.secure(r), MaxAge: -1}
	if s.secret != "" {
		c.Value, c.MaxAge = s.tenant+"."+s.key+"."+s.secret, int(store.SessionLasts.Seconds())
	}
	http.SetCookie(w, &c)
}

// resume returns the credential of a session.
func (p *Page) resume(ctx context.Context, s session) (store.Credential, error) {
	cred, err := p.o.Records.Tenant(s.tenant).ResumeSession(ctx, s.key, s.digest())
	if store.KindOf(err) == store.NotFound { // the tenant
		err = store.Errorf(store.Unauthorized, "the session has ended")
	}
	return cred, err
}

// keep returns a function for requests to the API: the credential that was found, and after some time what the store
// has then.
func (p *Page) keep(s session, cred store.Credential) func(context.Context) (store.Credential, error) {
	var mu sync.Mutex
	asked := time.Now()
	return func(ctx context.Context) (store.Credential, error) {
		mu.Lock()
		defer mu.Unlock()
		if err := ctx.Err(); err != nil || time.Since(asked) < asksAgain {
			return cred, err
		}
		now, err := p.resume(ctx, s)
		if err == nil {
			cred, asked = now, time.Now()
		}
		return cred, err
	}
}

// askToSignIn sends a browser to the sign-in, and from there back.
func (p *Page) askToSignIn(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/signin?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

func (p *Page) signInForm(w http.ResponseWriter, r *http.Request) {
	problem := p.inTheClear(r)
	if name := p.cookieName(r); len(r.CookiesNamed(name)) > 1 {
		problem = "The browser sends several cookies " + name + ": another server on this host has set one. Delete the cookies of this host first."
	}
	p.showSignIn(w, r, http.StatusOK, problem)
}

// signInData is what the page of the sign-in shows.
type signInData struct{ To, Problem string }

func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request, status int, problem string) {
	// Not r.FormValue: it reads a multipart body, of which large parts go to files.
	to := cmp.Or(r.PostForm.Get("to"), r.URL.Query().Get("to"))
	if err := p.send(w, nil, status, "signin", "Sign in", signInData{own(to), problem}); err != nil {
		p.broken(w, r, nil, err)
	}
}

// own returns the address of a page of ours as it was asked for, or that of the first page. Browsers take // and /\ for
// the beginning of another host, and leave out tabs and line ends.
func own(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > maxTarget || u.Scheme != "" || u.Host != "" || u.User != nil || u.Fragment != "" ||
		!strings.HasPrefix(u.Path, "/") || slashed.Clean(u.EscapedPath()) != u.EscapedPath() ||
		strings.ContainsAny(to, "\\ ") || strings.ContainsFunc(to, func(r rune) bool { return r < ' ' || r > '~' }) ||
		strings.HasPrefix(u.Path, "//") || strings.HasPrefix(u.Path, "/\\") || forAPI(u) || u.Path == "/signin" || u.Path == "/signout" {
		return "/"
	}
	return to
}

// maxTarget bounds the address that a sign-in leads to, in bytes.
const maxTarget = 2048

func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	if status, problem := p.checkWrite(w, r, ""); problem != "" {
		p.fail(w, r, nil, status, problem)
		return
	}
	if problem := p.inTheClear(r); problem != "" {
		p.showSignIn(w, r, http.StatusForbidden, problem)
		return
	}
	secret := strings.TrimSpace(r.PostForm.Get("key"))
	scope, err := server.SecretScope(secret)
	if err != nil {
		p.refuseKey(w, r, "This is not an API key: "+err.Error()+".")
		return
	}
	cred, err := p.o.Records.Authenticate(r.Context(), store.DigestKey(secret))
	switch {
	case store.KindOf(err) == store.Unauthorized, err == nil && cred.Key.Scope != scope:
		p.refuseKey(w, r, "This API key is not known, or does not work any more.")
		return
	case err != nil:
		p.broken(w, r, nil, err)
		return
	case scope == store.ScopeIngest:
		p.showSignIn(w, r, http.StatusUnauthorized, "A key of scope ingest is for gateways. Sign in with one of scope api or agent.")
		return
	}
	p.begin(w, r, cred.TenantID, cred.Key.ID, r.PostForm.Get("to"), "key")
}

// refuseKey answers a wrong key, and counts it.
func (p *Page) refuseKey(w http.ResponseWriter, r *http.Request, problem string) {
	if wait := p.wrong.Take(p.subscriber(r), p.o.Now()); wait > 0 {
		setRetryAfter(w, wait)
		p.showSignIn(w, r, http.StatusTooManyRequests, "Too many wrong keys came from this address. Wait a minute; a right key is accepted at once.")
		return
	}
	p.o.Logger.Warn("sign-in refused", "address", p.peer(r).String(), "reason", problem)
	p.showSignIn(w, r, http.StatusUnauthorized, problem)
}

func setRetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
}

// begin begins a session of a key, in place of the one that the browser has, and shows a page.
func (p *Page) begin(w http.ResponseWriter, r *http.Request, tenant, key, to, with string) {
	s := session{tenant, key, rand.Text() + rand.Text()}
	err := p.o.Records.Tenant(tenant).CreateSession(r.Context(), key, s.digest())
	if kind := store.KindOf(err); kind == store.Unauthorized || kind == store.NotFound {
		p.showSignIn(w, r, http.StatusUnauthorized, "The API key does not work any more.")
		return
	}
	if err == nil {
		err = p.end(r)
	}
	if err != nil {
		p.broken(w, r, nil, err)
		return
	}
	p.o.Logger.Info("signed in", "tenant", tenant, "key", key, "with", with, "address", p.peer(r).String())
	p.setCookie(w, r, s)
	http.Redirect(w, r, own(to), http.StatusSeeOther)
}

// end ends the session of a browser, if it has one.
func (p *Page) end(r *http.Request) error {
	s, ok := p.session(r)
	if !ok {
		return nil
	}
	err := p.o.Records.Tenant(s.tenant).EndSession(r.Context(), s.key, s.digest())
	if store.KindOf(err) == store.NotFound { // the tenant
		return nil
	}
	return err
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	token := ""
	if s, ok := p.session(r); ok {
		token = s.token()
	}
	if status, problem := p.checkWrite(w, r, token); problem != "" {
		p.fail(w, r, nil, status, problem)
		return
	}
	if err := p.end(r); err != nil {
		p.broken(w, r, nil, err)
		return
	}
	p.setCookie(w, r, session{})
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}
