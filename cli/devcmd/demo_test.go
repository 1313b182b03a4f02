package devcmd

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func serve(t *testing.T) string {
	t.Helper()
	return serveOne(t, newShopServer("test", slog.New(slog.DiscardHandler)))
}

func serveOne(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// connect opens a session of the official client at one protocol revision.
func connect(t *testing.T, url, revision string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	cs, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	return cs
}

func TestRevisions(t *testing.T) {
	url := serve(t)
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			progress := make(chan float64, 8)
			cs := connect(t, url, revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					progress <- req.Params.Progress
				},
			})
			if got := cs.InitializeResult().ProtocolVersion; got != revision {
				t.Fatalf("negotiated %s, want %s", got, revision)
			}
			tools, err := cs.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
				if tool.Description == "" || tool.Annotations == nil {
					t.Errorf("%s has no description or no annotations", tool.Name)
				}
			}
			for _, want := range []string{"search_orders", "get_order", "get_customer", "check_stock", "read_deploy_config", "run_sales_report", "refund_order", "send_email", "delete_customer"} {
				if !slices.Contains(names, want) {
					t.Errorf("tool %s is not listed in %v", want, names)
				}
			}

			params := &mcp.CallToolParams{Name: "run_sales_report", Arguments: map[string]any{"months": 2}}
			params.SetProgressToken("report-1")
			res, err := cs.CallTool(t.Context(), params)
			if err != nil || res.IsError {
				t.Fatalf("run_sales_report: %v %+v", err, res)
			}
			// The client handles notifications concurrently with the result.
			for _, want := range []float64{1, 2} {
				select {
				case got := <-progress:
					if got != want {
						t.Errorf("progress %v, want %v", got, want)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("no progress %v", want)
				}
			}
		})
	}
}

func TestTools(t *testing.T) {
	cs := connect(t, serve(t), "2025-11-25", nil)
	tests := []struct {
		name, tool string
		args       map[string]any
		want       string // in the structured content, or in the error text
		isError    bool
	}{
		{"late orders", "search_orders", map[string]any{"status": "late", "limit": 1}, `"status":"late"`, false},
		{"no such state", "search_orders", map[string]any{"status": "lost"}, `{"orders":[]}`, false},
		{"one order", "get_order", map[string]any{"orderId": "O-5004"}, `"orderId":"O-5004"`, false},
		{"unknown order", "get_order", map[string]any{"orderId": "O-1"}, "search_orders lists them", true},
		{"personal data", "get_customer", map[string]any{"customerId": "C-1001"}, "ada.brandt@example.com", false},
		{"stock", "check_stock", map[string]any{"sku": "tent-2p"}, `"onHand":14`, false},
		{"secret", "read_deploy_config", map[string]any{"service": "checkout"}, "AKIAIOSFODNN7EXAMPLE", false},
		{"refund", "refund_order", map[string]any{"orderId": "O-5004", "amountUsd": 10, "reason": "late"}, `"status":"refunded"`, false},
		{"refund twice", "refund_order", map[string]any{"orderId": "O-5004", "amountUsd": 10, "reason": "late"}, "already been refunded", true},
		{"refund too much", "refund_order", map[string]any{"orderId": "O-5005", "amountUsd": 1e6, "reason": "x"}, "at most", true},
		{"mail", "send_email", map[string]any{"customerId": "C-1002", "subject": "Hi", "body": "Hello"}, `"queued":true`, false},
		{"report bounds", "run_sales_report", map[string]any{"months": 13}, "between 1 and 12", true},
		{"delete", "delete_customer", map[string]any{"customerId": "C-1003"}, `"ordersDeleted":6`, false},
		{"deleted", "get_customer", map[string]any{"customerId": "C-1003"}, "no customer", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: tt.args})
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			if res.IsError != tt.isError || !strings.Contains(string(data), tt.want) {
				t.Errorf("got %s, want %q in it, error %v", data, tt.want, tt.isError)
			}
		})
	}
}

func TestHandbook(t *testing.T) {
	url := serveOne(t, newHandbook("test", slog.New(slog.DiscardHandler)))
	for _, revision := range []string{"2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			cs := connect(t, url, revision, nil)
			for _, row := range []struct {
				name, tool string
				args       map[string]any
				want       string
				isError    bool
			}{
				{"words in any order", "search", map[string]any{"text": "ORDERS late"}, `"uri":"handbook://late-orders"`, false},
				{"no such words", "search", map[string]any{"text": "submarine"}, `{"pages":[]}`, false},
				{"one page", "read_page", map[string]any{"pageId": "shipping"}, "Rotterdam", false},
				{"unknown page", "read_page", map[string]any{"pageId": "x"}, "search finds pages", true},
			} {
				res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: row.tool, Arguments: row.args})
				if err != nil {
					t.Fatal(err)
				}
				data, err := json.Marshal(res)
				if err != nil {
					t.Fatal(err)
				}
				if res.IsError != row.isError || !strings.Contains(string(data), row.want) {
					t.Errorf("%s: got %s, want %q in it, error %v", row.name, data, row.want, row.isError)
				}
			}
			listed, err := cs.ListResources(t.Context(), nil)
			if err != nil || len(listed.Resources) != len(handbookPages) {
				t.Fatalf("resources/list: %v %v", listed, err)
			}
			for _, r := range listed.Resources {
				got, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI})
				if err != nil || len(got.Contents) != 1 || !strings.HasPrefix(got.Contents[0].Text, "# "+r.Title+"\n") {
					t.Errorf("resources/read %s: %v %v", r.URI, got, err)
				}
			}
		})
	}
}

// One POST without a session or a handshake gets a response, as JSON unless it asks
// for progress: users paste such a command into a shell.
func TestSinglePost(t *testing.T) {
	url := serve(t)
	tests := []struct {
		name, body, contentType, want string
	}{
		{"json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_order","arguments":{"orderId":"O-5001"}}}`, "application/json", `"orderId":"O-5001"`},
		{"events", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_sales_report","arguments":{"months":1},"_meta":{"progressToken":1}}}`, "text/event-stream", `"summed up 2026-10"`},
		{"not json", `{`, "text/plain; charset=utf-8", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.Header.Get("Content-Type"); got != tt.contentType || !strings.Contains(string(body), tt.want) {
				t.Errorf("got %d %s %s, want %s with %q", resp.StatusCode, got, body, tt.contentType, tt.want)
			}
		})
	}
}

func TestBodyLimit(t *testing.T) {
	url := serve(t)
	resp, err := http.Post(url, "application/json", strings.NewReader(strings.Repeat(" ", maxBody+1)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, want 413", resp.StatusCode)
	}
}

// Each server rejects the revisions of the other generation, with a list of those that
// it supports.
func TestGenerations(t *testing.T) {
	for _, tt := range []struct{ url, version, want string }{
		{serve(t), "2026-07-28", `"supported":["2025-11-25"`},
		{serveOne(t, newHandbook("test", slog.New(slog.DiscardHandler))), "2025-11-25", `"supported":["2026-07-28"]`},
		{serveOne(t, newHandbook("test", slog.New(slog.DiscardHandler))), "", `"supported":["2026-07-28"]`},
	} {
		req, err := http.NewRequest(http.MethodPost, tt.url, strings.NewReader(`{"jsonrpc":"2.0","id":"x","method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("MCP-Protocol-Version", tt.version)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"code":-32022`) || !strings.Contains(string(body), tt.want) || !strings.Contains(string(body), `"id":"x"`) {
			t.Errorf("%q: %d %s", tt.version, resp.StatusCode, body)
		}
	}
}
