package server

import (
	"net/http"
	"strings"

	"svc/store"
	"svc/store/api"
)

// changing returns the tenant with the caller as the author of its changes in the
// audit events, and with the condition of the If-Match header, if there is one.
func (c *call) changing() error {
	if c.Method == http.MethodGet {
		return nil
	}
	ctx := store.ChangedBy(c.Context(), store.By{
		KeyID: c.key.ID, KeyPrefix: c.key.Prefix, UserID: c.key.CreatedBy, Address: peerAddress(c.Request),
		RequestID: c.id, Method: c.Method, Route: c.pattern(),
	})
	if values := c.Header.Values("If-Match"); len(values) > 0 && c.PathValue("id") != "" && (c.Method == http.MethodPut || c.Method == http.MethodDelete) {
		var digests []string
		for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
			one = strings.TrimSpace(one)
			if one == "*" { // any version
				digests = nil
				break
			}
			if len(one) < 2 || one[0] != '"' || one[len(one)-1] != '"' {
				return invalidField("If-Match", `must be the ETag of an answer, such as "0123…", or *`)
			}
			digests = append(digests, one[1:len(one)-1])
		}
		if digests != nil {
			ctx = store.IfMatch(ctx, digests)
		}
	}
	c.Request = c.WithContext(ctx)
	return nil
}

// etag sets the ETag header to the digest of the object in the response.
func (c *call) etag(o *store.Object) { c.w.Header().Set("ETag", `"`+o.Digest()+`"`) }

// listAuditEvents serves GET /api/audit/events: the changes that administrators
// made, newest first.
func (s *Server) listAuditEvents(c *call) error {
	q := c.query()
	page := q.cursorPage(eventsList, api.DefaultLimit)
	f := store.AuditEventFilter{Actor: q.text("actor"), Kind: q.enum("object", "", api.AuditObjectKinds), ObjectID: q.text("objectId")}
	if t := q.timestamp("since", false); t != nil {
		f.Since = *t
	}
	if t := q.timestamp("until", true); t != nil {
		f.Until = *t
	}
	if err := q.err(); err != nil {
		return err
	}
	events, before, err := c.tenant.ListAuditEvents(c.Context(), f, page.withOneMore())
	if err != nil {
		return err
	}
	if len(events) > page.Limit && f == (store.AuditEventFilter{}) {
		before = events[page.Limit].Hash
	} else if len(events) > page.Limit {
		if _, before, err = c.tenant.ListAuditEvents(c.Context(), f, page.Page); err != nil {
			return err
		}
	}
	events, next := cutPage(page, events, func(e *store.AuditEvent) store.Place { return store.Place{ID: e.ID} })
	out := api.AuditEvents{Data: each(events, wireAuditEvent), Next: next, PreviousHash: before}
	names := map[string]string{"": ""}
	for i := range out.Data {
		actor := &out.Data[i].Actor
		name, known := names[actor.KeyID]
		if !known {
			key, err := c.tenant.GetKey(c.Context(), actor.KeyID)
			if err != nil && store.KindOf(err) != store.NotFound {
				return err
			}
			name = key.Name // empty for a deleted key
			names[actor.KeyID] = name
		}
		actor.KeyName = name
	}
	return c.writeJSON(http.StatusOK, out)
}

func wireAuditEvent(e store.AuditEvent) api.AuditEvent {
	return api.AuditEvent{
		ID: e.ID, CreatedAt: e.CreatedAt.UTC(),
		Actor:   api.AuditActor{KeyID: e.By.KeyID, KeyPrefix: e.By.KeyPrefix, UserID: e.By.UserID},
		Address: e.By.Address, RequestID: e.By.RequestID, Method: e.By.Method, Route: e.By.Route,
		Object: api.AuditObject{Kind: e.Kind, ID: e.ObjectID, Name: e.Name}, Changed: e.Changed, Before: e.Before, After: e.After, Hash: e.Hash,
	}
}

// whoami serves GET /api/whoami: the calling key, its tenant and its scopes.
func (s *Server) whoami(c *call) error {
	info, err := s.records.GetTenant(c.Context(), c.tenant.ID())
	if err != nil {
		return err
	}
	out := api.Whoami{
		Tenant: api.WhoamiTenant{ID: info.ID, Name: info.Name}, Key: wireKeyItem(c.key),
		User:   api.WhoamiUser{ID: c.key.CreatedBy, Email: c.key.CreatedByEmail},
		Limits: api.WhoamiLimits{RequestsPerMinute: s.api.limit, IngestPerMinute: s.ingest.limit},
	}
	if c.team != nil {
		out.Team = &api.WhoamiTeam{ID: c.team.ID, Name: c.team.Name, Scopes: c.team.Scopes}
	}
	return c.data(http.StatusOK, out)
}
