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

	"svc/gateway/upstream"
	"svc/gateway/upstream/credentials"
	"svc/gateway/upstream/stdio"
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
	// Current returns the settings of the configuration in force, whose files are hidden from processes that start
	// later, in addition to those of the configuration with which the gateway started. It may
	// be nil, and may return nil. It is safe for concurrent use.
	Current func() *Settings
	// ChildrenDir overrides the configuration if it is not empty.
	ChildrenDir string
}

// Settings are the parts of a validated configuration that concern its upstreams.
type Settings struct {
	Upstreams []upstream.Config
	// Federated is set with federation, whose upstreams have a breaker by default.
	Federated bool
	StateDir  string
	// ChildrenDir is the configured folder of programs; empty for one beside StateDir.
	ChildrenDir string
	// PrivateFiles are the files that no program of an upstream may open.
	PrivateFiles []string
	// SecretFiles are such files too; their folders belong to others, unless they are made for secrets.
	SecretFiles []string
}

// Open returns the upstreams of a validated configuration by name. It sends no requests
// and starts no programs. The result must be closed even after an error.
func Open(s *Settings, o Options) (map[string]*upstream.Upstream, error) {
	all := make(map[string]*upstream.Upstream, len(s.Upstreams))
	opener := NewOpener(s, o)
	for i := range s.Upstreams {
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
	settings *Settings
	opts     Options
	programs *programs // set once there is a program
}

// NewOpener returns an opener for a validated configuration.
func NewOpener(s *Settings, o Options) *Opener {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Opener{settings: s, opts: o}
}

// Open returns the upstream at an index of the configuration.
func (o *Opener) Open(i int) (*upstream.Upstream, error) {
	c := o.settings.Upstreams[i].WithBreaker(o.settings.Federated)
	if !c.IsProcess() {
		presented, err := credentials.New(c, credentials.Options{StateDir: o.settings.StateDir, Now: o.opts.Now})
		if err != nil {
			return nil, err
		}
		return upstream.Open(c, presented, o.opts.Logger, o.opts.Now)
	}
	if o.programs == nil {
		var err error
		if o.programs, err = newPrograms(o.settings, o.opts); err != nil {
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
	t := stdio.Open(stdio.Options{Config: c, Command: command, Hidden: o.hidden, Version: o.opts.Version, Logger: o.opts.Logger, Now: o.opts.Now, Changed: changed})
	direct := upstream.Bound(c, t, o.opts.Logger, o.opts.Now)
	return &upstream.Upstream{Name: c.Name, Transport: direct, Direct: direct, Timeout: c.Timeout, StartTimeout: c.StartTimeout, Network: "pipe"}, nil
}

// Stats is the state of the connections of an upstream, or of its processes.
type Stats struct {
	upstream.Stats
	Processes stdio.Stats
	// InFlight counts the messages in flight, and BreakerOpen is set while the breaker is open or
	// half-open, if the configuration sets these limits.
	InFlight    int64
	BreakerOpen bool
	Health      upstream.Health
}

// StatsOf returns the state of an upstream; false for the gateway itself, which is one with federation.
func StatsOf(up *upstream.Upstream) (s Stats, ok bool) {
	if b, limited := up.Direct.(*upstream.Bounded); limited {
		s.InFlight, s.BreakerOpen = b.State()
		s.Health = b.Health()
	}
	switch t := unlimited(up).(type) {
	case *upstream.HTTP:
		s.Stats = t.Stats()
	case *stdio.Transport:
		s.Processes = t.Stats()
		s.Dropped = s.Processes.Dropped
	default:
		return s, false
	}
	return s, true
}

// ReplaceOpen replaces the processes of an upstream that could open what is hidden now; it returns
// their number.
func ReplaceOpen(up *upstream.Upstream) int {
	if programs, ok := unlimited(up).(*stdio.Transport); ok {
		return programs.ReplaceOpen()
	}
	return 0
}

// unlimited returns the transport of an upstream below its limits.
func unlimited(up *upstream.Upstream) upstream.Transport {
	if b, ok := up.Direct.(*upstream.Bounded); ok {
		return b.Transport
	}
	return up.Direct
}

// hidden returns the paths that are hidden from a process that starts now: a link may lead
// elsewhere than at the start of the gateway, and a reload may have named other files.
func (o *Opener) hidden() []string {
	paths := Hidden(o.settings)
	if o.opts.Current == nil {
		return paths
	}
	now := o.opts.Current()
	if now == nil || now == o.settings {
		return paths
	}
	for _, path := range Hidden(now) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Close closes all upstreams concurrently: a program may take seconds to end.
func Close(all map[string]*upstream.Upstream) error {
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
	here   stdio.Isolation
}

// newPrograms protects the memory of the gateway against programs that it starts
// afterwards.
func newPrograms(s *Settings, o Options) (*programs, error) {
	if err := stdio.Harden(); err != nil {
		return nil, fmt.Errorf("the memory of the gateway cannot be protected from programs of upstreams: %w", err)
	}
	p := &programs{log: o.Logger, hidden: Hidden(s), here: stdio.Here()}
	if p.folder = o.ChildrenDir; p.folder == "" {
		p.folder = childrenDir(s, p.hidden)
	}
	if in := within(p.folder, p.hidden); in != "" {
		return nil, fmt.Errorf("children_dir: %s is in %s, which is hidden from programs of upstreams because the gateway has private files there: set another one", p.folder, in)
	}
	same := sameUser(s)
	if same != nil && !p.here.Landlock {
		p.log.Warn("programs of upstreams run as the user of the gateway, and this system cannot hide its files from them: they can read the configuration, keys and the audit file",
			"upstreams", same, "fix", "set upstreams[].user, or use Linux 5.13 or later with Landlock")
	}
	if same != nil && os.Geteuid() == 0 {
		p.log.Warn("programs of upstreams run as root, whose files and devices they can use although they have no capabilities",
			"upstreams", same, "fix", "run the gateway as another user, or set upstreams[].user")
	} else if same != nil && p.here.Landlock && !p.here.Calls {
		p.log.Warn("programs of upstreams run as the user of the gateway, and this system cannot filter their system calls: they can change the limits and priorities of the gateway",
			"upstreams", same, "fix", "set upstreams[].user, or use a kernel with seccomp filters on amd64 or arm64")
	}
	return p, nil
}

// sameUser returns the upstreams whose programs run as the user of the gateway.
func sameUser(s *Settings) (names []string) {
	for i := range s.Upstreams {
		if u := &s.Upstreams[i]; u.IsProcess() && u.User == "" {
			names = append(names, u.Name)
		}
	}
	return names
}

// command returns the command of an upstream's program.
func (p *programs) command(c *upstream.Config) (stdio.Command, error) {
	cmd := stdio.Command{Args: c.Command, UserNamespaces: c.Sandbox.UserNamespaces}
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
func Check(s *Settings, i int) (field string, err, warning error) {
	c := &s.Upstreams[i]
	p := &programs{log: slog.New(slog.DiscardHandler), hidden: Hidden(s), here: stdio.Here()}
	if in := within(childrenDir(s, p.hidden), p.hidden); in != "" {
		return "command", fmt.Errorf("children_dir is in %s, which is hidden from programs of upstreams", in), nil
	}
	if c.User != "" {
		if _, err := p.account(c.User); errors.Is(err, errNoAccounts) {
			warning = err // the PATH of the checking process, not of the gateway
		} else if err != nil {
			return "user", err, nil
		}
	}
	dir := childrenDir(s, p.hidden)
	if c.WorkingDir != "" {
		if dir, err = p.workingDir(c); err != nil {
			return "working_dir", err, nil
		}
	}
	env := environment(c, dir)
	if _, missing := stdio.LookPath(c.Command[0], pathOf(env)); missing != nil {
		return "command", nil, missing
	}
	if err := p.check(c, &stdio.Command{Env: env, Dir: dir}); err != nil {
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
func (p *programs) check(c *upstream.Config, cmd *stdio.Command) error {
	path, err := stdio.LookPath(c.Command[0], pathOf(cmd.Env))
	if err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	if real, failed := resolve(path); err == nil && failed == nil && p.here.Landlock {
		if in := hides(real, p.hidden); in != "" {
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
			if in := hides(real, p.hidden); in != "" && !slices.Contains(hidden, in) {
				hidden = append(hidden, in)
			}
		}
	}
	return hidden
}

// HiddenArguments returns the folders with paths in the command of an upstream that its
// program cannot open, because the gateway has private files there.
func HiddenArguments(s *Settings, i int) []string {
	p := &programs{hidden: Hidden(s), here: stdio.Here()}
	return p.hiddenArguments(&s.Upstreams[i])
}
