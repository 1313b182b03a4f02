package guardrail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxReply bounds what an endpoint may answer, in bytes.
const maxReply = 16 << 20

// Why an answer of an endpoint is a callout error. No error holds text of the
// answer: a reason is for the operator of the endpoint alone.
var (
	errReplyTooLarge = fmt.Errorf("the answer is longer than %d bytes", maxReply)
	errReplyJSON     = errors.New("the answer is not one JSON object")
	errReplyTwice    = errors.New("the answer has a member twice")
	errReplyAction   = errors.New("the action in the answer is not pass, mask or reject")
	errReplyBody     = errors.New("the answer masks without an object as body")
)

// reply is what an endpoint answered.
type reply struct {
	verdict Verdict // Pass, Mask or Reject
	body    []byte  // of Mask: the envelope, as it was written
}

// parseReply reads an answer: an object with action, and body where that is
// mask. Other members are the endpoint's own business. Names count as they are
// written, and twice the same name is no answer: whoever reads the first of two
// actions and whoever reads the second would not agree.
func parseReply(data []byte) (reply, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return reply{}, errReplyJSON
	}
	var action, body json.RawMessage
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return reply{}, errReplyJSON
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return reply{}, errReplyJSON
		}
		var to *json.RawMessage
		switch name {
		case "action":
			to = &action
		case "body":
			to = &body
		default:
			continue
		}
		if *to != nil {
			return reply{}, errReplyTwice
		}
		*to = value
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return reply{}, errReplyJSON
	}
	if _, err := d.Token(); err != io.EOF {
		return reply{}, errReplyJSON
	}
	var said string
	if json.Unmarshal(action, &said) != nil {
		return reply{}, errReplyAction
	}
	switch Verdict(said) {
	case Pass:
		return reply{verdict: Pass}, nil
	case Reject:
		return reply{verdict: Reject}, nil
	case Mask:
		if len(body) == 0 || body[0] != '{' {
			return reply{}, errReplyBody
		}
		return reply{verdict: Mask, body: body}, nil
	}
	return reply{}, errReplyAction
}
