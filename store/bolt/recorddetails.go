package bolt

import (
	"encoding/binary"

	"svc/store"
)

// appendDetails encodes what gateways report of a trace beside its figures.
func appendDetails(dst []byte, t *store.Trace) []byte {
	if t.RequestID == t.ID && t.ID != "" {
		dst = append(dst, packSame)
	} else {
		dst = appendPacked(dst, t.RequestID)
	}
	dst = appendString(appendString(dst, t.Principal), t.RuleID)
	dst = appendString(appendString(dst, t.Reason), t.ErrorKind)
	dst = binary.AppendUvarint(dst, uint64(t.CacheReadTokens))
	dst = binary.AppendUvarint(dst, uint64(t.CacheCreationTokens))
	dst = appendString(appendString(dst, t.ClientName), t.ClientVersion)
	if dst = appendString(dst, t.Approval.Status); t.Approval.Status == "" {
		return dst
	}
	return appendString(appendString(dst, t.Approval.ID), t.Approval.By)
}

// details decodes what appendDetails encoded.
func (d *decoder) details(t *store.Trace) {
	if len(d.data) > 0 && d.data[0] == packSame {
		d.data = d.data[1:]
		t.RequestID = t.ID
	} else {
		t.RequestID = d.packed()
	}
	t.Principal, t.RuleID, t.Reason, t.ErrorKind = d.text(), d.text(), d.text(), d.text()
	t.CacheReadTokens, t.CacheCreationTokens = int64(d.uvarint()), int64(d.uvarint())
	t.ClientName, t.ClientVersion = d.text(), d.text()
	if t.Approval.Status = d.text(); t.Approval.Status != "" {
		t.Approval.ID, t.Approval.By = d.text(), d.text()
	}
}
