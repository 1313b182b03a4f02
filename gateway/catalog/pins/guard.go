package pins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/upstream"
)

// Guard stores the approved definitions and the listed ones. Its methods are safe for
// concurrent use; a nil Guard checks nothing.
type Guard struct {
	lists *catalog.Reader
	log   *slog.Logger
	now   func() time.Time
	// path is the file of approved definitions, and given is set when the configuration
	// names it: then no definition is approved automatically on first listing.
	path  string
	given bool
	// lost is set when the gateway ran before and its state directory is missing.
	lost bool
	// federated is set when package federation merges the lists.
	federated bool
	skills    bool // an upstream has pin_skills
	upstreams map[string]*guarded
	order     []*guarded // in the order of the config file

	pins   atomic.Pointer[Pins]
	saving sync.Mutex // serializes changes of pins
}

// stateFile returns the path of the file of definitions that were approved automatically
// on first listing.
func stateFile(stateDir string) string { return filepath.Join(stateDir, "pins.json") }

// Settings are the parts of a configuration that concern approved definitions.
type Settings struct {
	// File is the configured file of approved definitions; empty for the one in StateDir.
	File     string
	StateDir string
	// AuditPath is the audit file. If it has content, the gateway ran before.
	AuditPath string
	// Federated is set if package federation merges the lists of upstreams; otherwise
	// RefreshInterval is the time between two readings.
	Federated       bool
	RefreshInterval time.Duration
	Upstreams       []upstream.Config
}

// Path returns the path of the file of approved definitions, and whether the configuration
// names it.
func (s *Settings) Path() (path string, given bool) {
	if s.File != "" {
		return s.File, true
	}
	return stateFile(s.StateDir), false
}

// Open returns the guard of a validated configuration, nil when no upstream has pin_tools or pin_skills.
// It fails when the file of pins cannot be read, and with block also when the file does
// not exist. It sends no requests, and must be called before the reader runs. It must be called before the audit file is opened,
// because that file shows whether the gateway ran before.
func Open(s Settings, lists *catalog.Reader, log *slog.Logger, now func() time.Time) (*Guard, error) {
	g := &Guard{lists: lists, log: log, now: now, federated: s.Federated, upstreams: map[string]*guarded{}}
	for i := range s.Upstreams {
		c := &s.Upstreams[i]
		if !upstream.Pins(c.PinTools) && !upstream.Pins(c.PinSkills) {
			continue
		}
		u := newGuarded(c, lists.Feed(c.Name))
		g.skills = g.skills || u.pins(Skill)
		if !s.Federated && !u.perCaller {
			u.lists.Follow(catalog.Need{Kinds: u.kinds(), Interval: s.RefreshInterval})
		}
		g.upstreams[c.Name] = u
		g.order = append(g.order, u)
	}
	if len(g.order) == 0 {
		return nil, nil
	}
	g.path, g.given = s.Path()
	p, err := s.read()
	if err != nil {
		return nil, err
	}
	if g.given {
		for _, u := range g.order {
			if u.pins(Tool) && !p.Has(u.name, Tool) || u.pins(Skill) && !p.Has(u.name, Skill) {
				g.log.Warn("the file of pins has nothing of an upstream: all that it lists is new", "upstream", u.name, "pins", g.path,
					"skills", p.Has(u.name, Tool) || !u.pins(Tool), "fix", "svc tools approve "+u.name+"/…, or --all, and SIGHUP")
			}
		}
	}
	g.pins.Store(p)
	g.lost = !g.given && s.ranBefore()
	return g, nil
}

// ErrNoPins is the error of a missing file of pins when an upstream has pin_tools or pin_skills: block.
var ErrNoPins = errors.New("the file of pins does not exist, and an upstream has pin_tools: block or pin_skills: block: create it with 'svc tools approve --all'")

// Check returns the error of [Open] for a file of pins that cannot be read or is missing.
func (s *Settings) Check() error {
	if !slices.ContainsFunc(s.Upstreams, func(c upstream.Config) bool { return upstream.Pins(c.PinTools) || upstream.Pins(c.PinSkills) }) {
		return nil
	}
	_, err := s.read()
	return err
}

// read reads the approved definitions of a configuration; none when nothing is approved
// yet. The error names the file.
func (s *Settings) read() (*Pins, error) {
	path, given := s.Path()
	p, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		for i := range s.Upstreams {
			if given && (s.Upstreams[i].PinTools == upstream.PinBlock || s.Upstreams[i].PinSkills == upstream.PinBlock) {
				return nil, fmt.Errorf("pins: %s: %w", path, ErrNoPins)
			}
		}
		return new(Pins), nil
	}
	if err != nil {
		err = fmt.Errorf("pins: %w", err)
	}
	return p, err
}

// ranBefore reports whether a gateway wrote the audit file before and its state directory
// is missing.
func (s *Settings) ranBefore() bool {
	info, err := os.Stat(s.AuditPath)
	if err != nil || info.Size() == 0 {
		return false
	}
	heads, _ := filepath.Glob(filepath.Join(s.StateDir, "audit-head-*.json")) // the pattern is valid
	return len(heads) == 0
}

// Reload reads the approved definitions again. On an error the previous ones stay in
// effect.
func (g *Guard) Reload() error {
	if g == nil {
		return nil
	}
	g.saving.Lock()
	defer g.saving.Unlock()
	p, err := read(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		if g.given {
			return fmt.Errorf("pins: %s is not there", g.path)
		}
		if p = g.pins.Load(); len(g.approvedUpstreams(p)) > 0 {
			g.log.Warn("the file of pins is gone: the definitions that were approved stay approved until a restart", "pins", g.path)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	g.pins.Store(p)
	for _, u := range g.order {
		u.forgetLoggedFiles()
		g.lists.Approved(u.name)
		u.lists.ReadAgain()
	}
	return nil
}

func (g *Guard) approvedUpstreams(p *Pins) (names []string) {
	for _, u := range g.order {
		if p.Has(u.name, Tool) || p.Has(u.name, Skill) {
			names = append(names, u.name)
		}
	}
	return names
}

// lockTime bounds the wait for another process that is changing the file of pins.
const lockTime = 5 * time.Second

// learn approves what an upstream lists first: its skills, except for those without digests, or for
// another kind everything but its skills. Definitions that were added to the file in the meantime
// take precedence.
func (g *Guard) learn(u *guarded, of Kind, listed []Pin) {
	g.saving.Lock()
	defer g.saving.Unlock()
	if g.given || g.pins.Load().Has(u.name, of) {
		return
	}
	listed = slices.DeleteFunc(slices.Clone(listed), func(p Pin) bool { return p.Dynamic() })
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	p, err := Update(ctx, g.path, func(p *Pins) *Pins {
		if p.Has(u.name, of) {
			return p
		}
		return p.With(u.name, of, g.now(), listed...)
	})
	if err != nil {
		g.log.Error("the definitions that an upstream listed first were not saved: after a restart the list of that moment is approved", "upstream", u.name, "error", err)
		p = g.pins.Load().With(u.name, of, g.now(), listed...)
	}
	g.pins.Store(p)
	counts := map[Kind]int{}
	for i := range listed {
		counts[listed[i].Subject.Kind]++
	}
	event, about := "tools_pinned", []any{"upstream", u.name, "tools", counts[Tool], "prompts", counts[Prompt], "instructions", counts[Instructions] > 0}
	if of == Skill {
		event, about = "skills_pinned", []any{"upstream", u.name, "skills", counts[Skill]}
	}
	if g.lost {
		g.log.Warn(event, append(about, "reason", "the gateway ran before, and its state_dir is gone: what an upstream lists now is approved, whatever was approved before",
			"fix", "svc tools list; keep state_dir, or name a file in pins")...)
		return
	}
	g.log.Info(event, about...)
}
