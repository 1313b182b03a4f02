package detect

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"
)

// The table of the model, made by gateway/detect/fit. It holds
//
//	8 bytes   modelMagic
//	32 bytes  SHA-256 of the glossary and the texts it was fitted to
//	10 × 4    Calibration, IEEE 754, little endian
//	2 × 2^17  slots: a tag in the low byte, a signed weight in the high one
//	networks  each part of each as a step of 4 bytes, IEEE 754, and signed
//	          multiples of it, 2 bytes each
const (
	modelMagic = "svcinj2\n"
	slotBits   = 17
	slots      = 1 << slotBits
	modelHead  = len(modelMagic) + sha256.Size + 10*4
	modelSize  = modelHead + 2*slots + Networks*networkSize
)

// Networks is how many networks read closely; what they say is averaged.
const Networks = 5

// Calibration says how the sum of a window and the rules become a score.
type Calibration struct {
	Step      float32 // of the weights of the table
	Bias      float32 // of the words
	Words     float32 // share of the words in the log odds
	Close     float32 // share of the close reading
	Gate      float32 // sum of the words, with the bias, from which a text is read closely
	Rules     float32 // share of the rules, per nat of what they leave open
	Aside     float32 // share of what is quoted or reported, likewise
	Disguises float32 // share of the disguises, likewise
	Offset    float32 // of the log odds
	Floor     float32 // score below which nothing is reported
}

// table is the model in memory.
type table struct {
	Calibration
	corpus [sha256.Size]byte
	slots  [slots]uint16
	close  [Networks]*Network
}

//go:embed model.bin
var modelTable []byte

// theTable returns the table in the binary, which is taken apart when the first
// text is scored: most processes score none.
var theTable = sync.OnceValue(func() *table {
	m, err := parseModel(modelTable)
	if err != nil {
		panic(err) // the file beside this one is broken; TestModelTable says so first
	}
	return m
})

// parseModel reads a table.
func parseModel(b []byte) (*table, error) {
	if len(b) != modelSize || string(b[:len(modelMagic)]) != modelMagic {
		return nil, fmt.Errorf("detect: model table of %d bytes, want %d that begin with %q: run go run ./gateway/detect/fit", len(b), modelSize, modelMagic)
	}
	m := new(table)
	b = b[len(modelMagic):]
	b = b[copy(m.corpus[:], b):]
	for _, f := range m.Calibration.fields() {
		*f = math.Float32frombits(binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	for i := range m.slots {
		m.slots[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	b = b[2*slots:]
	for i := range m.close {
		m.close[i] = NewNetwork()
		for _, part := range m.close[i].Parts() {
			step := math.Float32frombits(binary.LittleEndian.Uint32(b))
			b = b[4:]
			for k := range part {
				part[k] = step * float32(int16(binary.LittleEndian.Uint16(b[2*k:])))
			}
			b = b[2*len(part):]
		}
	}
	return m, nil
}

func (c *Calibration) fields() []*float32 {
	return []*float32{&c.Step, &c.Bias, &c.Words, &c.Close, &c.Gate, &c.Rules, &c.Aside, &c.Disguises, &c.Offset, &c.Floor}
}

// ModelCorpus returns the SHA-256 of the glossary and the texts that the table in the
// binary was fitted to.
func ModelCorpus() [sha256.Size]byte { return theTable().corpus }

// weight is the weight of a term in steps, 0 for those that are not in the table.
func (m *table) weight(h uint32) int32 {
	s := m.slots[h>>(32-slotBits)]
	if byte(s) != tag(h) {
		return 0
	}
	return int32(int8(s >> 8))
}

// tag tells terms of one slot apart.
func tag(h uint32) byte { return byte(h) }

// Weighted is a term and its weight in steps.
type Weighted struct {
	Hash   uint32
	Weight int8
}

// EncodeModel makes a table. Of terms that share a slot the first one stays.
// corpus is the SHA-256 of the texts that the weights were fitted to.
func EncodeModel(corpus [sha256.Size]byte, c Calibration, terms []Weighted, networks [Networks]*Network) []byte {
	b := append(make([]byte, 0, modelSize), modelMagic...)
	b = append(b, corpus[:]...)
	for _, f := range c.fields() {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(*f))
	}
	room := b[len(b) : modelHead+2*slots]
	for _, t := range terms {
		at := 2 * (t.Hash >> (32 - slotBits))
		if t.Weight != 0 && binary.LittleEndian.Uint16(room[at:]) == 0 {
			binary.LittleEndian.PutUint16(room[at:], uint16(uint8(t.Weight))<<8|uint16(tag(t.Hash)))
		}
	}
	b = b[:modelHead+2*slots]
	for _, n := range networks {
		for _, part := range n.Parts() {
			most := float32(0)
			for _, x := range part {
				most = max(most, x, -x)
			}
			step := most / math.MaxInt16
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(step))
			for _, x := range part {
				q := 0.0
				if step > 0 {
					q = math.Round(float64(x) / float64(step))
				}
				b = binary.LittleEndian.AppendUint16(b, uint16(int16(max(-math.MaxInt16, min(math.MaxInt16, q)))))
			}
		}
	}
	return b
}

// lowest returns the number of the lowest meaning of a set.
func (c concept) lowest() uint32 { return uint32(bits.TrailingZeros64(uint64(c))) }
