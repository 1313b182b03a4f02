package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"svc/server/background"
	"svc/store"
	"svc/store/api"
)

// budgetsLag is the largest age of the state of budgets in a bundle. The state
// changes with traces, which do not change the revision of the records.
const budgetsLag = time.Second

// governance serves GET /api/governance: the policies and budgets that gateways
// enforce. The ETag is a digest of the bundle, so a gateway that polls gets 304 until
// a policy changes or a budget is exceeded or reset. With the parameter wait, the
// response is sent when that happens or when the time is over. With the parameter
// gateway, a header has the id of the key that the name is bound to, so that a gateway
// can be checked without a report.
func (s *Server) governance(c *call) error {
	wait, err := waitOf(c.URL.Query().Get("wait")) // other parameters are ignored
	if err != nil {
		return err
	}
	if name := c.URL.Query().Get("gateway"); name != "" && api.GatewayName(name) == "" {
		key, err := c.tenant.GatewayKey(c.Context(), name)
		if err != nil {
			return err
		}
		if key != "" {
			c.w.Header().Set(api.GatewayKeyHeader, api.AuditKeyID(key))
		}
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

// maxWait bounds the time for which a response about governance is delayed.
const maxWait = time.Minute

// waitOf returns the time for which a response may be delayed; 0 when the parameter
// is absent.
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

// bundle is the governance response for the gateways of a tenant, made for a revision
// of the tenant's records.
type bundle struct {
	revision string
	tag      string
	body     []byte
	budgets  bool                       // whether the bundle has the state of budgets
	spent    map[spending]store.NanoUSD // of all budgets
	until    time.Time                  // the earliest end of a period of a budget
	checked  time.Time
}

// spending identifies the sum that a budget limits: the costs of a payer since the start of a
// period.
type spending struct {
	payer  store.Payer
	period store.BudgetPeriod
	from   time.Time
}

// fresh reports whether a bundle is still valid for the revision at now.
func (b *bundle) fresh(revision string, now time.Time) bool {
	return b != nil && b.revision == revision &&
		(!b.budgets || now.Before(b.until) && !now.Before(b.checked) && now.Before(b.checked.Add(budgetsLag)))
}

// bundleOf returns the bundle of a tenant. A cached bundle of the current revision is
// made again only when the state of its budgets is too old, so that most polls read
// one row.
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
		return known, nil // uses the state of the budgets of the last successful read
	}
	if err != nil {
		return nil, err
	}
	b.revision = revision // the revision was read first, so the next poll detects changes since then
	s.bundles.put(tenant.ID(), b)
	return b, nil
}

// makeBundle reads what gateways enforce. Changes of policies reach gateways also while
// traces are unavailable: budgets then keep their spending of the previous bundle.
func makeBundle(ctx context.Context, tenant store.Tenant, traces store.TenantTraces, now time.Time, before *bundle) (*bundle, error) {
	on := true
	// It is read first, so that it is never newer than the policies.
	revision, err := tenant.PolicyRevision(ctx)
	if err != nil {
		return nil, err
	}
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
		Revision: revision,
		Aliases:  each(aliases, func(a store.AgentAlias) api.AgentAlias { return api.AgentAlias(a) }),
		Policies: each(policies, func(p store.Policy) api.GovernancePolicy {
			return api.GovernancePolicy{
				ID: p.ID, Name: p.Name, Phase: p.Phase, On: p.On, Condition: wireCondition(p.Condition),
				Action: p.Action, RedactionStrategy: p.RedactionStrategy, Message: p.Message,
				Approval: (*api.Approval)(p.Approval), CreatedAt: p.CreatedAt.UTC(),
			}
		}),
		Budgets: make([]api.BudgetState, 0, len(budgets)),
		HashKey: base64.StdEncoding.EncodeToString(key),
	}
	if out.Teams, err = teamsOf(ctx, tenant, budgets); err != nil {
		return nil, err
	}
	b := &bundle{checked: now, budgets: len(budgets) > 0, spent: make(map[spending]store.NanoUSD, len(budgets))}
	var spent []store.NanoUSD
	if b.budgets {
		spent, err = background.Spent(ctx, traces, now, budgets)
		if errors.Is(err, store.ErrUnavailable) {
			spent, err = before.spentBefore(now, budgets, err)
		}
		if err != nil {
			return nil, err
		}
	}
	for i, budget := range budgets {
		from, to := budget.Period.Window(now)
		b.spent[spending{budget.Payer, budget.Period, from}] = spent[i]
		if b.until.IsZero() || to.Before(b.until) {
			b.until = to
		}
		out.Budgets = append(out.Budgets, api.BudgetState{
			ID: budget.ID, Scope: string(cmp.Or(budget.Scope, store.AgentBudget)), AgentID: budget.AgentID, AgentName: budget.AgentName,
			Environment: budget.Environment, TeamID: budget.TeamID, Period: string(budget.Period),
			Exceeded: spent[i] >= budget.Limit, ResetAt: to,
		})
	}
	b.body = encode(out)
	b.tag = tagOf(b.body)
	return b, nil
}

// teamsOf returns the agents of the teams that have budgets.
func teamsOf(ctx context.Context, tenant store.Tenant, budgets []store.Budget) (list []api.TeamAgents, err error) {
	seen := map[string]bool{"": true}
	for _, b := range budgets {
		if seen[b.TeamID] {
			continue
		}
		seen[b.TeamID] = true
		agents, _, err := tenant.ListAgents(ctx, store.AgentFilter{TeamID: b.TeamID}, store.Page{})
		if err != nil {
			return nil, err
		}
		list = append(list, api.TeamAgents{TeamID: b.TeamID, AgentNames: each(agents, func(a store.Agent) string { return a.Name })})
	}
	return list, nil
}

// spentBefore returns what budgets had spent in their current periods when the bundle was made.
// It returns err when the bundle does not have all of them.
func (b *bundle) spentBefore(now time.Time, budgets []store.Budget, err error) ([]store.NanoUSD, error) {
	if b == nil {
		return nil, err
	}
	spent := make([]store.NanoUSD, len(budgets))
	for i, budget := range budgets {
		from, _ := budget.Period.Window(now)
		n, known := b.spent[spending{budget.Payer, budget.Period, from}]
		if !known {
			return nil, err
		}
		spent[i] = n
	}
	return spent, nil
}

// tagOf returns the ETag of a body.
func tagOf(body []byte) string {
	digest := sha256.Sum256(body)
	return `"` + hex.EncodeToString(digest[:16]) + `"`
}

// taggedBody answers with body and its ETag, or with 304 when the client has this
// version.
func (c *call) taggedBody(status int, body []byte) error {
	return c.tagged(status, body, tagOf(body))
}

// tagged is taggedBody for a body whose ETag is known.
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
