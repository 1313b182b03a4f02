package clickhouse

import (
	"context"
	"log/slog"
	"time"

	"svc/store"
)

// Describe describes the store of a URL without changing it. A store without a
// schema has version 0.
func Describe(ctx context.Context, url string) (info store.Info, err error) {
	a, err := parseURL(url)
	if err != nil {
		return info, err
	}
	s := &Store{opts: Options{Now: time.Now, Timeout: defaultTimeout}, log: slog.New(slog.DiscardHandler), where: Location(url), closed: make(chan struct{})}
	s.ended, s.ending = context.WithCancel(context.Background())
	defer s.ending()
	info = store.Info{Backend: "clickhouse", Location: s.where}
	groups := [][]string{}
	for _, host := range a.hosts {
		groups = append(groups, []string{host})
	}
	if a.cluster != "" {
		if groups, err = s.clusterShards(ctx, &a); err != nil {
			return info, err
		}
	}
	for i, hosts := range groups {
		sh, err := s.connect(&a, hosts)
		if err != nil {
			return info, err
		}
		defer sh.conn.Close()
		version, _, err := sh.schemaOf(ctx)
		if err != nil {
			return info, err
		}
		if i == 0 || version < info.SchemaVersion {
			info.SchemaVersion = version
		}
		bytes, err := sh.size(ctx)
		if err != nil {
			return info, err
		}
		info.SizeBytes += bytes
	}
	return info, nil
}

// size returns the disk space of the tables on the server.
func (sh *shard) size(ctx context.Context) (int64, error) {
	var bytes uint64
	err := sh.row(ctx, "SELECT toUInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = currentDatabase()", &bytes)
	return int64(bytes), err
}
