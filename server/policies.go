package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"svc/server/api"
	"svc/store"
)

func wirePolicy(p store.Policy, fires int64) api.Policy {
	return api.Policy{
		ID: p.ID, Name: p.Name, Phase: p.Phase, On: p.On, Condition: wireCondition(p.Condition),
		Action: p.Action, RedactionStrategy: p.RedactionStrategy, Message: p.Message, Enabled: p.Enabled, FireCount: fires,
		CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.UpdatedAt.UTC(),
	}
}

// wirePolicies adds to policies how often traces say that they fired.
func (c *call) wirePolicies(policies ...store.Policy) ([]api.Policy, error) {
	fires, err := c.traces.PolicyFires(c.Context(), each(policies, func(p store.Policy) string { return p.ID }))
	if err != nil {
		return nil, err
	}
	return each(policies, func(p store.Policy) api.Policy { return wirePolicy(p, fires[p.ID]) }), nil
}

// wireCondition shows the fields of the condition's type; a pii_detected that
// means any entity says so with an empty list.
func wireCondition(k store.PolicyCondition) api.Condition {
	out := api.Condition{Type: k.Type, Threshold: k.Threshold, Entities: k.Entities, ToolName: k.ToolName, Arguments: k.Arguments}
	if k.Type == "pii_detected" && out.Entities == nil {
		out.Entities = []string{}
	}
	return out
}

func storeCondition(k *api.Condition) *store.PolicyCondition {
	if k == nil {
		return nil
	}
	return &store.PolicyCondition{Type: k.Type, Threshold: k.Threshold, Entities: k.Entities, ToolName: k.ToolName, Arguments: compact(k.Arguments)}
}

// compact returns a value of a body without its white space.
func compact(raw []byte) []byte {
	v := jsontext.Value(slices.Clone(raw))
	if v.Compact() != nil { // cannot be: it was decoded
		return raw
	}
	return v
}

// listPolicies serves GET /api/policies.
func (s *Server) listPolicies(c *call) error {
	q := c.query()
	page := q.cursorPage(policiesList, api.DefaultLimit)
	filter := store.PolicyFilter{Phase: q.enum("phase", "", api.Phases), Enabled: q.boolean("enabled")}
	if err := q.err(); err != nil {
		return err
	}
	policies, total, err := c.tenant.ListPolicies(c.Context(), filter, page.withOneMore())
	if err != nil {
		return err
	}
	policies, next := cutPage(page, policies, func(p *store.Policy) store.Place { return store.Place{ID: p.ID} })
	out, err := c.wirePolicies(policies...)
	if err != nil {
		return err
	}
	return nextPage(c, out, total, page, next)
}

// createPolicy serves POST /api/policies.
func (s *Server) createPolicy(c *call) error {
	var in api.PolicyCreate
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.On != "" {
		on, err := c.agentReference("on", in.On)
		if err != nil {
			return err
		}
		in.On = on
	}
	if err := c.uniquePolicy("", &in.Name); err != nil {
		return err
	}
	p := store.PolicyCreate{
		Name: in.Name, Phase: in.Phase, On: in.On, Condition: *storeCondition(in.Condition),
		Action: in.Action, RedactionStrategy: in.RedactionStrategy, Message: in.Message, Enabled: in.Enabled == nil || *in.Enabled,
	}
	warnings := c.policyWarnings(asPolicy(p))
	return create(c, func(ctx context.Context) ([]store.Policy, error) {
		return c.tenant.CreatePolicies(ctx, p)
	}, func(made []store.Policy) error {
		return c.writeJSON(http.StatusCreated, api.Single[api.Policy]{Data: wirePolicy(made[0], 0), Warnings: warnings})
	})
}

// getPolicy serves GET /api/policies/:id.
func (s *Server) getPolicy(c *call) error {
	id, err := c.pathID("policy")
	if err != nil {
		return err
	}
	p, err := c.tenant.GetPolicy(c.Context(), id)
	if err != nil {
		return err
	}
	out, err := c.wirePolicies(p)
	if err != nil {
		return err
	}
	c.etag(p.Object())
	return c.data(http.StatusOK, out[0])
}

// updatePolicy serves PUT /api/policies/:id with any subset of the fields. What
// comes out must be a policy that could have been created.
func (s *Server) updatePolicy(c *call) error {
	id, err := c.pathID("policy")
	if err != nil {
		return err
	}
	var in api.PolicyUpdate
	if _, err := c.decodeChange(&in, policyEcho, func() (any, error) {
		p, err := c.tenant.GetPolicy(c.Context(), id)
		if err != nil {
			return nil, err
		}
		out, err := c.wirePolicies(p)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}); err != nil {
		return err
	}
	if in.On != nil {
		on, err := c.agentReference("on", *in.On)
		if err != nil {
			return err
		}
		in.On = &on
	}
	if err := c.uniquePolicy(id, in.Name); err != nil {
		return err
	}
	p, err := c.tenant.UpdatePolicy(c.Context(), id, store.PolicyUpdate{
		Name: in.Name, Phase: in.Phase, On: in.On, Condition: storeCondition(in.Condition),
		Action: in.Action, RedactionStrategy: in.RedactionStrategy, Message: in.Message, Enabled: in.Enabled,
	}, checkPolicy)
	if err != nil {
		return err
	}
	fires, err := c.traces.PolicyFires(c.Context(), []string{id})
	if err != nil { // the change is done; a count that cannot be read must not look like a failure
		s.log.Warn("the answer to a changed policy lacks its count", "request_id", c.id, "error", err)
	}
	c.etag(p.Object())
	return c.writeJSON(http.StatusOK, api.Single[api.Policy]{Data: wirePolicy(p, fires[id]), Warnings: c.policyWarnings(p)})
}

// checkPolicy holds a changed policy to the rules of a new one. A name that was
// stored before names were normalized stays; one that was given is checked.
func checkPolicy(p store.Policy) error {
	condition := wireCondition(p.Condition)
	wrong := (&api.PolicyCreate{
		Name: p.Name, Phase: p.Phase, On: p.On, Condition: &condition,
		Action: p.Action, RedactionStrategy: p.RedactionStrategy, Message: p.Message,
	}).Validate()
	delete(wrong, "name")
	if len(wrong) > 0 {
		return invalid(wrong)
	}
	return nil
}

// deletePolicy serves DELETE /api/policies/:id.
func (s *Server) deletePolicy(c *call) error {
	id, err := c.pathID("policy")
	if err != nil {
		return err
	}
	if err := c.tenant.DeletePolicy(c.Context(), id); err != nil {
		return err
	}
	return c.deleted()
}
