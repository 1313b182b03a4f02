package upstream

import (
	"io"
	"time"
)

// Request is one request to the upstream. The client keeps nothing of it after
// Do has returned.
type Request struct {
	// Method is GET, POST, DELETE or another token.
	Method string
	// Header holds the fields to send. Fields that frame the message or belong to
	// the connection (Host, Content-Length, Accept-Encoding, …) are the client's
	// own and skipped here, and so are those that the configuration sets. A value
	// with a line break or another control character refuses the request.
	Header Header
	// Body is sent as it stands.
	Body []byte
	// Idempotent declares that the upstream may receive the request twice without
	// harm. GET, HEAD and DELETE are so by definition; a tool call is not.
	Idempotent bool
	// Timeouts replaces the configured time-outs when it is not nil.
	Timeouts *Timeouts
}

// Timeouts bounds the waits of one request. Zero means no bound.
type Timeouts struct {
	// FirstByte is from the start of Do to the first byte of the answer.
	FirstByte time.Duration
	// Between is the longest wait for more of the answer.
	Between time.Duration
}

// Response is the answer of the upstream.
type Response struct {
	// Status is 200 to 999; interim answers are not shown.
	Status int
	// Header holds the fields in their order. Fields that frame the message are
	// among them, for inspection; they are not meant to be passed on.
	Header Header
	// ContentLength is the length of the body, or -1 when it is not known.
	ContentLength int64
	// Body streams the body and must be closed. Read returns what has arrived, and
	// io.EOF only when the body is complete; every other error is an [*Error].
	// Close may be called while a Read waits, from another goroutine, and ends it.
	Body io.ReadCloser
}

// Client is a pool of connections to one upstream. It is safe for concurrent
// use.
type Client struct {
	name string
}

// Name returns the logical name of the upstream.
func (c *Client) Name() string { return c.name }

