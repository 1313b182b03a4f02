package detect

// Network is a small network that judges a close reading: filters over three
// tokens in a row, of each the strongest answer anywhere, and two layers on top.
type Network struct {
	Vectors    []float32 // 3 tokens × VectorSize × Filters
	Marks      []float32 // 3 tokens × closeMarks × Filters
	Bias       []float32 // Filters
	Hidden     []float32 // Filters × Units
	HiddenBias []float32 // Units
	Out        []float32 // Units
	OutBias    []float32 // 1
}

// Sizes of a network.
const (
	Filters    = 128 // a multiple of lanes
	Units      = 24
	CloseMarks = closeMarks
	CloseMost  = maxClose
)

// networkSize is how much a network takes in the table, in bytes.
const networkSize = 7*4 + 2*(3*VectorSize*Filters+3*closeMarks*Filters+Filters+Filters*Units+2*Units+1)

// Parts are all numbers of a network, in the order of the table.
func (n *Network) Parts() [7][]float32 {
	return [...][]float32{n.Vectors, n.Marks, n.Bias, n.Hidden, n.HiddenBias, n.Out, n.OutBias}
}

// Scale of the numbers of a vector.
const vectorScale = 1.0 / 32

// NewNetwork returns a network of zeros.
func NewNetwork() *Network {
	return &Network{
		Vectors: make([]float32, 3*VectorSize*Filters), Marks: make([]float32, 3*closeMarks*Filters), Bias: make([]float32, Filters),
		Hidden: make([]float32, Filters*Units), HiddenBias: make([]float32, Units), Out: make([]float32, Units), OutBias: make([]float32, 1),
	}
}

// Convolve puts what every filter says at every token into out, which has
// Filters numbers for each.
func (n *Network) Convolve(tokens []CloseToken, out []float32) {
	for p := range tokens {
		copy(out[p*Filters:(p+1)*Filters], n.Bias)
	}
	var marks [maxCloseMarks]int32
	var numbers [VectorSize]float32
	for p := range tokens {
		t := &tokens[p]
		for i, m := range t.Marks[:t.Count] {
			marks[i] = int32(m) * Filters
		}
		for i, x := range t.Vector {
			numbers[i] = float32(int8(x)) * vectorScale
		}
		for o := range 3 {
			at := p + 1 - o
			if at < 0 || at >= len(tokens) {
				continue
			}
			for f := 0; f < Filters; f += lanes {
				to := (*[lanes]float32)(out[at*Filters+f:])
				accumulate(to, n.Vectors[o*VectorSize*Filters+f:], vectorRows[:len(t.Vector)], numbers[:len(t.Vector)])
				accumulate(to, n.Marks[o*closeMarks*Filters+f:], marks[:t.Count], ones[:t.Count])
			}
		}
	}
}

// lanes is how many filters are added to at a time.
const lanes = 64

// vectorRows is where the weights of each number of a vector are.
var vectorRows = func() (rows [VectorSize]int32) {
	for i := range rows {
		rows[i] = int32(i) * Filters
	}
	return rows
}()

// ones are what marks are multiplied by.
var ones = func() (all [maxCloseMarks]float32) {
	for i := range all {
		all[i] = 1
	}
	return all
}()

// accumulateEach adds to sums, for each of rows, the lanes numbers of w that begin there,
// times the number of xs beside it.
func accumulateEach(sums *[lanes]float32, w []float32, rows []int32, xs []float32) {
	for i, at := range rows {
		row, x := (*[lanes]float32)(w[at:]), xs[i]
		for f := range sums {
			sums[f] += float32(x * row[f]) // rounded in between, on every processor
		}
	}
}

// Pool returns the strongest answer of every filter, at least 0, and where.
func Pool(answers []float32, tokens int) (best [Filters]float32, at [Filters]int16) {
	for f := range at {
		at[f] = -1
	}
	for p := range tokens {
		row := (*[Filters]float32)(answers[p*Filters:])
		for f, x := range row {
			if x > best[f] {
				best[f], at[f] = x, int16(p)
			}
		}
	}
	return best, at
}

// Judge returns the log odds of pooled answers, and the units on the way.
func (n *Network) Judge(pooled *[Filters]float32) (odds float32, units [Units]float32) {
	copy(units[:], n.HiddenBias)
	for f, x := range pooled {
		if x == 0 {
			continue
		}
		w := (*[Units]float32)(n.Hidden[f*Units:])
		for u := range units {
			units[u] += x * w[u]
		}
	}
	odds = n.OutBias[0]
	for u, x := range units {
		if x > 0 {
			odds += x * n.Out[u]
		} else {
			units[u] = 0
		}
	}
	return odds, units
}
