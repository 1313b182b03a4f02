package audit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// otlpSink posts lines as OpenTelemetry log records, in protobuf over HTTP. The body of a
// record is the line, unchanged without format: ocsf, so that the chain can be verified from the records
// of a collector; fields that are used in queries are repeated as attributes.
type otlpSink struct {
	http *httpSink
}

// otlpPath is appended to the URL of a sink, as OTLP exporters do.
const otlpPath = "/v1/logs"

// otlpType is the type of the bodies, whatever the headers of the configuration say.
const otlpType = "application/x-protobuf"

func newOTLPSink(cfg SinkConfig) *otlpSink {
	cfg.URL = strings.TrimSuffix(cfg.URL, "/") + otlpPath
	return &otlpSink{http: newHTTPSink(cfg)}
}

// rejectedError reports that the receiver rejected a number of lines permanently.
type rejectedError struct {
	lines  uint64
	reason string
	some   bool // it may accept some of them alone
}

func (e *rejectedError) Error() string {
	return fmt.Sprintf("%d lines were rejected permanently: %s", e.lines, e.reason)
}

// deliver sends one batch. Lines that the collector rejects permanently are not sent
// again (OTLP/HTTP, Failures and Partial Success).
func (s *otlpSink) deliver(ctx context.Context, lines [][]byte) error {
	body, err := proto.Marshal(s.logs(lines))
	if err != nil {
		return &rejectedError{uint64(len(lines)), "they cannot be encoded", false}
	}
	status, answer, err := s.http.post(ctx, otlpType, body)
	switch status {
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return err
	}
	if err != nil {
		return &rejectedError{uint64(len(lines)), err.Error(), false}
	}
	if n := rejectedLogs(answer); n > 0 {
		return &rejectedError{min(n, uint64(len(lines))), "partial success", false}
	}
	return nil
}

func (s *otlpSink) close() { s.http.close() }

// logs returns the message as LogsData, which has the wire form of
// ExportLogsServiceRequest.
func (s *otlpSink) logs(lines [][]byte) *logspb.LogsData {
	records := make([]*logspb.LogRecord, len(lines))
	for i, line := range lines {
		records[i] = otlpRecord(line, s.http.cfg.form(line))
	}
	return &logspb.LogsData{ResourceLogs: []*logspb.ResourceLogs{{
		Resource:  &resourcepb.Resource{Attributes: []*commonpb.KeyValue{otlpText("service.name", "svc-gateway")}},
		ScopeLogs: []*logspb.ScopeLogs{{Scope: &commonpb.InstrumentationScope{Name: "svc/audit"}, LogRecords: records}},
	}}}
}

// otlpRecord returns the record of a line. body is the line in the format of the sink.
func otlpRecord(line, body []byte) *logspb.LogRecord {
	out := &logspb.LogRecord{
		SeverityNumber: logspb.SeverityNumber_SEVERITY_NUMBER_INFO,
		SeverityText:   "INFO",
		EventName:      "audit",
		Body:           &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: string(body)}},
	}
	var r Record
	if Decode(line, &r) != nil {
		return out // cannot happen: the log wrote the line
	}
	if !r.Time.IsZero() {
		out.TimeUnixNano = uint64(r.Time.UnixNano())
		out.ObservedTimeUnixNano = out.TimeUnixNano
	}
	if id, err := hex.DecodeString(r.TraceID); err == nil && len(id) == 16 {
		out.TraceId = id
	}
	out.Attributes = append(out.Attributes, &commonpb.KeyValue{Key: "audit.seq",
		Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(r.Seq)}}})
	for _, a := range [...]struct{ key, value string }{
		{"audit.kind", string(r.Kind)}, {"audit.action", r.Action}, {"audit.request_id", r.RequestID},
		{"audit.rule_id", r.RuleID}, {"audit.approval", r.Approval}, {"audit.approval_id", r.ApprovalID}, {"audit.error_kind", r.ErrorKind}, {"audit.principal", r.Principal},
		{"rpc.method", r.Method}, {"mcp.upstream", r.Upstream},
	} {
		if a.value != "" {
			out.Attributes = append(out.Attributes, otlpText(a.key, a.value))
		}
	}
	return out
}

func otlpText(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// rejectedLogs parses partial_success.rejected_log_records of an
// ExportLogsServiceResponse: field 1 of field 1.
func rejectedLogs(answer []byte) uint64 {
	success, err := otlpField(answer, protowire.BytesType)
	if err != nil {
		return 0
	}
	message, n := protowire.ConsumeBytes(success)
	if n < 0 {
		return 0
	}
	rejected, err := otlpField(message, protowire.VarintType)
	if err != nil {
		return 0
	}
	count, n := protowire.ConsumeVarint(rejected)
	if n < 0 || int64(count) < 0 {
		return 0
	}
	return count
}

var errNoField = errors.New("field is absent")

// otlpField returns the bytes after the tag of field 1 of a message.
func otlpField(message []byte, want protowire.Type) ([]byte, error) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		if number == 1 && kind == want {
			return message, nil
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
	}
	return nil, errNoField
}
