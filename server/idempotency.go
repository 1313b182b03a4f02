package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"svc/store"
)

const (
	contentType       = "application/json; charset=utf-8"
	idempotencyHeader = "Idempotency-Key"
	// replayedHeader marks a stored response that is sent again.
	replayedHeader = "Idempotency-Replayed"
	// maxIdempotencyKey bounds an Idempotency-Key, in bytes.
	maxIdempotencyKey = 255
	// storeTimeout bounds the time for storing a response after the client has
	// disconnected.
	storeTimeout = 5 * time.Second
)

// withIdempotency runs a POST with an Idempotency-Key. The first response is stored and
// sent again for each retry. A concurrent duplicate waits for the request in flight.
// Failures of the server (5xx) are not stored: nothing was changed, and a retry should run
// the request again.
func (s *Server) withIdempotency(c *call) error {
	token, err := idempotencyToken(c.Header)
	if err != nil {
		return err
	}
	body, err := c.payload(c.maxBody())
	if err != nil {
		return err
	}
	r := store.IdempotentRequest{KeyID: c.key.ID, Route: c.Method + " " + c.URL.Path, Token: token, Body: sha256.Sum256(body)}
	earlier, err := c.tenant.BeginAttempt(c.Context(), r)
	if err != nil {
		return err
	}
	if earlier != nil {
		c.w.Header().Set(replayedHeader, "true")
		c.status, c.body = earlier.Status, earlier.Body
		return nil
	}
	c.idempotent = &r
	defer func() {
		if c.responseStored {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), storeTimeout)
		defer cancel()
		if err := c.tenant.AbandonAttempt(ctx, r); err != nil {
			s.logUnavailable("idempotent request not released; its retries wait until it expires", c, err)
		}
	}()
	if err := c.route.handle(s, c); err != nil {
		if outcome(err, c.id).status >= 500 {
			return err
		}
		s.fail(c, err)
	}
	if c.responseStored { // the response was stored in the transaction of the change
		return nil
	}
	// Nothing was changed. The response is stored even if the client has disconnected.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), storeTimeout)
	defer cancel()
	if err := c.tenant.FinishAttempt(ctx, r, c.response()); err != nil {
		// The response cannot be stored for retries, so a retry runs the request again.
		s.logUnavailable("response not stored for retries", c, err)
		return nil
	}
	c.responseStored = true
	return nil
}

// response returns the response for retries of the request.
func (c *call) response() store.StoredResponse {
	r := store.StoredResponse{Status: c.status, ContentType: contentType, Body: c.body}
	if c.replayBody != nil {
		r.Body = c.replayBody
	}
	return r
}

// create runs the write of a POST and sets the response that respond makes of its result.
// For an idempotent request the response is stored in the transaction of the write.
// Therefore respond must not use the store; the data that it needs is read before.
func create[T any](c *call, write func(ctx context.Context) (T, error), respond func(T) error) error {
	ctx, answered := c.Context(), false
	var refused error
	if c.idempotent != nil {
		ctx = store.StoringResponse(ctx, *c.idempotent, func(made T) store.StoredResponse {
			answered = true
			refused = respond(made)
			return c.response()
		})
	}
	made, err := write(ctx)
	if err != nil {
		c.status, c.body, c.replayBody = 0, nil, nil
		return err
	}
	if answered {
		c.responseStored = true
		return refused
	}
	return respond(made)
}

// idempotencyToken returns the one Idempotency-Key of a request.
func idempotencyToken(h http.Header) (string, error) {
	values := h.Values(idempotencyHeader)
	if len(values) != 1 {
		return "", invalidField(idempotencyHeader, "is given more than once")
	}
	token := values[0]
	if len(token) > maxIdempotencyKey {
		return "", invalidField(idempotencyHeader, "must have at most %d characters", maxIdempotencyKey)
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return "", invalidField(idempotencyHeader, "must be printable ASCII without spaces")
		}
	}
	return token, nil
}
