package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"svc/store"
)

// Bounds of connections.
const (
	dialTimeout = 3 * time.Second
	maxConns    = 16
	// answerTime is how much longer than the time limit of a statement its response is
	// waited for: normally the engine ends the statement itself before.
	answerTime = 3 * time.Second
	// probeEvery is the interval of probes of a shard.
	probeEvery = 2 * time.Second
	probeTime  = 3 * time.Second
)

// shard is one server, or the replicas of one shard of a cluster.
type shard struct {
	s       *Store
	name    string // its hosts
	conn    driver.Conn
	dialect dialect
	queue   chan *job

	offset atomic.Int64 // offset of its clock from the clock of this process
	swept  time.Time    // when hidden partitions were last looked for; guarded by s.mu

	mu    sync.Mutex
	away  error           // why the shard is unavailable; nil: it is available
	here  context.Context // canceled when the shard becomes unavailable
	leave func()
}

func newShard(s *Store, hosts []string, conn driver.Conn) *shard {
	sh := &shard{s: s, name: strings.Join(hosts, ","), conn: conn, queue: make(chan *job, maxQueued)}
	sh.here, sh.leave = context.WithCancel(context.Background())
	return sh
}

func joinPort(host string, port uint16, a *address) string {
	if a.protocol == driver.HTTP { // the cluster table has the ports of the native protocol
		_, own, _ := net.SplitHostPort(a.hosts[0])
		return net.JoinHostPort(host, own)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func compression(p driver.Protocol) *driver.Compression {
	if p == driver.HTTP {
		return &driver.Compression{Method: driver.CompressionNone}
	}
	return &driver.Compression{Method: driver.CompressionLZ4}
}

// begin reads the server's version and creates its tables.
func (sh *shard) begin(ctx context.Context, a *address) error {
	v, err := sh.conn.ServerVersion()
	if err != nil {
		return sh.explain(ctx, err)
	}
	sh.dialect = dialectOf(v.Version.Major, a.cluster)
	if err := sh.readClock(ctx); err != nil {
		return err
	}
	version, err := sh.migrate(ctx, a.database, schema)
	sh.s.schema = version
	return err
}

// readClock measures the offset of the server's clock from this process's clock, to
// within a second.
func (sh *shard) readClock(ctx context.Context) error {
	before := time.Now()
	var seconds uint32
	if err := sh.row(ctx, "SELECT toUInt32(now())", &seconds); err != nil {
		return err
	}
	middle := before.Add(time.Since(before) / 2)
	offset := time.Unix(int64(seconds), 0).Add(time.Second / 2).Sub(middle)
	if offset.Abs() < 2*time.Second { // the result has a resolution of seconds
		offset = 0
	}
	sh.offset.Store(int64(offset))
	return nil
}

// clock returns the current time by the clock of the server.
func (sh *shard) clock() int64 { return time.Now().UnixNano() + sh.offset.Load() }

// reachable reports why the shard is unavailable, by its last known state.
func (sh *shard) reachable() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.away
}

// found records whether the shard is available. If it is not, statements that wait for it
// are canceled.
func (sh *shard) found(err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case err != nil && sh.away == nil:
		sh.leave()
		sh.s.log.Warn("a shard of the store of traces is unavailable", "shard", sh.name, "error", err)
	case err == nil && sh.away != nil:
		sh.here, sh.leave = context.WithCancel(context.Background())
		sh.s.log.Info("a shard of the store of traces is available again", "shard", sh.name)
	}
	sh.away = err
}

// present returns a context that is canceled when the shard becomes unavailable.
func (sh *shard) present() context.Context {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.here
}

// watch probes the shard periodically, so that calls to an unavailable shard fail at
// once.
func (sh *shard) watch() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	failed := 0
	for {
		select {
		case <-sh.s.closed:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(sh.s.ended, probeTime)
		err := sh.probe(ctx)
		cancel()
		select {
		case <-sh.s.closed:
			return
		default:
		}
		// A single probe may time out on a busy machine.
		if failed++; err == nil {
			failed = 0
		}
		if failed != 1 {
			sh.found(err)
		}
	}
}

// probe reads the server's clock.
func (sh *shard) probe(ctx context.Context) error {
	var seconds uint32
	before := time.Now()
	err := sh.conn.QueryRow(ctx, "SELECT toUInt32(now())").Scan(&seconds)
	if err != nil {
		return sh.explain(context.Background(), err) // the probe has no caller that could have canceled it
	}
	offset := time.Unix(int64(seconds), 0).Add(time.Second / 2).Sub(before)
	if offset.Abs() < 2*time.Second {
		offset = 0
	}
	sh.offset.Store(int64(offset))
	return nil
}

// bounded adds the settings and the time limit to a statement. The driver applies the
// deadline of a context to the connection, which would then fail shortly before the
// context ends and look like a lost connection. So the driver gets a context without the
// caller's deadline, which is canceled when the caller's context ends.
func (sh *shard) bounded(asked context.Context) (context.Context, context.CancelFunc) {
	limit := sh.s.opts.Timeout
	ctx, cancel := context.WithTimeout(context.WithoutCancel(asked), limit+answerTime)
	given := context.AfterFunc(asked, cancel)
	closed := context.AfterFunc(sh.s.ended, cancel)
	away := context.AfterFunc(sh.present(), cancel)
	return driver.Context(ctx, driver.WithSettings(sh.dialect.settings(limit))), func() { given(); closed(); away(); cancel() }
}

// do runs a statement on this shard, if the shard is available.
func (sh *shard) do(asked context.Context, fn func(ctx context.Context) error) error {
	if err := sh.reachable(); err != nil {
		return err
	}
	ctx, cancel := sh.bounded(asked)
	defer cancel()
	err := fn(ctx)
	if err == nil {
		return nil
	}
	lost := connectionLost(err)
	err = sh.explain(asked, err)
	if lost && asked.Err() == nil && errors.Is(err, store.ErrUnavailable) {
		sh.found(err)
	}
	return err
}

// rows runs a query, which may be retried once, and calls each with every row.
func (sh *shard) rows(ctx context.Context, sql string, into []any, each func() error) error {
	return sh.do(ctx, func(ctx context.Context) error {
		list, err := sh.conn.Query(ctx, sql)
		if err != nil {
			return err
		}
		defer list.Close()
		for list.Next() {
			if err := list.Scan(into...); err != nil {
				return fmt.Errorf("read a row: %w", err)
			}
			if err := each(); err != nil {
				return err
			}
		}
		return list.Err()
	})
}

// row runs a query that returns one row.
func (sh *shard) row(ctx context.Context, sql string, into ...any) error {
	return sh.rows(ctx, sql, into, func() error { return nil })
}

// exec runs a statement without a result.
func (sh *shard) exec(ctx context.Context, sql string) error {
	return sh.do(ctx, func(ctx context.Context) error { return sh.conn.Exec(ctx, sql) })
}

// insert writes rows, by column.
func (sh *shard) insert(ctx context.Context, into *target, columns []any) error {
	return sh.do(ctx, func(ctx context.Context) error {
		ctx = driver.Context(ctx, driver.WithColumnNamesAndTypes(into.types))
		batch, err := sh.conn.PrepareBatch(ctx, into.statement)
		if err != nil {
			return err
		}
		defer batch.Close()
		for i, c := range columns {
			if err := batch.Column(i).Append(c); err != nil {
				return fmt.Errorf("column %s: %w", into.types[i].Name, err)
			}
		}
		return batch.Send()
	})
}

// target is a table with the columns to write.
type target struct {
	statement string
	types     []driver.ColumnNameAndType
}

// newTarget makes a target from alternating names and types.
func newTarget(table string, columns ...string) *target {
	t := &target{}
	names := make([]string, 0, len(columns)/2)
	for i := 0; i < len(columns); i += 2 {
		t.types = append(t.types, driver.ColumnNameAndType{Name: columns[i], Type: columns[i+1]})
		names = append(names, columns[i])
	}
	t.statement = "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ")"
	return t
}
