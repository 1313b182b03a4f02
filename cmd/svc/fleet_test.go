package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// TestFleet: a running gateway reports itself and what it enforces, its policies say so, and svc status
// says what is wrong with it.
func TestFleet(t *testing.T) {
	s := startGoverned(t)
	gateway := func() (g api.Gateway) {
		list, err := s.control.ListGateways(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Data) == 1 {
			g = list.Data[0]
		}
		return g
	}
	s.until("the gateway is listed", func() bool { return gateway().State == api.GatewayRunning })
	i := gateway().Instances[0]
	if !i.Governance.Enabled || !i.Audit.Writable || len(i.Upstreams) != 1 || i.License.State != "valid" || i.Version == "" {
		t.Errorf("report %+v", i)
	}
	p := s.create(api.PolicyCreate{Name: "p", Phase: "request", Action: "warn", Condition: &api.Condition{Type: "always"}})
	if p.EnforcedBy == nil || *p.EnforcedBy != (api.EnforcedBy{Gateways: 0, Of: 1}) {
		t.Errorf("a policy of now is enforced by %+v", p.EnforcedBy)
	}
	s.until("the policy is in effect", func() bool { return strings.Contains(s.gw.out.String(), `"policies":1`) })
	if status, body := s.call("t", "x"); status != 200 {
		t.Fatal(status, body)
	}
	s.gw.stop()
	stopped := gateway()
	if last := stopped.Instances[0]; stopped.State != api.GatewayStopped || last.Calls != 1 || last.Upstreams[0].State != "ok" || last.Governance.Revision == 0 || len(last.ConfigDigest) != 16 {
		t.Errorf("after SIGTERM: %+v", stopped)
	}
	if listed, err := s.control.ListGateways(t.Context(), false); err != nil || len(listed.Data) != 0 {
		t.Errorf("a stopped gateway is listed: %+v, %v", listed.Data, err)
	}

	s.gw.start()
	// The first report may come before the policies; the next one follows 10 s later.
	if !holdsWithin(20*time.Second, func() bool {
		now, err := s.control.GetPolicy(t.Context(), p.ID)
		return err == nil && now.EnforcedBy != nil && *now.EnforcedBy == api.EnforcedBy{Gateways: 1, Of: 1}
	}) {
		t.Error("the policy is not enforced")
	}
	g := gateway()
	if len(g.Instances) != 2 || g.State != api.GatewayRunning {
		t.Errorf("after a restart: %+v", g)
	}
	status := func() (string, int) {
		cmd := exec.Command(program(t), "status", "--url", "http://"+s.plane.addr, "--api-key", planeKey)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := status(); code != 0 || !strings.Contains(out, "1 instances run") {
		t.Errorf("status %d: %s", code, out)
	}
	if err := s.control.ForgetGateway(t.Context(), g.Name); err != nil {
		t.Error(err)
	}
	var answer *client.Error
	if _, err := s.control.GetGateway(t.Context(), g.Name); !errors.As(err, &answer) || answer.Status != 404 {
		t.Errorf("a forgotten gateway: %v", err)
	}
	s.plane.stop()
	if out, code := status(); code != 2 {
		t.Errorf("without a control plane: status %d: %s", code, out)
	}
}
