package ui

import (
	"io"
	"strings"
	"testing"
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
