package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"svc/store"
	"svc/store/api"
)

// template is a named set of policies that can be applied at once.
type template struct {
	id, name, description string
	policies              []store.PolicyCreate // Name without the template and the agent; On and Enabled unset
}

// Entities that templates use: personal identifiers, and credentials.
var (
	personal = []string{"EMAIL", "PHONE", "CREDIT_CARD", "IBAN", "SSN", "NHS_NUMBER", "NIF", "CPF"}
	secrets  = []string{"API_KEY", "PRIVATE_KEY", "JWT"}
)

// templates are the policy templates, in the order in which they are listed.
var templates = []template{
	{
		id: "pii-protection", name: "PII protection",
		description: "Replaces personal data (mail addresses, phone, card and account numbers, …) in answers by tokens, which the agent can send back to the same server. An agent that wants a value can still get it.",
		policies: []store.PolicyCreate{
			{Name: "replace personal data in responses", Phase: "response", Condition: pii(personal), Action: "redact", RedactionStrategy: "token"},
		},
	},
	{
		id: "prompt-injection-defense", name: "Prompt injection defense",
		description: "Blocks texts that very likely try to take over an agent, on the way up and on the way back, and warns of suspicious ones.",
		policies: []store.PolicyCreate{
			{Name: "block injections in requests", Phase: "request", Condition: injection(0.8), Action: "block"},
			{Name: "block injections in responses", Phase: "response", Condition: injection(0.8), Action: "block"},
			{Name: "warn of suspicious requests", Phase: "request", Condition: injection(0.5), Action: "warn"},
			{Name: "warn of suspicious responses", Phase: "response", Condition: injection(0.5), Action: "warn"},
		},
	},
	{
		id: "secrets-leak-prevention", name: "Secrets leak prevention",
		description: "Blocks requests that carry keys or tokens, and takes them out of responses.",
		policies: []store.PolicyCreate{
			{Name: "block secrets in requests", Phase: "request", Condition: pii(secrets), Action: "block"},
			{Name: "replace secrets in responses", Phase: "response", Condition: pii(secrets), Action: "redact", RedactionStrategy: "replace"},
		},
	},
	{
		id: "cost-guard", name: "Cost guard",
		description: "Blocks the requests of an agent that has spent a budget, until the budget's next period.",
		policies: []store.PolicyCreate{
			{Name: "block requests over budget", Phase: "request", Condition: store.PolicyCondition{Type: "budget_exceeded"}, Action: "block"},
		},
	},
	{
		id: "observe-only", name: "Observe only",
		description: "Warns of injections, personal data, secrets and spent budgets, and changes nothing: for a first look at what goes through.",
		policies: []store.PolicyCreate{
			{Name: "watch for injections in requests", Phase: "request", Condition: injection(0.5), Action: "warn"},
			{Name: "watch for injections in responses", Phase: "response", Condition: injection(0.5), Action: "warn"},
			{Name: "watch for personal data and secrets in requests", Phase: "request", Condition: pii(nil), Action: "warn"},
			{Name: "watch for personal data and secrets in responses", Phase: "response", Condition: pii(nil), Action: "warn"},
			{Name: "watch spent budgets", Phase: "request", Condition: store.PolicyCondition{Type: "budget_exceeded"}, Action: "warn"},
		},
	},
}

// pii returns the condition that one of the entities is found; no entities means
// any.
func pii(entities []string) store.PolicyCondition {
	return store.PolicyCondition{Type: "pii_detected", Entities: entities}
}

func injection(threshold float64) store.PolicyCondition {
	return store.PolicyCondition{Type: "injection_score", Threshold: &threshold}
}

// listTemplates serves GET /api/policies/templates. The response has data only.
func (s *Server) listTemplates(c *call) error {
	return c.writeJSON(http.StatusOK, api.Items[api.PolicyTemplate]{Data: each(templates, func(t template) api.PolicyTemplate {
		return api.PolicyTemplate{ID: t.id, Name: t.name, Description: t.description, PolicyCount: len(t.policies)}
	})})
}

// applyTemplate serves POST /api/policies/templates/apply. It creates all
// policies of the template or none. Their names are made of template and agent,
// so applying a template twice for one agent is rejected.
func (s *Server) applyTemplate(c *call) error {
	var in api.TemplateApply
	if err := c.decode(&in); err != nil {
		return err
	}
	i := slices.IndexFunc(templates, func(t template) bool { return t.id == in.Template })
	if i < 0 {
		return invalidField("template", "is not the id of a template; GET /api/policies/templates lists them")
	}
	agent := api.AllAgents
	if in.AgentName != "" {
		var err error
		if agent, err = c.agentReference("agentName", in.AgentName); err != nil {
			return err
		}
	}
	policies := slices.Clone(templates[i].policies)
	for j := range policies {
		p := &policies[j]
		p.Name = fmt.Sprintf("%s: %s (%s)", in.Template, p.Name, agent)
		if utf8.RuneCountInString(p.Name) > api.MaxName {
			return invalidField("agentName", "is too long for the policy names of this template")
		}
		p.On, p.Enabled = agent, in.Enabled == nil || *in.Enabled
	}
	warnings := c.policyWarnings(each(policies, asPolicy)...)
	_, about := c.enforcing(policies[0].Enabled)
	warnings = append(warnings, about...)
	err := create(c, func(ctx context.Context) ([]store.Policy, error) {
		return c.tenant.CreatePolicies(ctx, policies...)
	}, func(made []store.Policy) error {
		return c.writeJSON(http.StatusCreated, api.TemplateApplied{
			Warnings: warnings,
			Created:  len(made),
			Policies: each(made, func(p store.Policy) api.PolicyRef { return api.PolicyRef{ID: p.ID, Name: p.Name} }),
		})
	})
	var clash *store.Error
	if errors.As(err, &clash) && clash.Kind == store.Conflict {
		return &failure{http.StatusBadRequest, clash.Message, map[string]string{
			"template": fmt.Sprintf("is applied already for agent %q", agent),
		}}
	}
	return err
}
