// Package demo has the two tool servers that 'svc dev' puts behind its gateway:
// the back office of a small mail-order shop ([NewShop]) and the handbook of its
// staff ([NewHandbook]), served over MCP with the official Go SDK.
//
// It owns the tools and their made-up data, which live in memory and start
// once more with every server. It leaves policy to the gateway: the tool that
// deletes customers works here, and a direct caller may use it.
package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// statelessRevision is the first protocol revision without sessions.
	statelessRevision = "2026-07-28"
	// maxBody bounds a request, in bytes.
	maxBody = 4 << 20
	// sessionIdle ends sessions that nobody uses.
	sessionIdle = 30 * time.Minute
)

// NewShop returns the back office with fresh data: tools that read, tools that
// write, and a prompt. Version names the program to clients.
func NewShop(version string, log *slog.Logger) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{
		Name:    "svc-demo-shop",
		Title:   "Mail-order back office (demo)",
		Version: version,
	}, &mcp.ServerOptions{
		Instructions: "Back office of a small mail-order shop: orders, customers, stock and refunds. All data is made up.",
		Logger:       log,
	})
	s := newShop()
	s.addReadingTools(server)
	s.addWritingTools(server)
	s.addPrompts(server)
	return legacyOnly(handle(server, log))
}

// The two servers are of different protocol generations, so that the demo shows what a
// gateway does between them: the shop supports the revisions with sessions, the handbook
// 2026-07-28 alone.

// legacyOnly refuses the stateless revision.
func legacyOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= statelessRevision {
			refuseRevision(w, r, "2025-11-25", "2025-06-18", "2025-03-26")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// statelessOnly refuses every other revision, and requests that name none.
func statelessOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") < statelessRevision {
			refuseRevision(w, r, statelessRevision)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseRevision answers that the server supports other revisions (2026-07-28,
// UnsupportedProtocolVersion).
func refuseRevision(w http.ResponseWriter, r *http.Request, supported ...string) {
	var envelope struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&envelope)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"jsonrpc": "2.0", "id": envelope.ID, "error": map[string]any{
			"code": -32022, "message": "unsupported protocol version",
			"data": map[string]any{"supported": supported, "requested": r.Header.Get("MCP-Protocol-Version")},
		},
	})
}

// handle serves every protocol revision that the SDK knows: sessions up to
// 2025-11-25, single requests without a session, and the stateless 2026-07-28.
func handle(server *mcp.Server, log *slog.Logger) http.Handler {
	get := func(*http.Request) *mcp.Server { return server }
	handler := func(stateless, asJSON bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
			Stateless:                    stateless,
			JSONResponse:                 asJSON,
			Logger:                       log,
			SessionTimeout:               sessionIdle,
			MaxRequestBodyBytes:          maxBody,
			PropagateRequestCancellation: true,
		})
	}
	return &dispatcher{
		sessions: handler(false, false),
		single:   handler(true, true),
		stream:   handler(true, false),
	}
}

// dispatcher picks the handler for a request. The SDK serves sessions and
// single requests with two different ones, and answers either as JSON or as an
// event stream; here a request decides by what it carries.
type dispatcher struct {
	sessions http.Handler // revisions with Mcp-Session-Id
	single   http.Handler // one request, answered as JSON
	stream   http.Handler // one request, answered as an event stream
}

func (d *dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stateless := r.Header.Get("MCP-Protocol-Version") >= statelessRevision
	if !stateless && (r.Method != http.MethodPost || r.Header.Get("Mcp-Session-Id") != "") {
		d.sessions.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the request body could not be read", status)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))

	var envelope struct {
		Method string `json:"method"`
		Params struct {
			Meta struct {
				ProgressToken json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		} `json:"params"`
	}
	// What does not decode goes to the SDK as well, for its error.
	_ = json.Unmarshal(body, &envelope)
	switch {
	case !stateless && envelope.Method == "initialize":
		d.sessions.ServeHTTP(w, r)
	case envelope.Params.Meta.ProgressToken != nil, envelope.Method == "subscriptions/listen":
		d.stream.ServeHTTP(w, r)
	default:
		d.single.ServeHTTP(w, r)
	}
}
