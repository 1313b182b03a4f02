//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// shape is one kind of load.
type shape struct {
	name  string
	title string
	// tool is the prefix of the tool names; it selects the upstream's response.
	tool string
	// fixed sends at a fixed rate instead of in a closed loop.
	fixed bool
	// times is a factor for the duration of this load: the 99th percentile of 3,000
	// requests depends on a single pause of 15 ms.
	times int
}

var shapes = []shape{
	{name: "small", title: "small JSON, closed loop", tool: "small_", times: 1},
	{name: "fixed", title: "small JSON, fixed rate", tool: "small_", fixed: true, times: 4},
	{name: "large", title: "100 KiB JSON, closed loop", tool: "large_", times: 1},
	{name: "sse", title: "event stream of 20 frames, closed loop", tool: "sse_", times: 1},
}

// longest is the ratio of the longest to the shortest duration of a load.
func longest() time.Duration {
	most := 1
	for _, s := range shapes {
		most = max(most, s.times)
	}
	return time.Duration(most)
}

func shapeByName(name string) (shape, bool) {
	for _, s := range shapes {
		if s.name == name {
			return s, true
		}
	}
	return shape{}, false
}

// The variety of the load: large enough that no cache holds one response for all.
const (
	corpusSize = 4096
	toolCount  = 300
)

// corpus returns encoded requests: tool calls with many tools, keys, ids and argument
// sizes, of a client of 2025-06-18 or of 2026-07-28. It is the same in every run.
func corpus(tool, host string, keys []string, modern bool) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	requests := make([][]byte, corpusSize)
	for i := range requests {
		words := make([]string, 4+r.IntN(40))
		for w := range words {
			words[w] = vocabulary[r.IntN(len(vocabulary))]
		}
		name := fmt.Sprintf("%s%s_%d", tool, vocabulary[r.IntN(len(vocabulary))], r.IntN(toolCount))
		version, headers, meta := "2025-06-18", "", ""
		if modern {
			version, headers = "2026-07-28", "Mcp-Method: tools/call\r\nMcp-Name: "+name+"\r\n"
			meta = `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"query":"%s","limit":%d,"deep":{"flag":%t,"ratio":%.3f}},"_meta":{"progressToken":"p%d"%s}}}`,
			i+1000, name, strings.Join(words, " "), r.IntN(500), r.IntN(2) == 0, r.Float64(), i, meta)
		requests[i] = fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: %s\r\n%sContent-Length: %d\r\n\r\n%s", host, keys[r.IntN(len(keys))], version, headers, len(body), body)
	}
	return requests
}

var vocabulary = strings.Fields(`account archive balance branch budget calendar catalog channel charge city client
cluster commit contract country coupon course customer delivery deploy device document domain draft employee
endpoint event export folder forecast gateway incident index inventory invoice issue journal ledger library
license message meeting metric network notice order package partner patient payment pipeline policy portal
price printer product profile project quota record refund region release report repository request reservation
review route schedule sensor server session shipment signal source station storage student supplier survey
table task team ticket token traffic transfer user vehicle vendor version volume warehouse weather workflow`)
