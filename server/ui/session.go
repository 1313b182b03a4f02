package ui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"svc/server"
	"svc/store"
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

// cookieName returns the name of the cookie: it has the port, because browsers keep one set of cookies for all ports
// of a host.
func (p *Page) cookieName(r *http.Request) string {
	if p.secure(r) {
		return "__Host-svc-" + p.o.Port
	}
	return "svc-" + p.o.Port
}

// session returns the session that a request names.
func (p *Page) session(r *http.Request) (s session, ok bool) {
	c, err := r.Cookie(p.cookieName(r))
	if err != nil {
		return s, false
	}
	parts := strings.Split(c.Value, ".")
	if len(parts) != 3 {
		return s, false
	}
	return session{parts[0], parts[1], parts[2]}, true
}

// resume returns the credential of a session.
func (p *Page) resume(ctx context.Context, s session) (store.Credential, error) {
	return p.o.Records.Tenant(s.tenant).ResumeSession(ctx, s.key, store.DigestKey(s.secret))
}

// askToSignIn sends a browser to the sign-in, and from there back.
func (p *Page) askToSignIn(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/signin?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

func (p *Page) signInForm(w http.ResponseWriter, r *http.Request) {
	p.showSignIn(w, r, http.StatusOK, "")
}

// signInData is what the page of the sign-in shows.
type signInData struct{ To, Problem string }

func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request, status int, problem string) {
	if err := p.send(w, nil, status, "signin", "Sign in", signInData{own(r.FormValue("to")), problem}); err != nil {
		p.broken(w, r, nil, err)
	}
}

// own returns the path of a page of ours, or that of the first one.
func own(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, "\\") {
		return "/"
	}
	return to
}

func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if problem := p.checkWrite(r, ""); problem != "" {
		p.fail(w, r, nil, http.StatusForbidden, problem)
		return
	}
	secret := strings.TrimSpace(r.PostFormValue("key"))
	scope, err := server.SecretScope(secret)
	if err != nil {
		p.showSignIn(w, r, http.StatusUnauthorized, "This is not an API key: "+err.Error()+".")
		return
	}
	cred, err := p.o.Records.Authenticate(r.Context(), store.DigestKey(secret))
	switch {
	case store.KindOf(err) == store.Unauthorized, err == nil && cred.Key.Scope != scope:
		p.showSignIn(w, r, http.StatusUnauthorized, "This API key is not known, or was deleted.")
		return
	case err != nil:
		p.broken(w, r, nil, err)
		return
	case scope == store.ScopeIngest:
		p.showSignIn(w, r, http.StatusUnauthorized, "A key of scope ingest is for gateways; sign in with one of scope api or agent.")
		return
	}
	p.begin(w, r, cred, r.PostFormValue("to"))
}

// begin begins a session and shows a page.
func (p *Page) begin(w http.ResponseWriter, r *http.Request, cred store.Credential, to string) {
	s := session{cred.TenantID, cred.Key.ID, rand.Text() + rand.Text()}
	if err := p.o.Records.Tenant(s.tenant).CreateSession(r.Context(), s.key, store.DigestKey(s.secret)); err != nil {
		p.broken(w, r, nil, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: p.cookieName(r), Value: s.tenant + "." + s.key + "." + s.secret, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: p.secure(r), MaxAge: int(store.SessionLasts.Seconds())})
	http.Redirect(w, r, own(to), http.StatusSeeOther)
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	s, ok := p.session(r)
	if problem := p.checkWrite(r, s.token()); ok && problem != "" {
		p.fail(w, r, nil, http.StatusForbidden, problem)
		return
	}
	if ok {
		if err := p.o.Records.Tenant(s.tenant).EndSession(r.Context(), s.key, store.DigestKey(s.secret)); err != nil {
			p.broken(w, r, nil, err)
			return
		}
	}
	http.SetCookie(w, &http.Cookie{Name: p.cookieName(r), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: p.secure(r), MaxAge: -1})
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}
