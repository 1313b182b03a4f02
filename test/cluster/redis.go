//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const redisPort = "6379"

// redisArgs are the arguments of a node. It uses an append-only file, so that a node
// that is killed and started again before its replica has taken over keeps its data.
func redisArgs(h *host, dir string) []string {
	return []string{"redis-server", "--bind", h.address, "--port", redisPort, "--dir", dir, "--daemonize", "no", "--protected-mode", "no",
		"--save", "", "--appendonly", "yes", "--appendfsync", "no",
		"--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--cluster-require-full-coverage", "no"}
}

// makeRedisCluster joins the nodes: three masters, each with a replica.
func (c *cluster) makeRedisCluster() error {
	args := []string{"--cluster", "create"}
	for _, p := range c.role("redis") {
		args = append(args, p.host.address+":"+redisPort)
	}
	out, err := c.redisCLI(append(args, "--cluster-replicas", "1", "--cluster-yes")...)
	if err != nil {
		return fmt.Errorf("redis-cli --cluster create: %w\n%s", err, out)
	}
	return nil
}

func (c *cluster) redisCLI(args ...string) (string, error) {
	cmd := exec.Command("timeout", append([]string{"30", "redis-cli"}, args...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := c.operator.inside(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	return out.String(), err
}

// redisWhole reports why the Redis Cluster is not complete: every node must see three
// masters with slots and three connected replicas.
func (c *cluster) redisWhole() error {
	for _, p := range c.role("redis") {
		conn, err := connect(c.operator, p.host.address+":"+redisPort)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		info, err := redisAsk(conn, "CLUSTER INFO")
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = fmt.Errorf("the cluster of %s is not ok", p.name)
		}
		nodes := ""
		if err == nil {
			nodes, err = redisAsk(conn, "CLUSTER NODES")
		}
		masters, replicas := 0, 0
		for line := range strings.Lines(nodes) {
			f := strings.Fields(line)
			if len(f) < 8 || strings.Contains(f[2], "fail") || f[7] != "connected" {
				continue
			}
			switch {
			case strings.Contains(f[2], "master") && len(f) > 8:
				masters++
			case strings.Contains(f[2], "slave"):
				replicas++
			}
		}
		if err == nil && (masters != 3 || replicas != 3) {
			err = fmt.Errorf("%s sees %d masters and %d replicas", p.name, masters, replicas)
		}
		if err == nil {
			var role string
			if role, err = redisAsk(conn, "INFO replication"); err == nil && strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up") {
				err = fmt.Errorf("%s is not in step with its master", p.name)
			}
		}
		conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
