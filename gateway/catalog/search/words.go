package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTerm bounds a term in bytes.
const maxTerm = 48

// eachTerm calls add for the terms of a text: its words, with names in camel
// case, snake case or kebab case split into words, in lower case and stemmed. A
// name in camel case is also one term as a whole.
func eachTerm(text string, add func(term string)) {
	eachRun(text, func(run string) {
		parts := 0
		eachPart(run, func(part string) {
			parts++
			add(term(part))
		})
		if parts > 1 {
			add(term(run))
		}
	})
}

// term returns the form of a word in the index.
func term(word string) string { return stem(cut(strings.ToLower(word), maxTerm)) }

// eachRun splits a text into runs of letters and digits.
func eachRun(text string, do func(run string)) {
	start := -1
	for i, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			do(text[start:i])
			start = -1
		}
	}
	if start >= 0 {
		do(text[start:])
	}
}

// eachPart splits a run where a capital begins a new word (createIssue,
// HTMLPage), and into single characters for scripts without spaces.
func eachPart(run string, do func(part string)) {
	start := 0
	var before rune
	for i, r := range run {
		_, size := utf8.DecodeRuneInString(run[i:])
		next, _ := utf8.DecodeRuneInString(run[i+size:])
		switch {
		case i == 0:
		case spaceless(r) || spaceless(before),
			unicode.IsUpper(r) && !unicode.IsUpper(before) && !unicode.IsDigit(before),
			unicode.IsUpper(r) && unicode.IsDigit(before) && unicode.IsLower(next),
			unicode.IsUpper(r) && unicode.IsUpper(before) && unicode.IsLower(next):
			do(run[start:i])
			start = i
		}
		before = r
	}
	if start < len(run) {
		do(run[start:])
	}
}

// spaceless reports whether a character is of a script that is written without
// spaces.
func spaceless(r rune) bool {
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// stem removes common English endings from a word, so that its forms have the
// same stem: issues and issue, creating, created, creation and create. The stem
// need not be a word.
func stem(w string) string {
	if len(w) < 4 || strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "xes"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
	case strings.HasSuffix(w, "s"):
		w = w[:len(w)-1]
	}
	switch {
	case strings.HasSuffix(w, "ing") && len(w) > 5 && vowel(w[:len(w)-3]):
		w = single(w[:len(w)-3])
	case strings.HasSuffix(w, "ied") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "ed") && len(w) > 4 && vowel(w[:len(w)-2]):
		w = single(w[:len(w)-2])
	case strings.HasSuffix(w, "tion") && len(w) > 6, strings.HasSuffix(w, "sion") && len(w) > 6:
		w = w[:len(w)-3]
	case strings.HasSuffix(w, "ment") && len(w) > 9:
		w = w[:len(w)-4]
	}
	if len(w) > 4 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	return w
}

func vowel(w string) bool { return strings.ContainsAny(w, "aeiouy") }

// single removes a doubled consonant before a removed ending: running.
func single(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lszaeiou", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}

// joined returns the letters and digits of a name in lower case.
func joined(name string) string {
	var b strings.Builder
	eachRun(name, func(run string) { b.WriteString(strings.ToLower(run)) })
	return b.String()
}
