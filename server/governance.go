package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"svc/server/api"
	"svc/store"
)

// budgetsLag is how old the standing of budgets in a bundle may be: it changes with
// traces, without any change of a record.
const budgetsLag = time.Second

// governance serves GET /api/governance: what gateways enforce. The ETag is
// of the bundle's content, so a gateway that asks often is told 304 until a
// policy changes or a budget is exceeded or reset. With wait the answer comes when
// that happens, or when the time is over.
func (s *Server) governance(c *call) error {
	wait, err := waitOf(c.URL.Query().Get("wait")) // what else there is, is ignored
	if err != nil {
		return err
	}
	b, err := s.bundleOf(c.Context(), c.tenant, c.traces)
	if err != nil {
		return err
	}
	if wait > 0 && matches(c.Header.Values("If-None-Match"), b.tag) {
		if b, err = s.awaitBundle(c, b, wait); err != nil {
			return err
		}
	}
	return c.tagged(http.StatusOK, b.body, b.tag)
}

// maxWait bounds how long an answer about governance is held back.
const maxWait = time.Minute

// waitOf is how long an answer may be held back; 0 when nothing was asked.
func waitOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, invalidField("wait", "must be a duration such as 30s")
	}
	return min(d, maxWait), nil
}

// bundle is what gateways of a tenant are told, made for a revision of its records.
type bundle struct {
	revision string
	tag      string
	body     []byte
	budgets  bool                       // the standing of some is in it
	spent    map[spending]store.NanoUSD // of all of them
	until    time.Time                  // the end of the first of their periods
	checked  time.Time
}

// spending names what a budget is compared with: the costs of an agent from the begin of a
// period on.
type spending struct {
	agent  string
	period store.BudgetPeriod
	from   time.Time
}

// fresh reports whether a bundle still is what gateways are to be told.
func (b *bundle) fresh(revision string, now time.Time) bool {
	return b != nil && b.revision == revision &&
		(!b.budgets || now.Before(b.until) && !now.Before(b.checked) && now.Before(b.checked.Add(budgetsLag)))
}

// bundleOf returns the bundle of a tenant. One that was made for the present revision
// is made again only for the standing of budgets: a poll reads one row.
func (s *Server) bundleOf(ctx context.Context, tenant store.Tenant, traces store.TenantTraces) (*bundle, error) {
	revision, err := tenant.GovernanceRevision(ctx)
	if err != nil {
		return nil, err
	}
	known, now := s.bundles.get(tenant.ID()), s.now()
	if known.fresh(revision, now) {
		return known, nil
	}
	b, err := makeBundle(ctx, tenant, traces, now, known)
	if errors.Is(err, store.ErrUnavailable) && known != nil && known.revision == revision && now.Before(known.until) {
		return known, nil // what the budgets had spent when it could be asked
	}
	if err != nil {
		return nil, err
	}
	b.revision = revision // read before the rest: what changed meanwhile is seen by the next poll
	s.bundles.put(tenant.ID(), b)
	return b, nil
}

// makeBundle reads what gateways enforce. Changes of policies reach gateways also while
// traces are unavailable: budgets then have spent what they had in the bundle before.
func makeBundle(ctx context.Context, tenant store.Tenant, traces store.TenantTraces, now time.Time, before *bundle) (*bundle, error) {
	on := true
	policies, _, err := tenant.ListPolicies(ctx, store.PolicyFilter{Enabled: &on}, store.Page{})
	if err != nil {
		return nil, err
	}
	slices.Reverse(policies) // lists are newest first; policies apply oldest first
	budgets, err := tenant.ListBudgets(ctx)
	if err != nil {
		return nil, err
	}
	key, err := tenant.RedactionKey(ctx)
	if err != nil {
		return nil, err
	}
	aliases, err := tenant.ListAgentAliases(ctx)
	if err != nil {
		return nil, err
	}
	out := api.Governance{
		Aliases: each(aliases, func(a store.AgentAlias) api.AgentAlias { return api.AgentAlias(a) }),
		Policies: each(policies, func(p store.Policy) api.GovernancePolicy {
			return api.GovernancePolicy{
				ID: p.ID, Name: p.Name, Phase: p.Phase, On: p.On, Condition: wireCondition(p.Condition),
				Action: p.Action, RedactionStrategy: p.RedactionStrategy, Message: p.Message, CreatedAt: p.CreatedAt.UTC(),
			}
		}),
		Budgets: make([]api.BudgetState, 0, len(budgets)),
		HashKey: base64.StdEncoding.EncodeToString(key),
	}
	b := &bundle{checked: now, budgets: len(budgets) > 0, spent: make(map[spending]store.NanoUSD, len(budgets))}
	var spent []store.NanoUSD
	if b.budgets {
		spent, err = spentOf(ctx, traces, now, budgets)
		if errors.Is(err, store.ErrUnavailable) {
			spent, err = before.spentBefore(now, budgets, err)
		}
		if err != nil {
			return nil, err
		}
	}
	for i, budget := range budgets {
		from, to := budget.Period.Window(now)
		b.spent[spending{budget.AgentID, budget.Period, from}] = spent[i]
		if b.until.IsZero() || to.Before(b.until) {
			b.until = to
		}
		out.Budgets = append(out.Budgets, api.BudgetState{
			ID: budget.ID, AgentID: budget.AgentID, AgentName: budget.AgentName, Period: string(budget.Period),
			Exceeded: spent[i] >= budget.Limit, ResetAt: to,
		})
	}
	b.body = encode(out)
	b.tag = tagOf(b.body)
	return b, nil
}

// spentBefore is what budgets had spent in their present periods when a bundle was made.
// It returns err where the bundle does not have all of them.
func (b *bundle) spentBefore(now time.Time, budgets []store.Budget, err error) ([]store.NanoUSD, error) {
	if b == nil {
		return nil, err
	}
	spent := make([]store.NanoUSD, len(budgets))
	for i, budget := range budgets {
		from, _ := budget.Period.Window(now)
		n, known := b.spent[spending{budget.AgentID, budget.Period, from}]
		if !known {
			return nil, err
		}
		spent[i] = n
	}
	return spent, nil
}

// tagOf is the ETag of a body.
func tagOf(body []byte) string {
	digest := sha256.Sum256(body)
	return `"` + hex.EncodeToString(digest[:16]) + `"`
}

// taggedBody answers with body and an ETag of it, or 304 to a client that has
// it.
func (c *call) taggedBody(status int, body []byte) error {
	return c.tagged(status, body, tagOf(body))
}

// tagged is taggedBody of a body whose ETag is known.
func (c *call) tagged(status int, body []byte, tag string) error {
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
