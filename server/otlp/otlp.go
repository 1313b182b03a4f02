// Package otlp turns what an OpenTelemetry exporter posts (OTLP/HTTP,
// ExportTraceServiceRequest as protobuf or JSON, plain or gzip) into traces of
// the control plane. It owns the decoding, the reading of the GenAI semantic
// conventions in today's and in older spellings, and the rule by which spans
// become traces; pricing, storing and answering HTTP are left to the server.
//
// # How spans become traces
//
// Spans of one OpenTelemetry trace that arrive together form trees by their
// parent ids. Each tree with at least one GenAI span becomes one trace: its id
// is the ids of the tree's top span, so that posting the same spans again
// changes nothing; times and status are the top span's, agent, model and tool
// are the top span's or else those of the first span below that names them,
// tokens and cost are summed over the tree, and every span of a tool counts as a
// call of it. A span that sums up what is
// below it (an agent invocation that repeats the tokens of its chat calls)
// counts once: at each span the larger of its own figures and the sum of those
// below is taken. Trees without a GenAI span are accepted and dropped.
//
// # Traces that arrive in parts
//
// Exporters send a span when it has ended, so that what an agent did in the
// first seconds of a long request arrives before the request itself. Nothing
// is held back for that: an answer of success means stored. Each part becomes a trace
// of its own, tied to the others by its session (the conversation id, or the
// OpenTelemetry trace id where there is none). So that tokens are not counted
// twice, an Assembler remembers, within bounds, what the parts of a trace
// came to, and takes it off the figures of a summing span that arrives later.
package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"svc/server/api"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// MaxSpans bounds the spans of one request. SDKs send 512 at a time.
const MaxSpans = 65_536

// Format is how a request is encoded, and how its answer must be.
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

// ErrInvalid is the kind of every error of this package: the request cannot be
// read, and sending it again will not help.
var ErrInvalid = errors.New("invalid OTLP request")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// ParseContentType returns the format that a Content-Type header names.
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

// Plain reports whether a Content-Encoding leaves the body as it is.
func Plain(encoding string) bool {
	e := strings.ToLower(strings.TrimSpace(encoding))
	return e == "" || e == "identity"
}

// Unpack returns a reader of a compressed body. The caller bounds what it
// reads: a few thousand bytes may unpack to any number.
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
	spans []span
	// Spans counts the spans of the request, Malformed those of them whose
	// ids are not ids; these are in no trace.
	Spans, Malformed int
}

// Decode reads an ExportTraceServiceRequest. Unknown fields are ignored, as
// the protocol asks; what is not a request at all is an error, and so is a
// request none of whose spans has usable ids.
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

// Response encodes the answer to a request in its own format. With rejected
// spans it is a partial success that says why.
func Response(format Format, rejected int, why string) []byte {
	var r collector.ExportTraceServiceResponse
	if rejected > 0 {
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
	if err != nil { // two scalar fields of our own making
		return nil
	}
	return out
}

// Pricer returns what tokens of a model cost, in nano-dollars, and whether it
// knows.
type Pricer interface {
	Cost(provider, model string, input, output, cacheRead, cacheCreation int64) (nano int64, ok bool)
}

// Result is what became of a batch.
type Result struct {
	// Traces are ready to be stored, each with an id; Validate passes on all.
	Traces []api.TraceInput
	// Rejected counts the spans that were left out because their ids or their
	// parents make no sense, or because their trace has more tokens or a higher cost
	// than a trace may have. Spans without GenAI content are not rejected.
	Rejected int
}
