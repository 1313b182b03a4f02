package server

import (
	"slices"

	"svc/server/api"
	"svc/store"
)

// Names were stored as they came before they were normalized. These stay as they
// are: they are found by their exact spelling, and a new name must differ from
// them in its normalized form.

// agentNames returns the names of the agents and their former ones.
func (c *call) agentNames() ([]string, error) {
	agents, _, err := c.tenant.ListAgents(c.Context(), store.AgentFilter{}, store.Page{})
	if err != nil {
		return nil, err
	}
	aliases, err := c.tenant.ListAgentAliases(c.Context())
	if err != nil {
		return nil, err
	}
	names := each(agents, func(a store.Agent) string { return a.Name })
	for _, a := range aliases {
		names = append(names, a.Alias)
	}
	return names, nil
}

// agentReference returns the name of the agent that a field of a body refers to:
// the normalized name, or the name as it was sent where an agent has exactly that.
func (c *call) agentReference(field, sent string) (string, error) {
	name := api.NormalizeName(sent)
	problem := api.NameProblem(name)
	if name == sent && problem == "" {
		return name, nil
	}
	names, err := c.agentNames()
	switch {
	case err != nil:
		return "", err
	case slices.Contains(names, sent):
		return sent, nil
	case problem != "":
		return "", invalidField(field, "%s", problem)
	}
	return name, nil
}

// UniqueName refuses a normalized name where an object other than self has it in
// another spelling. That an object has it in this spelling is for the store, in
// the transaction that takes it.
func UniqueName[T any](noun, name, self string, others []T, idAndName func(T) (id, name string)) error {
	var clash error
	for _, o := range others {
		switch id, other := idAndName(o); {
		case other == name:
			return nil
		case id != self && api.NormalizeName(other) == name:
			clash = store.FieldError(store.Conflict, noun+" already exists", "name",
				"is another spelling of the name of "+noun+" "+id)
		}
	}
	return clash
}
