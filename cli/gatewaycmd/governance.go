package gatewaycmd

import (
	"log/slog"

	"svc/cli/process"
	"svc/gateway"
	"svc/gateway/audit"
	"svc/gateway/config"
	"svc/gateway/policy/plane"
	"svc/server/client"
)

// maxGovernance bounds the size of the policy bundle that a gateway accepts, in
// bytes.
const maxGovernance = 16 << 20

// GovernanceSource returns the source of the gateway's policies, or nil.
func GovernanceSource(file *config.File, b process.Build, log *slog.Logger) plane.Source {
	cp := &file.ControlPlane
	if !cp.Governance.On() || len(cp.URL) == 0 {
		return nil
	}
	return planeClient(cp, b, log, "governance", client.WithMaxAnswer(maxGovernance))
}

// ApprovalCalls returns the requests of the gateway about approvals, or nil without a control plane.
func ApprovalCalls(file *config.File, b process.Build, log *slog.Logger) *plane.ApprovalCalls {
	cp := &file.ControlPlane
	if len(cp.URL) == 0 {
		return nil
	}
	c := planeClient(cp, b, log, "approvals")
	return &plane.ApprovalCalls{Request: c.RequestApproval, Claim: c.ClaimApproval, Release: c.ReleaseApproval}
}

// Reports returns how the gateway of a configuration reports itself, nil without a control plane.
func Reports(file *config.File, b process.Build, log *slog.Logger) gateway.ReportFunc {
	if len(file.ControlPlane.URL) == 0 {
		return nil
	}
	return planeClient(&file.ControlPlane, b, log, "reports").ReportGateway
}

// planeClient returns the gateway's client of its control planes; purpose is for the
// log.
func planeClient(cp *audit.ControlPlaneConfig, b process.Build, log *slog.Logger, purpose string, more ...client.Option) *client.Client {
	moved := func(from, to string, cause error) {
		if cause == nil {
			log.Info("a control plane is used again", "for", purpose, "control_plane", to)
			return
		}
		log.Warn("a control plane fails, and the next one is used", "for", purpose, "control_plane", from, "next", to, "error", cause)
	}
	return client.New(cp.URL[0], cp.IngestKey, append([]client.Option{
		client.WithOthers(moved, cp.URL[1:]...),
		client.WithTimeout(cp.Traces.Timeout),
		client.WithUserAgent("svc-gateway/" + b.Info().Version),
	}, more...)...)
}
