package bolt

import (
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"
)

// migration changes a file from one schema version to the next. It runs in the
// transaction that also writes the new version, so a crash leaves the old one.
type migration func(tx *bbolt.Tx) error

// migrations[i] migrates from version i+1 to i+2; the newest version is
// len(migrations)+1.
var migrations = []migration{addBuckets(2), versionRows, addBuckets(4), separateUnsignedHeads, addBuckets(6), detailedRecords, clientRecords, indexEvents, addBuckets(10)}

// versionRows is the migration to schema 3, whose rollup rows begin with a version
// and contain the bounds of their durations. Older rows remain readable and are
// rewritten when traces are added to them. The version only prevents older programs
// from reading new rows.
func versionRows(*bbolt.Tx) error { return nil }

// detailedRecords is the migration to schema 7, whose trace records may be of
// version 2. Older records are not changed. The version only prevents older
// programs from reading new records.
func detailedRecords(*bbolt.Tx) error { return nil }

// clientRecords is the migration to schema 8, whose trace records may be of version
// 3. Older records are not changed. The version only prevents older programs from
// reading new records.
func clientRecords(*bbolt.Tx) error { return nil }

// addBuckets returns a migration that adds the buckets of a schema version to every
// tenant.
func addBuckets(version int) migration {
	return func(tx *bbolt.Tx) error {
		all := tx.Bucket(bucketData)
		return all.ForEachBucket(func(id []byte) error {
			for _, b := range tenantBuckets {
				if b.since != version {
					continue
				}
				if _, err := all.Bucket(id).CreateBucketIfNotExists([]byte(b.name)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// initialize creates the buckets of an empty file.
func initialize(tx *bbolt.Tx, steps int) error {
	for _, b := range topBuckets {
		if _, err := tx.CreateBucket([]byte(b.name)); err != nil {
			return err
		}
	}
	b := tx.Bucket(bucketMeta)
	if err := b.Put(keyFormat, []byte(format)); err != nil {
		return err
	}
	return b.Put(keySchema, []byte(strconv.Itoa(steps+1)))
}

// upgrade checks the format of the file and migrates it to the newest schema
// version.
func (s *Store) upgrade(steps []migration) (version int, err error) {
	defer recoverToError(&err, s.path)()
	newest := len(steps) + 1
	err = s.db.View(func(tx *bbolt.Tx) error {
		version, err = schemaOf(tx, s.path, newest)
		return err
	})
	if err != nil || version == newest {
		return version, err
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		for v := version; v < newest; v++ {
			if err := steps[v-1](tx); err != nil {
				return fmt.Errorf("migrate store %s from schema %d: %w", s.path, v, err)
			}
		}
		return tx.Bucket(bucketMeta).Put(keySchema, []byte(strconv.Itoa(newest)))
	})
	return newest, err
}

func schemaOf(tx *bbolt.Tx, path string, newest int) (int, error) {
	b := tx.Bucket(bucketMeta)
	if b == nil || string(b.Get(keyFormat)) != format {
		return 0, &FileError{Path: path, Problem: "a bbolt file, but not a control plane store", Advice: adviceForeign}
	}
	version, err := strconv.Atoi(string(b.Get(keySchema)))
	switch {
	case err != nil || version < 1:
		return 0, &FileError{Path: path, Problem: "damaged: no schema version", Advice: adviceDamaged}
	case version > newest:
		return 0, &FileError{Path: path,
			Problem: fmt.Sprintf("written by a newer version (schema %d, this program knows %d)", version, newest),
			Advice:  "install that version, or restore a backup made by this one"}
	}
	for _, b := range topBuckets {
		if b.since <= version && tx.Bucket([]byte(b.name)) == nil {
			return 0, &FileError{Path: path, Problem: "damaged: bucket " + b.name + " is missing", Advice: adviceDamaged}
		}
	}
	return version, nil
}
