package search

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"svc/gateway/mcp"
)

// Name is the name of the search tool.
const Name = "mcp_search"

// ToolTTL is the time for which a client may cache the list with the search tool, in
// milliseconds.
const ToolTTL = 60_000

// maxResult bounds the tools of one result in bytes, for each of their two forms.
const maxResult = 1 << 20

// Arguments are the arguments of the search tool.
type Arguments struct {
	Query string
	Limit int
}

// Reasons why arguments are refused.
var (
	ErrArguments = errors.New("the arguments are not an object with query and limit alone")
	ErrQuery     = errors.New("query is missing, empty or not a string")
	ErrQuerySize = errors.New("query is too long")
	ErrLimit     = errors.New("limit is not a positive integer")
)

// parseArguments parses {query, limit} from the arguments of a call, which must have been
// scanned; raw is empty if there are none. An absent limit, and a limit above most, is
// most. Its errors are the Err values of this file.
func parseArguments(raw []byte, most int) (Arguments, error) {
	a := Arguments{Limit: most}
	if len(raw) > 0 && raw[0] != '{' {
		return a, ErrArguments
	}
	m := object(raw)
	for name := range m {
		if name != "query" && name != "limit" {
			return a, ErrArguments
		}
	}
	if a.Query = text(m["query"]); strings.TrimSpace(a.Query) == "" {
		return a, ErrQuery
	}
	if utf8.RuneCountInString(a.Query) > MaxQuery {
		return a, ErrQuerySize
	}
	if raw, ok := m["limit"]; ok {
		n, err := strconv.ParseFloat(string(raw), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || !(n >= 1) || n != math.Trunc(n) {
			return a, ErrLimit
		}
		a.Limit = int(min(n, float64(most)))
	}
	return a, nil
}

// definition is the definition of the search tool.
const definition = `{"name":"` + Name + `","title":"Search for tools","description":"Finds tools by what they do. ` +
	`The tools themselves are not listed: search for what you want to do (\"create an issue\", \"weather forecast\"), ` +
	`then call a tool from the results by its name with arguments as its inputSchema asks for.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"query":{"type":"string","minLength":1,"maxLength":` + maxQueryText + `,"description":"What the tool should do, in a few words, or its name."},` +
	`"limit":{"type":"integer","minimum":1,"description":"How many tools to return at most."}},` +
	`"required":["query"],"additionalProperties":false},` +
	`"outputSchema":{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object","properties":{` +
	`"name":{"type":"string"},"title":{"type":"string"},"description":{"type":"string"},` +
	`"inputSchema":{"type":"object"},"upstream":{"type":"string"}},"required":["name","description","inputSchema","upstream"]}}},"required":["tools"]},` +
	`"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`

const maxQueryText = "1000" // MaxQuery

// appendList appends the response to tools/list: the definitions of the gateway's own
// tools that the caller may call. id is the id as written.
func appendList(dst, id []byte, modern bool, tools []string) []byte {
	dst = appendHead(dst, id, modern)
	dst = append(dst, `"tools":[`...)
	dst = append(dst, strings.Join(tools, ",")...)
	dst = append(dst, ']')
	if modern {
		dst = append(dst, `,"ttlMs":`...)
		dst = strconv.AppendInt(dst, ToolTTL, 10)
		dst = append(dst, `,"cacheScope":"private"`...)
	}
	return append(dst, "}}"...)
}

// appendResult appends the response to a call of the search tool: the tools as structured
// content and, with the same content, as text. Tools that would exceed the maximum size
// are omitted.
func appendResult(dst, id []byte, modern bool, tools []*Tool) []byte {
	found := appendTools(nil, tools)
	dst = appendHead(dst, id, modern)
	dst = append(dst, `"content":[{"type":"text","text":`...)
	dst = mcp.AppendString(dst, string(found))
	dst = append(dst, `}],"structuredContent":`...)
	dst = append(dst, found...)
	return append(dst, `,"isError":false}}`...)
}

func appendHead(dst, id []byte, modern bool) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":{`...)
	if modern {
		dst = append(dst, `"resultType":"complete",`...)
	}
	return dst
}

func appendTools(dst []byte, tools []*Tool) []byte {
	dst = append(dst, `{"tools":[`...)
	start := len(dst)
	for _, t := range tools {
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = mcp.AppendString(dst, t.Name)
		if t.Title != "" {
			dst = append(dst, `,"title":`...)
			dst = mcp.AppendString(dst, t.Title)
		}
		dst = append(dst, `,"description":`...)
		dst = mcp.AppendString(dst, t.Description)
		dst = append(dst, `,"inputSchema":`...)
		dst = append(dst, json.RawMessage(t.InputSchema)...)
		dst = append(dst, `,"upstream":`...)
		dst = mcp.AppendString(dst, t.Upstream)
		dst = append(dst, '}')
		if len(dst) > maxResult {
			dst = dst[:before]
			break
		}
	}
	return append(dst, "]}"...)
}
