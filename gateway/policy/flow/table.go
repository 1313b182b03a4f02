package flow

// Answer describes a message of an upstream for [Table.Sets]. Strings are used during the call only.
type Answer struct {
	// Upstream is the name of the upstream that sent the message.
	Upstream string
	// Asked is the method of the request that the message belongs to; empty for a message of a
	// standalone stream.
	Asked string
	// Tool is the visible name of the tool of a tools/call, or of the task; empty for none.
	Tool string
	// URI is the requested URI of a resources/read and the like; empty for none.
	URI string
	// Unknown is set where the call that the message belongs to is not known: on a resumed stream, or
	// for a task whose tool is not known. Every label of the upstream is set then.
	Unknown bool
	// Body is the message. It is read only if an entry has uri_prefix.
	Body []byte
	// Score is the injection score of the message; it is used only if [Table.Scores].
	Score float64
}

// Table is the compiled section. It is immutable and safe for concurrent use. A nil Table has no
// labels.
type Table struct {
	names *Names
}

// Compile compiles a section that was validated; nil for one without labels.
func Compile(c *Config) (*Table, error) {
	if !c.Used() {
		return nil, nil
	}
	return &Table{names: c.Names()}, nil
}

// Names returns the declared names.
func (t *Table) Names() *Names {
	if t == nil {
		return nil
	}
	return t.names
}

// Scores reports whether an entry has injection_score, so that answers must be scored.
func (t *Table) Scores() bool { return false }

// Sets returns the labels that a message sets for its receiver.
func (t *Table) Sets(a *Answer) Labels { return 0 }
