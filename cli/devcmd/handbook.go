package devcmd

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// page is one page of the handbook. Its resource has the URI handbook://ID.
type page struct {
	ID    string
	Title string
	Text  string
}

func (p page) uri() string { return "handbook://" + p.ID }

// handbookPages are made up, like the data of the shop.
var handbookPages = []page{
	{"refunds", "Refunds", "Refund late orders in full on request. Ask a person above 200 USD. An order can be refunded once."},
	{"late-orders", "Late orders", "Write to the customer before they write to us. Offer a new date first, a refund second."},
	{"shipping", "Shipping", "Rotterdam ships to Europe within three days, Newark to North America within four."},
	{"customer-data", "Customer data", "Never repeat a card number or a phone number in a message. Delete a customer only when two people agree."},
}

type pageSearchIn struct {
	Text string `json:"text" jsonschema:"words that the page has in its title or its text, for example late"`
}

type pageFound struct {
	ID    string `json:"pageId"`
	Title string `json:"title"`
	URI   string `json:"uri"`
}

type pageSearchOut struct {
	Pages []pageFound `json:"pages"`
}

type pageIn struct {
	PageID string `json:"pageId" jsonschema:"for example late-orders"`
}

type pageOut struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// newHandbook returns the handbook of the shop's staff: two tools that read, and
// each page as a resource. version is the version that clients see.
func newHandbook(version string, log *slog.Logger) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{
		Name:    "svc-demo-handbook",
		Title:   "Staff handbook (demo)",
		Version: version,
	}, &mcp.ServerOptions{
		Instructions: "How the staff of the mail-order shop works. Look here before you refund an order or write to a customer.",
		Logger:       log,
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "search",
		Description: "Find pages of the staff handbook by their words.",
		Annotations: reading("Search the handbook"),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in pageSearchIn) (*mcp.CallToolResult, pageSearchOut, error) {
		return nil, pageSearchOut{findPages(in.Text)}, nil
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "read_page",
		Description: "Read one page of the staff handbook.",
		Annotations: reading("Read a page"),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in pageIn) (*mcp.CallToolResult, pageOut, error) {
		for _, p := range handbookPages {
			if p.ID == in.PageID {
				return nil, pageOut{p.Title, p.Text}, nil
			}
		}
		return nil, pageOut{}, fmt.Errorf("no page %q; search finds pages", in.PageID)
	})
	for _, p := range handbookPages {
		server.AddResource(&mcp.Resource{
			URI:         p.uri(),
			Name:        p.ID,
			Title:       p.Title,
			Description: "A page of the staff handbook.",
			MIMEType:    "text/markdown",
		}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
				URI:      p.uri(),
				MIMEType: "text/markdown",
				Text:     "# " + p.Title + "\n\n" + p.Text + "\n",
			}}}, nil
		})
	}
	return statelessOnly(handle(server, log))
}

// findPages returns the pages that contain every word of the text.
func findPages(text string) []pageFound {
	found := []pageFound{}
	words := strings.Fields(strings.ToLower(text))
pages:
	for _, p := range handbookPages {
		all := strings.ToLower(p.Title + " " + p.Text)
		for _, w := range words {
			if !strings.Contains(all, w) {
				continue pages
			}
		}
		found = append(found, pageFound{p.ID, p.Title, p.uri()})
	}
	return found
}
