package server

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"svc/store"
	"svc/store/api"
)

// reportsPerMinute bounds the reports of one instance of a gateway.
const reportsPerMinute = 6

// maxReportWindows bounds the instances that have their own window. Further ones share one.
const maxReportWindows = 65_536

// behindAfter is the time after a change of policies from which gateways without it are behind. A
// revision is at least the time of its change.
const behindAfter = time.Minute

// refusedReportEvery is the time between two log lines about refused reports.
const refusedReportEvery = time.Minute

// maxGatewayLists bounds the upstreams and pending keys in an answer about gateways, in bytes: reports of 1,000
// instances have up to 64 MB of them. Each instance has its share.
const maxGatewayLists = 4 << 20

// reportGateway serves PUT /api/gateways/{name}: a process of a gateway reports itself.
func (s *Server) reportGateway(c *call) error {
	name := c.PathValue("name")
	if wrong := api.GatewayName(name); wrong != "" {
		return invalidField("name", "%s", wrong)
	}
	in, body, err := decodeReport(c)
	if err != nil {
		return err
	}
	// In a window of its own: gateways that take the ingest window with traces stay known.
	if err := c.count(s.reports, c.key.ID+"/"+in.Instance); err != nil {
		return err
	}
	report := store.GatewayReport{
		Gateway: name, Instance: in.Instance, Seq: in.Seq, Stopped: in.State == api.GatewayStopped, KeyID: c.key.ID,
		Governed: in.Governance.Enabled, Revision: in.Governance.Revision,
		GatewayCounters: store.GatewayCounters{Calls: in.Calls, Blocked: in.Blocked, Failed: in.Failed, LastLine: in.Audit.LastLine},
	}
	if header := c.Header.Get(api.SignatureHeader); header != "" {
		var ok bool
		if report.PublicKey, ok = api.VerifyGateway(header, name, body); !ok {
			return invalidField("signature", "the header %s is not a signature of this report", api.SignatureHeader)
		}
	}
	// What the store reads itself, and what changes all the time, is not in the rest.
	in.Instance, in.Seq, in.State, in.Calls, in.Blocked, in.Failed, in.Audit.LastLine = "", 0, "", 0, 0, 0, 0
	in.StartedAt = in.StartedAt.UTC()
	report.Report = encode(in)
	err = c.tenant.ReportGateway(c.Context(), report)
	var refused *store.Error
	if store.KindOf(err) == store.Conflict && errors.As(err, &refused) {
		if n, due := s.refusedReports.Due(time.Now(), refusedReportEvery); due {
			s.log.Warn("the report of a gateway was refused", "request_id", c.id, "tenant", c.tenant.ID(), "key", c.key.ID,
				"gateway", name, "instance", report.Instance, "signed_by", api.AuditKeyID(report.PublicKey), "error", err, "times", n)
		}
		status := http.StatusForbidden
		if refused.Fields["seq"] != "" {
			status = http.StatusConflict
		}
		f := outcome(err, c.id)
		return &failure{status, f.message, f.details}
	}
	if err != nil {
		return err
	}
	s.fleets.changed(c.tenant.ID(), &report)
	return c.deleted()
}

// decodeReport reads the body of a report. Members that it does not know are ignored, so that gateways of
// later versions can report.
func decodeReport(c *call) (in *api.GatewayReport, body []byte, err error) {
	if err := plainBody(c); err != nil {
		return nil, nil, err
	}
	if body, err = c.payload(api.MaxGatewayReport); err != nil {
		return nil, nil, err
	}
	if err := tooLarge(body); err != nil {
		return nil, nil, err
	}
	in = &api.GatewayReport{}
	if err := jsonv2.Unmarshal(body, in); err != nil {
		found, serr := inspect(body, nullIsAbsent)
		if serr != nil {
			return nil, nil, serr
		}
		return nil, nil, &failure{http.StatusBadRequest, "the request body is not the report of a gateway: " + err.Error(), found}
	}
	if wrong := in.Validate(); len(wrong) > 0 {
		return nil, nil, invalid(wrong)
	}
	return in, body, nil
}

// listGateways serves GET /api/gateways: all but stopped instances, and those too with all=true.
func (s *Server) listGateways(c *call) error {
	q := c.query()
	all := q.boolean("all")
	if err := q.err(); err != nil {
		return err
	}
	list, err := s.gatewaysOf(c, "", all != nil && *all)
	if err != nil {
		return err
	}
	return whole(c, list)
}

// getGateway serves GET /api/gateways/{name}: one gateway with all of its instances.
func (s *Server) getGateway(c *call) error {
	list, err := s.gatewaysOf(c, c.PathValue("name"), true)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return notFound("gateway")
	}
	return c.data(http.StatusOK, list[0])
}

// forgetGateway serves DELETE /api/gateways/{name}.
func (s *Server) forgetGateway(c *call) error {
	if err := c.tenant.ForgetGateway(c.Context(), c.PathValue("name")); err != nil {
		return err
	}
	s.fleets.changed(c.tenant.ID(), nil)
	return c.deleted()
}

// gatewaysOf returns the gateways of the tenant, or the one of a name. Without stopped, gateways of which all
// instances have stopped are left out, and so are the stopped instances of others.
func (s *Server) gatewaysOf(c *call, name string, stopped bool) ([]api.Gateway, error) {
	instances, err := c.tenant.ListGateways(c.Context())
	if err != nil {
		return nil, err
	}
	revision, err := c.tenant.PolicyRevision(c.Context())
	if err != nil {
		return nil, err
	}
	changed := c.now.Sub(time.UnixMilli(revision)) > behindAfter
	instances = slices.DeleteFunc(instances, func(g store.GatewayInstance) bool { return name != "" && name != g.Gateway })
	share, total := math.MaxInt, 0
	for i := range instances {
		total += len(instances[i].Report)
	}
	if total > maxGatewayLists {
		share = maxGatewayLists / len(instances)
	}
	list := []api.Gateway{}
	for len(instances) > 0 {
		n := slices.IndexFunc(instances, func(g store.GatewayInstance) bool { return g.Gateway != instances[0].Gateway })
		if n < 0 {
			n = len(instances)
		}
		of := instances[:n]
		instances = instances[n:]
		out := api.Gateway{Name: of[0].Gateway, State: api.GatewayStopped}
		if running, silent := store.GatewayRuns(of, c.now, s.began); running > 0 {
			out.State = api.GatewayRunning
		} else if silent > 0 {
			out.State = api.GatewaySilent
		}
		var signed time.Time
		for i := range of {
			g := &of[i]
			if g.PublicKey != "" && g.SeenAt.After(signed) { // earlier ones may have had another key
				out.SignedBy, signed = api.AuditKeyID(g.PublicKey), g.SeenAt
			}
			if g.Stopped && !stopped {
				continue
			}
			shown, err := wireInstance(g, c.now, s.began)
			if err != nil {
				return nil, fmt.Errorf("gateway %q: %w", g.Gateway, err)
			}
			if len(g.Report) > share {
				shorten(&shown, share)
			}
			shown.Outdated = g.Governed && g.Revision < revision && shown.State == api.GatewayRunning
			shown.Behind = shown.Outdated && changed
			out.Instances = append(out.Instances, shown)
		}
		if len(out.Instances) > 0 {
			list = append(list, out)
		}
	}
	return list, nil
}

// shorten leaves out upstreams and pending keys that take more than a number of bytes, upstreams that fail last.
func shorten(g *api.GatewayInstance, most int) {
	fails := func(u api.GatewayUpstream) int { return map[string]int{"open": -2, "failing": -1}[u.State] }
	slices.SortStableFunc(g.Upstreams, func(a, b api.GatewayUpstream) int { return fails(a) - fails(b) })
	was := len(g.Upstreams) + len(g.RestartPending)
	g.RestartPending = fitting(g.RestartPending, most/4)
	g.Upstreams = fitting(g.Upstreams, most/4*3)
	g.LeftOut = was - len(g.Upstreams) - len(g.RestartPending)
}

// fitting returns the first items of a list whose JSON fits in a number of bytes.
func fitting[L ~[]T, T any](list L, most int) L {
	for i := range list {
		if most -= len(encode(list[i])) + 1; most < 0 {
			return slices.Clone(list[:i])
		}
	}
	return list
}

func wireInstance(g *store.GatewayInstance, now, began time.Time) (api.GatewayInstance, error) {
	out := api.GatewayInstance{Signed: g.PublicKey != "", KeyID: g.KeyID, ReportedAt: g.ReportedAt.UTC(), SeenAt: g.SeenAt.UTC()}
	if err := jsonv2.Unmarshal(g.Report, &out.GatewayReport); err != nil {
		return out, err
	}
	out.Instance, out.Seq = g.Instance, g.Seq
	out.Calls, out.Blocked, out.Failed, out.Audit.LastLine = g.Calls, g.Blocked, g.Failed, g.LastLine
	switch {
	case g.Stopped:
		out.State = api.GatewayStopped
	case g.Silent(now, began):
		out.State = api.GatewaySilent
	default:
		out.State = api.GatewayRunning
	}
	return out, nil
}
