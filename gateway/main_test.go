package gateway

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"svc/gateway/child"
)

// behindConnections are the tests of what gateways share in Redis, which wait for long and
// meet nothing of how a connection is read: they run on one of the two HTTP servers alone.
const behindConnections = "Redis|Replica|GatewaysShare|RateLimitStore|ReloadKeepsTheSharedStore|GatewayStartsWithoutItsStore"

// TestMain runs the tests with each of the two HTTP servers. No test leaves a goroutine
// behind: neither streams nor background calls nor watchdogs outlive their gateway.
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
		skip := flag.Lookup("test.skip").Value
		if err := skip.Set(strings.TrimPrefix(skip.String()+"|"+behindConnections, "|")); err != nil {
			panic(err)
		}
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
