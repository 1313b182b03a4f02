package server

import (
	"context"
	"net/http"

	"svc/store"
	"svc/store/api"
)

func wireKeyItem(k store.Key) api.KeyItem {
	item := api.KeyItem{
		ID: k.ID, Name: k.Name, Scope: string(k.Scope), Prefix: k.Prefix, TeamID: k.TeamID,
		CreatedBy: k.CreatedBy, CreatedByEmail: k.CreatedByEmail, CreatedAt: k.CreatedAt.UTC(),
		SessionKeys: k.SessionKeys,
	}
	if !k.LastUsedAt.IsZero() {
		t := k.LastUsedAt.UTC()
		item.LastUsedAt = &t
	}
	return item
}

// listKeys serves GET /api/keys: metadata without secrets.
func (s *Server) listKeys(c *call) error {
	q := c.query()
	page, filter := q.cursorPage(keysList, api.DefaultLimit), store.KeyFilter{Scope: store.KeyScope(q.enum("scope", "", api.KeyScopes))}
	if err := q.err(); err != nil {
		return err
	}
	keys, total, err := c.tenant.ListKeys(c.Context(), filter, page.withOneMore())
	if err != nil {
		return err
	}
	keys, next := cutPage(page, keys, func(k *store.Key) store.Place { return store.Place{ID: k.ID} })
	return nextPage(c, each(keys, wireKeyItem), total, page, next)
}

// createKey serves POST /api/keys, whose response is the only one with a secret. A
// retry gets the response without the secret.
func (s *Server) createKey(c *call) error {
	var in api.KeyCreate
	if err := c.decode(&in); err != nil {
		return err
	}
	owner := c.key.CreatedBy
	if in.UserID != "" {
		owner = in.UserID
	}
	scope := store.KeyScope(in.Scope)
	if err := s.mayMint(c, scope, in.TeamID, owner); err != nil {
		return err
	}
	secret := NewSecret(scope)
	return create(c, func(ctx context.Context) (store.Key, error) {
		return c.tenant.CreateKey(ctx, store.KeyCreate{
			Name: in.Name, Scope: scope, Prefix: SecretPrefix(secret), Digest: store.DigestKey(secret),
			TeamID: in.TeamID, CreatedBy: owner,
		})
	}, func(k store.Key) error {
		out := api.KeyCreated{
			ID: k.ID, Name: k.Name, Scope: string(k.Scope), Prefix: k.Prefix,
			TeamID: k.TeamID, CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt.UTC(),
		}
		c.replayBody = encode(api.Single[api.KeyCreated]{Data: out})
		out.Key = secret
		return c.data(http.StatusCreated, out)
	})
}

// mayMint rejects a key with more permissions than the calling key. A key that is
// limited to a team can only create keys for teams whose scopes it holds, and only
// for its own user, so that deactivating the user disables both. It cannot create
// keys of scope ingest, which no team limits.
func (s *Server) mayMint(c *call, scope store.KeyScope, teamID, owner string) error {
	if c.team == nil {
		return nil
	}
	if scope == store.ScopeIngest {
		return forbidden("a key that is limited to a team cannot make a key of scope ingest, which no team limits")
	}
	if owner != c.key.CreatedBy {
		return forbidden("a key that is limited to a team cannot make a key for another user")
	}
	if teamID == "" {
		return forbidden("a key that is limited to a team can only make keys that are limited to a team: give teamId")
	}
	team, err := c.tenant.GetTeam(c.Context(), teamID)
	if store.KindOf(err) == store.NotFound {
		return invalidField("teamId", "names no team")
	}
	if err != nil {
		return err
	}
	if missing := c.missingScope(team.Scopes); missing != "" {
		return forbidden("this key does not hold %s itself and cannot make a key that does", missing)
	}
	return nil
}

// getKey serves GET /api/keys/:id.
func (s *Server) getKey(c *call) error {
	id, err := c.pathID("API key")
	if err != nil {
		return err
	}
	k, err := c.tenant.GetKey(c.Context(), id)
	if err != nil {
		return err
	}
	c.etag(k.Object())
	return c.data(http.StatusOK, wireKeyItem(k))
}

// deleteKey serves DELETE /api/keys/:id. The key is rejected from the next request
// on. A key that is limited to a team can delete only keys that it could have
// created. The last unlimited key that works cannot be deleted.
func (s *Server) deleteKey(c *call) error {
	id, err := c.pathID("key")
	if err != nil {
		return err
	}
	if err := s.mayDelete(c, id); err != nil {
		return err
	}
	if err := c.tenant.DeleteKey(c.Context(), id); err != nil {
		return err
	}
	return c.deleted()
}

// mayDelete rejects the deletion of a key that the calling key could not have
// created.
func (s *Server) mayDelete(c *call, id string) error {
	if c.team == nil {
		return nil
	}
	k, err := c.tenant.GetKey(c.Context(), id)
	switch {
	case err != nil:
		return err
	case k.Scope == store.ScopeIngest:
		return forbidden("a key that is limited to a team cannot delete a key of scope ingest")
	case k.CreatedBy != c.key.CreatedBy:
		return forbidden("a key that is limited to a team cannot delete a key of another user")
	case k.TeamID == "":
		return forbidden("a key that is limited to a team can only delete keys that are limited to a team")
	}
	team, err := c.tenant.GetTeam(c.Context(), k.TeamID)
	if store.KindOf(err) == store.NotFound {
		return nil // the team was deleted, so the key no longer works
	}
	if err != nil {
		return err
	}
	if missing := c.missingScope(team.Scopes); missing != "" {
		return forbidden("this key does not hold %s itself and cannot delete a key that does", missing)
	}
	return nil
}
