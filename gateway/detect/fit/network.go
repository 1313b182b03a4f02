package main

import (
	"math"
	"math/rand/v2"

	"svc/gateway/detect"
)

// stretch is a close reading to learn from.
type stretch struct {
	tokens []detect.CloseToken
	label  float32
	weight float32 // 1 on average
}

// lesson is how a network is taught.
type lesson struct {
	epochs int
	batch  int
	rate   float64 // of Adam, falling to nothing
	decay  float64 // of the weights, per step at full rate
	drop   float32 // share of the pooled answers that is left out
	blank  float32 // share of vectors and of marks that is left out
	smooth float32 // how far labels are from 0 and 1
}

var usualLesson = lesson{epochs: 20, batch: 32, rate: 4e-3, decay: 0.1, drop: 0.3, blank: 0.15, smooth: 0.02}

// teach makes a network from stretches; the same seed gives the same one.
func teach(all []stretch, how lesson, seed uint64) *detect.Network {
	rnd := rand.New(rand.NewPCG(seed, 0x5EED))
	n, g, m, v := detect.NewNetwork(), detect.NewNetwork(), detect.NewNetwork(), detect.NewNetwork()
	scatter := func(w []float32, size float64) {
		for i := range w {
			w[i] = float32(rnd.NormFloat64() * size)
		}
	}
	scatter(n.Vectors, 0.08)
	scatter(n.Marks, 0.08)
	scatter(n.Hidden, math.Sqrt(2.0/detect.Filters))
	scatter(n.Out, math.Sqrt(1.0/detect.Units))
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	steps, step := how.epochs*((len(all)+how.batch-1)/how.batch), 0
	var l learner
	for range how.epochs {
		rnd.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		for at := 0; at < len(order); at += how.batch {
			some := order[at:min(at+how.batch, len(order))]
			for _, i := range some {
				l.learn(n, g, &all[i], how, rnd, 1/float32(len(some)))
			}
			step++
			rate := how.rate * (1 - float64(step-1)/float64(steps))
			rate *= math.Min(1, float64(step)/100)
			adam(n, g, m, v, rate, how, step)
		}
	}
	return n
}

// adam moves the numbers of n against the gradient g, which it clears.
func adam(n, g, m, v *detect.Network, rate float64, how lesson, step int) {
	const b1, b2 = 0.9, 0.999
	c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
	ps, gs, ms, vs := n.Parts(), g.Parts(), m.Parts(), v.Parts()
	for k := range ps {
		shrink := float32(1 - rate*how.decay)
		if len(ps[k]) <= detect.Filters { // biases, and what is as small
			shrink = 1
		}
		p, gr, mo, ve := ps[k], gs[k], ms[k], vs[k]
		r, e := float32(rate/c1), float32(1/math.Sqrt(c2))
		for i := range p {
			x := gr[i]
			mo[i] = b1*mo[i] + (1-b1)*x
			ve[i] = b2*ve[i] + (1-b2)*x*x
			p[i] = p[i]*shrink - r*mo[i]/(float32(math.Sqrt(float64(ve[i])))*e+1e-8)
			gr[i] = 0
		}
	}
}

// learner holds what is computed for one stretch.
type learner struct {
	answers [detect.CloseMost * detect.Filters]float32
	tokens  []detect.CloseToken
}

// learn adds the gradient of one stretch to g.
func (l *learner) learn(n, g *detect.Network, s *stretch, how lesson, rnd *rand.Rand, share float32) {
	l.tokens = append(l.tokens[:0], s.tokens...)
	for i := range l.tokens {
		t := &l.tokens[i]
		if rnd.Float32() < how.blank {
			t.Vector = nil
		}
		kept := uint8(0)
		for _, m := range t.Marks[:t.Count] {
			if rnd.Float32() >= how.blank {
				t.Marks[kept] = m
				kept++
			}
		}
		t.Count = kept
	}
	n.Convolve(l.tokens, l.answers[:])
	pooled, at := detect.Pool(l.answers[:], len(l.tokens))
	keep := 1 / (1 - how.drop)
	for f := range pooled {
		if rnd.Float32() < how.drop {
			pooled[f], at[f] = 0, -1
		} else {
			pooled[f] *= keep
		}
	}
	odds, units := n.Judge(&pooled)
	p := float32(1 / (1 + math.Exp(-float64(odds))))
	d := (p - (s.label*(1-2*how.smooth) + how.smooth)) * s.weight * share
	g.OutBias[0] += d
	var du [detect.Units]float32
	for u, x := range units {
		if x > 0 {
			g.Out[u] += d * x
			du[u] = d * n.Out[u]
			g.HiddenBias[u] += du[u]
		}
	}
	for f, x := range pooled {
		if at[f] < 0 {
			continue
		}
		w, gw := (*[detect.Units]float32)(n.Hidden[f*detect.Units:]), (*[detect.Units]float32)(g.Hidden[f*detect.Units:])
		df := float32(0)
		for u := range du {
			df += du[u] * w[u]
			gw[u] += du[u] * x
		}
		if df == 0 {
			continue
		}
		df *= keep
		g.Bias[f] += df
		for o := range 3 {
			at := int(at[f]) + o - 1
			if at < 0 || at >= len(l.tokens) {
				continue
			}
			t := &l.tokens[at]
			for i, b := range t.Vector {
				g.Vectors[(o*detect.VectorSize+i)*detect.Filters+f] += df * float32(int8(b)) / 32
			}
			for _, m := range t.Marks[:t.Count] {
				g.Marks[(o*detect.CloseMarks+int(m))*detect.Filters+f] += df
			}
		}
	}
}

// judge is what a network says of a stretch.
func judge(n *detect.Network, tokens []detect.CloseToken) float64 {
	var answers [detect.CloseMost * detect.Filters]float32
	n.Convolve(tokens, answers[:])
	pooled, _ := detect.Pool(answers[:], len(tokens))
	odds, _ := n.Judge(&pooled)
	return float64(odds)
}

// stretches returns the close readings of the windows that a linear model finds
// most suspicious in samples, with what they weigh.
func stretches(l *linear, samples []*sample) []stretch {
	all := make([]stretch, 0, len(samples))
	weights, total := balance(samples), 0.0
	for _, w := range weights {
		total += w
	}
	for i, s := range samples {
		if len(s.in.Views) == 0 {
			continue
		}
		_, view, from, to := l.best(s.in)
		weight := float32(weights[i] / total * float64(len(samples)))
		all = append(all, stretch{s.in.Views[view].ReadClosely(from, to), float32(s.Label), weight})
	}
	return all
}
