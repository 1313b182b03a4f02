package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"svc/server/api"
	"svc/store"
)

// governance serves GET /api/governance: what gateways enforce. The ETag is
// of the bundle's content, so a gateway that asks often is told 304 until a
// policy changes or a budget is exceeded or reset.
func (s *Server) governance(c *call) error {
	on := true
	policies, _, err := c.tenant.ListPolicies(c.Context(), store.PolicyFilter{Enabled: &on}, store.Page{})
	if err != nil {
		return err
	}
	slices.Reverse(policies) // lists are newest first; policies apply oldest first
	budgets, err := c.tenant.ListBudgets(c.Context())
	if err != nil {
		return err
	}
	key, err := c.tenant.RedactionKey(c.Context())
	if err != nil {
		return err
	}
	aliases, err := c.tenant.ListAgentAliases(c.Context())
	if err != nil {
		return err
	}
	bundle := api.Governance{
		Aliases: each(aliases, func(a store.AgentAlias) api.AgentAlias { return api.AgentAlias(a) }),
		Policies: each(policies, func(p store.Policy) api.GovernancePolicy {
			return api.GovernancePolicy{
				ID: p.ID, Name: p.Name, Phase: p.Phase, On: p.On, Condition: wireCondition(p.Condition),
				Action: p.Action, RedactionStrategy: p.RedactionStrategy, CreatedAt: p.CreatedAt.UTC(),
			}
		}),
		Budgets: make([]api.BudgetState, 0, len(budgets)),
		HashKey: base64.StdEncoding.EncodeToString(key),
	}
	spent, err := spentOf(c.Context(), c.traces, c.now, budgets)
	if err != nil {
		return err
	}
	for i, b := range budgets {
		_, to := b.Period.Window(c.now)
		bundle.Budgets = append(bundle.Budgets, api.BudgetState{
			ID: b.ID, AgentID: b.AgentID, AgentName: b.AgentName, Period: string(b.Period),
			Exceeded: spent[i] >= b.Limit, ResetAt: to,
		})
	}
	return c.taggedBody(http.StatusOK, encode(bundle))
}

// taggedBody answers with body and an ETag of it, or 304 to a client that has
// it.
func (c *call) taggedBody(status int, body []byte) error {
	digest := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(digest[:16]) + `"`
	h := c.w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	if matches(c.Header.Values("If-None-Match"), tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.status, c.body = status, body
	return nil
}

// matches reports whether an If-None-Match names the tag (RFC 9110, weak
// comparison).
func matches(headers []string, tag string) bool {
	for _, header := range headers {
		for one := range strings.SplitSeq(header, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
