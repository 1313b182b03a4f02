package detect

// hit is a match of a phrase of the lexicon.
type hit struct {
	begin, at int32 // positions of its first and last word, in half words; a new sentence adds to them
	off       int32 // where it begins, in bytes of the folded text
	means     meaning
	flags     hitFlags
}

// hitFlags describe how a phrase is used.
type hitFlags uint8

const (
	negated hitFlags = 1 << iota // do not ignore
	said                         // they ignore: reported, not an order
	quoted                       // inside of quotation marks or backquotes
)

// Positions are counted in half words.
const (
	wordUnits     = 2
	lineUnits     = 2
	sentenceUnits = 6
	leafUnits     = 1000 // between unrelated texts
)

// leafEnd separates the texts that were extracted from a JSON text.
const leafEnd = 0x1E

// maxQuote bounds the length of a quotation, in bytes, so that a mark that never closes does not
// make the rest of the text a quotation.
const maxQuote = 400

// partial is a phrase of which the first words matched.
type partial struct {
	node       int32
	begin, off int32
}

// scan is one pass over a folded text.
type scan struct {
	lex  *lexicon
	text []byte
	hits []hit

	at      int32          // position of the last word
	open    [2][16]partial // of the previous words and of this one, alternating
	turn    int
	opened  int
	tone    hitFlags // of the word at toneAt
	toneAt  int32
	youAt   int32 // position of the last "you"
	starts  bool  // whether a line or a sentence begins
	quote   byte  // the open quotation mark, 0 when none is open
	quoteAt int

	long              []int32 // starts of words that may be a part of an encoded text
	percent, entities int     // numbers of escapes
}

// run finds the phrases of the lexicon in the text.
func (s *scan) run() {
	t := s.text
	s.starts, s.toneAt, s.youAt = true, -100, -100
	for i := 0; i < len(t); {
		if wordClass[t[i]] == 0 {
			if punctuation[t[i]] {
				i = s.mark(i)
			} else {
				i++
			}
			continue
		}
		if t[i] >= 0xD8 {
			i += article(t[i:])
		}
		hash, end := hashWord(t, i)
		s.word(i, end, hash)
		i = end
	}
}

// escaped reports enough escapes to decode them.
func (s *scan) escaped() bool { return s.percent >= 3 || s.entities >= 3 }

// longWord is the length from which a word may be a part of an encoded text, in bytes.
const longWord = 20

// word handles one word.
func (s *scan) word(begin, end int, hash uint32) {
	s.at += wordUnits
	if s.text[begin] >= 0xE2 && end-begin == 3 {
		s.at-- // a character of a script without spaces
	}
	if end-begin >= longWord && mixed(s.text[begin:end]) {
		s.long = append(s.long, int32(begin))
	}
	starts := s.starts
	s.starts = false
	if starts && end < len(s.text) && s.text[end] == ':' && isRole(s.text[begin:end]) {
		s.emit(meansLabel, s.at, begin, starts)
	}
	var ids [4]uint16
	n := s.lex.lookup(&ids, s.text[begin:end], hash)
	if n == 0 || end+1 < len(s.text) && s.text[end] == '@' && isAlnum(s.text[end+1]) { // a part of an address
		s.opened = 0
		return
	}
	kept := 0
	before := s.open[s.turn][:s.opened]
	s.turn ^= 1
	for _, p := range before {
		for _, id := range ids[:n] {
			if to := s.lex.next(p.node, id); to > 0 {
				kept = s.reach(kept, partial{to, p.begin, p.off}, starts)
			}
		}
	}
	for _, id := range ids[:n] {
		if to := s.lex.next(0, id); to > 0 {
			kept = s.reach(kept, partial{to, s.at, int32(begin)}, starts)
		}
	}
	s.opened = kept
}

// reach records the phrase that ends at a node, and keeps the node if longer phrases begin with
// it.
func (s *scan) reach(kept int, p partial, starts bool) int {
	n := &s.lex.nodes[p.node]
	if n.means != 0 {
		s.emit(n.means, p.begin, int(p.off), starts)
	}
	if len(n.edges) > 0 && kept < len(s.open[0]) {
		s.open[s.turn][kept] = p
		kept++
	}
	return kept
}

// emit records a phrase.
func (s *scan) emit(m meaning, begin int32, off int, starts bool) {
	var flags hitFlags
	if gap := begin - s.toneAt; gap > 0 && gap <= wordUnits {
		flags = s.tone
	}
	if m&(meansNot|meansSaid) != 0 {
		if m&meansNot != 0 {
			s.tone, s.toneAt = negated, s.at
		} else if begin-s.youAt > wordUnits { // you will
			s.tone, s.toneAt = said, s.at
		}
		if m &^= meansNot | meansSaid; m == 0 {
			return
		}
	}
	if s.quote != 0 {
		flags |= quoted
	}
	if m&meansYou != 0 {
		s.youAt = s.at
	}
	if starts {
		m |= meansLine
	}
	s.hits = append(s.hits, hit{begin: begin, at: s.at, off: int32(off), means: m, flags: flags})
}

// mixed reports a word with digits, or with lower-case and capital letters; hardly any encoded
// text has neither.
func mixed(w []byte) bool {
	capitals, smalls := 0, 0
	for _, c := range w[1:] {
		switch {
		case isDigit(c):
			return true
		case isUpper(c):
			capitals++
		case class[c]&letter != 0:
			smalls++
		}
	}
	return capitals > 1 && smalls > 0
}

// isRole reports words that imitate the role labels of a conversation, at the start of a line.
func isRole(w []byte) bool {
	if len(w) > len("administrator") {
		return false
	}
	var b [len("administrator")]byte
	for i, c := range w {
		b[i] = small[c]
	}
	switch string(b[:len(w)]) {
	case "system", "admin", "developer", "administrator", "root", "operator", "sistema", "systeme":
		return true
	}
	return false
}

// punctuation has the characters between words that mark handles.
var punctuation = func() (t [256]bool) {
	for _, c := range "\n.!?;\"`:@<[#{|-/%&\x1e" {
		t[c] = true
	}
	return t
}()

// pause adds the distance between two unrelated parts of a text.
func (s *scan) pause(units int32) {
	s.at += units
	s.opened, s.toneAt, s.starts = 0, -100, true
}

// mark handles a character between words, and returns the position to continue at.
func (s *scan) mark(i int) int {
	t := s.text
	switch c := t[i]; c {
	case '\n':
		s.at += lineUnits
		s.starts = true
		if i+1 < len(t) && t[i+1] == '\n' {
			s.pause(lineUnits)
			s.quote = 0
		}
	case '.', '!', '?', ';':
		if i+1 == len(t) || t[i+1] <= ' ' || c != '.' {
			s.pause(sentenceUnits)
		}
	case leafEnd:
		s.pause(leafUnits)
		s.quote = 0
	case '"', '`':
		if s.quote != 0 && (s.quote == c || i-s.quoteAt > maxQuote) {
			s.quote = 0
		} else if s.quote == 0 {
			s.quote, s.quoteAt = c, i
		}
	case ':':
		if i > 0 && i+2 < len(t) && t[i+1] == '/' && t[i+2] == '/' {
			return s.address(i + 3)
		}
	case '@':
		if i > 0 && i+1 < len(t) && isAlnum(t[i-1]) && isAlnum(t[i+1]) {
			return s.address(i + 1)
		}
	case '%':
		if i+2 < len(t) && isHex(t[i+1]) && isHex(t[i+2]) {
			s.percent++
		}
	case '&':
		if i+3 < len(t) && (t[i+1] == '#' || class[t[i+1]]&letter != 0) {
			s.entities++
		}
	default:
		return s.literal(i)
	}
	return i + 1
}

// address skips an address, whose parts are no words, and records it.
func (s *scan) address(i int) int {
	for i < len(s.text) && (wordByte(s.text[i]) || addressBytes[s.text[i]]) {
		if s.text[i] == '%' && i+2 < len(s.text) && isHex(s.text[i+1]) && isHex(s.text[i+2]) {
			s.percent++
		}
		i++
	}
	s.at += wordUnits
	s.emit(meansAddress, s.at, i, false)
	s.opened = 0
	return i
}

// addressBytes are the characters of addresses that are in no word.
var addressBytes = func() (t [256]bool) {
	for _, c := range "/.-:?=&%#~+,$" {
		t[c] = true
	}
	return t
}()

// literal handles the markers of chat templates and of comments.
func (s *scan) literal(i int) int {
	t := s.text
	first := t[i]
	if i+1 == len(t) || t[i+1] <= ' ' && first != '#' {
		return i + 1
	}
	for _, l := range literals[first] {
		if startsWith(t[i:], l.text) {
			s.at += wordUnits
			s.emit(l.means, s.at, i, s.starts)
			if l.means&meansRole != 0 {
				s.starts = true
			}
			return i + len(l.text)
		}
	}
	for i++; i < len(t) && t[i] == first; i++ { // a horizontal rule is one mark
	}
	return i
}

// literal is a sequence of characters with a meaning.
type literal struct {
	text  string
	means meaning
}

// literals are by their first bytes: comments, tokens of chat templates, roles in brackets.
var literals = func() (t [256][]literal) {
	for names, texts := range map[string][]string{
		"comment": {"<!--", "[//]: #", "{#", "{{!--"},
		"template": {"<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|end_header_id|>", "<|eot_id|>", "<|user|>",
			"<|assistant|>", "<|end|>", "<|message|>", "<|channel|>", "<start_of_turn>", "<end_of_turn>", "[inst]", "[/inst]",
			"<</sys>>", "</system>", "</user>", "</assistant>", "</instructions>", "<instructions>", "<important>", "</important>",
			"</tool_result>", "</tool_response>", "</document>", "</context>", "</user_input>", "<information>", "</information>",
			"### instruction", "###instruction", "### human", "### assistant", "[/system]", "[assistant]", "<|endofprompt|>"},
		"template role": {"<|im_start|>", "<|start_header_id|>", "<|system|>", "<|begin_of_text|>", "<<sys>>", "<system>",
			"<system_prompt>", "<system_message>", "<system-reminder>", "<admin>", "<developer>", "[system]", "[system:",
			"[system ", "[admin]", "[admin:", "[admin ", "[developer]", "[developer ", "### system", "###system", "## system prompt", "[#system"},
		"boundary": {"[end of", "--- end", "---end", "=== end", "===end", "[/end"},
	} {
		for _, text := range texts {
			t[text[0]] = append(t[text[0]], literal{text, meaningOf(names)})
		}
	}
	return t
}()
