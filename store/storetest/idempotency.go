package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"svc/store"
)

// creation is a method that stores a response together with the resource that it
// creates.
type creation struct {
	name string
	// make changes the tenant under a request whose response is the name.
	make func(r store.IdempotentRequest) error
	// made counts the resources that the method has created.
	made func() int
}

// storing returns a context in which a method that returns a T stores a response.
func storing[T any](r store.IdempotentRequest, response string) context.Context {
	return store.StoringResponse(ctx, r, func(T) store.StoredResponse {
		return store.StoredResponse{Status: 201, Body: []byte(response)}
	})
}

// creations are all methods that store a response. Each creates a new resource every
// time, so that a repetition shows in the count instead of as a taken name.
func creations(t testing.TB, tn Tenant) []creation {
	t.Helper()
	agent := newAgent(t, tn, "agent")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	if _, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: "g", Trail: "t", Seq: 1, Hash: "h", PublicKey: "first"}); err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	name := func() string { return fmt.Sprint("new ", n.Add(1)) }
	keys := 0
	return []creation{
		{"CreateTeam", func(r store.IdempotentRequest) error {
			return second(tn.CreateTeam(storing[store.Team](r, "CreateTeam"), store.TeamCreate{Name: name()}))
		}, func() int { return total(tn.ListTeams(ctx, store.Page{})) }},
		{"AddMember", func(r store.IdempotentRequest) error {
			return second(tn.AddMember(storing[store.Member](r, "AddMember"), team.ID, store.MemberAdd{UserID: name()}))
		}, func() int { return len(must(tn.ListMembers(ctx, team.ID))(t)) }},
		{"CreateAgent", func(r store.IdempotentRequest) error {
			return second(tn.CreateAgent(storing[store.Agent](r, "CreateAgent"), store.AgentCreate{Name: name()}))
		}, func() int { return total(tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})) }},
		{"CreateBudget", func(r store.IdempotentRequest) error {
			return second(tn.CreateBudget(storing[store.Budget](r, "CreateBudget"), store.BudgetCreate{Name: name(), Payer: store.Payer{AgentID: agent.ID}}))
		}, func() int { return len(must(tn.ListBudgets(ctx))(t)) }},
		{"CreateSLA", func(r store.IdempotentRequest) error {
			return second(tn.CreateSLA(storing[store.SLATarget](r, "CreateSLA"), store.SLACreate{Name: name(), AgentID: agent.ID, EvaluationPeriod: "1h"}))
		}, func() int { return len(must(tn.ListSLAs(ctx))(t)) }},
		{"CreatePolicies", func(r store.IdempotentRequest) error {
			return second(tn.CreatePolicies(storing[[]store.Policy](r, "CreatePolicies"), store.PolicyCreate{Name: name()}))
		}, func() int { return total(tn.ListPolicies(ctx, store.PolicyFilter{}, store.Page{})) }},
		{"CreateKey", func(r store.IdempotentRequest) error {
			keys++
			return second(tn.CreateKey(storing[store.Key](r, "CreateKey"), store.KeyCreate{Name: "k", Scope: store.ScopeIngest,
				Digest: store.DigestKey(fmt.Sprint(tn.ID(), keys)), CreatedBy: store.DefaultAdminID}))
		}, func() int { return total(tn.ListKeys(ctx, store.KeyFilter{}, store.Page{})) }},
		{"AcceptAuditKey", func(r store.IdempotentRequest) error {
			return second(tn.AcceptAuditKey(storing[store.AuditKey](r, "AcceptAuditKey"), "g", name()))
		}, func() int { return 0 }},
	}
}

// testStoredWithChange: a change stores its response, finishes its request and wakes
// the waiting duplicates. Without a begun request nothing is changed.
func testStoredWithChange(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	for _, c := range creations(t, tn) {
		r := store.IdempotentRequest{KeyID: "k", Route: "POST /" + c.name, Token: "tok", Body: [32]byte{1}}
		before := c.made()
		if err := c.make(r); err == nil || store.KindOf(err) != store.Internal || c.made() != before {
			t.Errorf("%s for a request that was not begun: %v", c.name, err)
		}
		if got := must(tn.BeginAttempt(ctx, r))(t); got != nil {
			t.Fatalf("%s: a response before the request: %+v", c.name, got)
		}
		other := r
		other.Body = [32]byte{2}
		if err := c.make(other); err == nil || c.made() != before {
			t.Errorf("%s for a request with another body: %v", c.name, err)
		}
		waiting := make(chan *store.StoredResponse, 1)
		go func() {
			got, err := tn.BeginAttempt(ctx, r)
			if err != nil {
				t.Error(err)
			}
			waiting <- got
		}()
		if err := c.make(r); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i, got := range []*store.StoredResponse{<-waiting, must(tn.BeginAttempt(ctx, r))(t)} {
			if got == nil || got.Status != 201 || string(got.Body) != c.name {
				t.Errorf("%s: retry %d got %+v", c.name, i, got)
			}
		}
		if _, err := tn.BeginAttempt(ctx, other); store.KindOf(err) != store.Conflict {
			t.Errorf("%s: the response to another body: %v", c.name, err)
		}
		if err := tn.FinishAttempt(ctx, r, store.StoredResponse{}); err == nil {
			t.Errorf("%s: the request was finished a second time", c.name)
		}
		if err := c.make(r); err == nil || c.name != "AcceptAuditKey" && c.made() != before+1 {
			t.Errorf("%s for a request that has finished: %v, %d made", c.name, err, c.made()-before)
		}
	}

	// A rejected change leaves the request in flight, so that its error can be
	// stored as the response.
	r := store.IdempotentRequest{KeyID: "k", Route: "POST /taken", Token: "tok"}
	must(tn.BeginAttempt(ctx, r))(t)
	_, err := tn.CreateTeam(storing[store.Team](r, "made"), store.TeamCreate{Name: "team"})
	wantKind(t, err, store.Conflict, "name")
	// A write with a result of another type is made, and stores no response.
	must(tn.CreateAgent(storing[store.Team](r, "made"), store.AgentCreate{Name: "another"}))(t)
	if err := tn.FinishAttempt(ctx, r, store.StoredResponse{Status: 400, Body: []byte("taken")}); err != nil {
		t.Fatal(err)
	}
	if got := must(tn.BeginAttempt(ctx, r))(t); got == nil || got.Status != 400 || string(got.Body) != "taken" {
		t.Errorf("the response to a refused change: %+v", got)
	}
}

// testFaultBetweenChangeAndResponse makes all writes after each commit fail, as if
// the process ended there: the change and its response are both stored, or neither
// is.
func testFaultBetweenChangeAndResponse(t testing.TB, o Opened) {
	if o.Fail == nil {
		return
	}
	tn := NewTenant(t, o, "t")
	for _, c := range creations(t, tn) {
		for commits := range int64(3) {
			r := store.IdempotentRequest{KeyID: "k", Route: "POST /" + c.name, Token: fmt.Sprint("after ", commits)}
			before := c.made()
			must(tn.BeginAttempt(ctx, r))(t)
			var n atomic.Int64
			o.Fail(func() error {
				if n.Add(1) > commits {
					return errFault
				}
				return nil
			})
			err := c.make(r)
			if commits == 0 && !errors.Is(err, errFault) || commits > 0 && err != nil {
				t.Errorf("%s after %d commits: %v", c.name, commits, err)
			}
			o.Fail(nil)
			// Requests in flight end with the process.
			if err := tn.AbandonAttempt(ctx, r); err != nil {
				t.Error(err)
			}
			changed, response := c.made() != before, must(tn.BeginAttempt(ctx, r))(t)
			if c.name == "AcceptAuditKey" {
				changed = commits > 0
			}
			if changed != (response != nil) || changed != (commits > 0) {
				t.Errorf("%s after %d commits: changed %v, response %+v", c.name, commits, changed, response)
			}
			if response != nil {
				continue
			}
			if err := c.make(r); err != nil { // the retry of the client
				t.Errorf("%s by the retry: %v", c.name, err)
			}
			if got := must(tn.BeginAttempt(ctx, r))(t); got == nil || c.name != "AcceptAuditKey" && c.made() != before+1 {
				t.Errorf("%s by the retry: response %+v, %d made", c.name, got, c.made()-before)
			}
		}
	}
}
