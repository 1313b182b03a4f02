// Package migrations reads the numbered SQL files by which an engine brings a database to a
// version. The files are part of the program.
package migrations

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Migration brings a database to a version. Oldest is the version that a program has to know
// at least to use the database then: a migration that only adds leaves it as it was, one that
// takes something away comes a release after the one that stopped using it.
type Migration struct {
	Version int
	Oldest  int
	SQL     string
}

// MustRead reads migrations/NUMBER_NAME.sql, in order. The numbers start at 1 and leave none
// out, and the first line of each is "-- oldest: N". It panics where that is not so: the files
// are part of the program, and its tests read them.
func MustRead(from fs.FS) []Migration {
	names, err := fs.Glob(from, "migrations/*.sql")
	if err != nil {
		panic(err)
	}
	slices.Sort(names)
	list := make([]Migration, 0, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			panic(err)
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		first, _, _ := strings.Cut(string(text), "\n")
		version, err := strconv.Atoi(number)
		oldest, oerr := strconv.Atoi(strings.TrimPrefix(first, "-- oldest: "))
		if err := errors.Join(err, oerr); err != nil || version != i+1 || oldest < 1 || oldest > version {
			panic(fmt.Sprintf("%s: want the number %d and a first line -- oldest: N: %v", name, i+1, err))
		}
		list = append(list, Migration{version, oldest, string(text)})
	}
	return list
}
