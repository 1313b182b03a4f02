package devcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/base/retry"
)

type searchOrdersIn struct {
	Status     string `json:"status,omitempty" jsonschema:"only orders in this state: open, shipped, late, delivered or refunded"`
	CustomerID string `json:"customerId,omitempty" jsonschema:"only orders of this customer, for example C-1001"`
	Limit      int    `json:"limit,omitempty" jsonschema:"at most this many, newest first; default 10, at most 50"`
}

type searchOrdersOut struct {
	Orders []order `json:"orders"`
}

type orderIn struct {
	OrderID string `json:"orderId" jsonschema:"for example O-5004"`
}

type customerIn struct {
	CustomerID string `json:"customerId" jsonschema:"for example C-1001"`
}

type stockIn struct {
	SKU string `json:"sku" jsonschema:"article number, for example TENT-2P"`
}

type deployConfigIn struct {
	Service string `json:"service" jsonschema:"name of a service of the shop, for example checkout"`
}

type deployConfigOut struct {
	Service string            `json:"service"`
	Env     map[string]string `json:"env"`
}

type reportIn struct {
	Months int `json:"months,omitempty" jsonschema:"how many months back from October 2026, default 3, at most 12"`
}

type reportMonth struct {
	Month    string  `json:"month"`
	Orders   int     `json:"orders"`
	TotalUSD float64 `json:"totalUsd"`
}

type reportOut struct {
	Months   []reportMonth `json:"months"`
	TotalUSD float64       `json:"totalUsd"`
}

// reading marks tools that change nothing.
func reading(title string) *mcp.ToolAnnotations {
	closed := false
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
}

// addReadingTools adds the tools that only read.
func (s *shop) addReadingTools(server *mcp.Server) {
	mcp.AddTool(server, &mcp.Tool{
		Name:        "search_orders",
		Description: "List orders, newest first, optionally by state or customer.",
		Annotations: reading("Search orders"),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in searchOrdersIn) (*mcp.CallToolResult, searchOrdersOut, error) {
		if in.Limit == 0 {
			in.Limit = 10
		}
		return nil, searchOrdersOut{s.findOrders(in.Status, in.CustomerID, min(max(in.Limit, 1), 50))}, nil
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "get_order",
		Description: "Read one order.",
		Annotations: reading("Read an order"),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in orderIn) (*mcp.CallToolResult, order, error) {
		o, err := s.order(in.OrderID)
		return nil, o, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "get_customer",
		Description: "Read the record of one customer: name, contact and card on file.",
		Annotations: reading("Read a customer"),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in customerIn) (*mcp.CallToolResult, customer, error) {
		c, err := s.customer(in.CustomerID)
		return nil, c, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "check_stock",
		Description: "Read price and stock of one article.",
		Annotations: reading("Check stock"),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in stockIn) (*mcp.CallToolResult, item, error) {
		it, err := s.item(in.SKU)
		return nil, it, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "read_deploy_config",
		Description: "Read the environment that a service of the shop is deployed with.",
		Annotations: reading("Read a deployment's environment"),
	}, readDeployConfig)
	mcp.AddTool(server, &mcp.Tool{
		Name:        "run_sales_report",
		Description: "Sum up sales month by month. Takes a moment and reports its progress.",
		Annotations: reading("Sales report"),
	}, s.salesReport)
}

// readDeployConfig responds with credentials, as real tools of this kind do.
// They are well-known examples from documentation and give no access.
func readDeployConfig(_ context.Context, _ *mcp.CallToolRequest, in deployConfigIn) (*mcp.CallToolResult, deployConfigOut, error) {
	return nil, deployConfigOut{
		Service: in.Service,
		Env: map[string]string{
			"LOG_LEVEL":             "info",
			"DATABASE_URL":          "postgres://shop:hunter2@db.internal.example:5432/shop",
			"AWS_ACCESS_KEY_ID":     "AKIAIOSFODNN7EXAMPLE",
			"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		},
	}, nil
}

// salesReport works month by month and sends progress notifications to
// callers that asked for them.
func (s *shop) salesReport(ctx context.Context, req *mcp.CallToolRequest, in reportIn) (*mcp.CallToolResult, reportOut, error) {
	if in.Months == 0 {
		in.Months = 3
	}
	if in.Months < 1 || in.Months > 12 {
		return nil, reportOut{}, fmt.Errorf("months must be between 1 and 12")
	}
	out := reportOut{Months: []reportMonth{}}
	token := req.Params.GetProgressToken()
	last := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for i := range in.Months {
		if !retry.Wait(ctx, s.pause) {
			return nil, reportOut{}, ctx.Err()
		}
		month := last.AddDate(0, i-in.Months+1, 0).Format("2006-01")
		count, total := s.sales(month)
		out.Months = append(out.Months, reportMonth{month, count, total})
		out.TotalUSD += total
		if token == nil {
			continue
		}
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token,
			Message:       "summed up " + month,
			Progress:      float64(i + 1),
			Total:         float64(in.Months),
		}); err != nil {
			return nil, reportOut{}, fmt.Errorf("report progress: %w", err)
		}
	}
	return nil, out, nil
}
