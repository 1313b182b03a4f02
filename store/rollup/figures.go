package rollup

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"svc/store"
)

// dimensions are the dimensions of the rollups by which queries group.
var dimensions = map[store.GroupBy]Dimension{store.GroupByAgent: Agent, store.GroupByModel: Model, store.GroupByEnvironment: Environment,
	store.GroupByTool: Tool, store.GroupByRule: Rule, store.GroupByClient: Client}

// ResultDimension checks a query and returns the dimension of the rollups by which it groups.
func ResultDimension(q *store.StatsQuery) (Dimension, error) {
	return dimensions[q.GroupBy], q.Check()
}

// Result returns the result of a query from the sums by the words of its dimension. The
// argument names returns the current names of agents.
func Result(p Plan, by Dimension, sums map[string]*Sum, names func(ids []string) (map[string]string, error)) (store.Stats, error) {
	out := store.Stats{From: p.From, To: p.To, Groups: []store.StatsGroup{}}
	if by == Environment {
		sums = withoutTeams(sums)
	}
	var all Sum
	var ids []string
	for word, sum := range sums {
		all.Merge(sum)
		if by == None {
			continue
		}
		g := groupOf(by, word)
		g.Totals = totals(sum)
		out.Groups = append(out.Groups, g)
		if g.AgentID != "" {
			ids = append(ids, g.AgentID)
		}
	}
	out.Summary = totals(&all)
	if len(ids) > 0 {
		known, err := names(ids)
		if err != nil {
			return store.Stats{}, err
		}
		for i := range out.Groups {
			if name, ok := known[out.Groups[i].AgentID]; ok {
				out.Groups[i].AgentName = name
			}
		}
	}
	Sort(out.Groups)
	return out, nil
}

// withoutTeams adds up the sums of the teams in each environment.
func withoutTeams(sums map[string]*Sum) map[string]*Sum {
	envs := make(map[string]*Sum, len(sums))
	for word, sum := range sums {
		env, _ := SplitEnv(word)
		if envs[env] == nil {
			envs[env] = new(Sum)
		}
		envs[env].Merge(sum)
	}
	return envs
}

// Spend answers queries from the costs of a window by the words of a dimension, which it reads once
// for all queries of a window: of the agents with some ids, or by environment.
func Spend(q []store.SpendQuery, costs func(q Query, agents []string) (map[string]int64, error)) ([]store.NanoUSD, error) {
	windows := map[Query][]int{}
	for i := range q {
		w := Query{From: q[i].From.UTC(), To: q[i].To.UTC(), By: Environment}
		if q[i].Scope == store.AgentBudget || q[i].Scope == "" {
			w.By, w.OneAgent = Agent, true
		}
		if !w.OneAgent || q[i].AgentID != "" {
			windows[w] = append(windows[w], i)
		}
	}
	spent := make([]store.NanoUSD, len(q))
	for w, asked := range windows {
		var agents []string
		for _, i := range asked {
			if w.OneAgent {
				agents = append(agents, q[i].AgentID)
			}
		}
		of, err := costs(w, agents)
		if err != nil {
			return nil, err
		}
		for _, i := range asked {
			if w.OneAgent {
				spent[i] = store.NanoUSD(of[AgentWord(q[i].AgentID, "")])
				continue
			}
			for word, n := range of {
				if pays(&q[i].Payer, word) {
					spent[i] = store.NanoUSD(AddCap(int64(spent[i]), n))
				}
			}
		}
	}
	return spent, nil
}

// pays reports whether traces of an environment, as EnvWord returns it, are a payer's.
func pays(p *store.Payer, word string) bool {
	env, team := SplitEnv(word)
	switch p.Scope {
	case store.EnvironmentBudget:
		return env != "" && env == p.Environment
	case store.TeamBudget:
		return team != "" && team == p.TeamID
	}
	return p.Scope == store.TenantBudget
}

// groupOf returns the group of a word of a dimension. The word of an agent is "i" and its
// id, or "n" and its name if it has no id. The word of a model is its provider, a zero
// byte and its name.
func groupOf(by Dimension, word string) (g store.StatsGroup) {
	switch by {
	case Agent:
		if name, ok := strings.CutPrefix(word, "n"); ok {
			g.AgentName = name
		} else {
			g.AgentID = strings.TrimPrefix(word, "i")
		}
	case Model:
		g.ModelProvider, g.ModelName, _ = strings.Cut(word, "\x00")
	case Tool:
		g.ToolName = word
	case Rule:
		g.RuleID = word
	case Client:
		g.ClientName = word
	default:
		g.Environment = word
	}
	return g
}

// totals returns the totals of a sum of aggregate states.
func totals(s *Sum) store.Totals {
	return store.Totals{
		Traces: s.Traces, Errors: s.Errors, Blocked: s.Blocked,
		InputTokens: s.InputTokens, OutputTokens: s.OutputTokens,
		Cost: store.NanoUSD(s.Cost), DurationSum: time.Duration(s.Duration),
		P50: s.Quantile(0.50), P95: s.Quantile(0.95), P99: s.Quantile(0.99),
		P99Low: s.QuantileLow(0.99),
	}
}

// Sort sorts groups in the order of results: by cost, then by number of traces, both
// descending, then by name.
func Sort(groups []store.StatsGroup) {
	slices.SortFunc(groups, func(a, b store.StatsGroup) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Traces, a.Traces),
			strings.Compare(a.AgentName, b.AgentName), strings.Compare(a.AgentID, b.AgentID),
			strings.Compare(a.ModelProvider, b.ModelProvider), strings.Compare(a.ModelName, b.ModelName),
			strings.Compare(a.Environment, b.Environment), strings.Compare(a.ToolName, b.ToolName),
			strings.Compare(a.RuleID, b.RuleID), strings.Compare(a.ClientName, b.ClientName))
	})
}
