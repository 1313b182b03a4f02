package rollup

import "strings"

// AgentWord returns an agent as a value of a dimension: its id, or the name of an agent that
// is not registered.
func AgentWord(id, name string) string {
	if id == "" {
		return "n" + name
	}
	return "i" + id
}

// ModelWord returns a model as a value of a dimension. Strings of traces have no zero bytes.
func ModelWord(provider, model string) string {
	if provider+model == "" {
		return ""
	}
	return provider + "\x00" + model
}

// EnvWord returns an environment as a value of a dimension, with the team of the agent where it
// has one: budgets of both read the few rows of environments, and no table has a dimension more.
// Neither has zero bytes.
func EnvWord(env, team string) string {
	if team == "" {
		return env
	}
	return env + "\x00" + team
}

// SplitEnv is the inverse of EnvWord.
func SplitEnv(word string) (env, team string) {
	env, team, _ = strings.Cut(word, "\x00")
	return env, team
}

// Words numbers the values of dimensions for keys of rows; 0 is the empty string.
type Words struct {
	list  []string
	known map[string]uint32
}

// NewWords returns the numbering of the empty string only.
func NewWords() *Words { return &Words{list: []string{""}, known: map[string]uint32{"": 0}} }

// Number returns the number of a word, which gets the next one if it has none.
func (w *Words) Number(word string) uint32 {
	n, ok := w.known[word]
	if !ok {
		n = uint32(len(w.list))
		w.list = append(w.list, word)
		w.known[word] = n
	}
	return n
}

// Word returns the word of a number.
func (w *Words) Word(n uint32) string { return w.list[n] }
