//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// echoInput is the input of a tool: a unique token.
type echoInput struct {
	Token string `json:"token" jsonschema:"returned as it is, with the name of the server"`
}

// serveTool is a tool server on the official SDK: every tool whose name begins with the
// server's name and an underscore returns "NAME:TOKEN".
func serveTool(name, address string, tools []string) error {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	for _, tool := range tools {
		mcp.AddTool(server, &mcp.Tool{Name: tool, Description: "Returns its token."}, func(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + ":" + in.Token}}}, nil, nil
		})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true, SessionTimeout: time.Hour})
	return (&http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe()
}

// rpc is the part of a JSON-RPC message that callers use.
type rpc struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	} `json:"result,omitempty"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason string `json:"reason"`
		} `json:"data"`
	} `json:"error,omitempty"`
}

func request(id int64, method string, params any) rpc {
	return rpc{Version: "2.0", ID: json.RawMessage(fmt.Sprint(id)), Method: method, Params: params}
}
