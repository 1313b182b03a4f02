package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"svc/store"
	"svc/store/api"
)

// declared is one kind of resource that documents can declare.
type declared interface {
	// scopes are the team scopes that reading and changing the kind take.
	scopes() (read, write string)
	// plan adds the changes that the documents of the kind make to a plan.
	plan(p *plan, docs []parsedDocument)
	// prune adds the deletion of the resources that carry the set and are in no document
	// to a plan.
	prune(p *plan)
	// export returns the resources as documents.
	export(e *exporter) []api.Document
}

// declaredKinds are the kinds of documents, in the order in which they are applied.
var declaredKinds = []struct {
	name string
	declared
}{
	{api.KindTeam, &declaredKind[store.Team, api.TeamSpec]{
		kind: api.KindTeam, noun: "team", prefix: store.PrefixTeam, read: "teams:read", write: "teams:write", few: true,
		list: func(all *store.Contents) []store.Team { return all.Teams },
		head: func(t *store.Team) head { return head{&t.ID, &t.Name, &t.Set} },
		fresh: func(p *plan, name string) store.Team {
			return store.TeamCreate{Name: name}.Make(p.NewID(store.PrefixTeam), p.Now)
		},
		apply: func(p *plan, doc parsedDocument, s *api.TeamSpec, t *store.Team) {
			p.passOn(doc.at, t.Scopes)
			p.passOn(doc.at, s.Scopes)
			store.TeamUpdate{Description: &s.Description, Scopes: (*[]string)(&s.Scopes)}.Apply(t, p.Now)
			p.teams[t.Name], p.teams[doc.name] = t.ID, t.ID
		},
		remove: (*plan).pruneTeam,
		spec: func(_ *exporter, t *store.Team) (api.TeamSpec, bool) {
			return api.TeamSpec{Description: t.Description, Scopes: t.Scopes}, true
		},
	}},
	{api.KindAgent, &declaredKind[store.Agent, api.AgentSpec]{
		kind: api.KindAgent, noun: "agent", prefix: store.PrefixAgent, read: "agents:read", write: "agents:write", few: true,
		list: func(all *store.Contents) []store.Agent { return all.Agents },
		head: func(a *store.Agent) head { return head{&a.ID, &a.Name, &a.Set} },
		fresh: func(p *plan, name string) store.Agent {
			return store.AgentCreate{Name: name}.Make(p.NewID(store.PrefixAgent), p.Now)
		},
		apply: func(p *plan, doc parsedDocument, s *api.AgentSpec, a *store.Agent) {
			team := p.teamOf(doc, s.Team)
			if p.team != "" && team != a.TeamID && p.err == nil {
				p.err = errOtherTeam
			}
			store.AgentUpdate{Description: &s.Description, ModelProvider: &s.ModelProvider, ModelName: &s.ModelName,
				Environment: &s.Environment, TeamID: &team, ConfigYAML: &s.ConfigYAML}.Apply(a, p.Now)
			a.ConfigYAML = s.ConfigYAML
			p.agents[a.Name], p.agents[doc.name] = a.ID, a.ID
		},
		former: func(p *plan, doc parsedDocument, s *api.AgentSpec, a *store.Agent) []string {
			return p.formerNames(doc, a.ID, s.FormerNames)
		},
		remove: func(p *plan, a *store.Agent) {},
		spec: func(e *exporter, a *store.Agent) (api.AgentSpec, bool) {
			return api.AgentSpec{Description: a.Description, ModelProvider: a.ModelProvider, ModelName: a.ModelName,
				Environment: a.Environment, Team: e.teams[a.TeamID], ConfigYAML: a.ConfigYAML, FormerNames: e.former[a.ID]}, true
		},
	}},
	{api.KindPolicy, &declaredKind[store.Policy, api.PolicySpec]{
		kind: api.KindPolicy, noun: "policy", prefix: store.PrefixPolicy, read: "policies:read", write: "policies:write",
		list: func(all *store.Contents) []store.Policy { return all.Policies },
		head: func(p *store.Policy) head { return head{&p.ID, &p.Name, &p.Set} },
		fresh: func(p *plan, name string) store.Policy {
			return store.PolicyCreate{Name: name}.Make(p.NewID(store.PrefixPolicy), p.Now)
		},
		apply: func(p *plan, doc parsedDocument, s *api.PolicySpec, to *store.Policy) {
			on, enabled := p.policyAgent(doc, s.On), s.Enabled == nil || *s.Enabled
			condition := storeCondition(s.Condition)
			if sameText(condition.Arguments, to.Condition.Arguments) {
				condition.Arguments = to.Condition.Arguments
			}
			store.PolicyUpdate{Phase: &s.Phase, On: &on, Condition: condition, Action: &s.Action,
				RedactionStrategy: &s.RedactionStrategy, Message: &s.Message, Approval: (*store.PolicyApproval)(s.Approval),
				NoApproval: s.Approval == nil, Enabled: &enabled}.Apply(to, p.Now)
		},
		remove: func(*plan, *store.Policy) {},
		spec: func(_ *exporter, p *store.Policy) (api.PolicySpec, bool) {
			condition := wireCondition(p.Condition)
			return api.PolicySpec{Phase: p.Phase, On: p.On, Condition: &condition, Action: p.Action,
				RedactionStrategy: p.RedactionStrategy, Message: p.Message,
				Approval: (*api.Approval)(p.Approval), Enabled: &p.Enabled}, true
		},
	}},
	{api.KindBudget, &declaredKind[store.Budget, api.BudgetSpec]{
		kind: api.KindBudget, noun: "budget", prefix: store.PrefixBudget, read: "costs:read", write: "costs:write",
		list: func(all *store.Contents) []store.Budget { return all.Budgets },
		head: func(b *store.Budget) head { return head{&b.ID, &b.Name, &b.Set} },
		fresh: func(p *plan, name string) store.Budget {
			return store.BudgetCreate{Name: name}.Make(p.NewID(store.PrefixBudget), p.Now)
		},
		apply: func(p *plan, doc parsedDocument, s *api.BudgetSpec, b *store.Budget) {
			limit, ok := store.DollarsToNano(*s.LimitUSD)
			if !ok || limit == 0 {
				p.bad(doc.at+".spec.limitUsd", limitProblem())
			}
			payer := store.Payer{Scope: store.BudgetScope(s.Scope), AgentID: s.Agent, Environment: s.Environment, TeamID: s.Team}
			p.refused(doc, payer.Check())
			if s.Agent != "" {
				payer.AgentID = p.agent(doc, s.Agent)
			}
			payer.TeamID = p.teamOf(doc, s.Team)
			if b.Payer != payer && (b.AgentID == "" || b.AgentID != payer.AgentID) { // equal but for the spelling of the scope
				b.Payer = payer
			}
			period, warnAt := store.BudgetPeriod(s.Period), []int(s.WarnAt)
			store.BudgetUpdate{Period: &period, Limit: &limit, WarnAt: &warnAt}.Apply(b, p.Now)
		},
		remove: func(*plan, *store.Budget) {},
		spec: func(e *exporter, b *store.Budget) (api.BudgetSpec, bool) {
			limit := b.Limit.USD()
			s := api.BudgetSpec{Environment: b.Environment, Team: e.teams[b.TeamID], Period: string(b.Period), LimitUSD: &limit, WarnAt: b.WarnAt}
			if b.AgentID == "" {
				s.Scope = string(b.Scope)
				return s, true
			}
			name, ok := e.agent("budget", b.Name, b.AgentID)
			s.Agent = name
			return s, ok
		},
	}},
	{api.KindSLATarget, &declaredKind[store.SLATarget, api.SLASpec]{
		kind: api.KindSLATarget, noun: "SLA target", prefix: store.PrefixSLA, read: "costs:read", write: "costs:write",
		list: func(all *store.Contents) []store.SLATarget { return all.SLAs },
		head: func(s *store.SLATarget) head { return head{&s.ID, &s.Name, &s.Set} },
		fresh: func(p *plan, name string) store.SLATarget {
			return store.SLACreate{Name: name}.Make(p.NewID(store.PrefixSLA), p.Now)
		},
		apply: func(p *plan, doc parsedDocument, s *api.SLASpec, t *store.SLATarget) {
			agent := p.agent(doc, s.Agent)
			store.SLAUpdate{AgentID: &agent, P99LatencyMs: s.P99LatencyMs, ErrorRatePercent: s.ErrorRatePercent, EvaluationPeriod: &s.EvaluationPeriod,
				NoLatency: s.P99LatencyMs == nil, NoErrorRate: s.ErrorRatePercent == nil}.Apply(t, p.Now)
		},
		remove: func(*plan, *store.SLATarget) {},
		spec: func(e *exporter, t *store.SLATarget) (api.SLASpec, bool) {
			name, ok := e.agent("SLA target", t.Name, t.AgentID)
			return api.SLASpec{Agent: name, P99LatencyMs: t.P99LatencyMs, ErrorRatePercent: t.ErrorRatePercent, EvaluationPeriod: t.EvaluationPeriod}, ok
		},
	}},
	{api.KindWebhook, &declaredKind[store.Webhook, api.WebhookSpec]{
		kind: api.KindWebhook, noun: "webhook", prefix: store.PrefixWebhook, read: "policies:read", write: "policies:write",
		list: func(all *store.Contents) []store.Webhook { return all.Webhooks },
		head: func(h *store.Webhook) head { return head{&h.ID, &h.Name, &h.Set} },
		fresh: func(p *plan, name string) store.Webhook {
			return store.WebhookCreate{Name: name, Secret: newWebhookSecret()}.Make(p.NewID(store.PrefixWebhook), p.Now)
		},
		apply: func(p *plan, doc parsedDocument, s *api.WebhookSpec, h *store.Webhook) {
			agent, format, enabled := "", cmp.Or(s.Format, api.WebhookFormats[0]), s.Enabled == nil || *s.Enabled
			if s.Agent != "" {
				agent = p.agent(doc, s.Agent)
			}
			store.WebhookUpdate{URL: &s.URL, Events: (*[]string)(&s.Events), Format: &format, Environment: &s.Environment, AgentID: &agent, Enabled: &enabled}.Apply(h, p.Now)
		},
		remove: func(*plan, *store.Webhook) {},
		spec: func(e *exporter, h *store.Webhook) (_ api.WebhookSpec, ok bool) {
			s := api.WebhookSpec{URL: api.WebhookVariable(h.Name), Events: h.Events, Format: h.Format, Environment: h.Environment, Enabled: &h.Enabled}
			for _, other := range e.all.Webhooks {
				if other.ID < h.ID && api.WebhookVariable(other.Name) == s.URL {
					e.warn("webhooks %q and %q have the same variable %s for their URLs: change one in the documents", other.Name, h.Name, s.URL)
				}
			}
			if h.AgentID == "" {
				return s, true
			}
			s.Agent, ok = e.agent("webhook", h.Name, h.AgentID)
			return s, ok
		},
	}},
}

// sameText reports whether two JSON texts are equal, numbers compared by their digits.
// Escapes, white space and the order of members may differ.
func sameText(a, b json.RawMessage) bool {
	read := func(text []byte) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	x, err := read(a)
	y, other := read(b)
	return err == nil && other == nil && reflect.DeepEqual(x, y)
}

// head points to the members that resources of all kinds have.
type head struct{ id, name, set *string }

// declaredKind is a kind of resource T whose documents have specs S.
type declaredKind[T, S any] struct {
	kind, noun, prefix string
	read, write        string
	few                bool // pruning resources of this kind takes pruneLimit

	list   func(*store.Contents) []T
	head   func(*T) head
	fresh  func(p *plan, name string) T
	apply  func(p *plan, doc parsedDocument, spec *S, to *T) // checks of the spec that need other resources
	former func(p *plan, doc parsedDocument, spec *S, of *T) []string
	remove func(p *plan, t *T)
	spec   func(e *exporter, t *T) (S, bool)
}

func (k *declaredKind[T, S]) scopes() (read, write string) { return k.read, k.write }

// find returns the resource with a name. An exact match takes precedence over a name that
// was stored before names were normalized. It returns several where names are not unique.
func (k *declaredKind[T, S]) find(list []T, name string) (found []*T) {
	var other []*T
	for i := range list {
		switch h := k.head(&list[i]); {
		case *h.name == name:
			found = append(found, &list[i])
		case api.NormalizeName(*h.name) == name:
			other = append(other, &list[i])
		}
	}
	if len(found) == 0 {
		return other
	}
	return found
}

func (k *declaredKind[T, S]) plan(p *plan, docs []parsedDocument) {
	list := k.list(&p.now)
	named := make(map[string][]*T, len(list))
	for i := range list {
		name := *k.head(&list[i]).name
		named[name] = append(named[name], &list[i])
	}
	for _, doc := range docs {
		found := named[doc.name]
		if len(found) == 0 {
			found = k.find(list, doc.name)
		}
		if len(found) > 1 {
			p.bad(doc.at+".name", "is the name of several "+k.noun+"s: give all but one another name")
			continue
		}
		var before *T
		var after T
		if len(found) == 1 {
			before, after = found[0], *found[0]
			p.seen[*k.head(before).id] = true
			p.checkSet(doc, k.noun, *k.head(before).set)
		} else {
			after = k.fresh(p, doc.name)
		}
		if p.in.Set != "" {
			*k.head(&after).set = p.in.Set
		}
		spec, _ := any(doc.spec).(*S)
		k.apply(p, doc, spec, &after)
		c := store.Change{After: asResource(&after), DeployedBy: p.user}
		if before != nil {
			c.Before = asResource(before)
		}
		if k.former != nil {
			c.FormerNames = k.former(p, doc, spec, &after)
		}
		p.add(doc.index, k.kind, c, before == nil)
	}
}

func (k *declaredKind[T, S]) prune(p *plan) {
	list := k.list(&p.now)
	of, gone := 0, []*T{}
	for i := range list {
		h := k.head(&list[i])
		if *h.set != p.in.Set {
			continue
		}
		of++
		if !p.seen[*h.id] {
			gone = append(gone, &list[i])
		}
	}
	if len(gone) == 0 {
		return
	}
	if missing := p.missing(declaring(k.read, k.write, p.in.DryRun)); missing != "" {
		p.err = forbidden("the team that this key is limited to lacks the scope %s, which deleting a %s takes", missing, k.noun)
		return
	}
	p.pruned(k.noun, len(gone), of, k.few)
	for _, t := range slices.Backward(gone) {
		k.remove(p, t)
		p.delete(k.kind, store.Change{Before: asResource(t)})
	}
}

// asResource is a pointer to a store type, as changes take it.
func asResource[T any](t *T) store.Resource { return any(t).(store.Resource) }

func (k *declaredKind[T, S]) export(e *exporter) (docs []api.Document) {
	list := k.list(&e.all)
	for i := range list {
		name := *k.head(&list[i]).name
		spec, ok := k.spec(e, &list[i])
		if !ok {
			continue
		}
		if len(k.find(list, api.NormalizeName(name))) > 1 {
			e.warn("%s %q is one of several with this name: a document cannot say which", k.noun, name)
		}
		raw, err := json.Marshal(spec)
		if err != nil { // a shallow copy is enough, because specs are plain values
			e.warn("%s %q: %v", k.noun, name, err)
			continue
		}
		docs = append(docs, api.Document{Kind: k.kind, Name: name, Spec: raw})
	}
	return docs
}
