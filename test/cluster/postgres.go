//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const postgresPort = "5432"

// database is PostgreSQL on two hosts: a primary and a synchronous standby. It acts as
// the failover manager. A primary that has not responded for failAfter is killed before
// its standby is promoted, and is rebuilt as the standby. Without a standby the primary
// continues alone.
type database struct {
	c        *cluster
	programs string
	nodes    [2]*process

	mu       sync.Mutex
	primary  int  // index of the primary in nodes
	alone    bool // the primary does not wait for a standby
	promoted int
	stale    bool // the other node must be rebuilt as the standby

	name  string // of the database of conns
	conns [2]*pgx.Conn

	unled, longestUnled time.Duration // time without a lease holder while the primary was available
}

// failAfter is the time without a response after which a primary or a standby counts as
// failed.
const failAfter = 4 * time.Second

// watchEvery is the polling interval of the failover manager.
const watchEvery = 500 * time.Millisecond

func newDatabase(c *cluster) (*database, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return nil, errors.New("PostgreSQL is missing: install the package postgresql")
	}
	d := &database{c: c, programs: filepath.Dir(found[0]), name: "postgres"}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	for i := range d.nodes {
		p, err := c.add(fmt.Sprintf("pg%d", i+1), "postgres", 11+i)
		if err != nil {
			return nil, err
		}
		p.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(p.dir, uid, gid); err != nil {
			return nil, err
		}
		p.args = []string{filepath.Join(d.programs, "postgres"), "-D", filepath.Join(p.dir, "data"),
			"-c", "listen_addresses=" + p.host.address, "-c", "port=" + postgresPort, "-c", "unix_socket_directories=", "-c", "fsync=off",
			"-c", "wal_level=replica", "-c", "max_wal_senders=8", "-c", "wal_log_hints=on", "-c", "max_connections=120", "-c", "wal_keep_size=64MB",
			"-c", "wal_sender_timeout=3s", "-c", "wal_receiver_timeout=3s", "-c", "wal_retrieve_retry_interval=500ms", "-c", "tcp_user_timeout=5s",
			"-c", "shared_buffers=64MB", "-c", "max_wal_size=256MB"}
		d.nodes[i] = p
	}
	return d, nil
}

// make creates the primary, its database, and the standby.
func (d *database) make() error {
	p := d.nodes[0]
	data := filepath.Join(p.dir, "data")
	if err := d.run(p, "initdb", "-D", data, "-U", "svc", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=4"); err != nil {
		return err
	}
	hba := "host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n"
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o644); err != nil {
		return err
	}
	if err := p.start(); err != nil {
		return err
	}
	if err := until(30*time.Second, func() error { return d.exec(0, "SELECT 1") }); err != nil {
		return err
	}
	if err := d.exec(0, "CREATE DATABASE svc"); err != nil {
		return err
	}
	d.conns[0].Close(context.Background())
	d.name = "svc"
	return errors.Join(d.copy(0, 1), until(30*time.Second, func() error { return d.wait(0) }))
}

// copy rebuilds a node as the standby of another.
func (d *database) copy(from, to int) error {
	p := d.nodes[to]
	p.kill()
	data := filepath.Join(p.dir, "data")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	source := "host=" + d.nodes[from].host.address + " port=" + postgresPort + " user=svc connect_timeout=3 application_name=" + p.name
	if err := d.run(p, "pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", source); err != nil {
		return err
	}
	return p.start()
}

// run runs a program of PostgreSQL on the host of a node.
func (d *database) run(p *process, program string, args ...string) error {
	cmd := exec.Command("timeout", append([]string{"40", filepath.Join(d.programs, program)}, args...)...)
	var out strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	if err := p.host.inside(cmd.Start); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out.String())
	}
	return nil
}

// conn returns a connection of the operator to a node, which is kept while it works.
func (d *database) conn(ctx context.Context, i int) (*pgx.Conn, error) {
	if c := d.conns[i]; c != nil && !c.IsClosed() {
		return c, nil
	}
	config, err := pgx.ParseConfig(fmt.Sprintf("postgres://svc@%s:%s/%s?sslmode=disable&connect_timeout=2", d.nodes[i].host.address, postgresPort, d.name))
	if err != nil {
		return nil, err
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return d.c.operator.dial(ctx, network, address)
	}
	d.conns[i], err = pgx.ConnectConfig(ctx, config)
	return d.conns[i], err
}

// ask runs a query with one row at a node within two seconds. The caller holds mu, or is
// the only user.
func (d *database) ask(i int, query string, into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := d.conn(ctx, i)
	if err != nil {
		return err
	}
	return c.QueryRow(ctx, query).Scan(into...)
}

func (d *database) exec(i int, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := d.conn(ctx, i)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, statement)
	return err
}

// wait makes the primary wait for its standby with every commit, once the standby
// streams.
func (d *database) wait(i int) error {
	n := 0
	if err := d.ask(i, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", &n); err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("the standby of %s does not stream", d.nodes[i].name)
	}
	return d.names(i, "*")
}

// names sets the standbys that the primary waits for.
func (d *database) names(i int, names string) error {
	return errors.Join(d.exec(i, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"), d.exec(i, "SELECT pg_reload_conf()"))
}

// watch is the failover manager, until ctx ends.
func (d *database) watch(ctx context.Context) {
	var silent, apart time.Time // since when the primary does not respond, and the standby does not stream
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		sync := 0
		err := d.ask(d.primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", &sync)
		switch {
		case err != nil && silent.IsZero():
			silent = time.Now()
		case err != nil && time.Since(silent) > failAfter && !d.alone:
			if err := d.failOver(); err != nil {
				d.c.note("failover of PostgreSQL: %v", err)
			}
			silent, apart = time.Time{}, time.Time{}
		case err != nil:
		case d.stale:
			silent = time.Time{}
			// It fails while the host of the node cannot be reached.
			if err := d.copy(d.primary, 1-d.primary); err == nil {
				d.stale = false
			}
		case sync > 0:
			silent, apart = time.Time{}, time.Time{}
			d.watchLeases()
			if d.alone {
				if err := d.wait(d.primary); err == nil {
					d.alone = false
				}
			}
		case apart.IsZero():
			silent, apart = time.Time{}, time.Now()
		case time.Since(apart) > failAfter && !d.alone:
			silent = time.Time{}
			if err := d.names(d.primary, ""); err == nil {
				d.alone = true
			}
		}
		d.mu.Unlock()
	}
}

// failOver kills the primary, so that it acknowledges nothing more, and promotes the
// standby. The old primary must be rebuilt as the standby.
func (d *database) failOver() error {
	old, next := d.primary, 1-d.primary
	d.nodes[old].kill()
	promoted := false
	if err := d.ask(next, "SELECT pg_promote(true, 1)", &promoted); err != nil || !promoted {
		return fmt.Errorf("promote %s: %v, %w", d.nodes[next].name, promoted, err)
	}
	d.primary, d.alone, d.stale, d.promoted = next, true, true, d.promoted+1
	return d.names(next, "")
}

// restart starts a killed node, unless it was started meanwhile.
func (d *database) restart(p *process) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.running() || d.stale {
		return nil
	}
	return p.start()
}

// whole reports why the primary does not wait for a synchronous standby.
func (d *database) whole() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.alone {
		return errors.New("PostgreSQL has no standby")
	}
	n := 0
	if err := d.ask(d.primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' OR sync_state = 'quorum'", &n); err != nil {
		return err
	}
	if n != 1 {
		return errors.New("the standby of PostgreSQL is not synchronous")
	}
	return nil
}

// watchLeases adds up the time in which a lease of the control planes had no holder.
func (d *database) watchLeases() {
	late := 0
	err := d.ask(d.primary, "SELECT count(*) FROM leases WHERE until < extract(epoch FROM clock_timestamp()) * 1000000000", &late)
	if err != nil || late == 0 {
		d.unled = 0
		return
	}
	d.unled += watchEvery
	d.longestUnled = max(d.longestUnled, d.unled)
}

// isAlone reports that the primary waits for a standby.
func (d *database) isAlone() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.alone {
		return errors.New("the primary waits for its standby")
	}
	return nil
}

// roles returns the processes of the primary and of the standby.
func (d *database) roles() (primary, standby *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[d.primary], d.nodes[1-d.primary]
}

// until tries fn until it succeeds.
func until(limit time.Duration, fn func() error) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; <-tick.C {
		err := fn()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
