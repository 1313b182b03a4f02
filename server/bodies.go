package server

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"svc/store/api"
)

// Bounds on the bytes of request bodies in memory at one time. A decoded body
// takes a small multiple of its bytes, because the lists and objects in it are
// bounded while they are decoded. A tenant may use a quarter of the whole, which is four times the
// largest body.
const (
	maxBodiesInMemory       = 128 << 20
	maxTenantBodiesInMemory = maxBodiesInMemory / 4
)

// bodyMemory counts the bytes of request bodies in memory, in total and by
// tenant. It is safe for concurrent use.
type bodyMemory struct {
	max, tenantMax int64

	mu       sync.Mutex
	used     int64
	byTenant map[string]int64
}

func newBodyMemory(limit, tenantLimit int64) *bodyMemory {
	return &bodyMemory{max: limit, tenantMax: tenantLimit, byTenant: map[string]int64{}}
}

// acquire counts n more bytes of a tenant. When they would exceed a bound, it
// counts nothing and returns an error.
func (m *bodyMemory) acquire(tenant string, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.byTenant[tenant]+n > m.tenantMax:
		return errTenantBodies
	case m.used+n > m.max:
		return errAllBodies
	}
	m.used += n
	m.byTenant[tenant] += n
	return nil
}

// release subtracts bytes that acquire has counted.
func (m *bodyMemory) release(tenant string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	if m.byTenant[tenant] -= n; m.byTenant[tenant] == 0 {
		delete(m.byTenant, tenant)
	}
}

// inMemory returns the number of bytes that are counted now.
func (m *bodyMemory) inMemory() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// The responses when a bound is exceeded. They are 429 with Retry-After, as
// with the rate limit, because clients and exporters already wait for it: the
// request will be accepted a moment later.
var (
	errTenantBodies = &failure{http.StatusTooManyRequests, "too many bytes of this tenant's requests are being processed; send this one again later", nil}
	errAllBodies    = &failure{http.StatusTooManyRequests, "too many bytes of requests are being processed; send this one again later", nil}
)

var errBodyTooLarge = errors.New("body too large")

// readBody reads r, at most limit bytes. It counts the memory as the body
// grows, so a client that declares a large body and sends nothing occupies
// nothing. size is the declared size, -1 when unknown. The counted bytes are
// released when the request has been answered.
func (c *call) readBody(r io.Reader, size, limit int64) ([]byte, error) {
	var body []byte
	for {
		if len(body) == cap(body) {
			grown := min(max(2*int64(cap(body)), smallBody), limit+1)
			if size >= int64(len(body)) {
				grown = min(grown, size+1) // one byte more than the body, so that Read reports the end
			}
			if err := c.holdBody(grown - int64(cap(body))); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, grown), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, errBodyTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// smallBody is the size of the first buffer for a body of unknown or large
// size.
const smallBody = 4 << 10

// holdBody counts bytes of the request's body. Routes without a key are not
// counted, because they have no tenant: their bodies are small, and each
// address has a rate window.
func (c *call) holdBody(n int64) error {
	if c.tenant == nil || n == 0 {
		return nil
	}
	if err := c.server.bodies.acquire(c.tenant.ID(), n); err != nil {
		c.server.metrics.bodyRefused(err)
		c.w.Header().Set("Retry-After", "1")
		return err
	}
	c.held += n
	return nil
}

// releaseBody subtracts all bytes that were counted for the request.
func (c *call) releaseBody() {
	if c.held > 0 {
		c.server.bodies.release(c.tenant.ID(), c.held)
		c.held = 0
	}
}

// payload reads the body, at most limit bytes.
func (c *call) payload(limit int64) ([]byte, error) {
	if c.read != nil {
		return c.read, nil
	}
	if c.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	b, err := c.readBody(http.MaxBytesReader(c.w, c.Body, limit), c.ContentLength, limit)
	var mbe *http.MaxBytesError
	var f *failure
	switch {
	case errors.As(err, &mbe), errors.Is(err, errBodyTooLarge):
		return nil, bodyTooLarge(limit)
	case errors.As(err, &f):
		return nil, err
	case err != nil:
		return nil, errBodyUnreadable
	}
	c.read = b
	return b, nil
}

func bodyTooLarge(limit int64) error {
	return invalidField("body", "must have at most %d bytes", limit)
}

var errBodyUnreadable = &failure{http.StatusBadRequest, "the request body could not be read", nil}

// maxBody returns the size of the largest body that the route accepts, in
// bytes.
func (c *call) maxBody() int64 {
	if c.route != nil && c.route.maxBody > 0 {
		return c.route.maxBody
	}
	return api.MaxBody
}

// validator is a request body that checks itself.
type validator interface{ Validate() map[string]string }

// decode reads the body into v, strictly, and validates it.
func (c *call) decode(v validator) error {
	if err := plainBody(c); err != nil {
		return err
	}
	b, err := c.payload(c.maxBody())
	if err != nil {
		return err
	}
	read := decodeNew
	if c.Method != http.MethodPost {
		read = decodeStrict
	}
	if err := read(b, v); err != nil {
		return err
	}
	if wrong := problems(v); len(wrong) > 0 {
		return invalid(wrong)
	}
	return nil
}
