package cli

import (
	"svc/gateway/config"
	"svc/gateway/govern"
	"svc/server/client"
)

// maxGovernance bounds the bundle of policies that a gateway takes, in bytes.
const maxGovernance = 16 << 20

// governanceSource returns where the gateway's policies come from, or nil.
func governanceSource(file *config.File, b Build) govern.Source {
	cp := &file.ControlPlane
	if !cp.Governance.Enabled {
		return nil
	}
	return client.New(cp.URL, cp.IngestKey,
		client.WithTimeout(cp.Traces.Timeout),
		client.WithMaxAnswer(maxGovernance),
		client.WithUserAgent("svc-gateway/"+b.version().Version))
}
