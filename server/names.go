package server

import (
	"slices"

	"svc/store"
	"svc/store/api"
)

// Names that were stored before names were normalized stay as they are. They are
// found by their exact spelling, and a new name must differ from them in its
// normalized form.

// agentNames returns the current and the former names of all agents.
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
// the name as it was sent when an agent has exactly that name, else the normalized
// name.
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

// UniqueName rejects a normalized name when an object other than self has it in
// another spelling. The store rejects a name in the same spelling, in the
// transaction of the write.
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
