package detect

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed tables.txt
var tables string

// tableOf returns the entries of a table of tables.txt.
func tableOf(name string) []string {
	for line := range strings.Lines(tables) {
		if entries, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Split(strings.TrimSuffix(entries, "\n"), "|")
		}
	}
	panic("detect: tables.txt has no " + name) // the table is compiled in
}

// number parses a number of a table.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("detect: a table has the number " + text)
	}
	return n
}
