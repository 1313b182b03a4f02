package detect

// Words may be hidden by marks of text and by tags inside of them.

// inlineTags are the elements that stand inside of words when a word is to be
// hidden; others end words.
var inlineTags = []string{"b>", "i>", "u>", "em>", "strong>", "span", "wbr", "font", "small>", "sub>", "sup>", "mark>", "!--"}

// maxTag bounds a tag inside of a word, in bytes.
const maxTag = 64

// tagOf returns how long the tag or comment is that t begins with, 0 when it is
// none of those that words are hidden with.
func tagOf(t []byte) int {
	if len(t) < 3 || t[0] != '<' {
		return 0
	}
	name := 1
	if t[1] == '/' {
		name = 2
	}
	for _, tag := range inlineTags {
		if !hasPrefix(t[name:], tag) {
			continue
		}
		for i := name; i < min(len(t), maxTag); i++ {
			if t[i] == '>' && (tag != "!--" || i >= name+4 && t[i-1] == '-') {
				return i + 1
			}
		}
	}
	return 0
}

// inWord reports 1 when marks of text that begin at i end before a letter.
func inWord(t []byte, i int) int {
	end := i
	if t[i] == '<' {
		for end < len(t) && t[end] == '<' && end-i < 2*maxTag {
			n := tagOf(t[end:])
			if n == 0 {
				return 0
			}
			end += n
		}
	} else {
		for end < len(t) && end-i < 3 && t[end] == t[i] {
			end++
		}
	}
	if end < len(t) && class[t[end]]&letter != 0 {
		return 1
	}
	return 0
}

// unsplit takes marks of text out: asterisks, tildes and backquotes beside letters,
// and tags that words are hidden with.
func unsplit(t []byte) []byte {
	out := make([]byte, 0, len(t))
	for i := 0; i < len(t); {
		if n := tagOf(t[i:]); n > 0 {
			i += n
			continue
		}
		if t[i] != '*' && t[i] != '~' && t[i] != '`' {
			out = append(out, t[i])
		}
		i++
	}
	return out
}
