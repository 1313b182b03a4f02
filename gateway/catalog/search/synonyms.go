package search

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// stopWords are ignored in queries, unless a query consists of stop words only.
const stopWords = `a an and any are as at be been but by can could did do does for from has have how i if in into is it
its just me my of on or our please so some something that the their them then there these they this to too us
using want was we were when where whether who whose will with would you your yet ever am im let need like use
before after while during than about off out up down over back`

// weakWords have a low weight: they occur in many queries of any meaning.
const weakWords = `make take put give tell show look see get let new all next last first now today tonight tomorrow
yesterday week weekend month year quarter day hour minute morning two three four five ten one many much long old
every each same other another more most best good bad people person somebody someone thing way time which what why
tool server api want help work`

//go:embed thesaurus.txt
var thesaurus string

// lexicon is the thesaurus for queries. It is built once and is immutable.
type lexicon struct {
	stop, weak map[string]bool
	synonyms   map[string][]string // by term or by phrase
}

var lexiconOnce = sync.OnceValue(newLexicon)

func newLexicon() *lexicon {
	l := &lexicon{stop: map[string]bool{}, weak: map[string]bool{}, synonyms: map[string][]string{}}
	for _, w := range strings.Fields(stopWords) {
		l.stop[w] = true
	}
	for _, w := range strings.Fields(weakWords) {
		l.weak[stem(w)] = true
	}
	for line := range strings.Lines(thesaurus) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		left, right, directed := strings.Cut(line, ":")
		if !directed {
			right = left
		}
		for _, w := range strings.Fields(left) {
			for _, other := range strings.Fields(right) {
				l.add(phrase(w), stem(other))
			}
		}
	}
	return l
}

func (l *lexicon) add(w, other string) {
	if w != other && !slices.Contains(l.synonyms[w], other) {
		l.synonyms[w] = append(l.synonyms[w], other)
	}
}

// phrase returns the key of a word, or of words joined by +.
func phrase(w string) string {
	parts := strings.Split(w, "+")
	for i := range parts {
		parts[i] = stem(parts[i])
	}
	return strings.Join(parts, " ")
}
