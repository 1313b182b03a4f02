package devcmd

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type refundIn struct {
	OrderID   string  `json:"orderId" jsonschema:"for example O-5004"`
	AmountUSD float64 `json:"amountUsd" jsonschema:"at most the total of the order"`
	Reason    string  `json:"reason" jsonschema:"shown to the customer"`
}

type emailIn struct {
	CustomerID string `json:"customerId" jsonschema:"for example C-1001"`
	Subject    string `json:"subject"`
	Body       string `json:"body" jsonschema:"plain text"`
}

type emailOut struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Body    string `json:"body"` // as received, after the gateway's policies
	Queued  bool   `json:"queued"`
}

type deletedOut struct {
	CustomerID    string `json:"customerId"`
	OrdersDeleted int    `json:"ordersDeleted"`
}

// writing marks tools that change something; open are those that reach people outside of the shop.
func writing(title string, destructive, open bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, DestructiveHint: &destructive, OpenWorldHint: &open}
}

// addWritingTools adds the tools that change something.
func (s *shop) addWritingTools(server *mcp.Server) {
	mcp.AddTool(server, &mcp.Tool{
		Name:        "refund_order",
		Description: "Refund an order, in full or in part. An order can be refunded once.",
		Annotations: writing("Refund an order", false, false),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in refundIn) (*mcp.CallToolResult, order, error) {
		o, err := s.refund(in.OrderID, in.AmountUSD)
		return nil, o, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "send_email",
		Description: "Send a plain-text e-mail to a customer's address on file. The demo queues it and sends nothing.",
		Annotations: writing("Write to a customer", false, true),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in emailIn) (*mcp.CallToolResult, emailOut, error) {
		c, err := s.customer(in.CustomerID)
		return nil, emailOut{To: c.Email, Subject: in.Subject, Body: in.Body, Queued: err == nil}, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "delete_customer",
		Description: "Delete a customer and all their orders, for good.",
		Annotations: writing("Delete a customer", true, false),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in customerIn) (*mcp.CallToolResult, deletedOut, error) {
		n, err := s.deleteCustomer(in.CustomerID)
		return nil, deletedOut{in.CustomerID, n}, err
	})
}

// addPrompts adds a prompt, for clients that show prompts.
func (s *shop) addPrompts(server *mcp.Server) {
	server.AddPrompt(&mcp.Prompt{
		Name:        "late_orders",
		Title:       "Work on late orders",
		Description: "Go through the late orders of a customer and suggest what to do.",
		Arguments:   []*mcp.PromptArgument{{Name: "customerId", Description: "for example C-1004", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		id, err := json.Marshal(req.Params.Arguments["customerId"])
		if err != nil {
			return nil, err
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{
			Role: "user",
			Content: &mcp.TextContent{Text: fmt.Sprintf(
				"Search the late orders of customer %s, check the stock of each article, and suggest a refund or a new delivery date.", id)},
		}}}, nil
	})
}
