package store

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Bounds on the reports of gateways.
const (
	// MaxGatewayInstances bounds the processes of gateways that a tenant knows. When there is no room,
	// the process gives way that has stopped, or else been silent, for the longest time.
	MaxGatewayInstances = 1000
	// GatewaySilent is how long a running process may be silent; it reports every 30 s.
	GatewaySilent = 90 * time.Second
	// GatewayWritten is the time between two writes of the times of reports. They are kept in memory
	// meanwhile: another process knows a time that is older by this much.
	GatewayWritten = time.Minute
	// GatewayKept is how long a process is listed after its last report.
	GatewayKept = 7 * 24 * time.Hour
	// GatewayRefusedEvery is the time between two events about reports that one key signed and that were
	// refused.
	GatewayRefusedEvery = time.Hour
)

// GatewayReport is what one process of a gateway reports about itself.
type GatewayReport struct {
	Gateway  string // name of the gateway, which several processes may share
	Instance string // identifies the process
	Seq      int64  // ascends with the reports of the process, from 1 on
	Stopped  bool   // the process has ended
	// Governed is set when the process enforces the policies, and Revision is that of the policies
	// that it has; see Policy.Revision.
	Governed bool
	Revision int64
	// Report has the rest, as JSON that the store does not read.
	Report json.RawMessage
	GatewayCounters
	PublicKey string // that signed the report, in base64; the caller has checked the signature. Empty: unsigned
	KeyID     string // API key that the report came with
}

// GatewayCounters are the numbers of a report that change all the time. They do not count as a
// change: they are written with the time of the report.
type GatewayCounters struct {
	Calls, Blocked, Failed int64
	LastLine               int64 // number of the last audit line
}

// GatewayInstance is a process of a gateway as it last reported.
type GatewayInstance struct {
	GatewayReport
	ReportedAt time.Time // of the last report that changed more than counters
	SeenAt     time.Time // of the last report
	// SilentAt is when the process becomes silent, if it does not report before. It is later than
	// SeenAt and GatewaySilent where another process of the control plane may know a newer report.
	SilentAt time.Time
}

// Silent reports whether a running process is silent at a time. A process of the control plane that
// began at a time has not heard of anybody before.
func (g *GatewayInstance) Silent(now, began time.Time) bool {
	return !g.Stopped && now.After(g.SilentAt) && now.After(began.Add(GatewaySilent))
}

// GatewayRuns counts the processes of one gateway that run, and those that are silent. Where a process that
// has not stopped signs its reports, only those that sign are counted: whoever has an ingest key can invent
// others, which would hide that the gateway is silent.
func GatewayRuns(processes []GatewayInstance, now, began time.Time) (running, silent int) {
	signed := slices.ContainsFunc(processes, func(g GatewayInstance) bool { return !g.Stopped && g.PublicKey != "" })
	for i := range processes {
		switch g := &processes[i]; {
		case g.Stopped, signed && g.PublicKey == "":
		case g.Silent(now, began):
			silent++
		default:
			running++
		}
	}
	return running, silent
}

// GatewayObject is a gateway with its processes as audit events record it.
func GatewayObject(gateway string, instances []string) *Object {
	return newObject("gateway", gateway, gateway, "", map[string]any{"instances": instances})
}

// Gateways knows the processes of the gateways of a tenant.
type Gateways interface {
	// ReportGateway stores a report. A report that changes nothing but counters is kept in memory, and
	// written with the others of the tenant at most once in GatewayWritten.
	//
	// The first key that signs anything in the name of a gateway binds the name, as for audit heads.
	// Conflict ("publicKey"): the name is bound to another key; an event is recorded, at most one in
	// GatewayRefusedEvery for each key. Conflict ("signature"): the report is not signed, and earlier ones
	// of the process were. Conflict ("seq"): a later report of the process is known, or another one with its
	// number; the last one again changes nothing, not even SeenAt. Invalid ("gateway"): the tenant has
	// MaxGatewayInstances that do not give way.
	ReportGateway(ctx context.Context, r GatewayReport) error
	// ListGateways returns all processes, sorted by the name of the gateway and the instance.
	ListGateways(ctx context.Context) ([]GatewayInstance, error)
	// ForgetGateway removes all processes of a gateway, or returns NotFound. The key of its name stays
	// bound, for GatewayKept or for ever: see ApplyRetention. A process that still runs is known again with
	// its next report.
	ForgetGateway(ctx context.Context, gateway string) error
	// GatewayKey returns the public key that the name of a gateway is bound to; empty if it is not bound.
	GatewayKey(ctx context.Context, gateway string) (string, error)
	// PolicyRevision returns the revision of the tenant's policies, a number that grows with each change of
	// an enabled one, also over a restore from a backup; 0 before the first one.
	PolicyRevision(ctx context.Context) (int64, error)
}
