package server

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
)

// reportBody is the report of a gateway's process.
func reportBody(instance, seq int, more ...string) string {
	return fmt.Sprintf(`{"instance":"%032x","seq":%d,"version":"1.0","startedAt":"2026-03-04T05:00:00Z","state":"running","configDigest":"00c0ffee00c0ffee","restartPending":[],
		"governance":{"enabled":true,"revision":9007199254740991,"policies":1},"upstreams":[{"name":"bank","state":"ok","revision":"2026-07-28"}],
		"audit":{"writable":true,"lost":0,"lastLine":7},"license":{"state":"valid","daysLeft":90},"calls":5,"blocked":1,"failed":1,"later":{"x":1}%s}`, instance, seq, strings.Join(more, ""))
}

// TestGateways follows two processes of a gateway from their first reports until they are forgotten.
func TestGateways(t *testing.T) {
	r := newRig(t)
	gateway, keyID := r.key(r.admin, "ingest")
	r.ask(gateway, "PUT", "/api/gateways/edge", reportBody(1, 1)).want(200)
	r.ask(gateway, "PUT", "/api/gateways/edge", reportBody(2, 1)).want(200)
	r.ask(gateway, "PUT", "/api/gateways/core", reportBody(3, 1)).want(200)
	list := r.ask(r.admin, "GET", "/api/gateways", "").want(200).list()
	if len(list) != 2 || list[0]["name"] != "core" || len(list[1]["instances"].([]any)) != 2 {
		t.Fatalf("list %v", list)
	}
	list[1].is(t, "state", "running", "signedBy", "")
	one := toObject(t, list[1]["instances"].([]any)[0])
	one.is(t, "instance", fmt.Sprintf("%032x", 1), "seq", 1, "state", "running", "calls", 5, "signed", false, "keyId", keyID, "behind", false, "version", "1.0")
	toObject(t, one["audit"]).is(t, "lastLine", 7, "writable", true)

	r.clock.advance(30 * time.Second)
	r.ask(gateway, "PUT", "/api/gateways/edge", strings.Replace(reportBody(1, 2), `"calls":5`, `"calls":6`, 1)).want(200)
	r.ask(gateway, "PUT", "/api/gateways/edge", reportBody(1, 1)).want(409)
	r.clock.advance(store.GatewaySilent - time.Second)
	states := func(query string) (states string) {
		for _, g := range r.ask(r.admin, "GET", "/api/gateways"+query, "").want(200).list() {
			states += fmt.Sprintf("%s %s:", g["name"], g["state"])
			for _, i := range g["instances"].([]any) {
				states += fmt.Sprintf(" %s %v", toObject(t, i)["state"], toObject(t, i)["calls"])
			}
			states += "; "
		}
		return states
	}
	if got := states(""); got != "core silent: silent 5; edge running: running 6 silent 5; " {
		t.Errorf("states %s", got)
	}
	r.ask(gateway, "PUT", "/api/gateways/core", strings.Replace(reportBody(3, 2), "running", "stopped", 1)).want(200)
	if got := states(""); got != "edge running: running 6 silent 5; " {
		t.Errorf("states %s", got)
	}
	if got := states("?all=true"); got != "core stopped: stopped 5; edge running: running 6 silent 5; " {
		t.Errorf("states %s", got)
	}
	r.ask(r.admin, "GET", "/api/gateways/core", "").want(200).data().is(t, "state", "stopped")
	r.ask(r.admin, "GET", "/api/gateways/unknown", "").want(404)
	r.ask(r.admin, "DELETE", "/api/gateways/edge", "").want(200)
	r.ask(r.admin, "DELETE", "/api/gateways/edge", "").want(404)
	r.ask(r.other, "GET", "/api/gateways/core", "").want(404)
	if got := states("?all=true"); got != "core stopped: stopped 5; " {
		t.Errorf("states %s", got)
	}
}

// TestGatewayReportsAreBounded: what a report may not have is refused with its place.
func TestGatewayReportsAreBounded(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	n := 0
	for field, body := range map[string]string{
		"instance":           strings.Replace(reportBody(1, 1), "0000", "000G", 1),
		"seq":                reportBody(1, 0),
		"state":              strings.Replace(reportBody(1, 1), "running", "silent", 1),
		"version":            strings.Replace(reportBody(1, 1), "1.0", `1\u202e0`, 1),
		"upstreams[0].name":  strings.Replace(reportBody(1, 1), "bank", `b\u0007nk`, 1),
		"upstreams[0].state": strings.Replace(reportBody(1, 1), `"ok"`, `"fine"`, 1),
		"license.state":      strings.Replace(reportBody(1, 1), "valid", strings.Repeat("v", 257), 1),
		"restartPending[0]":  strings.Replace(reportBody(1, 1), `"restartPending":[]`, `"restartPending":["a\nb"]`, 1),
		"configDigest":       strings.Replace(reportBody(1, 1), "00c0ffee00", "xyz", 1),
		"calls":              strings.Replace(reportBody(1, 1), `"calls":5`, `"calls":-1`, 1),
		"startedAt":          strings.Replace(reportBody(1, 1), `"startedAt":"2026-03-04T05:00:00Z",`, "", 1),
		"body":               reportBody(1, 1, `,"x":"`+strings.Repeat("x", api.MaxGatewayReport)+`"`),
	} {
		n++
		r.ask(gateway, "PUT", fmt.Sprintf("/api/gateways/g%d", n), body).wantDetail(field)
	}
	many := strings.Repeat(`{"name":"a","state":"ok"},`, api.MaxGatewayUpstreams+1)
	r.ask(gateway, "PUT", "/api/gateways/g", strings.Replace(reportBody(1, 1), `"upstreams":[`, `"upstreams":[`+many, 1)).want(400)
	r.ask(gateway, "PUT", "/api/gateways/g", strings.Replace(reportBody(1, 1), `"later":{"x":1}`, `"later":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000), 1)).want(400)
	r.ask(gateway, "PUT", "/api/gateways/"+strings.Repeat("n", 201), reportBody(1, 1)).wantDetail("name")
	r.ask(gateway, "PUT", "/api/gateways/a%E2%80%AEb", reportBody(1, 1)).wantDetail("name")
	if list := r.ask(r.admin, "GET", "/api/gateways", "").want(200).list(); len(list) != 0 {
		t.Errorf("list %v", list)
	}
	// A window for each instance, and none that others use.
	for seq := range reportsPerMinute {
		r.ask(gateway, "PUT", "/api/gateways/g", reportBody(1, 1+seq)).want(200)
	}
	r.ask(gateway, "PUT", "/api/gateways/g", reportBody(1, 10)).want(429)
	r.ask(gateway, "PUT", "/api/gateways/g", reportBody(2, 1)).want(200)
	// A key that is used for a flood shuts out nobody else.
	for i := range reportsPerMinute * store.MaxGatewayInstances {
		if r.ask(gateway, "PUT", "/api/gateways/g", "{}").status == 429 {
			break
		} else if i > reportsPerMinute*store.MaxGatewayInstances-3 {
			t.Error("a flood is not bounded")
		}
	}
	another, _ := r.key(r.admin, "ingest")
	r.ask(another, "PUT", "/api/gateways/g", reportBody(3, 1)).want(200)
}

// TestManyLargeReports: answers about gateways stay so small that the page, the screens and the commands can use them,
// have what fails, and say how much they leave out. One gateway is whole.
func TestManyLargeReports(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	upstreams := strings.Repeat(fmt.Sprintf(`{"name":%q,"state":"ok","revision":""},`, strings.Repeat("<", 200)), api.MaxGatewayUpstreams-30) // each < is \u003c in an answer
	pending := strings.Repeat(`"upstreams.bank.url",`, api.MaxGatewayPending-1)
	const large = 60
	for i := range large + 1 {
		body := strings.Replace(reportBody(i+1, 1), `"restartPending":[`, `"restartPending":[`+pending+`"last"`, 1)
		if i < large {
			body = strings.Replace(body, `"upstreams":[`, `"upstreams":[`+upstreams+`{"name":"shop","state":"failing","revision":""},`, 1)
		}
		r.ask(gateway, "PUT", fmt.Sprintf("/api/gateways/g%02d", i), body).want(200)
	}
	answer := r.ask(r.admin, "GET", "/api/gateways", "").want(200)
	if len(answer.raw) > maxGatewayLists*5/4 || len(answer.raw) < maxGatewayLists/2 {
		t.Errorf("the list has %d bytes", len(answer.raw))
	}
	for i, g := range answer.list() {
		in := toObject(t, g["instances"].([]any)[0])
		shown := len(in["upstreams"].([]any)) + len(in["restartPending"].([]any))
		if i == large {
			if _, has := in["leftOut"]; has || shown != 1+api.MaxGatewayPending {
				t.Errorf("a small report has %d, left out %v", shown, in["leftOut"])
			}
			break
		}
		if first := toObject(t, in["upstreams"].([]any)[0]); first["name"] != "shop" || in["leftOut"] != float64(api.MaxGatewayUpstreams-28+api.MaxGatewayPending-shown) {
			t.Fatalf("%v of %d, left out %v", first, shown, in["leftOut"])
		}
	}
	one := toObject(t, r.ask(r.admin, "GET", "/api/gateways/g00", "").want(200).data()["instances"].([]any)[0])
	if _, has := one["leftOut"]; has || len(one["upstreams"].([]any)) != api.MaxGatewayUpstreams-28 {
		t.Errorf("one gateway has %d upstreams, left out %v", len(one["upstreams"].([]any)), one["leftOut"])
	}
}

// BenchmarkManyLargeReports lists 1,000 gateways with reports of 60 KB.
func BenchmarkManyLargeReports(b *testing.B) {
	r := newRig(b)
	gateway, _ := r.key(r.admin, "ingest")
	upstreams := strings.Repeat(fmt.Sprintf(`{"name":%q,"state":"ok","revision":"2026-07-28"},`, strings.Repeat("n", 180)), api.MaxGatewayUpstreams-1)
	for i := range store.MaxGatewayInstances {
		r.ask(gateway, "PUT", fmt.Sprintf("/api/gateways/g%03d", i), strings.Replace(reportBody(i+1, 1), `"upstreams":[`, `"upstreams":[`+upstreams, 1)).want(200)
	}
	for b.Loop() {
		req := httptest.NewRequest("GET", "/api/gateways", nil)
		req.Header.Set("Authorization", "Bearer "+r.admin)
		w := httptest.NewRecorder()
		r.srv.ServeHTTP(w, req)
		b.ReportMetric(float64(w.Body.Len()), "B/answer")
	}
}

// TestSignedReports: the first key binds a name, and what it has signed is not replaced by what it has not.
func TestSignedReports(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	type signer struct {
		header func(name, body string) string
	}
	newSigner := func() signer {
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		return signer{func(name, body string) string {
			return api.GatewaySignature(public, ed25519.Sign(private, api.GatewaySignedText(name, []byte(body))))
		}}
	}
	ours, others := newSigner(), newSigner()
	put := func(name, body, header string) *reply {
		if header == "" {
			return r.ask(gateway, "PUT", "/api/gateways/"+name, body)
		}
		return r.ask(gateway, "PUT", "/api/gateways/"+name, body, api.SignatureHeader, header)
	}
	body := reportBody(1, 1)
	put("edge", body, ours.header("edge", body)).want(200)
	put("edge", body+" ", ours.header("edge", body)).wantDetail("signature")
	put("core", body, ours.header("edge", body)).wantDetail("signature")
	put("edge", body, "x y").wantDetail("signature")
	put("edge", body, base64.StdEncoding.EncodeToString(make([]byte, 32))+" AAAA").wantDetail("signature")
	r.clock.advance(time.Minute) // the window of the instance
	put("edge", reportBody(1, 2), others.header("edge", reportBody(1, 2))).want(403)
	put("edge", reportBody(1, 2), "").want(403)
	put("edge", reportBody(2, 1), "").want(200) // another process, which does not sign
	one := r.ask(r.admin, "GET", "/api/gateways/edge", "").want(200).data()
	if one["signedBy"] == "" {
		t.Errorf("not signed: %v", one)
	}
	// A gateway reads beforehand which key its name has, which changes nothing.
	for name, want := range map[string]any{"edge": one["signedBy"], "core": "", "a%20b": "", "%00": ""} {
		if got := r.ask(gateway, "GET", "/api/governance?gateway="+name, "").want(200).header.Get(api.GatewayKeyHeader); got != want {
			t.Errorf("the key of %s: %q, want %v", name, got, want)
		}
	}
	for i, signed := range []bool{true, false} {
		toObject(t, one["instances"].([]any)[i]).is(t, "signed", signed, "seq", 1)
	}
	// One that does not sign does not hide that those that sign are silent.
	r.clock.advance(store.GatewaySilent + time.Second)
	put("edge", reportBody(2, 2), "").want(200)
	r.ask(r.admin, "GET", "/api/gateways/edge", "").want(200).data().is(t, "state", "silent")
	stopped := strings.Replace(reportBody(1, 2), "running", "stopped", 1)
	put("edge", stopped, ours.header("edge", stopped)).want(200)
	r.ask(r.admin, "GET", "/api/gateways/edge", "").want(200).data().is(t, "state", "running")
	events := r.ask(r.admin, "GET", "/api/audit/events?object=refusedKey", "").want(200).list()
	if len(events) != 1 || toObject(t, events[0]["object"])["name"] != "edge" {
		t.Errorf("events %v", events)
	}
}

// TestEnforcedBy: a policy says how many running instances enforce it as it is now.
func TestEnforcedBy(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	made := r.ask(r.admin, "POST", "/api/policies", policyBody("p", "")).want(201)
	made.data().is(t, "enforcedBy", map[string]any{"gateways": 0.0, "of": 0.0})
	path := "/api/policies/" + made.data().id(t)
	revision := func() string {
		return fmt.Sprintf("%.0f", r.ask(gateway, "GET", "/api/governance", "").want(200).object()["revision"])
	}
	seq := 0
	report := func(instance int, enabled bool, revision string) {
		seq++
		body := strings.Replace(reportBody(instance, seq), "9007199254740991", revision, 1)
		r.ask(gateway, "PUT", "/api/gateways/g", strings.Replace(body, `"enabled":true`, fmt.Sprintf(`"enabled":%t`, enabled), 1)).want(200)
	}
	enforced := func() string { return fmt.Sprint(r.ask(r.admin, "GET", path, "").want(200).data()["enforcedBy"]) }
	old := revision()
	report(2, false, old)
	second := r.ask(r.admin, "POST", "/api/policies", policyBody("second", "")).want(201)
	if w := fmt.Sprint(second.object()["warnings"]); !strings.Contains(w, "none of the 1 running instances") {
		t.Errorf("warnings %s", w)
	}
	r.ask(r.admin, "DELETE", "/api/policies/"+toObject(t, second.object()["data"]).id(t), "").want(200)
	old = revision()
	report(1, true, old)
	report(2, false, old)
	report(3, true, "0")
	if got := enforced(); got != "map[gateways:1 of:3]" {
		t.Errorf("enforced by %s", got)
	}
	changed := r.ask(r.admin, "PUT", path, `{"message":"no","enforcedBy":{"gateways":9,"of":9}}`).want(200)
	if got := fmt.Sprint(changed.data()["enforcedBy"]); got != "map[gateways:0 of:3]" {
		t.Errorf("a changed policy is enforced by %s", got)
	}
	tag := changed.header.Get("ETag")
	if revision() == old {
		t.Fatal("the bundle has the old revision")
	}
	late := func(what string) {
		t.Helper()
		for _, i := range r.ask(r.admin, "GET", "/api/gateways/g", "").want(200).data()["instances"].([]any) {
			toObject(t, i).is(t, "outdated", toObject(t, i)["instance"] != fmt.Sprintf("%032x", 2), "behind", what == "behind" && toObject(t, i)["instance"] != fmt.Sprintf("%032x", 2))
		}
	}
	late("outdated")
	r.clock.advance(behindAfter + time.Second)
	late("behind")
	report(1, true, revision())
	if got := enforced(); got != "map[gateways:1 of:3]" {
		t.Errorf("enforced by %s", got)
	}
	if now := r.ask(r.admin, "GET", path, "").header.Get("ETag"); now != tag {
		t.Error("the ETag depends on who enforces the policy")
	}
	r.clock.advance(store.GatewaySilent + time.Second)
	if got := enforced(); got != "map[gateways:0 of:0]" {
		t.Errorf("when all are silent: enforced by %s", got)
	}
	if off := r.ask(r.admin, "PUT", path, `{"enabled":false}`).want(200).data(); off["enforcedBy"] != nil {
		t.Errorf("a disabled policy: %v", off)
	}
	limited, _ := r.teamKey("limited", "policies:read")
	r.ask(r.admin, "PUT", path, `{"enabled":true}`).want(200)
	if seen := r.ask(limited, "GET", path, "").want(200).data(); seen["enforcedBy"] != nil {
		t.Errorf("a key that may not see gateways sees %v", seen)
	}
}

// TestNobodyEnforces: a policy that is created or enabled while no gateway runs has a warning, for keys that may see
// gateways.
func TestNobodyEnforces(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	blind, _ := r.teamKey("limited", "policies:read", "policies:write")
	warned := func(key, method, path, body string, want bool) *reply {
		t.Helper()
		a := r.ask(key, method, path, body)
		if a.status > 299 || strings.Contains(string(a.raw), noGatewayRuns) != want {
			t.Errorf("%s: warned is not %t: %d %s", a.what, want, a.status, a.raw)
		}
		return a
	}
	path := "/api/policies/" + warned(r.admin, "POST", "/api/policies", policyBody("p", ""), true).data().id(t)
	warned(r.admin, "POST", "/api/policies", policyBody("off", `,"enabled":false`), false)
	warned(blind, "POST", "/api/policies", policyBody("unseen", ""), false)
	warned(r.admin, "POST", "/api/policies/templates/apply", `{"template":"cost-guard"}`, true)
	warned(r.admin, "POST", "/api/policies/templates/apply", `{"template":"cost-guard","agentName":"a","enabled":false}`, false)
	warned(r.admin, "PUT", path, `{"enabled":false}`, false)
	warned(r.admin, "PUT", path, `{"message":"m"}`, false)
	warned(r.admin, "PUT", path, `{"enabled":true}`, true)
	r.ask(gateway, "PUT", "/api/gateways/edge", reportBody(1, 1)).want(200)
	warned(r.admin, "PUT", path, `{"enabled":true}`, false)
	stopped := strings.Replace(reportBody(1, 2), "running", "stopped", 1)
	r.ask(gateway, "PUT", "/api/gateways/edge", stopped).want(200)
	warned(r.admin, "PUT", path, `{"enabled":true}`, true)
}

// TestFleetIsRemembered: who enforces policies is read once a second, and again after a report that changes it.
func TestFleetIsRemembered(t *testing.T) {
	r := newRig(t)
	gateway, _ := r.key(r.admin, "ingest")
	path := "/api/policies/" + r.ask(r.admin, "POST", "/api/policies", policyBody("p", "")).want(201).data().id(t)
	of := func(want string) {
		t.Helper()
		if got := fmt.Sprint(r.ask(r.admin, "GET", path, "").want(200).data()["enforcedBy"]); got != want {
			t.Errorf("enforced by %s, want %s", got, want)
		}
	}
	r.ask(gateway, "PUT", "/api/gateways/edge", reportBody(1, 1)).want(200)
	of("map[gateways:1 of:1]")
	// Another process of the control plane gets a report.
	if err := r.store.Tenant("one").ReportGateway(t.Context(), store.GatewayReport{Gateway: "edge", Instance: "elsewhere", Seq: 1, Report: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	r.ask(gateway, "PUT", "/api/gateways/edge", reportBody(1, 2)).want(200) // counters alone
	of("map[gateways:1 of:1]")
	r.clock.advance(fleetFor)
	of("map[gateways:1 of:2]")
	r.ask(gateway, "PUT", "/api/gateways/edge", strings.Replace(reportBody(1, 3), `"enabled":true`, `"enabled":false`, 1)).want(200)
	of("map[gateways:0 of:2]")
	r.ask(r.admin, "DELETE", "/api/gateways/edge", "").want(200)
	of("map[gateways:0 of:0]")
}
