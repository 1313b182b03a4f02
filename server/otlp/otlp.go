// Package otlp converts the requests of OpenTelemetry exporters (OTLP/HTTP,
// ExportTraceServiceRequest as protobuf or JSON, plain or gzip) to traces of the
// control plane. The package contains the decoding, the GenAI semantic conventions in
// current and older spellings, and the rules by which spans become traces. Pricing,
// storing and HTTP responses are the server's.
//
// # How spans become traces
//
// Spans of one OpenTelemetry trace that arrive together form trees by their parent
// ids. Each tree with at least one GenAI span becomes one trace. Its id is made of
// the ids of the tree's top span, so that posting the same spans again changes
// nothing. Times and status are the top span's. Agent, model and tool are the top
// span's, or those of the first span below that has them. Tokens and cost are summed
// over the tree, and every span of a tool counts as a call of it. A span that sums up
// the spans below it (an agent invocation that repeats the tokens of its chat calls)
// counts once: for each span the larger of its own usage and the sum of its children
// is used. Trees without a GenAI span are accepted, dropped, and counted by their
// instrumentation scope.
//
// # Traces that arrive in parts
//
// Exporters send a span when it has ended, so the first spans of a long request
// arrive before the span of the request itself. They are not held back, because a
// successful response means that the spans are stored. Each part becomes a trace of
// its own, with the same session (the conversation id, or the OpenTelemetry trace id
// when there is none). So that tokens are not counted twice, an Assembler remembers
// the usage of the parts of a trace, within bounds, and subtracts it from a summing
// span that arrives later.
package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc/store/api"
)

// maxSpans bounds the spans of one request, because a short span takes many times its bytes when
// it is decoded. SDKs send 512 at a time, the OpenTelemetry Collector 8,192.
const maxSpans = 16_384

// Format is the encoding of a request and of its response.
type Format int

// The two encodings of OTLP/HTTP.
const (
	Protobuf Format = iota
	JSON
)

// ContentType is the media type of the format.
func (f Format) ContentType() string {
	if f == JSON {
		return "application/json"
	}
	return "application/x-protobuf"
}

// errInvalid is wrapped by every error of this package: the request cannot be
// decoded, and sending it again will not help.
var errInvalid = errors.New("invalid OTLP request")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errInvalid, fmt.Sprintf(format, args...))
}

// ParseContentType returns the format of a Content-Type header.
func ParseContentType(header string) (Format, error) {
	media, _, err := mime.ParseMediaType(header)
	if err == nil {
		switch media {
		case "application/x-protobuf", "application/protobuf":
			return Protobuf, nil
		case "application/json":
			return JSON, nil
		}
	}
	return 0, invalid("Content-Type must be application/x-protobuf or application/json")
}

// Plain reports whether a Content-Encoding means an unchanged body.
func Plain(encoding string) bool {
	e := strings.ToLower(strings.TrimSpace(encoding))
	return e == "" || e == "identity"
}

// Unpack returns a reader that decompresses a body. The caller must bound what it
// reads, because a few thousand bytes can decompress to any size.
func Unpack(encoding string, body []byte) (io.Reader, error) {
	if strings.ToLower(strings.TrimSpace(encoding)) != "gzip" {
		return nil, invalid("Content-Encoding must be gzip or absent")
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, invalid("the body is not gzip: %v", err)
	}
	return r, nil
}

// Batch is a decoded request.
type Batch struct {
	spans  []span
	scopes []string // names of instrumentation scopes that have spans
	// Spans is the number of spans in the request. Malformed is the number of those
	// with invalid ids; they are in no trace.
	Spans, Malformed int
}

// Decode reads an ExportTraceServiceRequest. Unknown fields are ignored, as the
// protocol requires. A body that is not such a request is an error, and so is a
// request none of whose spans has valid ids.
func Decode(format Format, body []byte) (*Batch, error) {
	var b Batch
	var err error
	if format == JSON {
		err = b.decodeJSON(body)
	} else {
		err = b.decodeProtobuf(body)
	}
	if err != nil {
		return nil, err
	}
	if b.Malformed > 0 && b.Malformed == b.Spans {
		return nil, invalid("no span has a trace id of 16 bytes and a span id of 8 bytes (in JSON: hexadecimal)")
	}
	return &b, nil
}

// Response encodes the response to a request in the request's format. With rejected
// spans, or something else to explain, it is a partial success with the reason.
func Response(format Format, rejected int, why string) []byte {
	var r collector.ExportTraceServiceResponse
	if why != "" {
		r.PartialSuccess = &collector.ExportTracePartialSuccess{
			RejectedSpans: int64(rejected),
			ErrorMessage:  why,
		}
	}
	marshal := proto.Marshal
	if format == JSON {
		marshal = protojson.Marshal
	}
	out, err := marshal(&r)
	if err != nil { // encoding two scalar fields cannot fail
		return nil
	}
	return out
}

// Pricer returns the cost of a model's tokens, in nano-dollars; false when it has no
// price.
type Pricer interface {
	Cost(provider, model string, input, output, cacheRead, cacheCreation int64) (nano int64, ok bool)
}

// Result is the result of a batch.
type Result struct {
	// Traces are ready to be stored: each has an id and passes Validate.
	Traces []api.TraceInput
	// Rejected is the number of spans that were left out because their ids or parents
	// are invalid, or because their trace has more tokens or a higher cost than the
	// maximum. Spans without GenAI attributes are not rejected.
	Rejected int
	// Dropped counts the spans that are in no trace, because no span of their tree has an
	// attribute by which a call of a model, an agent or a tool is recognized, by the name of
	// their instrumentation scope; a scope without a name is noScope.
	Dropped map[string]int
}

// noScope stands for an instrumentation scope without a name.
const noScope = "(no name)"

// maxScopes bounds the scopes that a message names.
const maxScopes = 5

// Why explains what of a batch of spans is in no trace; empty if there is nothing to explain.
func (r *Result) Why(spans int) string {
	var why []string
	if r.Rejected > 0 {
		why = append(why, fmt.Sprintf("%d of %d spans were rejected: ids, parents or times are invalid, or a trace has more than %d tokens or a cost of more than %d dollars",
			r.Rejected, spans, api.MaxTokens, api.MaxCostUSD))
	}
	if len(r.Dropped) > 0 {
		names, n := slices.Collect(maps.Keys(r.Dropped)), 0
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(r.Dropped[b]-r.Dropped[a], strings.Compare(a, b)) })
		var by []string
		for i, name := range names {
			if n += r.Dropped[name]; i < maxScopes {
				by = append(by, fmt.Sprintf("%s %d", name, r.Dropped[name]))
			}
		}
		if more := len(names) - maxScopes; more > 0 {
			by = append(by, fmt.Sprintf("and %d more scopes", more))
		}
		why = append(why, fmt.Sprintf("%d of %d spans were accepted and are in no trace, because no span of their tree has an attribute of a call of a model, an agent or a tool that is known; by instrumentation scope: %s",
			n, spans, strings.Join(by, ", ")))
	}
	return strings.Join(why, "; ")
}
