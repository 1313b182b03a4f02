// Package e2e drives whole gateways in front of upstreams of the tests. Tests of one folder of the
// gateway stand in that folder.
package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"svc/gateway/upstream/stdio"
)

// behindConnections are the tests of state that gateways share in Redis. They take long and do
// not depend on how connections are read, so they run on one of the two HTTP servers only.
const behindConnections = "Redis|Replica|GatewaysShare|RateLimitStore|ReloadKeepsTheSharedStore|GatewayStartsWithoutItsStore"

// TestMain runs the tests with each of the two HTTP servers, and fails when a goroutine is left:
// no stream, background call or watchdog outlives its gateway.
func TestMain(m *testing.M) {
	switch args := os.Args[1:]; {
	case stdio.IsHelper(args):
		syscall.Exit(stdio.Help(args))
	case len(args) > 0 && args[0] == stdioServer:
		syscall.Exit(serveStdio(args[1]))
	}
	// The tests with t.Parallel wait for most of their time: more of them at once than there are
	// cores. The command line has the last word.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
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
	// The SDK's server keeps a session that no client ended.
	sdk := goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read")
	if err := goleak.Find(sdk); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
