package server

import (
	"context"
	"net/http"

	"svc/store"
	"svc/store/api"
)

// reportAuditHead serves POST /api/audit/heads: it stores the head (sequence
// number and hash) of a gateway's audit chain, so that somebody who can
// rewrite the gateway's files cannot rewrite the head too.
func (s *Server) reportAuditHead(c *call) error {
	var in api.AuditHeadReport
	if err := c.decode(&in); err != nil {
		return err
	}
	head, contradicted, err := c.tenant.ReportAuditHead(c.Context(), store.AuditHead{
		Gateway: in.Gateway, Trail: in.Trail, Seq: uint64(in.Seq), Hash: in.Hash, OldestLine: uint64(in.OldestLine), PublicKey: in.PublicKey,
	})
	attrs := []any{"request_id", c.id, "tenant", c.tenant.ID(), "key", c.key.ID, "gateway", in.Gateway, "trail", in.Trail, "seq", in.Seq, "signed_by", api.AuditKeyID(in.PublicKey)}
	switch {
	case store.KindOf(err) == store.Conflict:
		s.log.Warn("an audit head was refused: the gateway name is bound to another key; svc audit heads accept changes it", attrs...)
		return err
	case err != nil:
		return err
	case contradicted != nil:
		s.log.Warn("an audit head goes back: the audit file was cut back, replaced or begun again",
			append(attrs, "before", contradicted.Seq, "before_reported_at", contradicted.ReportedAt)...)
	}
	return c.data(http.StatusCreated, wireAuditHead(head))
}

// listAuditHeads serves GET /api/audit/heads. The response has data and total
// only.
func (s *Server) listAuditHeads(c *call) error {
	heads, err := c.tenant.ListAuditHeads(c.Context())
	if err != nil {
		return err
	}
	return whole(c, each(heads, wireAuditHead))
}

// acceptAuditKey serves POST /api/audit/heads/accept: it binds a gateway's
// name to another signing key.
func (s *Server) acceptAuditKey(c *call) error {
	var in api.AuditKeyAccept
	if err := c.decode(&in); err != nil {
		return err
	}
	err := create(c, func(ctx context.Context) (store.AuditKey, error) {
		return c.tenant.AcceptAuditKey(ctx, in.Gateway, in.PublicKey)
	}, func(bound store.AuditKey) error {
		return c.data(http.StatusCreated, api.AuditKey{
			Gateway: bound.Gateway, PublicKey: bound.PublicKey, KeyID: api.AuditKeyID(bound.PublicKey), BoundAt: bound.BoundAt.UTC(),
		})
	})
	if err != nil {
		return err
	}
	s.log.Info("the key of a gateway's audit heads was changed", "request_id", c.id, "tenant", c.tenant.ID(), "key", c.key.ID, "gateway", in.Gateway, "signed_by", api.AuditKeyID(in.PublicKey))
	return nil
}

func wireAuditHead(h store.AuditHead) api.AuditHead {
	return api.AuditHead{
		AuditHeadReport: api.AuditHeadReport{Gateway: h.Gateway, Trail: h.Trail, Seq: int64(h.Seq), Hash: h.Hash, OldestLine: int64(h.OldestLine), PublicKey: h.PublicKey},
		Signed:          h.PublicKey != "",
		KeyID:           api.AuditKeyID(h.PublicKey),
		ReportedAt:      h.ReportedAt.UTC(),
		Passed:          each(h.Passed, wireEarlierHead),
		Earlier:         each(h.Earlier, wireEarlierHead),
		OfferedKeys:     each(h.Offered, wireOfferedKey),
	}
}

func wireEarlierHead(e store.EarlierHead) api.EarlierAuditHead {
	return api.EarlierAuditHead{Seq: int64(e.Seq), Hash: e.Hash, ReportedAt: e.ReportedAt.UTC()}
}

func wireOfferedKey(o store.OfferedKey) api.OfferedAuditKey {
	return api.OfferedAuditKey{PublicKey: o.PublicKey, KeyID: api.AuditKeyID(o.PublicKey), OfferedAt: o.OfferedAt.UTC()}
}
