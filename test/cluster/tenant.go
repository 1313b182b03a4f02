//go:build linux

package main

import "time"

// tenant is one whose traces clients send.
type tenant struct {
	name, id            string
	adminKey, ingestKey string
	home                *process // the shard that has its traces; nil: PostgreSQL has them

	admin, ingest     *rest // of the checks
	export            *rest // is more patient
	agentID, budgetID string
}

// newTenant makes what the traces of a tenant need, and stores one, which decides where
// the others go.
func (c *cluster) newTenant(name, adminKey string) (*tenant, error) {
	t := &tenant{name: name, adminKey: adminKey, admin: newREST(c, adminKey), export: newREST(c, adminKey)}
	t.export.limit = 30 * time.Second
	var key struct{ Key string }
	if err := t.admin.must("POST", "/api/keys", map[string]any{"name": "reporters", "scope": "ingest"}, &key); err != nil {
		return nil, err
	}
	t.ingestKey, t.ingest = key.Key, newREST(c, key.Key)
	var self struct{ Tenant struct{ ID string } }
	if err := t.admin.must("GET", "/api/whoami", nil, &self); err != nil {
		return nil, err
	}
	t.id = self.Tenant.ID
	if err := t.ingest.must("POST", "/api/traces", map[string]any{"agentName": "probe", "status": "success", "durationMs": 1}, nil); err != nil {
		return nil, err
	}
	var err error
	t.home, err = c.homeOf(t.id)
	return t, err
}

// makeBudget makes the agent of the traces that clients send, and a budget on it, which
// adds them up.
func (t *tenant) makeBudget() error {
	var agent, budget struct{ ID string }
	err := t.admin.must("POST", "/api/agents", map[string]any{"name": agentName}, &agent)
	if err == nil {
		err = t.admin.must("POST", "/api/costs/budgets", map[string]any{"name": "all", "agentId": agent.ID, "limitUsd": 100000, "period": "monthly"}, &budget)
	}
	t.agentID, t.budgetID = agent.ID, budget.ID
	return err
}

// used is what the budget has used, in dollars.
func (t *tenant) used() (float64, error) {
	var budget struct{ CurrentUsd float64 }
	err := t.admin.must("GET", "/api/costs/budgets/"+t.budgetID, nil, &budget)
	return budget.CurrentUsd, err
}

// client names a client in the table of errors.
func (t *tenant) client(what string) string {
	if t.name == "default" {
		return what
	}
	return what + "@" + t.name
}
