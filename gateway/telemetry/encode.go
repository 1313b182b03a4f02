package telemetry

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of opentelemetry/proto/{collector/trace,trace,common}/v1. Spans are
// encoded by hand, because the generated messages would allocate some hundred objects
// per request. The parts that occur once in a batch use the generated messages.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScopes   = 2
	scopeSpansScope       = 1
	scopeSpansSpans       = 2

	spanTraceID    = 1
	spanSpanID     = 2
	spanParentID   = 4
	spanName       = 5
	spanKind       = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanStatus     = 15
	spanFlags      = 16
	statusCode     = 3

	keyValueKey   = 1
	keyValueValue = 2
	anyString     = 1
	anyInt        = 3
	anyDouble     = 4
)

// The bits of Span.flags beyond those of the traceparent.
const (
	flagHasRemote = 0x100
	flagRemote    = 0x200
)

// encoder writes batches of one pipeline.
type encoder struct {
	resource []byte // as written in ResourceSpans
	scope    []byte // as written in ScopeSpans
}

// newEncoder prepares the parts that all batches share.
func newEncoder(cfg Config, version string) (*encoder, error) {
	attrs := maps.Clone(cfg.ResourceAttrs)
	if attrs == nil {
		attrs = map[string]string{}
	}
	if version != "" {
		attrs["service.version"] = version
	}
	attrs["service.name"] = cfg.ServiceName
	res := &resourcepb.Resource{}
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		res.Attributes = append(res.Attributes, &commonpb.KeyValue{
			Key:   strings.ToValidUTF8(key, "\uFFFD"),
			Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(attrs[key], "\uFFFD")}},
		})
	}
	resource, err := proto.Marshal(res)
	if err != nil {
		return nil, err
	}
	scope, err := proto.Marshal(&commonpb.InstrumentationScope{Name: "svc/gateway", Version: version})
	if err != nil {
		return nil, err
	}
	e := &encoder{}
	e.resource = appendBytes(nil, resourceSpansResource, resource)
	e.scope = appendBytes(nil, scopeSpansScope, scope)
	return e, nil
}

// encode appends an ExportTraceServiceRequest with spans written by appendRequest.
func (e *encoder) encode(dst, spans []byte) []byte {
	scopeSpans := len(e.scope) + len(spans)
	resourceSpans := len(e.resource) + protowire.SizeTag(resourceSpansScopes) + protowire.SizeBytes(scopeSpans)
	dst = protowire.AppendTag(dst, requestResourceSpans, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(resourceSpans))
	dst = append(dst, e.resource...)
	dst = protowire.AppendTag(dst, resourceSpansScopes, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(scopeSpans))
	dst = append(dst, e.scope...)
	return append(dst, spans...)
}

// appendRequest appends the span of a request and those of its stages.
func appendRequest(dst []byte, s *Span) []byte {
	at := open(&dst, scopeSpansSpans)
	dst = appendHead(dst, s, s.Trace.Server, s.Trace.Parent.Span, s.Trace.Parent.Valid())
	nameAt := open(&dst, spanName)
	dst = s.appendName(dst)
	dst = closeAt(dst, nameAt)
	dst = appendTimes(dst, tracepb.Span_SPAN_KIND_SERVER, s.Start, s.End)
	dst = appendText(dst, "http.request.method", httpMethod(s.HTTPMethod))
	if s.Status != 0 {
		dst = appendInt(dst, "http.response.status_code", int64(s.Status))
	}
	dst = appendText(dst, "mcp.method.name", s.Method)
	dst = appendText(dst, "mcp.protocol.version", s.Version)
	dst = appendText(dst, "gen_ai.tool.name", s.Tool)
	if s.Tool != "" {
		dst = appendText(dst, "gen_ai.operation.name", "execute_tool")
	}
	dst = appendText(dst, "gen_ai.prompt.name", s.Prompt)
	dst = appendText(dst, "mcp.resource.uri", s.URI)
	dst = appendText(dst, "jsonrpc.request.id", s.MessageID)
	dst = appendText(dst, "mcp.session.id", s.Session)
	dst = appendText(dst, "client.address", s.ClientAddress)
	dst = appendText(dst, "network.transport", "tcp")
	dst = appendText(dst, "network.protocol.name", "http")
	dst = appendText(dst, "network.protocol.version", s.HTTPVersion)
	dst = appendText(dst, "mcp.policy.decision", s.Decision)
	dst = appendText(dst, "mcp.policy.rule_id", s.RuleID)
	dst = appendText(dst, "svc.approval", s.Approval)
	dst = appendText(dst, "svc.approval_id", s.ApprovalID)
	dst = appendText(dst, "svc.approved_by", s.ApprovedBy)
	dst = appendText(dst, "svc.labels", strings.Join(s.Labels, ","))
	dst = appendText(dst, "svc.sets", strings.Join(s.Sets, ","))
	dst = appendText(dst, "svc.request_id", s.RequestID)
	dst = appendText(dst, "svc.reason", s.Reason)
	dst = appendText(dst, "mcp.upstream", s.Upstream)
	dst = appendText(dst, "mcp.principal", s.Principal)
	dst = appendText(dst, "mcp.auth.oauth_client_name", s.OAuthClientName)
	dst = appendText(dst, "mcp.client.name", s.ClientName)
	dst = appendText(dst, "mcp.client.version", s.ClientVersion)
	dst = appendText(dst, "mcp.task.handle", s.TaskHandle)
	if s.GuardrailName != "" {
		dst = appendText(dst, "mcp.guardrail.name", s.GuardrailName)
		dst = appendText(dst, "mcp.guardrail.verdict", s.GuardrailVerdict)
		dst = appendDouble(dst, "mcp.guardrail.latency_ms", float64(s.GuardrailLatency)/float64(time.Millisecond))
	}
	dst = appendText(dst, "error.type", s.ErrorType)
	dst = appendStatus(dst, s.ErrorType)
	dst = closeAt(dst, at)

	for i := range s.nStages {
		dst = appendStage(dst, s, &s.stages[i])
	}
	return dst
}

func appendStage(dst []byte, s *Span, st *Stage) []byte {
	id, kind := newSpanID(), tracepb.Span_SPAN_KIND_INTERNAL
	if st.Upstream {
		id, kind = s.Trace.Upstream, tracepb.Span_SPAN_KIND_CLIENT
	}
	at := open(&dst, scopeSpansSpans)
	dst = appendHead(dst, s, id, s.Trace.Server, false)
	dst = protowire.AppendTag(dst, spanName, protowire.BytesType)
	dst = protowire.AppendString(dst, st.Name)
	dst = appendTimes(dst, kind, st.Start, st.End)
	if st.Upstream {
		dst = appendText(dst, "mcp.upstream", s.Upstream)
		dst = appendText(dst, "mcp.method.name", s.Method)
		// The tool is on the span of the request alone: a reader that counts the spans with
		// gen_ai.tool.name would count each call twice.
		dst = appendText(dst, "mcp.resource.uri", s.URI)
		dst = appendText(dst, "network.transport", s.UpstreamNetwork)
		if s.UpstreamHost != "" {
			dst = appendText(dst, "network.protocol.name", "http")
			dst = appendText(dst, "server.address", s.UpstreamHost)
			dst = appendInt(dst, "server.port", int64(s.UpstreamPort))
		}
		dst = appendText(dst, "error.type", s.UpstreamErrorType)
		dst = appendStatus(dst, s.UpstreamErrorType)
	}
	return closeAt(dst, at)
}

// appendHead appends ids and flags; parent is omitted when it is zero.
func appendHead(dst []byte, s *Span, id, parent SpanID, remote bool) []byte {
	dst = appendBytes(dst, spanTraceID, s.Trace.ID[:])
	dst = appendBytes(dst, spanSpanID, id[:])
	if parent != (SpanID{}) {
		dst = appendBytes(dst, spanParentID, parent[:])
	}
	flags := uint32(s.Trace.flags) | flagHasRemote
	if remote {
		flags |= flagRemote
	}
	dst = protowire.AppendTag(dst, spanFlags, protowire.Fixed32Type)
	return protowire.AppendFixed32(dst, flags)
}

func appendTimes(dst []byte, kind tracepb.Span_SpanKind, start, end time.Time) []byte {
	if end.Before(start) { // the clock was set back during the request
		end = start
	}
	dst = protowire.AppendTag(dst, spanKind, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(kind))
	dst = protowire.AppendTag(dst, spanStart, protowire.Fixed64Type)
	dst = protowire.AppendFixed64(dst, uint64(start.UnixNano()))
	dst = protowire.AppendTag(dst, spanEnd, protowire.Fixed64Type)
	return protowire.AppendFixed64(dst, uint64(end.UnixNano()))
}

// appendStatus marks a failed span; others keep the status unset.
func appendStatus(dst []byte, errorType string) []byte {
	if errorType == "" {
		return dst
	}
	dst = protowire.AppendTag(dst, spanStatus, protowire.BytesType)
	dst = protowire.AppendVarint(dst, 2)
	dst = protowire.AppendTag(dst, statusCode, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(tracepb.Status_STATUS_CODE_ERROR))
}

// appendText appends an attribute, unless it is empty. Invalid UTF-8 is replaced: one
// invalid text would cause the endpoint to refuse the whole batch.
func appendText(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	if !utf8.ValidString(value) {
		value = strings.ToValidUTF8(value, "\uFFFD")
	}
	dst = appendKey(dst, key, protowire.SizeTag(anyString)+protowire.SizeBytes(len(value)))
	dst = protowire.AppendTag(dst, anyString, protowire.BytesType)
	return protowire.AppendString(dst, value)
}

func appendInt(dst []byte, key string, value int64) []byte {
	dst = appendKey(dst, key, protowire.SizeTag(anyInt)+protowire.SizeVarint(uint64(value)))
	dst = protowire.AppendTag(dst, anyInt, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(value))
}

func appendDouble(dst []byte, key string, value float64) []byte {
	dst = appendKey(dst, key, protowire.SizeTag(anyDouble)+protowire.SizeFixed64())
	dst = protowire.AppendTag(dst, anyDouble, protowire.Fixed64Type)
	return protowire.AppendFixed64(dst, math.Float64bits(value))
}

// appendKey opens an attribute whose AnyValue takes size bytes.
func appendKey(dst []byte, key string, size int) []byte {
	n := protowire.SizeTag(keyValueKey) + protowire.SizeBytes(len(key)) +
		protowire.SizeTag(keyValueValue) + protowire.SizeBytes(size)
	dst = protowire.AppendTag(dst, spanAttributes, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(n))
	dst = protowire.AppendTag(dst, keyValueKey, protowire.BytesType)
	dst = protowire.AppendString(dst, key)
	dst = protowire.AppendTag(dst, keyValueValue, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(size))
}

func appendBytes(dst []byte, field protowire.Number, value []byte) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendBytes(dst, value)
}

// open starts a part of unknown length; closeAt writes the length.
func open(dst *[]byte, field protowire.Number) (at int) {
	*dst = protowire.AppendTag(*dst, field, protowire.BytesType)
	*dst = append(*dst, 0, 0) // enough for most
	return len(*dst)
}

func closeAt(dst []byte, at int) []byte {
	n := len(dst) - at
	var length [10]byte
	text := protowire.AppendVarint(length[:0], uint64(n))
	if len(text) != 2 {
		dst = slices.Replace(dst, at-2, at, text...)
		return dst
	}
	copy(dst[at-2:], text)
	return dst
}
