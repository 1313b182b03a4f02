package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"svc/server/api"
	"svc/store"
)

const (
	contentType       = "application/json; charset=utf-8"
	idempotencyHeader = "Idempotency-Key"
	// replayedHeader marks an answer that was given before.
	replayedHeader = "Idempotency-Replayed"
	// maxIdempotencyKey bounds an Idempotency-Key, in bytes.
	maxIdempotencyKey = 255
	// keepTimeout bounds how long keeping an answer may take after the client
	// has gone.
	keepTimeout = 5 * time.Second
)

// once runs a POST that carries an Idempotency-Key: the first answer to it is
// kept and given again to whoever repeats it. A twin waits for the one that is
// at work. Only failures of the server are not kept: nothing was done then, and
// a retry is what they call for.
func (s *Server) once(c *call) error {
	token, err := idempotencyToken(c.Header)
	if err != nil {
		return err
	}
	body, err := c.payload(api.MaxBody)
	if err != nil {
		return err
	}
	a := store.Attempt{KeyID: c.key.ID, Route: c.Method + " " + c.URL.Path, Token: token, Body: sha256.Sum256(body)}
	earlier, err := c.tenant.BeginAttempt(c.Context(), a)
	if err != nil {
		return err
	}
	if earlier != nil {
		c.w.Header().Set(replayedHeader, "true")
		c.status, c.body = earlier.Status, earlier.Body
		return nil
	}
	finished := false
	defer func() {
		if finished {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), keepTimeout)
		defer cancel()
		if err := c.tenant.AbandonAttempt(ctx, a); err != nil {
			s.log.Error("attempt not given up; its retries wait until it runs out", "request_id", c.id, "route", c.pattern(), "error", err)
		}
	}()
	if err := c.route.handle(s, c); err != nil {
		if outcome(err, c.id).status >= 500 {
			return err
		}
		s.fail(c, err)
	}
	answer := store.Answer{Status: c.status, ContentType: contentType, Body: c.body}
	if c.keep != nil {
		answer.Body = c.keep
	}
	// What was done is done, whether the client still listens or not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), keepTimeout)
	defer cancel()
	if err := c.tenant.FinishAttempt(ctx, a, answer); err != nil {
		// The client gets the true answer; a retry would do the work again.
		s.log.Error("answer not kept for retries", "request_id", c.id, "route", c.pattern(), "error", err)
		return nil
	}
	finished = true
	return nil
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
