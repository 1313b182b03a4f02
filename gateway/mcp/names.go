package mcp

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
)

const (
	maxScan       = math.MaxInt32 // offsets are stored in 32 bits
	nameTableSize = 48            // member names stored without allocating
	fewNames      = 32            // member names compared on arrival
)

// nameSeed and nameKey make the hashes of member names unpredictable, so that a
// sender cannot construct collisions. They never change.
var (
	nameSeed = maphash.MakeSeed()
	nameKey  = maphash.Bytes(nameSeed, nil) | 1
)

// hashName returns the hash of a member name. Most names are short: eight bytes
// and the length are mixed at once.
func hashName(name []byte) uint64 {
	if len(name) > 8 {
		return maphash.Bytes(nameSeed, name)
	}
	var w uint64
	if n := len(name); n >= 4 {
		w = uint64(binary.LittleEndian.Uint32(name)) | uint64(binary.LittleEndian.Uint32(name[n-4:]))<<32
	} else if n > 0 {
		w = uint64(name[0]) | uint64(name[n/2])<<8 | uint64(name[n-1])<<16
	}
	high, low := bits.Mul64(w^nameKey, nameKey^uint64(len(name))<<56)
	return high ^ low
}

// nameSet detects duplicate member names in one object. The names of an object
// are on the scanner's stack from base on, each as 32 bits of hash and the
// offset of its text. The first few names are compared with their predecessors
// unless the filter excludes a duplicate; the names of an object with many
// members are sorted once when the object closes. The cost is therefore O(n log
// n) for any input.
type nameSet struct {
	base   int
	filter uint64
}

// addName adds the member name whose text starts at the given offset.
func (s *scanner) addName(set *nameSet, name []byte, at int) {
	if s.soft != noFault {
		return // already refused: names no longer matter
	}
	h := hashName(name)
	bit := uint64(1) << (h & 63)
	tag := h >> 32
	if set.filter&bit != 0 && s.held-set.base < fewNames {
		for _, e := range s.names()[set.base:] {
			if e>>32 == tag && s.sameName(int(uint32(e)), at) {
				s.refuse(faultDuplicate, at)
				break
			}
		}
	}
	set.filter |= bit
	s.push(tag<<32 | uint64(at))
}

// names returns the stack of names.
func (s *scanner) names() []uint64 {
	if s.more != nil {
		return s.more[:s.held]
	}
	return s.table[:s.held]
}

// push adds to the stack of names.
func (s *scanner) push(e uint64) {
	switch {
	case s.more != nil:
		s.more = append(s.more[:s.held], e)
	case s.held < nameTableSize:
		s.table[s.held] = e
	default:
		s.more = make([]uint64, nameTableSize, 8*nameTableSize)
		copy(s.more, s.table[:])
		s.more = append(s.more, e)
	}
	s.held++
}

// closeNames removes the names of an object that ended, and searches them for
// duplicates if there were too many to compare on arrival.
func (s *scanner) closeNames(set *nameSet) {
	names := s.names()[set.base:]
	if len(names) > fewNames && s.soft == noFault {
		slices.Sort(names)
		s.findTwice(names)
	}
	s.held = set.base
}

// findTwice searches sorted names for a duplicate. Only names with equal hashes
// are compared, and one duplicate is enough.
func (s *scanner) findTwice(names []uint64) {
	for i, e := range names {
		for j := i - 1; j >= 0 && names[j]>>32 == e>>32; j-- {
			if s.sameName(int(uint32(names[j])), int(uint32(e))) {
				s.refuse(faultDuplicate, int(uint32(e)))
				return
			}
		}
	}
}

// sameName compares two names that were read before, given the offsets of
// their texts.
func (s *scanner) sameName(a, b int) bool {
	x, xEscaped := s.nameAt(a)
	y, yEscaped := s.nameAt(b)
	if !xEscaped && !yEscaped {
		return bytes.Equal(x, y)
	}
	return bytes.Equal(appendUnescaped(nil, x), appendUnescaped(nil, y))
}

// nameAt returns the text of a string that is known to be valid.
func (s *scanner) nameAt(start int) (text []byte, escaped bool) {
	i := start
	for s.b[i] != '"' {
		if s.b[i] == '\\' {
			escaped = true
			i++
		}
		i++
	}
	return s.b[start:i], escaped
}
