package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"svc/store"
	"svc/store/api"
)

func wirePolicy(p store.Policy, fires int64, by enforcers) api.Policy {
	return api.Policy{
		ID: p.ID, Name: p.Name, Phase: p.Phase, On: p.On, Condition: wireCondition(p.Condition),
		Action: p.Action, RedactionStrategy: p.RedactionStrategy, Message: p.Message,
		Approval: (*api.Approval)(p.Approval), Enabled: p.Enabled, FireCount: fires, EnforcedBy: by.of(&p),
		CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.UpdatedAt.UTC(),
	}
}

// wireCondition converts a condition to the fields of its type. A pii_detected for any
// entity has an empty list of entities.
func wireCondition(k store.PolicyCondition) api.Condition {
	out := api.Condition{Type: k.Type, Threshold: k.Threshold, Entities: k.Entities, ToolName: k.ToolName, Arguments: k.Arguments, LabelsAll: k.LabelsAll, LabelsAny: k.LabelsAny}
	if k.Type == "pii_detected" && out.Entities == nil {
		out.Entities = []string{}
	}
	return out
}

func storeCondition(k *api.Condition) *store.PolicyCondition {
	if k == nil {
		return nil
	}
	return &store.PolicyCondition{Type: k.Type, Threshold: k.Threshold, Entities: k.Entities, ToolName: k.ToolName, Arguments: compact(k.Arguments), LabelsAll: k.LabelsAll, LabelsAny: k.LabelsAny}
}

// compact returns a value of a body without white space.
func compact(raw []byte) []byte {
	v := jsontext.Value(slices.Clone(raw))
	if v.Compact() != nil { // cannot happen: the value was decoded before
		return raw
	}
	return v
}

// policies are the policies of a tenant. A change is checked like a new policy. A policy
// that currently matches nothing is accepted with a warning.
var policies = &kind[store.Policy, api.PolicyCreate, api.PolicyUpdate]{
	noun: "policy", cursor: policiesList,
	echo: echo{fixed: []string{"id", "createdAt", "updatedAt"}, counted: []string{"fireCount"}, nullable: []string{"approval"}},
	find: func(c *call, q *query) func(store.Page) ([]store.Policy, int, error) {
		filter := store.PolicyFilter{Phase: q.enum("phase", "", api.Phases), Enabled: q.boolean("enabled")}
		return func(p store.Page) ([]store.Policy, int, error) { return c.tenant.ListPolicies(c.Context(), filter, p) }
	},
	read: func(c *call, id string) (store.Policy, error) { return c.tenant.GetPolicy(c.Context(), id) },
	wire: func(_ *call, p store.Policy) any { return wirePolicy(p, 0, nil) },
	measured: func(c *call, policies []store.Policy) ([]any, error) { // the number of traces in which the policies fired
		fires, err := c.traces.PolicyFires(c.Context(), each(policies, func(p store.Policy) string { return p.ID }))
		if err != nil {
			return nil, err
		}
		by, err := c.enforcers()
		if err != nil {
			return nil, err
		}
		return each(policies, func(p store.Policy) any { return wirePolicy(p, fires[p.ID], by) }), nil
	},
	newName:   func(in *api.PolicyCreate) *string { return &in.Name },
	newNameOf: func(in *api.PolicyUpdate) *string { return in.Name },
	create: func(c *call, in *api.PolicyCreate) error {
		if in.On != "" {
			on, err := c.agentReference("on", in.On)
			if err != nil {
				return err
			}
			in.On = on
		}
		p := store.PolicyCreate{
			Name: in.Name, Phase: in.Phase, On: in.On, Condition: *storeCondition(in.Condition),
			Action: in.Action, RedactionStrategy: in.RedactionStrategy, Message: in.Message,
			Approval: (*store.PolicyApproval)(in.Approval), Enabled: in.Enabled == nil || *in.Enabled,
		}
		warnings := c.policyWarnings(asPolicy(p))
		by, about := c.enforcing(p.Enabled)
		warnings = append(warnings, about...)
		return create(c, func(ctx context.Context) ([]store.Policy, error) {
			return c.tenant.CreatePolicies(ctx, p)
		}, func(made []store.Policy) error {
			return c.writeJSON(http.StatusCreated, api.Single[api.Policy]{Data: wirePolicy(made[0], 0, by), Warnings: warnings})
		})
	},
	update: func(c *call, id string, in *api.PolicyUpdate, was before[store.Policy]) (store.Policy, []string, error) {
		if in.On != nil {
			on, err := c.agentReference("on", *in.On)
			if err != nil {
				return store.Policy{}, nil, err
			}
			in.On = &on
		}
		p, err := c.tenant.UpdatePolicy(c.Context(), id, store.PolicyUpdate{
			Name: in.Name, Phase: in.Phase, On: in.On, Condition: storeCondition(in.Condition),
			Action: in.Action, RedactionStrategy: in.RedactionStrategy, Message: in.Message,
			Approval: (*store.PolicyApproval)(in.Approval), NoApproval: slices.Contains(was.removed, "approval"), Enabled: in.Enabled,
		}, checkPolicy)
		if err != nil {
			return p, nil, err
		}
		warnings := c.policyWarnings(p)
		if in.Enabled != nil {
			_, about := c.enforcing(p.Enabled)
			warnings = append(warnings, about...)
		}
		return p, warnings, nil
	},
	remove: func(c *call, id string) ([]string, error) { return nil, c.tenant.DeletePolicy(c.Context(), id) },
}

// checkPolicy validates a changed policy by the rules for a new one. A stored name from
// before names were normalized is not checked again; a name in the request is.
func checkPolicy(p store.Policy) error {
	condition := wireCondition(p.Condition)
	wrong := problems(&api.PolicyCreate{
		Name: p.Name, Phase: p.Phase, On: p.On, Condition: &condition,
		Action: p.Action, RedactionStrategy: p.RedactionStrategy, Message: p.Message,
		Approval: (*api.Approval)(p.Approval),
	})
	delete(wrong, "name")
	if len(wrong) > 0 {
		return invalid(wrong)
	}
	return nil
}
