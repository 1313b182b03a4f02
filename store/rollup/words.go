package rollup

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
