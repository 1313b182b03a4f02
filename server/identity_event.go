package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"svc/store/api"
)

// decodeEvent reads a signed body. The provider may add members, which are ignored.
// Known members must have the right type and may be given only once. Values that a
// user chooses (the display name, and for events about the state of a user the
// address too) cannot make an event invalid: otherwise users could prevent the
// revocation of their own access. For an event of unknown type only the type must be
// readable.
func decodeEvent(body []byte) (*api.WebhookEvent, error) {
	body = shallow(body)
	top, err := knownMembers(body, "", "type", "createdAt", "data")
	if err != nil {
		return nil, err
	}
	ev, data := &api.WebhookEvent{}, map[string]jsontext.Value(nil)
	if user := top["data"]; user.Kind() == '{' {
		if data, err = knownMembers(user, "data.", "userId", "email", "displayName", "orgId"); err != nil {
			return nil, err
		}
	}
	if json.Unmarshal(top["type"], &ev.Type, eventOptions) != nil || ev.Type == "" {
		return nil, invalidField("type", "is required and must be a string")
	}
	if ev.ChangesProfile() {
		err = json.Unmarshal(body, ev, eventOptions)
	} else { // the types of members that these events do not need are not checked
		var state struct {
			CreatedAt time.Time `json:"createdAt"`
			Data      struct {
				UserID string `json:"userId"`
			} `json:"data"`
		}
		err = json.Unmarshal(body, &state, eventOptions)
		ev.CreatedAt = state.CreatedAt
		ev.Data = api.WebhookUser{UserID: state.Data.UserID, Email: stringOf(data["email"]),
			DisplayName: stringOf(data["displayName"]), OrgID: stringOf(data["orgId"])}
	}
	if strings.IndexByte(ev.Type, 0) >= 0 {
		return nil, invalidField("type", hasNUL)
	}
	if !slices.Contains(api.WebhookEvents, ev.Type) {
		return ev, nil
	}
	var se *json.SemanticError
	switch {
	case errors.As(err, &se):
		return nil, invalidField(memberPath(se.JSONPointer), "%s", expectation(se))
	case err != nil:
		return nil, &failure{http.StatusBadRequest, "the request body does not have the expected form", nil}
	}
	ev.Clean()
	if wrong := ev.Validate(); len(wrong) > 0 {
		return nil, invalid(wrong)
	}
	return ev, nil
}

// eventOptions accept any contents in unknown members, such as metadata written by a
// user, and every form of RFC 3339 for the time of the event.
var eventOptions = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(readTimestamp)),
)

// maxEventDepth bounds the nesting to which an event is decoded. Known members are on
// two levels; the decoder rejects a body with more than 10,000.
const maxEventDepth = 64

// shallow returns body with each value that is nested deeper than maxEventDepth
// replaced by a number. It does not check the syntax of the rest.
func shallow(body []byte) []byte {
	var out []byte // nil until a value was replaced
	kept, depth, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth == maxEventDepth+1 {
				out = append(append(out, body[kept:i]...), '0')
				kept = len(body)
			}
		case c == '}' || c == ']':
			if depth--; depth == maxEventDepth {
				kept = i + 1
			}
		}
	}
	if out == nil {
		return body
	}
	return append(out, body[kept:]...)
}

// knownMembers reads one JSON object and returns the values of its known members, which may be given only
// once. It inspects no other member: the body is signed and its size bounded, and metadata written by
// a user must not make an event invalid.
func knownMembers(object []byte, prefix string, known ...string) (map[string]jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), eventOptions)
	if k := d.PeekKind(); k != '{' && k != 0 {
		return nil, errNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, malformed(err)
	}
	found := make(map[string]jsontext.Value, len(known))
	for d.PeekKind() == '"' {
		tok, err := d.ReadToken()
		if err != nil {
			return nil, malformed(err)
		}
		name := tok.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, malformed(err)
		}
		if found[name] != nil {
			return nil, invalidField(prefix+name, "is given twice")
		}
		if slices.Contains(known, name) {
			found[name] = value.Clone()
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, malformed(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errGoesOn
	}
	return found, nil
}

// stringOf returns the text of a JSON string, and "" for any other value.
func stringOf(v jsontext.Value) string {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s, eventOptions) != nil {
		return ""
	}
	return s
}
