//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line's settings.
type options struct {
	targets  []string
	shapes   []string
	rounds   int
	duration time.Duration
	conns    int
	rate     int
	keys     int
	svc      string
	base     string
	profile  string
	keep     bool
	streams  int
	calm     int
	short    bool
}

func main() {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			exit(role(os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	exit(err)
}

// roles are the parts of this program that run in processes of their own.
var roles = map[string]func(args []string) error{
	"upstream": upstreamRole,
	"stdio":    stdioRole,
	"load":     loadRole,
	"front":    frontRole,
	"spin":     spinRole,
}

func exit(err error) {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

// targetNames are the available targets. Those of svc, which are the fourth and all after it,
// exist a second time with the prefix "base-", for the build for comparison.
var targetNames = []string{"nginx", "front", "own", "gateway", "reporting", "shared", "governed", "modern", "translated", "federated", "stdio", "labels"}

// configuration returns the name of a target without the prefix of the build for comparison.
// "base" alone is "gateway".
func configuration(name string) string {
	if name == "base" {
		return "gateway"
	}
	return strings.TrimPrefix(name, "base-")
}

// baseOf returns the name of the same target of the build for comparison.
func baseOf(name string) string {
	if name == "gateway" {
		return "base"
	}
	return "base-" + name
}

// isGateway reports whether a target is svc, in one of its configurations.
func isGateway(name string) bool { return slices.Contains(targetNames[3:], configuration(name)) }

// isBase reports whether a target is the build for comparison.
func isBase(name string) bool { return name != configuration(name) }

// isGoverned reports whether a target has policies of a control plane.
func isGoverned(name string) bool { return configuration(name) == "governed" }

// isModern reports whether a target is called by clients of 2026-07-28, with an upstream
// that supports it (modern), or one that has sessions (translated).
func isModern(name string) bool {
	return configuration(name) == "modern" || configuration(name) == "translated"
}

// toolPrefix returns what a target puts before the names of its upstream's tools.
func toolPrefix(name string) string {
	if configuration(name) == "federated" {
		return "tools_"
	}
	return ""
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	targets := f.String("targets", "nginx,front,own,gateway", "what is measured, comma-separated; the first is the reference")
	shapes := f.String("shapes", "small,fixed,large,sse", "loads, comma-separated")
	f.IntVar(&o.rounds, "rounds", 3, "rounds; medians are shown")
	f.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "time of one load on one target in one round")
	f.IntVar(&o.conns, "conns", 16, "connections of the closed loops")
	f.IntVar(&o.rate, "rate", 2000, "requests a second of the fixed load")
	f.IntVar(&o.keys, "keys", 32, "API keys")
	f.StringVar(&o.svc, "svc", "", "svc binary to measure; built from this module when empty")
	f.StringVar(&o.base, "base", "", "another svc binary; base and base-TARGET are gateway and TARGET of it, for a comparison of two builds round by round")
	f.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the fronts")
	f.IntVar(&o.streams, "streams", 1000, "event streams held open for the memory figures; 0 leaves them out")
	f.IntVar(&o.calm, "calm", 20, "percent of a core that other programs may use in a round that counts")
	f.BoolVar(&o.short, "short", false, "only whether the rig works, in seconds: short loads, few streams, without nginx where there is none; its figures mean nothing")
	f.BoolVar(&o.keep, "keep", false, "keep the temporary directory and print its name")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.targets, o.shapes = strings.Split(*targets, ","), strings.Split(*shapes, ",")
	for _, name := range o.targets {
		if !slices.Contains(targetNames, name) && !isGateway(name) {
			return nil, fmt.Errorf("%w: no target %q; there are %s, and base- before those of svc", errUsage, name, strings.Join(targetNames, ", "))
		}
	}
	if o.base == "" && slices.ContainsFunc(o.targets, isBase) {
		return nil, fmt.Errorf("%w: the targets that begin with base need -base FILE", errUsage)
	}
	for _, name := range o.shapes {
		if _, ok := shapeByName(name); !ok {
			return nil, fmt.Errorf("%w: no shape %q; there are small, fixed, large, sse", errUsage, name)
		}
	}
	if f.NArg() > 0 || o.rounds < 1 || o.rounds > 60 || o.duration < 100*time.Millisecond || o.duration > 30*time.Second ||
		o.calm < 0 || o.streams < 0 || o.streams > 4000 || o.conns < 1 || o.conns > 512 || o.rate < 1 || o.rate > 50000 || o.keys < 1 || o.keys > 512 {
		return nil, fmt.Errorf("%w: an argument is out of range; see -h", errUsage)
	}
	if o.short {
		o.shorten()
	}
	return o, nil
}

// shorten changes the options to a run of a few seconds.
func (o *options) shorten() {
	o.rounds, o.duration, o.streams = 1, 200*time.Millisecond, min(o.streams, 50)
	if _, err := nginxPath(); err != nil {
		o.targets = slices.DeleteFunc(o.targets, func(name string) bool { return name == "nginx" })
		fmt.Fprintln(os.Stderr, "there is no nginx; it is left out")
	}
	if len(o.targets) == 0 {
		o.targets = []string{"gateway"}
	}
}
