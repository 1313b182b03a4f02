package detect

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"sync"
)

// VectorSize is how many numbers stand for a word.
const VectorSize = 32

// vectorBytes is what the file of word vectors has for each word: four bytes of
// its hash, and its vector. The hashes, in order, come before all vectors.
const vectorBytes = 4 + VectorSize

// The word vectors, made by gateway/detect/fit/vectors: English words that are
// used alike have vectors that are alike.
//
//go:embed vectors.bin
var vectorFile []byte

// vectorHashes returns the hashes of the words that have vectors, in order.
var vectorHashes = sync.OnceValue(func() []uint32 {
	n := len(vectorFile) / vectorBytes
	hashes := make([]uint32, n)
	for i := range hashes {
		hashes[i] = binary.LittleEndian.Uint32(vectorFile[4*i:])
	}
	return hashes
})

// vectorOf returns the vector of the word with a hash, nil when it has none.
func vectorOf(h uint32) []byte {
	hashes := vectorHashes()
	i, known := slices.BinarySearch(hashes, h)
	if !known {
		return nil
	}
	at := 4*len(hashes) + i*VectorSize
	return vectorFile[at : at+VectorSize]
}

// WordHash is the hash that the vector of a word of small letters is found by.
func WordHash(w string) uint32 { return hashBytes(w) }
