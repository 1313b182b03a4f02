package translate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Timing of a call that continues at another replica.
const (
	heartbeat   = 2 * time.Second
	patience    = 10 * time.Second // maximum time without a message of the other replica
	longestTurn = 15 * time.Minute
	askTimeout  = 5 * time.Second // for one message to the other replica
)

// remoteRetry passes the answer to a question to the replica that holds the call.
type remoteRetry struct {
	Held      string          `json:"held"`
	Reply     string          `json:"reply"` // the mailbox for the responses
	ID        json.RawMessage `json:"id"`
	RequestID string          `json:"request"`
	State     string          `json:"state"`
	Answer    json.RawMessage `json:"answer,omitempty"`
}

// remoteEnd notifies that replica that the client has disconnected.
type remoteEnd struct {
	Reply string `json:"reply"`
}

// remoteMessage is a response of that replica. Without a message and an end it is a
// keepalive.
type remoteMessage struct {
	Message json.RawMessage `json:"message,omitempty"`
	End     bool            `json:"end,omitempty"`
	Gone    bool            `json:"gone,omitempty"` // the call does not exist
}

// Kinds of messages between replicas.
func (t *ToLegacy) kindRetry() string { return "retry:" + t.opts.Upstream.Name }
func (t *ToLegacy) kindEnd() string   { return "end:" + t.opts.Upstream.Name }

// remote is the response to a retry whose call another replica holds. It is a
// [upstream.Source].
type remote struct {
	t          *ToLegacy
	instance   string
	box        string
	method, id string // of the client's request
	requestID  string
	ctx        context.Context
	cancel     context.CancelFunc
	ended      bool // changed by Next only
	Refusing
}

// handOver passes a retry to the replica that holds its call.
func (t *ToLegacy) handOver(ctx context.Context, r *upstream.Request, m *mcp.Message, st *state, text string, answer []byte) (*upstream.Response, error) {
	o := &remote{t: t, instance: st.Instance, box: rand.Text(), method: strings.Clone(m.Method), id: string(m.ID), requestID: r.RequestID}
	err := t.opts.Replicas.Send(ctx, st.Instance, t.kindRetry(), remoteRetry{
		Held: st.Held, Reply: o.box, ID: m.ID, RequestID: r.RequestID, State: text, Answer: answer,
	})
	switch {
	case errors.Is(err, ErrNone):
		return gone(m, r.RequestID), nil
	case err != nil: // the call is still held there
		resp := Refuse(&refusal.SessionStore, 0, m.ID, "the answer could not be passed to the replica that holds the call: send it again", r.RequestID)
		resp.Refused.Cause = "the answer of a client was not passed to the replica that holds its call: " + err.Error()
		resp.Header.Add("Retry-After", "1")
		return resp, nil
	}
	o.ctx, o.cancel = context.WithCancel(ctx)
	return upstream.Events(o), nil
}

// Next implements [upstream.Source].
func (o *remote) Next(before func()) ([]byte, error) {
	if o.ended {
		return nil, io.EOF
	}
	before()
	for last := o.t.opts.Now(); ; {
		var in remoteMessage
		ok, err := o.t.opts.Replicas.Receive(o.ctx, o.box, heartbeat, &in)
		switch {
		case o.ctx.Err() != nil:
			return nil, o.ctx.Err()
		case err != nil || !ok:
			if o.t.opts.Now().Sub(last) < patience {
				if err != nil {
					retry.Wait(o.ctx, time.Second/4)
				}
				continue
			}
			return o.fail("the replica of the gateway that holds the call does not answer"), nil
		case in.Gone:
			return o.fail(errGone.Error()), nil
		case in.End:
			o.ended = true
			return nil, io.EOF
		case len(in.Message) > 0:
			return in.Message, nil
		}
		last = o.t.opts.Now()
	}
}

// fail is the last message of a call whose replica no longer responds.
func (o *remote) fail(why string) []byte {
	o.ended = true
	o.Refuse(&refusal.InputFailed, why)
	return failed(o.method, []byte(o.id), o.requestID, why, isUnknown)
}

// Close implements [upstream.Source].
func (o *remote) Close() error {
	o.cancel()
	o.t.opts.Background.Run(func(ctx context.Context) {
		_ = o.t.opts.Replicas.Send(ctx, o.instance, o.t.kindEnd(), remoteEnd{o.box})
	})
	return nil
}

// endRemote ends a call of this replica that continues for another one, by the mailbox for the
// responses.
func (t *ToLegacy) endRemote(box string) {
	if cancel, ok := t.remotes.LoadAndDelete(box); ok {
		cancel.(context.CancelFunc)()
	}
}

// takeRetry continues a call for another replica.
func (t *ToLegacy) takeRetry(ctx context.Context, body []byte) {
	var in remoteRetry
	if json.Unmarshal(body, &in) != nil {
		return
	}
	reply := func(m remoteMessage) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		return t.opts.Replicas.Reply(ctx, in.Reply, m)
	}
	waiting := t.held.peek(in.Held)
	if waiting != nil && len(in.Answer) == 0 {
		_ = reply(remoteMessage{Message: ask(waiting, in.ID, in.State)})
		_ = reply(remoteMessage{End: true})
		return
	}
	c := t.held.take(in.Held)
	if c == nil {
		_ = reply(remoteMessage{Gone: true})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestTurn)
	t.remotes.Store(in.Reply, cancel)
	defer t.endRemote(in.Reply)
	c.goOn(ctx, in.RequestID, in.ID, in.Answer)
	source := c.turn(nil)
	defer source.Close()
	var alive sync.WaitGroup
	defer alive.Wait()
	beating, stop := context.WithCancel(ctx)
	defer stop()
	alive.Go(func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = reply(remoteMessage{})
			case <-beating.Done():
				return
			}
		}
	})
	for {
		message, err := source.Next(func() {})
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				_ = reply(remoteMessage{Message: c.failed("the upstream failed", isUnknown)})
			}
			stop()
			_ = reply(remoteMessage{End: true})
			return
		}
		if reply(remoteMessage{Message: message}) != nil {
			return
		}
	}
}

// takeEnd ends a call of another replica whose client has disconnected.
func (t *ToLegacy) takeEnd(_ context.Context, body []byte) {
	var in remoteEnd
	if json.Unmarshal(body, &in) == nil {
		t.endRemote(in.Reply)
	}
}
