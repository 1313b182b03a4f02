//go:build linux

package main

import (
	"math/rand/v2"
	"strings"
	"time"
)

const (
	frozenFor = 10 * time.Second
	cutFor    = 10 * time.Second
	// downFor is the time after which the supervisor starts a killed process.
	downFor = 5 * time.Second
)

// fault is one fault of the cluster. begin causes it, end reverts it.
type fault struct {
	name       string
	lasts      time.Duration
	begin, end func() error
	// redis reports whether Redis may have failed over, or was unavailable: a limit may
	// then be exceeded by one burst.
	redis bool
	// shards are away meanwhile: what clients of their tenants get is compared with what
	// is documented, and if governed, that a change of a policy reaches gateways.
	shards   []*process
	governed bool
}

// shardsOf returns the processes that are shards.
func shardsOf(list ...*process) (shards []*process) {
	for _, p := range list {
		if p.role == "clickhouse" {
			shards = append(shards, p)
		}
	}
	return shards
}

// kill ends a process; its supervisor starts it again.
func (c *cluster) kill(p *process) fault {
	return fault{
		name: "kill " + p.name, lasts: downFor, redis: p.role == "redis", shards: shardsOf(p), governed: true,
		begin: func() error { p.kill(); return nil },
		end: func() error {
			if p.role == "postgres" {
				return c.db.restart(p) // the failover manager may have restarted it before
			}
			return p.start()
		},
	}
}

// freeze stops a process and continues it later.
func (c *cluster) freeze(p *process) fault {
	return fault{name: "freeze " + p.name, lasts: frozenFor, redis: p.role == "redis", shards: shardsOf(p), begin: p.freeze, end: p.thaw}
}

// cutOff disconnects pairs of roles from each other.
func (c *cluster) cutOff(name string, pairs ...[2]string) fault {
	heals := []func() error{}
	f := fault{name: "cut " + name, lasts: cutFor}
	for _, p := range pairs {
		f.redis = f.redis || p[0] == "redis" || p[1] == "redis"
		if p[0] == "plane" && p[1] == "clickhouse" {
			f.shards = c.role("clickhouse")
		}
	}
	f.begin = func() error {
		heals = nil
		for _, p := range pairs {
			heal, err := c.network.cut(c.hosts(p[0]), c.hosts(p[1]))
			heals = append(heals, heal)
			if err != nil {
				return err
			}
		}
		return nil
	}
	f.end = func() (err error) {
		for _, heal := range heals {
			if e := heal(); e != nil {
				err = e
			}
		}
		return err
	}
	return f
}

// faults are the faults of a full round. The primary and the standby are determined when
// a fault begins, so that each role is killed and frozen on either node.
func (c *cluster) faults() (list []fault) {
	for _, role := range []string{"plane", "gateway", "tool", "redis", "clickhouse"} {
		for _, p := range c.role(role) {
			list = append(list, c.kill(p), c.freeze(p))
		}
	}
	for _, role := range []string{"primary", "standby"} {
		list = append(list, c.ofDatabase("kill", role), c.ofDatabase("freeze", role))
	}
	list = append(list, c.loseHost())
	pairs := [][2]string{
		{"caller", "gateway"}, {"caller", "plane"}, {"gateway", "plane"}, {"gateway", "tool"}, {"gateway", "redis"},
		{"plane", "postgres"}, {"plane", "redis"}, {"postgres", "postgres"}, {"redis", "redis"},
	}
	// Roles without connections between them: the fault must have no effect.
	apart := [][2]string{
		{"caller", "tool"}, {"caller", "postgres"}, {"caller", "redis"}, {"gateway", "postgres"}, {"gateway", "gateway"},
		{"plane", "tool"}, {"plane", "plane"}, {"tool", "postgres"}, {"tool", "redis"}, {"tool", "tool"}, {"postgres", "redis"},
	}
	if c.traces == inClickHouse {
		pairs = append(pairs, [2]string{"plane", "clickhouse"})
		for _, role := range []string{"caller", "gateway", "tool", "postgres", "redis", "clickhouse"} {
			apart = append(apart, [2]string{role, "clickhouse"})
		}
	}
	for _, p := range pairs {
		list = append(list, c.cutOff(p[0]+" from "+p[1], p))
	}
	return append(list, c.cutOff("roles without connections", apart...))
}

// ofDatabase is a fault of the node that is the primary, or the standby, when it begins.
func (c *cluster) ofDatabase(what, role string) fault {
	var chosen fault
	f := fault{name: what + " " + role, lasts: downFor}
	if what == "freeze" {
		f.lasts = frozenFor
	}
	f.begin = func() error {
		p, standby := c.db.roles()
		if role == "standby" {
			p = standby
		}
		if chosen = c.kill(p); what == "freeze" {
			chosen = c.freeze(p)
		}
		return chosen.begin()
	}
	f.end = func() error { return chosen.end() }
	return f
}

// loseHost disconnects the primary from everything, like a power failure of its machine:
// its peers get no notification that connections have ended.
func (c *cluster) loseHost() fault {
	heal := func() error { return nil }
	return fault{name: "cut primary from everything", lasts: 2 * cutFor,
		begin: func() (err error) {
			p, _ := c.db.roles()
			others := []*host{}
			for _, h := range c.network.hosts {
				others = append(others, h)
			}
			heal, err = c.network.cut([]*host{p.host}, others)
			return err
		},
		end: func() error { return heal() },
	}
}

// some returns the faults of a short round, in an order that a seed determines: one of
// each of three kinds in turn, with the failover of PostgreSQL among the first.
func some(all []fault, seed uint64) (list []fault) {
	r := rand.New(rand.NewPCG(seed, 1))
	kinds := map[string][]fault{}
	for _, f := range all {
		kind, _, _ := strings.Cut(f.name, " ")
		kinds[kind] = append(kinds[kind], f)
	}
	for _, k := range []string{"kill", "freeze", "cut"} {
		r.Shuffle(len(kinds[k]), func(i, j int) { kinds[k][i], kinds[k][j] = kinds[k][j], kinds[k][i] })
	}
	for i := range len(all) {
		for _, k := range []string{"kill", "freeze", "cut"} {
			if i < len(kinds[k]) {
				list = append(list, kinds[k][i])
			}
		}
	}
	first := 0
	for i, f := range list {
		if f.name == "kill primary" {
			first = i
		}
	}
	list[0], list[first] = list[first], list[0]
	return list
}
