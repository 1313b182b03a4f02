package translate

import (
	"crypto/rand"
	"errors"
	"sync"
	"time"
)

// errHeld is the error of a question beyond the limits.
var errHeld = errors.New("too many calls wait for an answer to a question")

// held are the calls at one upstream that wait for their client's answer. It is safe for
// concurrent use.
type held struct {
	bounds *Quota[poolKey]
	all    sync.Map // *holding by name
}

// holding is one held call.
type holding struct {
	call     *callToLegacy
	question []byte // the question for the client; never modified
	timer    *time.Timer
}

// add holds a call that waits for an answer, and returns its name. If it is not taken
// within answerTime, late is called.
func (h *held) add(c *callToLegacy, question []byte, late func()) (name string, err error) {
	if !h.bounds.Take(c.principal, 1) {
		return "", errHeld
	}
	name = rand.Text()
	h.all.Store(name, &holding{call: c, question: question, timer: time.AfterFunc(answerTime, func() {
		if h.take(name) != nil {
			late()
		}
	})})
	return name, nil
}

// peek returns the question of a held call, which stays held; nil if there is none. The
// call itself may only be used after take.
func (h *held) peek(name string) (question []byte) {
	if at, ok := h.all.Load(name); ok {
		return at.(*holding).question
	}
	return nil
}

// take removes a held call and returns it to the first caller; nil to all others.
func (h *held) take(name string) *callToLegacy {
	at, ok := h.all.LoadAndDelete(name)
	if !ok {
		return nil
	}
	one := at.(*holding)
	one.timer.Stop()
	h.bounds.Give(one.call.principal, 1)
	return one.call
}

// drain removes and returns all held calls.
func (h *held) drain() (out []*callToLegacy) {
	for name := range h.all.Range {
		if c := h.take(name.(string)); c != nil {
			out = append(out, c)
		}
	}
	return out
}
