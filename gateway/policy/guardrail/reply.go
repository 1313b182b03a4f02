package guardrail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxReply bounds the reply of an endpoint, in bytes.
const maxReply = 16 << 20

// The reasons why a reply is a callout error. No error contains text of the reply.
var (
	errReplyTooLarge = fmt.Errorf("the reply is longer than %d bytes", maxReply)
	errReplyJSON     = errors.New("the reply is not one JSON object")
	errReplyTwice    = errors.New("the reply has a duplicate member")
	errReplyAction   = errors.New("the action of the reply is not pass, mask or reject")
	errReplyBody     = errors.New("the reply has action mask, and its body is not an object")
)

// reply is the parsed reply of an endpoint.
type reply struct {
	verdict Verdict // Pass, Mask or Reject
	body    []byte  // for Mask: the envelope, as received
}

// parseReply parses a reply: an object with action, and with body if action is mask.
// Other members are ignored. Names are compared exactly, and a duplicate name is an
// error, because parsers disagree on which of two members counts.
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
