package devcmd

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
	// sessionIdle is the time after which an unused session ends.
	sessionIdle = 30 * time.Minute
)

// newShopServer returns the back office with fresh data: tools that read, tools that write,
// and a prompt. version is the version that clients see.
func newShopServer(version string, log *slog.Logger) http.Handler {
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

// The two servers have different protocol generations, so that the demo shows how a
// gateway translates between them: the shop supports the revisions with sessions, the
// handbook only 2026-07-28.

// legacyOnly rejects the stateless revision.
func legacyOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= statelessRevision {
			refuseRevision(w, r, "2025-11-25", "2025-06-18", "2025-03-26")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// statelessOnly rejects all other revisions, and requests without a revision.
func statelessOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") < statelessRevision {
			refuseRevision(w, r, statelessRevision)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseRevision responds that the server supports other revisions (2026-07-28,
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

// handle serves every protocol revision that the SDK supports: sessions up to
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

// dispatcher selects the handler for a request. The SDK has different handlers for
// sessions and for single requests, which respond either with JSON or with an event
// stream; here the choice depends on the request.
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
	// A body that cannot be decoded goes to the SDK as well, for its error response.
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
