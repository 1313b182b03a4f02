package translate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
)

// isSession reports whether tomodern issued a session id.
func isSession(id string) bool {
	_, own := session.CutOwn(id)
	return own
}

// hello is a client's declarations in its initialize.
type hello struct {
	Version      string          `json:"v"`
	Info         json.RawMessage `json:"i,omitempty"`
	Capabilities json.RawMessage `json:"c,omitempty"`
}

// errHello is the error of declarations that are too large for a session id.
var errHello = errors.New("clientInfo and capabilities are too large for a session: the gateway keeps them in the session id")

// carried are the client capabilities that exist in both generations.
var carried = []string{"elicitation", "sampling", "roots", "experimental"}

// carriedExtensions returns the extensions that a client declares, without the one that exists in one
// generation only; nil for none.
func carriedExtensions(body []byte, capabilities mcp.Span) []byte {
	at := mcp.Find(body, capabilities, "extensions")
	if !at.Present() || body[at.Start] != '{' {
		return nil
	}
	kept := mcp.AppendObject(nil, body, at, func(name []byte) bool { return string(name) == mcp.ExtensionTasks })
	if string(kept) == "{}" {
		return nil
	}
	return kept
}

// readHello reads the parameters of an initialize. Declarations that no upstream could
// get are refused, with the cause in words.
func readHello(m *mcp.Message) (h hello, why *refusal.Refusal, cause string) {
	h.Version = m.InitializeVersion
	if !slices.Contains(mcp.LegacyRevisions(), h.Version) {
		h.Version = mcp.Revision20251125
	}
	params := m.Spans.Params
	if info := mcp.Find(m.Body, params, "clientInfo"); given(m.Body, info) {
		if m.Body[info.Start] != '{' {
			return h, &refusal.ClientInfo, "clientInfo is not an object"
		}
		h.Info = slices.Clone(info.Of(m.Body))
	}
	at := mcp.Find(m.Body, params, "capabilities")
	if !given(m.Body, at) {
		return h, nil, ""
	}
	if m.Body[at.Start] != '{' {
		return h, &refusal.ClientCapabilities, "capabilities is not an object"
	}
	var declared []string
	for it := mcp.Members(m.Body, at); it.Next(); {
		name := string(it.Name())
		if !slices.Contains(carried, name) || !given(m.Body, it.Value()) {
			continue
		}
		if m.Body[it.Value().Start] != '{' {
			return h, &refusal.ClientCapabilities, "the capability " + name + " is not an object"
		}
		declared = append(declared, name)
	}
	h.Capabilities = mcp.AppendObject(nil, m.Body, at, func(name []byte) bool { return !slices.Contains(declared, string(name)) },
		mcp.Member{Name: "extensions", Value: carriedExtensions(m.Body, at)})
	return h, nil, ""
}

// given reports whether a member is present and not null.
func given(body []byte, at mcp.Span) bool { return at.Present() && body[at.Start] != 'n' }

// id returns the session id that contains h. If it is too long, parts are dropped in
// order of their importance: first everything of clientInfo except name and version,
// then experimental capabilities, then extensions.
func (h hello) id() (string, error) {
	for _, shorten := range []func(){
		func() {},
		func() { h.Info = only(h.Info, "name", "version") },
		func() { h.Capabilities = only(h.Capabilities, "elicitation", "sampling", "roots", "extensions") },
		func() { h.Capabilities = only(h.Capabilities, "elicitation", "sampling", "roots") },
	} {
		shorten()
		text, err := json.Marshal(h)
		if err != nil {
			return "", err
		}
		if id := session.OwnID(base64.RawURLEncoding.EncodeToString(text)); len(id) <= session.MaxUpstreamID {
			return id, nil
		}
	}
	return "", errHello
}

// only returns an object with the named members only.
func only(object []byte, names ...string) []byte {
	if len(object) == 0 {
		return object
	}
	return mcp.AppendObject(nil, object, mcp.Span{End: len(object)}, func(name []byte) bool { return !slices.Contains(names, string(name)) })
}

// openHello parses a session id. A client without a session has no declarations.
func openHello(id string) (h hello, ok bool) {
	if id == "" {
		return hello{Version: mcp.Revision20251125}, true
	}
	text, ok := session.CutOwn(id)
	if !ok {
		return h, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &h) != nil {
		return h, false
	}
	return h, true
}

// maxHellos bounds the cached declarations.
const maxHellos = 4096

// hellos caches parsed session ids, because a client sends its session with each
// request. The zero value is ready for use.
type hellos struct {
	mu   sync.RWMutex
	byID map[string]hello
}

// open is openHello with a cache. The result is shared and must not be modified.
func (m *hellos) open(id string) (hello, bool) {
	m.mu.RLock()
	h, ok := m.byID[id]
	m.mu.RUnlock()
	if ok {
		return h, true
	}
	if h, ok = openHello(id); !ok {
		return h, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID == nil || len(m.byID) >= maxHellos { // entries can be parsed again
		m.byID = map[string]hello{}
	}
	m.byID[strings.Clone(id)] = h
	return h, true
}

// declares reports whether the client has a capability.
func (h *hello) declares(capability string) bool {
	return mcp.Find(h.Capabilities, mcp.Span{End: len(h.Capabilities)}, capability).Present()
}

// Values of _meta that are the same in all requests. They are never modified.
var (
	modernRevision = []byte(`"` + mcp.Revision20260728 + `"`)
	noCapabilities = []byte("{}")
)

// meta returns the members of _meta that the revision without sessions requires.
func (h *hello) meta(version string, level []byte) []mcp.Member {
	info, capabilities := h.Info, h.Capabilities
	if len(info) == 0 {
		info = append(mcp.AppendString([]byte(`{"name":"svc","version":`), version), '}')
	}
	if len(capabilities) == 0 {
		capabilities = noCapabilities
	}
	return []mcp.Member{
		{Name: mcp.MetaProtocolVersion, Value: modernRevision},
		{Name: mcp.MetaClientInfo, Value: info},
		{Name: mcp.MetaClientCapabilities, Value: capabilities},
		{Name: mcp.MetaLogLevel, Value: level},
	}
}
