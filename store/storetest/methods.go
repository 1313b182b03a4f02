package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"svc/store"
)

var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
)

// sample returns a valid argument, so that a method rejects the call for another
// reason than the argument.
func sample(typ reflect.Type) reflect.Value {
	for _, v := range []any{
		"x", 1, time.Minute, time.Unix(1_800_000_000, 0),
		store.TenantCreate{Name: "x"},
		store.KeyCreate{Name: "x", Digest: store.DigestKey("x"), CreatedBy: store.DefaultAdminID},
		store.UserEvent{Type: store.UserCreated, UserID: "u", CreatedAt: time.Unix(1_700_000_000, 0)},
		store.MemberAdd{UserID: "u"},
		store.AuditHead{Gateway: "g", Trail: "t", Seq: 1, Hash: "h"},
		store.GatewayReport{Gateway: "g", Instance: "i", Seq: 1, Report: []byte(`{}`)},
		store.ApprovalDecision{Decision: store.DecisionGrant},
		store.SLAViolation{SLAID: "x", Type: "latency"},
		store.IdempotentRequest{KeyID: "k", Route: "r", Token: "t"},
		store.Batch{Traces: []store.Trace{{ID: "x", AgentName: "a", Status: store.TraceSuccess}}},
		[]store.NamedAgent{{Name: "a"}},
		[]store.SpendQuery{{Payer: store.Payer{AgentID: "x"}}},
		[]string{"x"},
		store.ExpireBounds{Traces: time.Unix(1_700_000_000, 0)},
		store.TeamCreate{Name: "x"}, store.AgentCreate{Name: "x"}, []store.PolicyCreate{{Name: "x"}},
	} {
		if reflect.TypeOf(v) == typ {
			return reflect.ValueOf(v)
		}
	}
	return reflect.Zero(typ)
}

// call calls a method with sample arguments and returns its error; called is false
// for a method without a context, which can neither wait nor fail.
func call(c context.Context, on reflect.Value, m reflect.Method) (err error, called bool) {
	f := on.MethodByName(m.Name)
	args := make([]reflect.Value, f.Type().NumIn())
	for i := range args {
		if in := f.Type().In(i); in == contextType {
			args[i], called = reflect.ValueOf(c), true
		} else {
			args[i] = sample(in)
		}
	}
	if !called {
		return nil, false
	}
	var out []reflect.Value
	if f.Type().IsVariadic() {
		out = f.CallSlice(args)
	} else {
		out = f.Call(args)
	}
	for _, v := range out {
		if v.Type() == errorType && !v.IsNil() {
			err = v.Interface().(error)
		}
	}
	return err, true
}

// eachMethod calls every method of the interfaces that takes a context.
func eachMethod(t testing.TB, o Opened, tn Tenant, c context.Context, check func(of, name string, err error)) {
	t.Helper()
	n := 0
	for _, half := range []struct {
		of reflect.Type
		on any
	}{
		{reflect.TypeFor[store.Records](), o.Records}, {reflect.TypeFor[store.Traces](), o.Traces},
		{reflect.TypeFor[store.Tenant](), tn.Tenant}, {reflect.TypeFor[store.TenantTraces](), tn.TenantTraces},
	} {
		for i := range half.of.NumMethod() {
			m := half.of.Method(i)
			if err, called := call(c, reflect.ValueOf(half.on), m); called {
				n++
				check(half.of.Name(), m.Name, err)
			}
		}
	}
	if n < 60 {
		t.Errorf("%d methods were called", n)
	}
}

// ownError names methods that first check whether the request was begun, or that only
// remove state.
var ownError = map[string]bool{"FinishAttempt": true, "AbandonAttempt": true}

// testEveryMethod calls every method with an ended context, for a tenant that does
// not exist, and on a closed store. None may panic, change anything, or return nil.
func testEveryMethod(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	eachMethod(t, o, tn, ended, func(of, name string, err error) {
		if !errors.Is(err, context.Canceled) && !ownError[name] {
			t.Errorf("%s.%s with an ended context: %v", of, name, err)
		}
	})
	if n := len(must(o.Records.ListTenants(ctx))(t)); n != 1 {
		t.Errorf("%d tenants after calls whose context had ended", n)
	}
	for what, n := range map[string]int{
		"teams": total(tn.ListTeams(ctx, store.Page{})), "agents": total(tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})),
		"traces": total(tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})), "events": total(tn.ListUserEvents(ctx, store.Page{})),
	} {
		if n != 0 {
			t.Errorf("%d %s after calls whose context had ended", n, what)
		}
	}

	nobody := Tenant{o.Records.Tenant("nobody"), o.Traces.TracesOf("nobody")}
	eachMethod(t, o, nobody, ctx, func(of, name string, err error) {
		empty := of == "TenantTraces" && name != "Ingest" && err == nil // may return nil
		if (of == "Tenant" || of == "TenantTraces") && !ownError[name] && !empty && store.KindOf(err) != store.NotFound {
			t.Errorf("%s.%s of a tenant that does not exist: %v", of, name, err)
		}
	})
	nobody.RecordKeyUse("x", time.Unix(1, 0))

	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	eachMethod(t, o, tn, ctx, func(of, name string, err error) {
		if !errors.Is(err, store.ErrClosed) && !ownError[name] {
			t.Errorf("%s.%s on a closed store: %v", of, name, err)
		}
	})
	tn.RecordKeyUse("x", time.Unix(1, 0))
	if id := tn.ID(); id == "" || fmt.Sprint(o.Records.Tenant(id).ID()) != id {
		t.Errorf("tenant id %q", id)
	}
}
