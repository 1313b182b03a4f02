package telemetry

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const parentText = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParseTraceparent(t *testing.T) {
	tests := []struct {
		name, text string
		ok         bool
		flags      byte
	}{
		{"sampled", parentText, true, 1},
		{"not sampled", parentText[:53] + "00", true, 0},
		{"random trace id", parentText[:53] + "03", true, 3},
		{"flags of the future are dropped", parentText[:53] + "ff", true, 3},
		{"a later version", "cc" + parentText[2:], true, 1},
		{"a later version with more", "cc" + parentText[2:] + "-what-the-future-brings", true, 1},
		{"a later version with more, not set off", "cc" + parentText[2:] + ".what", false, 0},
		{"version 00 with more", parentText + "-more", false, 0},
		{"version ff", "ff" + parentText[2:], false, 0},
		{"empty", "", false, 0},
		{"short", parentText[:54], false, 0},
		{"long", "cc" + parentText[2:] + "-" + strings.Repeat("a", 600), false, 0},
		{"upper case", strings.ToUpper(parentText), false, 0},
		{"no hex", strings.Replace(parentText, "0af", "0xf", 1), false, 0},
		{"no hex in the flags", parentText[:53] + "0g", false, 0},
		{"no hex in the version", "0-" + parentText[2:], false, 0},
		{"trace id of zeros", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", false, 0},
		{"parent id of zeros", "00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01", false, 0},
		{"spaces", " " + parentText[1:], false, 0},
		{"separators", strings.ReplaceAll(parentText, "-", "_"), false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := ParseTraceparent(tt.text)
			if ok != tt.ok || c.Flags != tt.flags || ok != c.Valid() {
				t.Errorf("ParseTraceparent(%q) = %+v, %v", tt.text, c, ok)
			}
		})
	}
	c, _ := ParseTraceparent(parentText)
	if got := string(c.AppendTraceparent(nil)); got != parentText {
		t.Errorf("written again as %s", got)
	}
}

// FuzzTraceparent compares with the OpenTelemetry SDK, and checks the round
// trip.
func FuzzTraceparent(f *testing.F) {
	for _, seed := range []string{parentText, "", "cc" + parentText[2:] + "-x", parentText + "-", parentText[:53] + "ff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := ParseTraceparent(text)
		sdk := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
			propagation.MapCarrier{"traceparent": text}))
		if ok && sdk.IsValid() && (c.Trace.String() != sdk.TraceID().String() || c.Sampled() != sdk.IsSampled()) {
			t.Errorf("%q: %+v, the SDK reads %+v", text, c, sdk)
		}
		if !ok {
			if c.Valid() {
				t.Errorf("%q: refused, and yet %+v", text, c)
			}
			return
		}
		again, ok := ParseTraceparent(string(c.AppendTraceparent(nil)))
		if !ok || again != c {
			t.Errorf("%q: %+v becomes %+v", text, c, again)
		}
	})
}

func TestTraceContextInMeta(t *testing.T) {
	tests := []struct {
		name, meta string
		ok         bool
		state      string
	}{
		{"alone", `{"traceparent":"` + parentText + `"}`, true, ""},
		{"among others", `{ "progressToken" : [1,{"traceparent":"x"},"}"] , "traceparent" : "` + parentText + `" , "n":-1.5e3,"t":true }`, true, ""},
		{"with tracestate", `{"tracestate":"a=b,c=d","traceparent":"` + parentText + `"}`, true, "a=b,c=d"},
		{"a tracestate with escapes", `{"tracestate":"a=b\r\nX: y","traceparent":"` + parentText + `"}`, true, ""},
		{"a tracestate of raw control bytes", "{\"tracestate\":\"a=\x01\",\"traceparent\":\"" + parentText + `"}`, true, ""},
		{"a tracestate that is too long", `{"tracestate":"` + strings.Repeat("a", 513) + `","traceparent":"` + parentText + `"}`, true, ""},
		{"tracestate alone", `{"tracestate":"a=b"}`, false, ""},
		{"deeper down", `{"x":{"traceparent":"` + parentText + `"}}`, false, ""},
		{"twice", `{"traceparent":"` + parentText + `","traceparent":"` + parentText + `"}`, false, ""},
		{"a number", `{"traceparent":7}`, false, ""},
		{"in escapes", `{"traceparent":"\u0030` + parentText[1:] + `"}`, false, ""},
		{"not one", `{"traceparent":"00-x"}`, false, ""},
		{"empty object", `{}`, false, ""},
		{"nothing", ``, false, ""},
		{"cut off", `{"traceparent":"` + parentText, false, ""},
		{"an array", `["traceparent","` + parentText + `"]`, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, state, ok := FromMeta([]byte(tt.meta))
			if ok != tt.ok || state != tt.state || ok && string(c.AppendTraceparent(nil)) != parentText {
				t.Errorf("FromMeta(%s) = %+v, %q, %v", tt.meta, c, state, ok)
			}
		})
	}
}

// MoveMeta replaces the trace context and nothing else, with the same length.
func TestMoveMeta(t *testing.T) {
	own, _ := ParseTraceparent(parentText)
	own.Span = SpanID{1, 2, 3, 4, 5, 6, 7, 8}
	moved := string(own.AppendTraceparent(nil))
	other := own
	other.Trace[0] ^= 0xff
	tests := []struct {
		name, meta string
		to         Context
		moved      bool
	}{
		{"alone", `{"traceparent":"` + parentText + `"}`, own, true},
		{"among others", `{ "a":[1,{"traceparent":"` + parentText + `"}], "traceparent" : "` + parentText + `" ,"tracestate":"a=b"}`, own, true},
		{"another trace", `{"traceparent":"` + parentText + `"}`, other, false},
		{"a position that is none", `{"traceparent":"` + parentText + `"}`, Context{Trace: own.Trace}, false},
		{"none", `{"tracestate":"a=b"}`, own, false},
		{"twice", `{"traceparent":"` + parentText + `","traceparent":"` + parentText + `"}`, own, false},
		{"a later version", `{"traceparent":"01` + parentText[2:] + `"}`, own, false},
		{"a later version with more", `{"traceparent":"01` + parentText[2:] + `-x"}`, own, false},
		{"not an object", `"traceparent"`, own, false},
		{"a number", `{"traceparent":7}`, own, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			meta := []byte(tt.meta)
			want := tt.meta
			if tt.moved {
				at := strings.LastIndex(want, parentText)
				want = want[:at] + moved + want[at+len(moved):]
			}
			if got := MoveMeta(meta, tt.to); got != tt.moved || string(meta) != want {
				t.Errorf("%v, %s\nwant %s", got, meta, want)
			}
		})
	}
}

// FuzzMeta compares with encoding/json for objects without escapes.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"traceparent":"` + parentText + `","tracestate":"a=b"}`))
	f.Add([]byte(`{"a":{"b":[1,2,{"c":"\""}]},"traceparent":"` + parentText + `"}`))
	f.Add([]byte(`{"a":1,`))
	f.Fuzz(func(t *testing.T, meta []byte) {
		c, state, ok := FromMeta(meta)
		if len(state) > maxTracestate || !ok && (state != "" || c.Valid()) {
			t.Fatalf("%s: %+v %q %v", meta, c, state, ok)
		}
		var members map[string]json.RawMessage
		if strings.Contains(string(meta), `\`) || json.Unmarshal(meta, &members) != nil || members == nil {
			return
		}
		var text string
		_ = json.Unmarshal(members["traceparent"], &text)
		want, valid := ParseTraceparent(text)
		if strings.Count(string(meta), "trace") > 2 {
			return // may be a duplicate member
		}
		if ok != valid && json.Unmarshal(members["tracestate"], &text) == nil || ok && c != want {
			t.Errorf("%s: %+v, %v; encoding/json reads %q", meta, c, ok, text)
		}
	})
}
