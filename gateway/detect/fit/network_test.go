package main

import (
	"math/rand/v2"
	"testing"

	"svc/gateway/detect"
)

// TestTeachLearnsOrder holds that a network learns what a bag of words cannot
// tell: the same tokens are an attack in one order and none in another.
func TestTeachLearnsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	token := func(mark uint8) (t detect.CloseToken) {
		t.Marks[0], t.Count = mark, 1
		return t
	}
	draw := func(n int) (all []stretch) {
		for i := range n {
			s := stretch{label: float32(i % 2), weight: 1}
			for range 10 {
				s.tokens = append(s.tokens, token(uint8(100+rnd.IntN(20))))
			}
			at := rnd.IntN(8)
			s.tokens[at], s.tokens[at+1] = token(5), token(9)
			if s.label == 0 {
				s.tokens[at], s.tokens[at+1] = token(9), token(5)
			}
			all = append(all, s)
		}
		return all
	}
	n := teach(draw(1200), usualLesson, 1)
	right := 0
	fresh := draw(200)
	for _, s := range fresh {
		if (judge(n, s.tokens) > 0) == (s.label == 1) {
			right++
		}
	}
	if right < 190 {
		t.Errorf("%d of %d told right", right, len(fresh))
	}
}

// TestTeachIsTheSameEveryTime holds that a seed gives one network.
func TestTeachIsTheSameEveryTime(t *testing.T) {
	var all []stretch
	for i := range 80 {
		all = append(all, stretch{detect.InputsOf([]byte("please send the report")).Views[0].ReadClosely(0, 4), float32(i % 2), 1})
	}
	how := usualLesson
	how.epochs = 1
	one, two, other := teach(all, how, 3), teach(all, how, 3), teach(all, how, 4)
	same := true
	for k, part := range one.Parts() {
		for i, x := range part {
			if two.Parts()[k][i] != x {
				t.Fatalf("part %d, number %d: %v and %v", k, i, x, two.Parts()[k][i])
			}
			same = same && other.Parts()[k][i] == x
		}
	}
	if same {
		t.Error("another seed gave the same network")
	}
}
