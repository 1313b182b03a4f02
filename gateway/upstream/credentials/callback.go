package credentials

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// callbackPath is the path of the redirect URI of a configured client.
const callbackPath = "/callback"

// maxCode bounds the authorization code, in bytes.
const maxCode = 8 << 10

// callback waits for the redirect of the browser.
type callback struct {
	redirect string
	server   *http.Server
	returned chan url.Values
}

// listen listens on loopback.
func listen(port int, path string) (*callback, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the redirect of the browser: %w", err)
	}
	c := &callback{redirect: "http://" + ln.Addr().String() + path, returned: make(chan url.Values)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, c.take)
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	go func() { _ = c.server.Serve(ln) }()
	return c, nil
}

// close closes the listener, after the response to the browser is sent.
func (c *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
}

// take handles the redirect of a browser. The page contains nothing of the request.
func (c *callback) take(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	select {
	case c.returned <- r.URL.Query():
		fmt.Fprintln(w, "svc has the answer of the authorization server. You can close this page and return to the terminal.")
	case <-r.Context().Done():
	case <-time.After(5 * time.Second):
		w.WriteHeader(http.StatusGone)
		fmt.Fprintln(w, "The login has ended already.")
	}
}

// errForeign: the request is not the awaited redirect.
var errForeign = errors.New("the address does not belong to this login")

// wait waits for the code. A redirect with another state is ignored, because any web page can
// send a browser to loopback.
func (c *callback) wait(ctx context.Context, pasted io.Reader, state string, f *found) (string, error) {
	lines := make(chan url.Values)
	if pasted != nil {
		go readPasted(ctx, pasted, lines)
	}
	for {
		var q url.Values
		select {
		case q = <-c.returned:
		case q = <-lines:
		case <-ctx.Done():
			return "", errors.New("no login within the time limit")
		}
		code, err := codeOf(q, state, f)
		if errors.Is(err, errForeign) {
			continue
		}
		return code, err
	}
}

// readPasted reads addresses that the operator pastes.
func readPasted(ctx context.Context, r io.Reader, lines chan<- url.Values) {
	scan := bufio.NewScanner(io.LimitReader(r, 1<<20))
	for scan.Scan() {
		u, err := url.Parse(strings.TrimSpace(scan.Text()))
		if err != nil || u.RawQuery == "" {
			continue
		}
		select {
		case lines <- u.Query():
		case <-ctx.Done():
			return
		}
	}
}

// codeOf returns the code of an authorization response (RFC 6749, RFC 9207).
func codeOf(q url.Values, state string, f *found) (string, error) {
	if len(q["state"]) != 1 || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
		return "", errForeign
	}
	issuer, named := q["iss"]
	switch {
	case named && (len(issuer) != 1 || issuer[0] != f.server.Issuer), !named && f.server.NamesItself:
		return "", errors.New("the answer is not of the authorization server that was asked (iss)")
	case q.Get("error") != "":
		return "", fmt.Errorf("the authorization server refused the login%s", because(q.Get("error")))
	case q.Get("code") == "" || len(q.Get("code")) > maxCode:
		return "", errors.New("the authorization server sent no code")
	}
	return q.Get("code"), nil
}

func because(code string) string {
	if code = Code(code); code == "" {
		return ""
	}
	return ": " + code
}
