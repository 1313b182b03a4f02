package bolt

import (
	"encoding/binary"
	"errors"
	"math"
)

// The filter fields of traces are stored a second time, in blocks of up to
// blockCap traces in commit order, so that a filtered list with an exact total
// reads 40 bytes per trace instead of its record. A block fits into a page. Its
// key is the commit number of its first trace; little-endian:
//
//	0  version 1           8  least createdAt, ns
//	1  zero               16  greatest createdAt
//	2  entries, 2 bytes   24  greatest createdAt of this and all earlier blocks
//	4  live, 2 bytes      32  entries of 40 bytes
//	6  zero, 2 bytes
//
// and an entry:
//
//	 0  createdAt, ns      24  agent, number     36  flags, as in the record
//	 8  cost, nano-USD     28  environment       37  zero, 3 bytes
//	16  injection score    32  model
//
// The third time lets a list that wants the newest traces stop early.
const (
	blockVersion = 1
	blockCap     = 100
	blockHeader  = 32
	entrySize    = 40

	entryTime  = 0
	entryCost  = 8
	entryScore = 16
	entryAgent = 24
	entryEnv   = 28
	entryModel = 32
	entryFlags = 36
)

var errBlock = errors.New("damaged trace block")

// block is an encoded block of filter fields.
type block []byte

func asBlock(b []byte) (block, error) {
	if len(b) < blockHeader || b[0] != blockVersion {
		return nil, errBlock
	}
	bl := block(b)
	if n := bl.count(); n > blockCap || len(b) != blockHeader+n*entrySize || bl.live() > n {
		return nil, errBlock
	}
	return bl, nil
}

// newBlock returns an empty block after others whose greatest time is latest.
func newBlock(latest int64) block {
	b := make(block, blockHeader, blockHeader+blockCap*entrySize)
	b[0] = blockVersion
	b.setTimes(math.MaxInt64, math.MinInt64)
	b.setLatest(latest)
	return b
}

func (b block) count() int        { return int(binary.LittleEndian.Uint16(b[2:])) }
func (b block) live() int         { return int(binary.LittleEndian.Uint16(b[4:])) }
func (b block) minTime() int64    { return int64(binary.LittleEndian.Uint64(b[8:])) }
func (b block) maxTime() int64    { return int64(binary.LittleEndian.Uint64(b[16:])) }
func (b block) latest() int64     { return int64(binary.LittleEndian.Uint64(b[24:])) }
func (b block) setLatest(t int64) { binary.LittleEndian.PutUint64(b[24:], uint64(t)) }

func (b block) setTimes(least, greatest int64) {
	binary.LittleEndian.PutUint64(b[8:], uint64(least))
	binary.LittleEndian.PutUint64(b[16:], uint64(greatest))
}

func (b block) setCounts(count, live int) {
	binary.LittleEndian.PutUint16(b[2:], uint16(count))
	binary.LittleEndian.PutUint16(b[4:], uint16(live))
}

// entry returns the i-th entry.
func (b block) entry(i int) []byte {
	off := blockHeader + i*entrySize
	return b[off : off+entrySize : off+entrySize]
}

// add appends the entry of a sealed record, whose numbers and checksum are set.
func (b block) add(rec []byte) block {
	var e [entrySize]byte
	copy(e[entryTime:], rec[recTime:recTime+8])
	copy(e[entryCost:], rec[recCost:recCost+8])
	copy(e[entryScore:], rec[recScore:recScore+8])
	copy(e[entryAgent:], rec[recAgent:recAgent+4])
	copy(e[entryEnv:], rec[recEnv:recEnv+4])
	copy(e[entryModel:], rec[recModel:recModel+4])
	e[entryFlags] = rec[1]
	b = append(b, e[:]...)
	at := int64(binary.LittleEndian.Uint64(rec[recTime:]))
	b.setCounts(b.count()+1, b.live()+1)
	b.setTimes(min(b.minTime(), at), max(b.maxTime(), at))
	b.setLatest(max(b.latest(), at))
	return b
}

// leaveOut appends an entry that is marked as deleted.
func (b block) leaveOut() block {
	var e [entrySize]byte
	e[entryFlags] = flagDeleted
	b = append(b, e[:]...)
	b.setCounts(b.count()+1, b.live())
	return b
}

// remove marks an entry as deleted.
func (b block) remove(i int) {
	b.entry(i)[entryFlags] |= flagDeleted
	b.setCounts(b.count(), b.live()-1)
}

// recomputeBounds computes the bounds again from the entries that are not
// deleted.
func (b block) recomputeBounds() {
	least, greatest := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range b.count() {
		e := b.entry(i)
		if e[entryFlags]&flagDeleted != 0 {
			continue
		}
		at := int64(binary.LittleEndian.Uint64(e[entryTime:]))
		least, greatest = min(least, at), max(greatest, at)
	}
	b.setTimes(least, greatest)
}
