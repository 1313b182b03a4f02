// Package targets creates the transports to the upstreams of a configuration: clients for
// servers with a url, processes for programs. It decides which folders of the gateway
// programs must not read, and gives each program a folder of its own.
package targets

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"svc/gateway/child"
	"svc/gateway/config"
	"svc/gateway/credentials"
	"svc/gateway/stdio"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Options are the dependencies of targets.
type Options struct {
	// Version is the gateway's version.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
	// Changed is called when a program announced a changed list to the gateway itself; may
	// be nil.
	Changed func(upstream string)
	// ChildrenDir overrides the configuration if it is not empty.
	ChildrenDir string
}

// Open returns the upstreams of a validated configuration by name. It sends no requests
// and starts no programs. The result must be closed even after an error.
func Open(f *config.File, o Options) (map[string]*transport.Upstream, error) {
	all := make(map[string]*transport.Upstream, len(f.Upstreams))
	opener := NewOpener(f, o)
	for i := range f.Upstreams {
		up, err := opener.Open(i)
		if err != nil {
			return all, err
		}
		all[up.Name] = up
	}
	return all, nil
}

// Opener opens single upstreams of a configuration.
type Opener struct {
	file     *config.File
	opts     Options
	programs *programs // set once there is a program
}

// NewOpener returns an opener for a validated configuration.
func NewOpener(f *config.File, o Options) *Opener {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Opener{file: f, opts: o}
}

// Open returns the upstream at an index of the configuration.
func (o *Opener) Open(i int) (*transport.Upstream, error) {
	c := o.file.Upstreams[i].WithBreaker(o.file.Federation.Enabled)
	if !c.IsProcess() {
		return transport.Open(c, credentials.New(c, credentials.Options{StateDir: o.file.StateDirectory(), Now: o.opts.Now}), o.opts.Logger, o.opts.Now)
	}
	if o.programs == nil {
		var err error
		if o.programs, err = newPrograms(o.file, o.opts); err != nil {
			return nil, err
		}
	}
	command, err := o.programs.command(&c)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", c.Name, err)
	}
	changed := func() {}
	if o.opts.Changed != nil {
		changed = func() { o.opts.Changed(c.Name) }
	}
	t := stdio.Open(stdio.Options{Config: c, Command: command, Version: o.opts.Version, Logger: o.opts.Logger, Now: o.opts.Now, Changed: changed})
	direct := transport.Bound(c, t, o.opts.Logger, o.opts.Now)
	return &transport.Upstream{Name: c.Name, Transport: direct, Direct: direct, Timeout: c.Timeout}, nil
}

// Close closes all upstreams concurrently: a program may take seconds to end.
func Close(all map[string]*transport.Upstream) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, up := range all {
		wg.Go(func() {
			err := up.Transport.Close()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// programs is the common state of all programs of a configuration.
type programs struct {
	log    *slog.Logger
	folder string // children_dir
	hidden []string
	here   child.Isolation
}

// newPrograms protects the memory of the gateway against programs that it starts
// afterwards.
func newPrograms(f *config.File, o Options) (*programs, error) {
	if err := child.Harden(); err != nil {
		return nil, fmt.Errorf("the memory of the gateway cannot be protected from programs of upstreams: %w", err)
	}
	p := &programs{log: o.Logger, hidden: Hidden(f), here: child.Here()}
	if p.folder = o.ChildrenDir; p.folder == "" {
		p.folder = ChildrenDir(f, p.hidden)
	}
	if in := within(p.folder, p.hidden); in != "" {
		return nil, fmt.Errorf("children_dir: %s is in %s, which is hidden from programs of upstreams because the gateway has private files there: set another one", p.folder, in)
	}
	var private []string
	for i := range f.Upstreams {
		if u := &f.Upstreams[i]; u.IsProcess() && u.User == "" && !p.here.Landlock {
			private = append(private, u.Name)
		}
	}
	if private != nil {
		p.log.Warn("programs of upstreams run as the user of the gateway, and this system cannot hide its files from them: they can read the configuration, keys and the audit file",
			"upstreams", private, "fix", "set upstreams[].user, or use Linux 5.13 or later with Landlock")
	}
	return p, nil
}

// command returns the command of an upstream's program.
func (p *programs) command(c *upstream.Config) (child.Command, error) {
	cmd := child.Command{Args: c.Command, Hidden: p.hidden}
	if c.User != "" {
		account, err := p.account(c.User)
		if err != nil {
			return cmd, fmt.Errorf("user: %w", err)
		}
		cmd.Account = account
	}
	home, err := p.home(c.Name, cmd.Account)
	if err != nil {
		return cmd, err
	}
	cmd.Env = environment(c, home)
	cmd.Dir = home
	if c.WorkingDir != "" {
		if cmd.Dir, err = p.workingDir(c); err != nil {
			return cmd, fmt.Errorf("working_dir: %w", err)
		}
	}
	return cmd, p.check(c, &cmd)
}

// Check returns the reason why the program of an upstream cannot be started on this
// machine, without creating anything: the field that names it, and either an error with
// which the gateway would fail to start, or a warning.
func Check(f *config.File, i int) (field string, err, warning error) {
	c := &f.Upstreams[i]
	p := &programs{log: slog.New(slog.DiscardHandler), hidden: Hidden(f), here: child.Here()}
	if in := within(ChildrenDir(f, p.hidden), p.hidden); in != "" {
		return "command", fmt.Errorf("children_dir is in %s, which is hidden from programs of upstreams", in), nil
	}
	if c.User != "" {
		if _, err := p.account(c.User); errors.Is(err, errNoAccounts) {
			warning = err // the PATH of the checking process, not of the gateway
		} else if err != nil {
			return "user", err, nil
		}
	}
	dir := ChildrenDir(f, p.hidden)
	if c.WorkingDir != "" {
		if dir, err = p.workingDir(c); err != nil {
			return "working_dir", err, nil
		}
	}
	env := environment(c, dir)
	if _, missing := child.LookPath(c.Command[0], pathOf(env)); missing != nil {
		return "command", nil, missing
	}
	if err := p.check(c, &child.Command{Env: env, Dir: dir}); err != nil {
		return "command", err, nil
	}
	return "user", nil, warning
}

// workingDir returns working_dir without symbolic links.
func (p *programs) workingDir(c *upstream.Config) (string, error) {
	dir, err := resolve(c.WorkingDir)
	if err != nil {
		return "", err
	}
	if in := within(dir, p.hidden); in != "" {
		return "", fmt.Errorf("%s is in %s, which is hidden from programs of upstreams because the gateway has private files there", c.WorkingDir, in)
	}
	return dir, nil
}

// check reports problems of the program: an error if only another configuration helps,
// otherwise a warning.
func (p *programs) check(c *upstream.Config, cmd *child.Command) error {
	path, err := child.LookPath(c.Command[0], pathOf(cmd.Env))
	if err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	if real, failed := resolve(path); err == nil && failed == nil && p.here.Landlock {
		if in := within(real, p.hidden); in != "" {
			return fmt.Errorf("command: %s is in %s, which is hidden from programs of upstreams because the gateway has private files there: move one of them", path, in)
		}
		_, err = os.Stat(real)
	}
	if err != nil {
		p.log.Warn("the program of an upstream does not exist", "upstream", c.Name, "error", err)
	}
	for _, in := range p.hiddenArguments(c) {
		p.log.Warn("the program of an upstream cannot read a folder that its command names: the gateway has private files there",
			"upstream", c.Name, "hidden", in, "fix", "keep the configuration, the audit file and state_dir in folders of their own")
	}
	return nil
}

// hiddenArguments returns the folders that contain the paths in the arguments of a command
// and are hidden from its program.
func (p *programs) hiddenArguments(c *upstream.Config) (hidden []string) {
	if !p.here.Landlock {
		return nil
	}
	for _, arg := range c.Command[1:] {
		if real, err := resolve(arg); err == nil && filepath.IsAbs(arg) {
			if in := within(real, p.hidden); in != "" && !slices.Contains(hidden, in) {
				hidden = append(hidden, in)
			}
		}
	}
	return hidden
}

// HiddenArguments returns the folders with paths in the command of an upstream that its
// program cannot open, because the gateway has private files there.
func HiddenArguments(f *config.File, i int) []string {
	p := &programs{hidden: Hidden(f), here: child.Here()}
	return p.hiddenArguments(&f.Upstreams[i])
}
