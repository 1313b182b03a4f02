package main

import "math"

// example is a window with its label and how much it counts.
type example struct {
	x      vector
	label  float64
	weight float64
	key    [4]int // sample, view and window
}

// minimise fits the weights to examples: logistic loss and an L2 penalty, by
// limited-memory BFGS from where the weights are.
func (l *linear) minimise(examples []example, s settings) {
	n := len(l.weights)
	w := append(append(make([]float64, 0, n+1), l.weights...), l.bias)
	total := 0.0
	for _, e := range examples {
		total += e.weight
	}
	value := func(w, gradient []float64) float64 {
		clear(gradient)
		loss := 0.0
		for _, e := range examples {
			z := w[n]
			for k, id := range e.x.ids {
				z += float64(w[id] * float64(e.x.values[k]))
			}
			y := 2*e.label - 1
			m := y * z
			var p float64
			if m > 0 {
				t := math.Exp(-m)
				loss += float64(e.weight * math.Log1p(t))
				p = t / (1 + t)
			} else {
				t := math.Exp(m)
				loss += float64(e.weight * (math.Log1p(t) - m))
				p = 1 / (1 + t)
			}
			g := -float64(e.weight*p) * y / total
			for k, id := range e.x.ids {
				gradient[id] += float64(g * float64(e.x.values[k]))
			}
			gradient[n] += g
		}
		loss /= total
		for i, x := range w[:n] {
			loss += float64(s.lambda / 2 * float64(x*x))
			gradient[i] += float64(s.lambda * x)
		}
		return loss
	}
	lbfgs(w, value, s.steps)
	copy(l.weights, w)
	l.bias = w[n]
}

// memory is how many steps the minimiser remembers.
const memory = 8

// lbfgs walks w to a minimum of value, which also gives the gradient.
func lbfgs(w []float64, value func(w, gradient []float64) float64, steps int) {
	n := len(w)
	gradient, next, tried, direction := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	var moves, turns [][]float64
	f := value(w, gradient)
	for range steps {
		copy(direction, gradient)
		alphas := make([]float64, len(moves))
		for k := len(moves) - 1; k >= 0; k-- {
			alphas[k] = dot(moves[k], direction) / dot(moves[k], turns[k])
			axpy(direction, -alphas[k], turns[k])
		}
		if k := len(moves) - 1; k >= 0 {
			scale := dot(moves[k], turns[k]) / dot(turns[k], turns[k])
			for i := range direction {
				direction[i] *= scale
			}
		}
		for k := range moves {
			beta := dot(turns[k], direction) / dot(moves[k], turns[k])
			axpy(direction, alphas[k]-beta, moves[k])
		}
		slope := -dot(direction, gradient)
		if slope > -1e-12 {
			return
		}
		step := 1.0
		if len(moves) == 0 {
			step = 1 / math.Sqrt(dot(gradient, gradient))
		}
		moved := false
		for range 20 {
			for i := range w {
				tried[i] = w[i] - float64(step*direction[i])
			}
			if g := value(tried, next); g <= f+1e-4*step*slope {
				moved = true
				move, turn := make([]float64, n), make([]float64, n)
				for i := range w {
					move[i], turn[i] = tried[i]-w[i], next[i]-gradient[i]
				}
				if dot(move, turn) > 1e-14 {
					moves, turns = append(moves, move), append(turns, turn)
					if len(moves) > memory {
						moves, turns = moves[1:], turns[1:]
					}
				}
				f = g
				break
			}
			step /= 2
		}
		if !moved {
			return
		}
		copy(w, tried)
		copy(gradient, next)
	}
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

// axpy adds f times b to a.
func axpy(a []float64, f float64, b []float64) {
	for i := range a {
		a[i] += float64(f * b[i])
	}
}
