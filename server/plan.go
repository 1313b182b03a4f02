package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"svc/store"
	"svc/store/api"
)

// parsedDocument is one document after the checks that need no other resources.
type parsedDocument struct {
	index      int
	at         string // path of the document in details, such as documents[3]
	kind, name string // the name is normalized
	spec       any
}

// plan is the list of changes that documents make. It is computed in the transaction
// that makes the changes, from the tenant's contents, and includes all checks that
// need other resources.
type plan struct {
	in   *api.Apply
	user string
	team string // that limits the caller; empty: none
	// missing returns the first of some team scopes that the caller does not hold;
	// empty for none.
	missing func(scopes []string) string
	now     store.Contents
	store.Planner

	agents  map[string]string // ids of agents by name, after the changes
	teams   map[string]string // ids of teams by name, after the changes
	former  map[string]string // ids of agents by former name
	seen    map[string]bool   // ids of the resources that are in a document
	changes []store.Change
	results []api.AppliedChange // in the order of the documents, then the pruned resources
	deletes int
	warns   []string
	wrong   map[string]string
	err     error
}

// makePlan computes the changes for documents.
func makePlan(in *api.Apply, docs []parsedDocument, user, team string, missing func([]string) string, now store.Contents, by store.Planner) (*plan, error) {
	p := &plan{in: in, user: user, team: team, missing: missing, now: now, Planner: by, agents: map[string]string{}, teams: map[string]string{}, former: map[string]string{},
		seen: map[string]bool{}, results: make([]api.AppliedChange, len(docs))}
	for i := range now.Teams {
		if t := &now.Teams[i]; !in.Prune || t.Set != in.Set {
			p.teams[t.Name] = t.ID
		}
	}
	for i := range now.Agents {
		// Agents that will be pruned must not be referred to by documents.
		if a := &now.Agents[i]; !in.Prune || a.Set != in.Set {
			p.agents[a.Name] = a.ID
		}
	}
	for _, a := range now.Aliases {
		p.former[a.Alias] = a.AgentID
	}
	byKind := map[string][]parsedDocument{}
	for _, doc := range docs {
		byKind[doc.kind] = append(byKind[doc.kind], doc)
	}
	for _, doc := range byKind[api.KindAgent] { // documents may refer to agents that other documents create
		if _, known := p.agents[doc.name]; !known {
			p.agents[doc.name] = ""
		}
	}
	for _, k := range declaredKinds {
		k.plan(p, byKind[k.name])
	}
	if in.Prune && len(p.wrong) == 0 {
		for _, k := range slices.Backward(declaredKinds) {
			k.prune(p)
		}
		if limit := in.PruneLimit; limit != nil && p.deletes > *limit {
			p.bad("pruneLimit", fmt.Sprintf("is %d, and %d resources would be deleted", *limit, p.deletes))
		}
	}
	if n := p.after(api.KindPolicy, len(now.Policies)); n > store.MaxPolicies {
		p.bad("documents", fmt.Sprintf("lead to %d policies, and a tenant may have %d", n, store.MaxPolicies))
	}
	if n := p.after(api.KindWebhook, len(now.Webhooks)); n > store.MaxWebhooks {
		p.bad("documents", fmt.Sprintf("lead to %d webhooks, and a tenant may have %d", n, store.MaxWebhooks))
	}
	if p.err != nil {
		return nil, p.err
	}
	if len(p.wrong) > 0 {
		return nil, invalid(p.wrong)
	}
	return p, nil
}

// bad records a problem, up to maxDetails.
func (p *plan) bad(field, problem string) {
	if p.wrong == nil {
		p.wrong = map[string]string{}
	}
	if _, known := p.wrong[field]; !known && len(p.wrong) < maxDetails {
		p.wrong[field] = problem
	}
}

// add records the change of a document.
func (p *plan) add(index int, kind string, c store.Change, created bool) {
	o := c.After.Object()
	result := api.AppliedChange{Kind: kind, Name: o.Name, ID: o.ID, Change: api.ChangeNone, Fields: []string{}}
	switch fields := c.Fields(); {
	case created:
		result.Change = api.ChangeCreate
		if p.in.DryRun {
			result.ID = ""
		}
		p.changes = append(p.changes, c)
	case len(fields) > 0:
		result.Change, result.Fields = api.ChangeUpdate, fields
		if i := slices.Index(fields, "agentId"); i >= 0 {
			fields[i] = "agent" // the kind's name in documents
		}
		if i := slices.Index(fields, "teamId"); i >= 0 {
			fields[i] = "team"
		}
		p.changes = append(p.changes, c)
	}
	p.results[index] = result
}

// delete records the deletion of a pruned resource.
func (p *plan) delete(kind string, c store.Change) {
	o := c.Before.Object()
	p.deletes++
	p.changes = append(p.changes, c)
	p.results = append(p.results, api.AppliedChange{Kind: kind, Name: o.Name, ID: o.ID, Change: api.ChangeDelete, Fields: []string{}})
}

// pruned rejects deletions of a kind that take a pruneLimit and have none: without
// it of more than a third.
func (p *plan) pruned(noun string, n, of int, few bool) {
	if p.in.PruneLimit != nil {
		return
	}
	switch {
	case few:
		p.bad("prune", fmt.Sprintf("would delete %d of %d %ss of the set: set pruneLimit to the number of resources that may be deleted", n, of, noun))
	case 3*n > of:
		p.bad("prune", fmt.Sprintf("would delete %d of %d resources of the kind %s of the set, more than a third: set pruneLimit to the number of resources that may be deleted", n, of, noun))
	}
}

// checkSet rejects a change to a resource of another set, unless the request adopts
// it.
func (p *plan) checkSet(doc parsedDocument, noun, set string) {
	switch {
	case p.in.Set == "" || p.in.Adopt || set == p.in.Set:
	case set == "":
		p.bad(doc.at+".name", "is the name of a "+noun+" that is of no set: set adopt to take it over")
	default:
		p.bad(doc.at+".name", fmt.Sprintf("is the name of a %s of the set %q: set adopt to take it over", noun, set))
	}
}

// passOn rejects a change to a team that holds scopes that the caller does not hold.
func (p *plan) passOn(at string, scopes []string) {
	if missing := p.missing(scopes); missing != "" && p.err == nil {
		p.err = forbidden("%s: this key does not hold %s itself and cannot change a team that does", at, missing)
	}
}

// refused records what a check of the store rejects in a document, under the names of documents.
func (p *plan) refused(doc parsedDocument, err error) {
	var e *store.Error
	if errors.As(err, &e) {
		for field, problem := range e.Fields {
			p.bad(doc.at+".spec."+strings.TrimSuffix(field, "Id"), problem)
		}
	}
}

// pruneTeam warns of the budgets that are deleted along with a team.
func (p *plan) pruneTeam(t *store.Team) {
	p.passOn("prune", t.Scopes)
	for i := range p.now.Budgets {
		if b := &p.now.Budgets[i]; b.TeamID == t.ID && (b.Set != p.in.Set || p.seen[b.ID]) {
			if missing := p.missing([]string{"costs:write"}); missing != "" && p.err == nil {
				p.err = forbidden("prune: this key does not hold %s and cannot delete the team %q, which has budgets", missing, t.Name)
			}
			p.warns = append(p.warns, fmt.Sprintf("prune: the budget %q is deleted with its team %q", b.Name, t.Name))
		}
	}
}

// agent returns the id of the agent that a document refers to.
func (p *plan) agent(doc parsedDocument, sent string) string {
	return p.named(doc, "agent", "an agent", p.agents, sent)
}

// teamOf returns the id of the team that a document refers to; empty where it refers to none.
func (p *plan) teamOf(doc parsedDocument, sent string) string {
	if sent == "" {
		return ""
	}
	return p.named(doc, "team", "a team", p.teams, sent)
}

// named returns the id of what a member of a document names.
func (p *plan) named(doc parsedDocument, member, noun string, ids map[string]string, sent string) string {
	if id, ok := ids[sent]; ok {
		return id
	}
	if id, ok := ids[api.NormalizeName(sent)]; ok {
		return id
	}
	p.bad(doc.at+".spec."+member, fmt.Sprintf("%.200q is not the name of %s of this tenant or of the documents", sent, noun))
	return ""
}

// policyAgent returns the name of the agent that a policy is for.
func (p *plan) policyAgent(doc parsedDocument, sent string) string {
	known := func(name string) bool {
		_, agent := p.agents[name]
		return agent || p.former[name] != ""
	}
	name := api.NormalizeName(sent)
	switch problem := api.NameProblem(name); {
	case sent == "" || name == api.AllAgents:
		return api.AllAgents
	case known(sent):
		return sent
	case problem != "":
		p.bad(doc.at+".spec.on", problem)
	case !known(name):
		p.warns = append(p.warns, fmt.Sprintf("%s: no agent is called %q", doc.at, name))
	}
	return name
}

// formerNames returns the former names that an agent does not have yet.
func (p *plan) formerNames(doc parsedDocument, id string, names []string) (list []string) {
	for i, name := range names {
		field := fmt.Sprintf("%s.spec.formerNames[%d]", doc.at, i)
		_, agent := p.agents[name]
		switch owner, taken := p.former[name]; {
		case agent:
			p.bad(field, fmt.Sprintf("%.200q is the name of an agent", name))
		case taken && owner != id:
			p.bad(field, fmt.Sprintf("%.200q is a former name of another agent", name))
		case !taken:
			p.former[name] = id
			list = append(list, name)
		}
	}
	return list
}

// after returns the number of resources of a kind after the changes, of which the tenant has n.
func (p *plan) after(kind string, n int) int {
	for _, r := range p.results {
		switch {
		case r.Kind == kind && r.Change == api.ChangeCreate:
			n++
		case r.Kind == kind && r.Change == api.ChangeDelete:
			n--
		}
	}
	return n
}
