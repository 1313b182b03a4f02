package policy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
)

// Cached decisions are the decisions of the rules, for all requests and concurrent
// callers.
func TestDecisionsAreThoseOfTheRules(t *testing.T) {
	text := func(s string) *string { return &s }
	deny := "deny"
	rules, err := Compile(Config{DefaultAction: &deny, Rules: []RuleConfig{
		{ID: "prefix", Action: "allow", When: &When{ToolPrefix: text("get_1")}},
		{ID: "regex", Action: "deny", When: &When{ToolRegex: text("get_[0-9]*7")}},
		{ID: "method", Action: "deny", When: &When{Method: "resources/read"}},
		{ID: "back", Action: "deny", When: &When{Direction: text("server_to_client"), ResultType: "input_required"}},
		{ID: "claims", Action: "allow", When: &When{ToolPrefix: text("get_"), Claims: &ClaimsConfig{SubjectIn: []string{"alice"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := NewMemory(rules)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 20_000 {
				q := Request{Direction: Direction(r.IntN(2)), Method: "tools/call"}
				switch r.IntN(4) {
				case 0:
					q.Method = []string{"resources/read", "tools/list", ""}[r.IntN(3)]
				case 1:
					q.ResultType = "input_required"
				default:
					q.Tool, q.HasTool = fmt.Sprintf("get_%d", r.IntN(10_000)), true
				}
				if r.IntN(5) == 0 {
					q.Claims = &Claims{Subject: []string{"alice", "bob"}[r.IntN(2)]}
				}
				if got, want := d.Decide(&q), rules.Decide(&q); got != want {
					t.Errorf("%+v: got %+v, want %+v", q, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A request that differs in any field from a cached one has another key, or is not
// cached at all: a field missing from the key would return the decision about another
// request.
func TestEveryFieldOfARequestIsPartOfItsKey(t *testing.T) {
	s := &Set{labels: 1, usesURI: true}
	same, ok := s.keyOf(&Request{})
	if !ok {
		t.Fatal("the zero request is not remembered")
	}
	fields := reflect.TypeFor[Request]()
	for i := range fields.NumField() {
		switch name := fields.Field(i).Name; {
		case !fields.Field(i).IsExported():
			continue // internal state of Decide
		case name == "Body" || name == "Arguments":
			continue // a decision that reads arguments is not cached: TestMemoryDoesNotMixArguments
		}
		q := Request{}
		field := reflect.ValueOf(&q).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("other")
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int, reflect.Uint8, reflect.Uint16, reflect.Int8:
			if field.CanInt() {
				field.SetInt(1)
			} else {
				field.SetUint(1)
			}
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			t.Fatalf("Request.%s is a %s: extend this test", fields.Field(i).Name, field.Kind())
		}
		key, ok := s.keyOf(&q)
		if ok && key == same {
			t.Errorf("two requests that differ in %s have the same key", fields.Field(i).Name)
		}
		if key.clone() != key {
			t.Errorf("the copy of a key with %s is another key", fields.Field(i).Name)
		}
	}
	// Labels and URIs that no rule looks at do not split the cache.
	s = &Set{labels: 2}
	if key, ok := s.keyOf(&Request{Labels: 1, URI: "file:///x"}); !ok || key != same {
		t.Errorf("labels and URIs that no rule looks at are part of the key %+v", key)
	}
}
