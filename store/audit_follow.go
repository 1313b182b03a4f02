package store

import "slices"

// FollowAuditHead appends a head to the stored one, if there is one, by the rules of
// [AuditHeads.ReportAuditHead], and returns the head that it contradicts. It is
// shared by the backends, which set ReportedAt.
func FollowAuditHead(before, head AuditHead, known bool) (AuditHead, *EarlierHead) {
	last := EarlierHead{Seq: before.Seq, Hash: before.Hash, ReportedAt: before.ReportedAt}
	stored := head
	stored.Earlier, stored.Passed, stored.Offered = before.Earlier, before.Passed, nil
	switch {
	case !known:
	case head.Seq > before.Seq, head.Seq == before.Seq && head.Hash == before.Hash:
		if head.Seq > before.Seq {
			stored.Passed = thin(append([]EarlierHead{last}, before.Passed...), MaxPassedHeads)
		}
	default:
		gone := []EarlierHead{last}
		for _, p := range before.Passed {
			if p.Seq >= head.Seq {
				gone = append(gone, p)
			}
		}
		for len(gone) > maxContradicted {
			gone = thin(gone, maxContradicted)
		}
		stored.Earlier, stored.Passed = keepEarlier(append(gone, before.Earlier...)), nil
		return stored, &last
	}
	return stored, nil
}

// maxContradicted bounds how many heads one report can contradict.
const maxContradicted = 8

// keepEarlier drops contradicted heads beyond the bound; heads are newest first. The
// oldest half and the highest always stay.
func keepEarlier(heads []EarlierHead) []EarlierHead {
	for len(heads) > MaxEarlierHeads {
		highest := 0
		for i, h := range heads {
			if h.Seq >= heads[highest].Seq {
				highest = i
			}
		}
		drop := len(heads) - MaxEarlierHeads/2 - 1
		if drop == highest {
			drop--
		}
		heads = slices.Delete(heads, drop, drop+1)
	}
	return heads
}

// thin drops one of too many heads, newest first, so that the remaining heads reach
// far back.
func thin(heads []EarlierHead, most int) []EarlierHead {
	if len(heads) <= most {
		return heads
	}
	// The oldest stays. Of the others, the head is dropped whose neighbors are
	// closest to each other relative to its age.
	drop, least := 1, 0.0
	newest := heads[0].Seq
	for i := 1; i < len(heads)-1; i++ {
		age := float64(newest-heads[i].Seq) + 1
		if gap := float64(heads[i-1].Seq-heads[i+1].Seq) / age; i == 1 || gap < least {
			drop, least = i, gap
		}
	}
	return append(heads[:drop:drop], heads[drop+1:]...)
}
