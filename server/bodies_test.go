package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// upload is an ingest request whose body has not arrived completely.
type upload struct {
	body *io.PipeWriter
	done chan *httptest.ResponseRecorder
}

// begin starts an ingest request of n bytes and returns when a part of it has
// been read.
func (r *rig) begin(key string, n int, part string) *upload {
	r.t.Helper()
	pr, pw := io.Pipe()
	req := httptest.NewRequest(http.MethodPost, "/api/traces", pr)
	req.ContentLength = int64(n)
	req.Header.Set("Authorization", "Bearer "+key)
	u := &upload{pw, make(chan *httptest.ResponseRecorder, 1)}
	go func() {
		w := httptest.NewRecorder()
		r.srv.ServeHTTP(w, req)
		pr.Close()
		u.done <- w
	}()
	if _, err := io.WriteString(pw, part); err != nil { // receives when the part has been read
		r.t.Fatal(err)
	}
	return u
}

// end sends the rest and returns the response.
func (u *upload) end(rest string) *httptest.ResponseRecorder {
	_, _ = io.WriteString(u.body, rest)
	u.body.Close()
	return <-u.done
}

const small = `{"agentName":"a","status":"success"}`

// The bytes of bodies in memory are bounded for each tenant. Beyond the bound a
// request is 429 with Retry-After, other tenants are served, and the bytes of
// answered requests are released.
func TestBodiesInMemoryOfOneTenantAreBounded(t *testing.T) {
	r := newRig(t)
	r.srv.bodies = newBodyMemory(64<<10, 16<<10)
	large := `{"agentName":"a","status":"success","sessionId":"` + strings.Repeat(" ", 14<<10) + `"}`
	u := r.begin(r.admin, len(large), large[:13<<10])
	for range 2 {
		a := r.ask(r.admin, "POST", "/api/traces", `{"agentName":"a","status":"success","environment":"`+strings.Repeat("e", 3<<10)+`"}`).want(429)
		if got := a.header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q", got)
		}
	}
	r.ask(r.other, "POST", "/api/traces", small).want(201)
	metrics := httptest.NewRecorder()
	r.srv.Metrics().ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(metrics.Body.String(), `svc_request_bodies_refused_total{bound="tenant"} 2`) {
		t.Errorf("the metric does not count the two refused requests:\n%s", metrics.Body)
	}
	if w := u.end(large[13<<10:]); w.Code != http.StatusBadRequest { // its session id is too long
		t.Errorf("the first request: %d %s", w.Code, w.Body)
	}
	r.ask(r.admin, "POST", "/api/traces", small).want(201)
	if r.srv.bodies.inMemory() != 0 || len(r.srv.bodies.byTenant) != 0 {
		t.Errorf("%d bytes of %v are still counted", r.srv.bodies.inMemory(), r.srv.bodies.byTenant)
	}
}

// The bytes of several tenants together are bounded by the global bound.
func TestBodiesInMemoryAreBoundedInAll(t *testing.T) {
	r := newRig(t)
	r.srv.bodies = newBodyMemory(24<<10, 16<<10)
	large := `{"agentName":"a","status":"success","sessionId":"` + strings.Repeat(" ", 14<<10) + `"}`
	u := r.begin(r.admin, len(large), large[:13<<10])
	a := r.ask(r.other, "POST", "/api/traces", `{"agentName":"a","status":"success","environment":"`+strings.Repeat("e", 10<<10)+`"}`).want(429)
	if !strings.Contains(string(a.raw), "too many bytes of requests") {
		t.Errorf("%s", a.raw)
	}
	u.end("")
	if r.srv.bodies.inMemory() != 0 {
		t.Errorf("%d bytes are still counted after a client left", r.srv.bodies.inMemory())
	}
}

// Bytes count as they arrive; a declared length alone counts nothing.
func TestADeclaredLengthOccupiesNoMemory(t *testing.T) {
	r := newRig(t)
	r.srv.bodies = newBodyMemory(16<<10, 16<<10)
	idle := r.begin(r.admin, 15<<10, "{")
	if used := r.srv.bodies.inMemory(); used > smallBody {
		t.Errorf("%d bytes are counted for a body of which one byte has arrived", used)
	}
	r.ask(r.admin, "POST", "/api/traces", small).want(201)
	idle.end("")
}

// The decompressed bytes of a gzip body count, not the compressed ones.
func TestUnpackedBytesAreCounted(t *testing.T) {
	r := newRig(t)
	r.srv.bodies = newBodyMemory(1<<20, 256<<10)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if a := r.post(r.admin, "/api/otlp/v1/traces", "application/json", "gzip", packed.Bytes()); a.status != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.raw)
	}
	if r.srv.bodies.inMemory() != 0 {
		t.Errorf("%d bytes are still counted", r.srv.bodies.inMemory())
	}
}

// A body of any length, declared or not, is read completely or rejected at its
// limit.
func TestReadBody(t *testing.T) {
	const limit = 10_000
	for _, n := range []int{0, 1, smallBody - 1, smallBody, smallBody + 1, limit - 1, limit, limit + 1, 3 * limit} {
		for _, declared := range []int64{int64(n), -1} {
			w := &Writer{ResponseWriter: httptest.NewRecorder()}
			c := &call{w: w}
			want := bytes.Repeat([]byte("x"), n)
			got, err := c.readBody(bytes.NewReader(want), declared, limit)
			if n > limit {
				if !errors.Is(err, errBodyTooLarge) {
					t.Errorf("%d bytes, declared %d: %v", n, declared, err)
				}
				continue
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, declared %d: got %d, %v", n, declared, len(got), err)
			}
		}
	}
}
