package storetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/memory"
)

// recorder is a testing.TB that records failures instead of reporting them.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

func (r *recorder) Helper()                        {}
func (r *recorder) Log(...any)                     {}
func (r *recorder) Logf(string, ...any)            {}
func (r *recorder) Error(args ...any)              { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, a ...any) { r.note(fmt.Sprintf(format, a...)) }
func (r *recorder) Fail()                          { r.note("failed") }
func (r *recorder) FailNow()                       { r.note("failed"); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)              { r.note(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(format string, a ...any) {
	r.note(fmt.Sprintf(format, a...))
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// openModel opens the model with all options that a group can need; stop closes all
// its handles.
func openModel() (o Opened, stop func()) {
	c, f := NewClockAt(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), time.Microsecond), &Faults{}
	var mu sync.Mutex
	s := memory.Open(memory.Options{Now: c.Now, MaxAutoAgents: MaxAutoAgents, Fault: f.Ask})
	handles := []*memory.Store{s}
	o = Opened{Records: s, Traces: s, Clock: c, MaxAutoAgents: MaxAutoAgents,
		Another: func(testing.TB) (store.Records, store.Traces) {
			mu.Lock()
			defer mu.Unlock()
			h := s.Another()
			handles = append(handles, h)
			return h, h
		},
		Fail: f.Set}
	return o, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, h := range handles {
			h.Close()
		}
	}
}

// runGroup runs a group and returns its failure. A group that hangs has failed: its
// store is closed.
func runGroup(t *testing.T, name string, o Opened, stop func()) []string {
	t.Helper()
	for _, g := range groups {
		if g.name != name {
			continue
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if p := recover(); p != nil { // as a panic fails a test
					r.note(fmt.Sprint("panic: ", p))
				}
			}()
			g.run(r, o)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			r.note("it hangs")
			stop()
			<-done
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.failures
	}
	t.Fatalf("there is no group %s", name)
	return nil
}

// TestWrongBackends runs the suite against stores with one defect each: the group
// that covers a defect must fail with it, and pass without it.
func TestWrongBackends(t *testing.T) {
	for _, w := range wrongBackends {
		t.Run(w.group+"/"+strings.ReplaceAll(w.defect, " ", "_"), func(t *testing.T) {
			t.Parallel()
			right, stop := openModel()
			if failures := runGroup(t, w.group, right, stop); len(failures) > 0 {
				t.Fatalf("the model fails without a defect: %v", failures)
			}
			wrong, stop := openModel()
			w.spoil(&wrong)
			failures := runGroup(t, w.group, wrong, stop)
			if len(failures) == 0 {
				t.Errorf("%s: nothing noticed", w.defect)
			}
		})
	}
}

// TestEveryMethodIsUsed: the suite must use every method of the interfaces.
func TestEveryMethodIsUsed(t *testing.T) {
	used := map[string]bool{}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
					used[sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	for _, of := range []reflect.Type{reflect.TypeFor[store.Records](), reflect.TypeFor[store.Traces](),
		reflect.TypeFor[store.Tenant](), reflect.TypeFor[store.TenantTraces](), reflect.TypeFor[store.TraceStream]()} {
		for i := range of.NumMethod() {
			if name := of.Method(i).Name; !used[name] {
				t.Errorf("no test calls %s.%s", of.Name(), name)
			}
		}
	}
}
