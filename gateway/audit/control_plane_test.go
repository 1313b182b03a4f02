package audit

import (
	"testing"
	"time"

	"svc/gateway/base/diag"
)

func TestControlPlaneConfigValidate(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*ControlPlaneConfig)
		want   string // path: code
	}{
		{"absent", func(c *ControlPlaneConfig) { c.URL, c.IngestKey = nil, "" }, ""},
		{"valid", func(*ControlPlaneConfig) {}, ""},
		{"a key and no URL", func(c *ControlPlaneConfig) { c.URL = nil }, "url: control-plane-url"},
		{"a URL and no key", func(c *ControlPlaneConfig) { c.IngestKey = "" }, "ingest_key: control-plane-key"},
		{"a URL and no key, and nothing to send", func(c *ControlPlaneConfig) { c.IngestKey, c.Traces.Enabled = "", false }, ""},
		{"a key with a line feed", func(c *ControlPlaneConfig) { c.IngestKey = "svc_ingest_x\n" }, "ingest_key: control-plane-key"},
		{"a key of another scope", func(c *ControlPlaneConfig) { c.IngestKey = "svc_api_x" }, "ingest_key: control-plane-key"},
		{"no URL at all", func(c *ControlPlaneConfig) { c.URL = URLs{"control-plane"} }, "url: control-plane-url"},
		{"a URL with a query", func(c *ControlPlaneConfig) { c.URL = URLs{"https://c.example/?x=1"} }, "url: control-plane-url"},
		{"in the clear", func(c *ControlPlaneConfig) { c.URL = URLs{"http://c.example"} }, "url: control-plane-insecure"},
		{"in the clear on loopback", func(c *ControlPlaneConfig) { c.URL = URLs{"http://127.0.0.1:8080"} }, ""},
		{"two", func(c *ControlPlaneConfig) { c.URL = URLs{"https://a.example", "https://b.example"} }, ""},
		{"the second is no URL", func(c *ControlPlaneConfig) { c.URL = URLs{"https://a.example", "b"} }, "url[1]: control-plane-url"},
		{"the second is empty", func(c *ControlPlaneConfig) { c.URL = URLs{"https://a.example", ""} }, "url[1]: control-plane-url"},
		{"the second is in the clear", func(c *ControlPlaneConfig) { c.URL = URLs{"https://a.example", "http://b.example"} }, "url[1]: control-plane-insecure"},
		{"the same twice", func(c *ControlPlaneConfig) { c.URL = URLs{"https://a.example", "https://a.example/"} }, "url[1]: control-plane-url"},
		{"two in one text", func(c *ControlPlaneConfig) { c.URL = URLs{"https://a.example,b.example"} }, "url: control-plane-url"},
		{"too many", func(c *ControlPlaneConfig) { c.URL = make(URLs, 17) }, "url: control-plane-url"},
		{"a name that changes the direction of text", func(c *ControlPlaneConfig) { c.Gateway = "edge\u202e1" }, "gateway: control-plane-name"},
		{"a name with control characters", func(c *ControlPlaneConfig) { c.Gateway = "edge\x1b1" }, "gateway: control-plane-name"},
		{"a name that no path has", func(c *ControlPlaneConfig) { c.Gateway = ".." }, "gateway: control-plane-name"},
		{"an agent without a name", func(c *ControlPlaneConfig) { c.Agents = map[string]string{"ci": ""} }, "agents.ci: control-plane-agents"},
		{"a batch of nothing", func(c *ControlPlaneConfig) { c.Traces.BatchSize = 0 }, "traces.batch_size: control-plane-range"},
		{"a batch above the maximum", func(c *ControlPlaneConfig) { c.Traces.BatchSize = 1001 }, "traces.batch_size: control-plane-range"},
		{"a negative backlog", func(c *ControlPlaneConfig) { c.Traces.MaxBacklog = -1 }, "traces.max_backlog: control-plane-range"},
		{"no flush interval", func(c *ControlPlaneConfig) { c.Traces.FlushInterval = 0 }, "traces.flush_interval: control-plane-range"},
		{"an empty method", func(c *ControlPlaneConfig) { c.Traces.Methods = []string{""} }, "traces.methods[0]: control-plane-methods"},
		{"a refresh of a day and more", func(c *ControlPlaneConfig) { c.Governance.RefreshInterval = 25 * time.Hour }, "governance.refresh_interval: control-plane-range"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c ControlPlaneConfig
			c.SetDefaults()
			c.URL, c.IngestKey = URLs{"https://c.example/svc"}, "svc_ingest_x"
			row.change(&c)
			report := diag.New()
			c.Validate(report.Root())
			got := ""
			for _, f := range report.Findings() {
				got += f.Path + ": " + f.Code
			}
			if got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}
