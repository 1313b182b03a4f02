package gateway

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"

	"svc/gateway/child"
)

// No test leaves a goroutine behind: neither streams nor background calls nor watchdogs
// outlive their gateway.
func TestMain(m *testing.M) {
	switch args := os.Args[1:]; {
	case child.IsHelper(args):
		os.Exit(child.Help(args))
	case len(args) > 0 && args[0] == stdioServer:
		os.Exit(serveStdio(args[1]))
	}
	code := m.Run()
	if code == 0 {
		overHTTP = true
		code = m.Run()
	}
	http.DefaultClient.CloseIdleConnections()
	// A session of the SDK's server that no client ended lives on.
	sdk := goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read")
	if err := goleak.Find(sdk); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
