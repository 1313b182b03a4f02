package translate

import "testing"

func TestBoundsHoldInAllAndForEach(t *testing.T) {
	q := NewQuota[string](5, 3)
	for _, step := range []struct {
		key  string
		n    int
		want bool
	}{
		{"a", 2, true},
		{"a", 2, false}, // exceeds each
		{"a", 1, true},
		{"b", 3, false}, // exceeds all, and is not counted
		{"b", 2, true},
		{"c", 1, false},
	} {
		if got := q.Take(step.key, step.n); got != step.want {
			t.Fatalf("Take(%s, %d) = %v, want %v", step.key, step.n, got, step.want)
		}
	}
	q.Give("a", 3)
	if q.Held("a") != 0 || q.Held("b") != 2 || len(q.of) != 1 {
		t.Fatalf("after Give: %v", q.of)
	}
	if !q.Take("c", 3) {
		t.Fatal("what was given back cannot be taken")
	}
}

// Taking nothing adds no key.
func TestNothingIsTaken(t *testing.T) {
	q := NewQuota[string](5, 3)
	if !q.Take("a", 0) || len(q.of) != 0 {
		t.Errorf("after Take of nothing: %v", q.of)
	}
}
