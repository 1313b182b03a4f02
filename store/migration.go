package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Migration migrates a database to a version. Oldest is the oldest program version, as a
// schema version, that can use the database afterwards. A migration that only adds objects
// does not change it; a migration that removes an object must come one release after the
// program has stopped using the object.
type Migration struct {
	Version int
	Oldest  int
	SQL     string
}

// MustReadMigrations reads migrations/NUMBER_NAME.sql, in order. The numbers must start at 1 without
// gaps, and the first line of each file must be "-- oldest: N". Otherwise it panics: the files
// are embedded, so tests detect it.
func MustReadMigrations(from fs.FS) []Migration {
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
