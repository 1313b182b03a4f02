package detect

// markup follows quotation marks, comments and literals of chat templates
// through a folded text.
type markup struct {
	quote   byte // the mark that is open, 0 when none is
	since   int  // where it was opened
	comment bool
}

func (m *markup) flags() (f hitFlags) {
	if m.quote != 0 {
		f |= quoted
	}
	if m.comment {
		f |= inMarkup
	}
	return f
}

// literal is a sequence of marks that means something.
type literal struct {
	text  string
	means concept
	line  bool // only where a line begins
}

// marking is a literal in a text: its length and meaning; n is 0 when there is none.
type marking struct {
	n     int
	means concept
}

// maxQuote bounds how far a quotation reaches, in bytes; an apostrophe or a
// mark that never closes must not turn all that follows into one.
const maxQuote = 600

// punctuation looks at a character that is no part of a word.
func (m *markup) punctuation(t []byte, i int) marking {
	c := t[i]
	if m.quote != 0 && i-m.since > maxQuote {
		m.quote = 0
	}
	switch c {
	case '"', '`':
		if m.quote == c {
			m.quote = 0
		} else if m.quote == 0 {
			m.quote, m.since = c, i
		}
		if c == '`' && hasPrefix(t[i:], "```system") {
			return marking{len("```system"), template}
		}
		return marking{}
	case '\'':
		if m.quote == '\'' && (i+1 == len(t) || !wordByte(t[i+1])) {
			m.quote = 0
		} else if m.quote == 0 && (i == 0 || !wordByte(t[i-1])) && i+1 < len(t) && wordByte(t[i+1]) {
			m.quote, m.since = c, i
		}
		return marking{}
	case '\n':
		if i+1 < len(t) && t[i+1] == '\n' {
			m.quote = 0
		}
	case ':':
		if i > 0 && hasPrefix(t[i:], "://") {
			return marking{3, destination}
		}
	case '@':
		if i > 0 && i+1 < len(t) && isAlnum(t[i-1]) && isAlnum(t[i+1]) {
			return marking{1, destination}
		}
	}
	if !literalStart[c] {
		return marking{}
	}
	switch {
	case hasPrefix(t[i:], "<!--"):
		m.comment = true
		return marking{4, hidden}
	case hasPrefix(t[i:], "-->"):
		m.comment = false
		return marking{3, 0}
	}
	lineStart := i == 0 || t[i-1] == '\n' || t[i-1] == ' ' && i < 3
	for _, l := range literalsBy[c] {
		if hasPrefix(t[i:], l.text) && (!l.line || lineStart) {
			return marking{len(l.text), l.means}
		}
	}
	return marking{}
}

// literals are tokens of chat templates and marks that pretend to end a text.
var literals = []literal{
	{"/etc/passwd", guarded | secret, false}, {"/etc/shadow", guarded | secret, false}, {"~/.", guarded, false}, {".env", guarded, false}, {".ssh/", guarded | secret, false}, {".aws/", guarded | secret, false}, {".npmrc", guarded, false}, {".netrc", guarded, false},
	{"<|im_start|>", template | role, false}, {"<|im_end|>", template, false}, {"<|im_sep|>", template, false}, {"<|endoftext|>", template, false}, {"<|end_of_text|>", template, false}, {"<|begin_of_text|>", template, false},
	{"<|start_header_id|>", template | role, false}, {"<|end_header_id|>", template, false}, {"<|eot_id|>", template, false}, {"<|system|>", template | role, false}, {"<|user|>", template, false},
	{"<|assistant|>", template, false}, {"<|end|>", template, false}, {"<|endofprompt|>", template, false}, {"<|channel|>", template, false}, {"<|start|>", template, false}, {"<|message|>", template, false},
	{"<start_of_turn>", template, false}, {"<end_of_turn>", template, false}, {"[inst]", template, false}, {"[/inst]", template, false}, {"<<sys>>", template | role, false}, {"<</sys>>", template, false},
	{"<system>", template | role, false}, {"</system>", template | role, false}, {"<system_prompt>", template | role, false}, {"</system_prompt>", template | role, false}, {"<system-reminder>", template | role, false}, {"<system_message>", template | role, false},
	{"<assistant>", template, false}, {"</assistant>", template, false}, {"<instructions>", template, false}, {"</instructions>", template, false}, {"</user_input>", template, false}, {"</user>", template, false}, {"</document>", template, false}, {"</context>", template, false}, {"</tool_result>", template, false}, {"</tool_response>", template, false}, {"</function_results>", template, false}, {"</untrusted>", template, false}, {"</data>", 0, false}, {"</input>", 0, false},
	{"<important>", template | urgent, false}, {"</important>", template, false}, {"<admin>", template | role, false}, {"</admin>", template, false}, {"<secret>", 0, false}, {"<instruction>", template, false}, {"</instruction>", template, false}, {"<developer>", template | role, false}, {"<ai_instruction", template | toModel, false},
	{"[system]", template | role, false}, {"[/system]", template, false}, {"[system message]", template | role, false}, {"[system:", template | role, false}, {"[system ", template | role, false}, {"(system:", template | role, false}, {"[admin]", template | role, false}, {"[developer]", template | role, false}, {"[assistant]", template, false}, {"[user]", 0, false}, {"[system](#", template | role, false}, {"[end of", boundary, false}, {"[ai", toModel, false}, {"{{#system", template | role, false}, {"<s>", 0, false},
	{"### system", template | role, true}, {"### instruction", template, true}, {"### new instruction", template | newOrders, true}, {"### response", 0, true}, {"## system", 0, true}, {"# system", 0, true}, {"### human", template, true}, {"### assistant", template, true}, {"### user", 0, true}, {"###system", template | role, true}, {"###instruction", template, true}, {"--- system", template | role, true}, {"---system", template | role, true}, {"=== system", template | role, true}, {"***system", template | role, true}, {"--- end", boundary, true}, {"---end", boundary, true}, {"===end", boundary, true}, {"=== end", boundary, true}, {"-----end", 0, true}, {"----- end", boundary, true}, {"----end", boundary, true}, {"==== end", boundary, true}, {"%%%", 0, true}, {"[//]: #", hidden, false}, {"{\"role\":\"system\"", template | role, false}, {"{\"role\": \"system\"", template | role, false},
}

// literalStart marks the first bytes of literals, literalsBy holds them by it.
var literalStart, literalsBy = func() (s [256]bool, by [256][]literal) {
	for _, l := range literals {
		s[l.text[0]] = true
		by[l.text[0]] = append(by[l.text[0]], l)
	}
	s['<'], s['-'] = true, true
	return s, by
}()
