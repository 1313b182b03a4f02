package server

import (
	"net/http"

	"svc/server/api"
	"svc/store"
)

// reportAuditHead serves POST /api/audit/heads: where a gateway's audit chain
// stands, kept out of reach of whoever can rewrite its files.
func (s *Server) reportAuditHead(c *call) error {
	var in api.AuditHeadReport
	if err := c.decode(&in); err != nil {
		return err
	}
	head, err := c.tenant.ReportAuditHead(c.Context(), store.AuditHead{
		Gateway: in.Gateway, Trail: in.Trail, Seq: uint64(in.Seq), Hash: in.Hash,
	})
	if err != nil {
		return err
	}
	return c.data(http.StatusCreated, wireAuditHead(head))
}

// listAuditHeads serves GET /api/audit/heads: data and total only.
func (s *Server) listAuditHeads(c *call) error {
	heads, err := c.tenant.ListAuditHeads(c.Context())
	if err != nil {
		return err
	}
	return whole(c, each(heads, wireAuditHead))
}

func wireAuditHead(h store.AuditHead) api.AuditHead {
	return api.AuditHead{
		AuditHeadReport: api.AuditHeadReport{Gateway: h.Gateway, Trail: h.Trail, Seq: int64(h.Seq), Hash: h.Hash},
		ReportedAt:      h.ReportedAt.UTC(),
		Passed:          each(h.Passed, wireEarlierHead),
		Earlier:         each(h.Earlier, wireEarlierHead),
	}
}

func wireEarlierHead(e store.EarlierHead) api.EarlierAuditHead {
	return api.EarlierAuditHead{Seq: int64(e.Seq), Hash: e.Hash, ReportedAt: e.ReportedAt.UTC()}
}
