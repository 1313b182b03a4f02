package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"go.etcd.io/bbolt"
)

// migration changes a file from one schema version to the next. It runs in the
// transaction that also writes the new version, so a crash leaves the old one.
type migration func(tx *bbolt.Tx) error

// migrations[i] migrates from version i+1 to i+2.
var migrations []migration

// SchemaVersion returns the schema version of this program.
func SchemaVersion() int { return len(migrations) + 1 }

// initialize creates the buckets of an empty file.
func initialize(tx *bbolt.Tx) error {
	for _, b := range topBuckets {
		if _, err := tx.CreateBucket([]byte(b.name)); err != nil {
			return err
		}
	}
	if err := tx.Bucket(bucketMeta).Put(keyFormat, []byte(format)); err != nil {
		return err
	}
	return setSchema(tx, SchemaVersion())
}

func setSchema(tx *bbolt.Tx, version int) error {
	return tx.Bucket(bucketMeta).Put(keySchema, []byte(strconv.Itoa(version)))
}

// upgrade checks the format of the file and, if allowed, migrates an older schema version to
// the newest one. Before the change it writes a copy of the file beside it.
func (s *Store) upgrade(allowed bool) (version int, err error) {
	defer recoverToError(&err, s.path)()
	newest := SchemaVersion()
	err = s.db.View(func(tx *bbolt.Tx) error {
		version, err = schemaOf(tx, s.path)
		return err
	})
	switch {
	case err != nil || version == newest:
		return version, err
	case !allowed:
		return version, olderSchema(s.path, version)
	}
	kept := SchemaCopy(s.path)
	s.log.Info("the store has an older schema: a copy is written, then the schema is changed", "store", s.path, "from", version, "to", newest, "copy", kept)
	if err := s.copyTo(kept); err != nil {
		return version, fmt.Errorf("copy store %s before its schema is changed: %w", s.path, err)
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		for v := version; v < newest; v++ {
			if err := migrations[v-1](tx); err != nil {
				return fmt.Errorf("migrate store %s from schema %d: %w", s.path, v, err)
			}
		}
		return setSchema(tx, newest)
	})
	if err != nil {
		return version, err
	}
	s.log.Info("the schema of the store was changed", "store", s.path, "from", version, "to", newest, "copy", kept,
		"back", "stop the server, install the earlier version, and run 'svc store restore' with the copy")
	s.removeOtherCopies(kept)
	return newest, nil
}

// olderSchema is the error for a store that has to be migrated first.
func olderSchema(path string, version int) error {
	return &FileError{Path: path, Problem: fmt.Sprintf("has schema %d, and this program needs schema %d", version, SchemaVersion()),
		Advice: "start 'svc serve' of this version on it, which writes a copy beside the file and then changes the schema"}
}

// schemaSuffix is the suffix of the copies that are written before a change of the schema.
const schemaSuffix = ".before-schema-"

// SchemaCopy returns the name of the copy of the file at path that is written before its
// schema is changed to that of this program.
func SchemaCopy(path string) string { return path + schemaSuffix + strconv.Itoa(SchemaVersion()) }

// copyTo writes a copy of the file with its owner. Until it is complete, name is as it was.
func (s *Store) copyTo(name string) error {
	tmp := s.path + copyingSuffix
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	err = s.db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	if err := errors.Join(err, ownLike(f, s.path), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	return syncDir(s.path)
}

// removeOtherCopies removes the copies of earlier changes of the schema.
func (s *Store) removeOtherCopies(kept string) {
	list, err := filepath.Glob(escapeGlob(s.path) + schemaSuffix + "*")
	for _, name := range list {
		if name != kept {
			err = errors.Join(err, os.Remove(name))
		}
	}
	if err != nil {
		s.log.Warn("a copy of an earlier change of the schema is still there", "error", err)
	}
}

// schemaOf returns the schema version of a file. A file of a newer program, of a build
// from before the first release or of another program gives a [*FileError].
func schemaOf(tx *bbolt.Tx, path string) (int, error) {
	b := tx.Bucket(bucketMeta)
	switch {
	case b != nil && string(b.Get(keyFormat)) == format:
	case b != nil && slices.Contains(formatsUnreleased, string(b.Get(keyFormat))):
		return 0, &FileError{Path: path, Problem: "written by a build from before the first release, which this program cannot read",
			Advice: "keep the file for that build, and name a path where no file exists yet"}
	default:
		return 0, &FileError{Path: path, Problem: "a bbolt file, but not a control plane store", Advice: adviceForeign}
	}
	version, err := strconv.Atoi(string(b.Get(keySchema)))
	switch newest := SchemaVersion(); {
	case err != nil || version < 1:
		return 0, &FileError{Path: path, Problem: "damaged: no schema version", Advice: adviceDamaged}
	case version > newest:
		return 0, &FileError{Path: path,
			Problem: fmt.Sprintf("written by a newer version (schema %d, this program knows %d)", version, newest),
			Advice:  fmt.Sprintf("install that version, or restore a backup made by this one, such as %s%s%d if it is there", path, schemaSuffix, version)}
	}
	for _, b := range topBuckets {
		if version == SchemaVersion() && tx.Bucket([]byte(b.name)) == nil {
			return 0, &FileError{Path: path, Problem: "damaged: bucket " + b.name + " is missing", Advice: adviceDamaged}
		}
	}
	return version, nil
}

// incomplete rejects a file in which a tenant lacks a bucket, which only damage or another build of
// the same schema leaves.
func incomplete(tx *bbolt.Tx, path string) error {
	tenants := tx.Bucket(bucketData)
	return tenants.ForEachBucket(func(id []byte) error {
		for _, b := range tenantBuckets {
			if tenants.Bucket(id).Bucket([]byte(b.name)) == nil {
				return &FileError{Path: path, Problem: fmt.Sprintf("damaged, or written by an unreleased build: tenant %s has no bucket %s", id, b.name), Advice: adviceDamaged}
			}
		}
		return nil
	})
}
