package gatewaycmd

import (
	"svc/cli/process"
	"svc/gateway/config"
	"svc/gateway/govern"
	"svc/server/client"
)

// maxGovernance bounds the bundle of policies that a gateway takes, in bytes.
const maxGovernance = 16 << 20

// GovernanceSource returns where the gateway's policies come from, or nil.
func GovernanceSource(file *config.File, b process.Build) govern.Source {
	cp := &file.ControlPlane
	if !cp.Governance.Enabled {
		return nil
	}
	return client.New(cp.URL, cp.IngestKey,
		client.WithTimeout(cp.Traces.Timeout),
		client.WithMaxAnswer(maxGovernance),
		client.WithUserAgent("svc-gateway/"+b.Info().Version))
}
