package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"svc/store"
	"svc/store/api"
)

// apply serves POST /api/apply: it creates, changes and, on request, deletes
// resources so that they are as the documents declare. Either all changes are made
// or none.
func (s *Server) apply(c *call) error {
	var in api.Apply
	if err := c.decode(&in); err != nil {
		return err
	}
	docs, err := readDocuments(in.Documents)
	if err != nil {
		return err
	}
	if err := c.mayDeclare(docs, in.DryRun); err != nil {
		return err
	}
	if err := s.checkWebhookURLs(docs); err != nil {
		return err
	}
	var p *plan
	make := func(now store.Contents, by store.Planner) (_ []store.Change, err error) {
		if c.team != nil {
			now.Webhooks = nil // mayDeclare: only pruning could reach them
		}
		if p, err = makePlan(&in, docs, c.key.CreatedBy, c.key.TeamID, c.missingScope, now, by); err != nil {
			return nil, err
		}
		return p.changes, nil
	}
	answer := func() error {
		return c.writeJSON(http.StatusOK, api.Applied{Data: p.results, Applied: !in.DryRun, Warnings: boundWarnings(p.warns)})
	}
	if in.DryRun {
		now, err := c.tenant.Contents(c.Context())
		if err != nil {
			return err
		}
		var ids store.IDs
		if _, err := make(now, store.Planner{Now: c.now, NewID: func(prefix string) string { return ids.New(prefix, c.now) }}); err != nil {
			return err
		}
		return answer()
	}
	s.scopesMu.Lock()
	defer s.scopesMu.Unlock()
	return create(c, func(ctx context.Context) ([]store.Change, error) { return c.tenant.Apply(ctx, make) },
		func([]store.Change) error { return answer() })
}

// mayDeclare returns a 403 when the calling key lacks a scope that one of the kinds
// in documents takes. A dry run takes the scope for reading too: its response names the
// fields of a resource that differ from a document, and it leaves no trace.
func (c *call) mayDeclare(docs []parsedDocument, dryRun bool) error {
	for _, k := range declaredKinds {
		if !slices.ContainsFunc(docs, func(d parsedDocument) bool { return d.kind == k.name }) {
			continue
		}
		read, write := k.scopes()
		if missing := c.missingScope(declaring(read, write, dryRun)); missing != "" {
			return forbidden("the team that this key is limited to lacks the scope %s, which documents of the kind %s take", missing, k.name)
		}
		if k.name == api.KindWebhook && c.team != nil {
			return forbidden("documents of the kind %s take a key that is not limited to a team", k.name)
		}
	}
	return nil
}

// checkWebhookURLs rejects http where the server allows no address for it.
func (s *Server) checkWebhookURLs(docs []parsedDocument) error {
	wrong := map[string]string{}
	for _, d := range docs {
		spec, ok := d.spec.(*api.WebhookSpec)
		var f *failure
		if ok && errors.As(s.checkWebhookURL(spec.URL), &f) && len(wrong) < maxDetails {
			wrong[d.at+".spec.url"] = f.details["url"]
		}
	}
	if len(wrong) > 0 {
		return invalid(wrong)
	}
	return nil
}

// declaring returns the scopes that a change, or a dry run, of a kind takes.
func declaring(read, write string, dryRun bool) []string {
	if dryRun {
		return []string{write, read}
	}
	return []string{write}
}

// readDocuments checks each document by itself, and that no two documents of a kind
// have the same name. The details of its error name a document by its index.
func readDocuments(in []api.Document) ([]parsedDocument, error) {
	docs := make([]parsedDocument, len(in))
	first := map[[2]string]int{}
	wrong := map[string]string{}
	for i, d := range in {
		at := fmt.Sprintf("documents[%d]", i)
		doc := parsedDocument{index: i, at: at, kind: d.Kind, name: d.Name}
		for field, problem := range doc.read(d.Spec) {
			if len(wrong) < maxDetails {
				wrong[field] = problem
			}
		}
		key := [2]string{doc.kind, doc.name}
		if before, twice := first[key]; twice && len(wrong) < maxDetails {
			wrong[at+".name"] = fmt.Sprintf("is the name of documents[%d] too, of the same kind", before)
		} else if !twice {
			first[key] = i
		}
		docs[i] = doc
	}
	if len(wrong) > 0 {
		return nil, invalid(wrong)
	}
	return docs, nil
}

// read decodes and checks the spec of a document. It returns the problems that it
// finds.
func (d *parsedDocument) read(raw []byte) map[string]string {
	spec := api.NewSpec(d.kind)
	if spec == nil {
		return map[string]string{d.at + ".kind": "must be one of " + strings.Join(api.DocumentKinds, ", ")}
	}
	d.spec = spec
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	found := map[string]string{}
	err := decodeStrict(raw, spec)
	var f *failure
	switch {
	case errors.As(err, &f) && len(f.details) > 0:
		for field, problem := range f.details {
			found[d.at+".spec."+field] = problem
		}
	case errors.As(err, &f):
		found[d.at+".spec"] = f.message
	case err != nil:
		found[d.at+".spec"] = "cannot be read"
	default:
		for field, problem := range withMatchers(spec, spec.Validate(&d.name)) {
			if field == "name" {
				found[d.at+".name"] = problem
			} else {
				found[d.at+".spec."+field] = problem
			}
		}
	}
	return found
}

// exporter converts the resources of a tenant to documents.
type exporter struct {
	all    store.Contents
	agents map[string]string   // names by id
	teams  map[string]string   // names by id
	former map[string][]string // former names by id
	warns  []string
}

// exportDocuments serves GET /api/apply: the documents that declare the tenant's
// resources, of all kinds or of those in the query. All are read in one transaction.
func (s *Server) exportDocuments(c *call) error {
	q := c.query()
	var kinds []string
	if text := q.text("kind"); text != "" {
		for kind := range strings.SplitSeq(text, ",") {
			if !slices.Contains(api.DocumentKinds, kind) {
				q.bad("kind", "must be one or more of "+strings.Join(api.DocumentKinds, ", ")+", separated by commas")
			}
			kinds = append(kinds, kind)
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	for _, k := range declaredKinds {
		read, _ := k.scopes()
		if missing := c.missingScope([]string{read}); missing != "" && (kinds == nil || slices.Contains(kinds, k.name)) {
			return forbidden("the team that this key is limited to lacks the scope %s, which the kind %s takes", missing, k.name)
		}
	}
	all, err := c.tenant.Contents(c.Context())
	if err != nil {
		return err
	}
	if c.team != nil {
		all.Webhooks = nil // they belong to teams, which documents do not name
	}
	e := &exporter{all: all, agents: map[string]string{}, teams: map[string]string{}, former: map[string][]string{}}
	for _, t := range all.Teams {
		e.teams[t.ID] = t.Name
	}
	for _, a := range all.Agents {
		e.agents[a.ID] = a.Name
	}
	for _, a := range all.Aliases {
		e.former[a.AgentID] = append(e.former[a.AgentID], a.Alias)
	}
	out := api.Documents{Documents: []api.Document{}}
	for _, k := range declaredKinds {
		if kinds == nil || slices.Contains(kinds, k.name) {
			out.Documents = append(out.Documents, k.export(e)...)
		}
	}
	out.Warnings = boundWarnings(e.warns)
	return c.writeJSON(http.StatusOK, out)
}

func (e *exporter) warn(format string, args ...any) {
	e.warns = append(e.warns, fmt.Sprintf(format, args...))
}

// agent returns the name of the agent that a resource refers to; false when the
// agent has been deleted.
func (e *exporter) agent(noun, name, id string) (string, bool) {
	agent, ok := e.agents[id]
	if !ok {
		e.warn("%s %q is left out: its agent has been deleted", noun, name)
	}
	return agent, ok
}
