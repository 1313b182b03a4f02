package pinning

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/config"
	"svc/gateway/pins"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Options are the dependencies of a guard.
type Options struct {
	// Version is the gateway's own version.
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
	// Changed is called when the approved definitions of an upstream have changed, so that
	// its lists are merged again; may be nil.
	Changed func(upstream string)
}

// Guard stores the approved definitions and the listed ones. Its methods are safe for
// concurrent use; a nil Guard checks nothing.
type Guard struct {
	opts Options
	// path is the file of approved definitions, and given is set when the configuration
	// names it: then no definition is approved automatically on first listing.
	path  string
	given bool
	// lost is set when the gateway ran before and its state directory is missing.
	lost bool
	// federated is set when the lists of upstreams are read by package federation.
	federated bool
	interval  time.Duration
	upstreams map[string]*guarded
	order     []*guarded // in the order of the config file

	pins   atomic.Pointer[pins.Pins]
	saving sync.Mutex // serializes changes of pins
}

// StateFile returns the path of the file of definitions that were approved automatically
// on first listing.
func StateFile(stateDir string) string { return filepath.Join(stateDir, "pins.json") }

// FileOf returns the path of the file of approved definitions of a configuration, and
// whether the configuration names it.
func FileOf(f *config.File) (path string, given bool) {
	if f.Pins != "" {
		return f.Pins, true
	}
	return StateFile(f.StateDirectory()), false
}

// Open returns the guard of a validated configuration, nil when no upstream has pin_tools.
// It fails when the file of pins cannot be read, and with block also when the file does
// not exist. It sends no requests. It must be called before the audit file is opened,
// because that file shows whether the gateway ran before.
func Open(f *config.File, targets map[string]*transport.Upstream, o Options) (*Guard, error) {
	g := &Guard{opts: o, federated: f.Federation.Enabled, interval: f.Federation.RefreshInterval, upstreams: map[string]*guarded{}}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	for i := range f.Upstreams {
		c := &f.Upstreams[i]
		if !c.Pinned() {
			continue
		}
		u := newGuarded(c, targets[c.Name], o.Version)
		g.upstreams[c.Name] = u
		g.order = append(g.order, u)
	}
	if len(g.order) == 0 {
		return nil, nil
	}
	g.path, g.given = FileOf(f)
	p, err := Read(f)
	if err != nil {
		return nil, err
	}
	if g.given {
		for _, u := range g.order {
			if !p.Has(u.name) {
				g.opts.Logger.Warn("the file of pins has nothing of an upstream: all that it lists is new", "upstream", u.name, "pins", g.path,
					"fix", "svc tools approve "+u.name+"/…, or --all, and SIGHUP")
			}
		}
	}
	g.pins.Store(p)
	g.lost = !g.given && ranBefore(f)
	return g, nil
}

// ErrNoPins is the error of a missing file of pins when an upstream has pin_tools: block.
var ErrNoPins = errors.New("the file of pins does not exist, and an upstream has pin_tools: block: create it with 'svc tools approve --all'")

// Read reads the approved definitions of a configuration; none when nothing is approved
// yet. The error names the file.
func Read(f *config.File) (*pins.Pins, error) {
	path, given := FileOf(f)
	p, err := pins.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		for i := range f.Upstreams {
			if given && f.Upstreams[i].PinTools == upstream.PinBlock {
				return nil, fmt.Errorf("pins: %s: %w", path, ErrNoPins)
			}
		}
		return new(pins.Pins), nil
	}
	if err != nil {
		err = fmt.Errorf("pins: %w", err)
	}
	return p, err
}

// ranBefore reports whether a gateway wrote the audit file before and its state directory
// is missing.
func ranBefore(f *config.File) bool {
	info, err := os.Stat(f.Audit.Path)
	if err != nil || info.Size() == 0 {
		return false
	}
	heads, _ := filepath.Glob(filepath.Join(f.StateDirectory(), "audit-head-*.json")) // the pattern is valid
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
	p, err := pins.Read(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		if g.given {
			return fmt.Errorf("pins: %s is not there", g.path)
		}
		if p = g.pins.Load(); len(g.approvedUpstreams(p)) > 0 {
			g.opts.Logger.Warn("the file of pins is gone: the definitions that were approved stay approved until a restart", "pins", g.path)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("pins: %w", err)
	}
	g.pins.Store(p)
	for _, u := range g.order {
		g.changed(u.name)
		u.readSoon()
	}
	return nil
}

func (g *Guard) approvedUpstreams(p *pins.Pins) (names []string) {
	for _, u := range g.order {
		if p.Has(u.name) {
			names = append(names, u.name)
		}
	}
	return names
}

func (g *Guard) changed(upstream string) {
	if g.opts.Changed != nil {
		g.opts.Changed(upstream)
	}
}

// lockTime bounds the wait for another process that is changing the file of pins.
const lockTime = 5 * time.Second

// learn approves what an upstream lists first. Definitions that were added to the file in
// the meantime take precedence.
func (g *Guard) learn(u *guarded, listed []pins.Pin) {
	g.saving.Lock()
	defer g.saving.Unlock()
	if g.given || g.pins.Load().Has(u.name) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	p, err := Update(ctx, g.path, func(p *pins.Pins) *pins.Pins {
		if p.Has(u.name) {
			return p
		}
		return p.With(u.name, g.opts.Now(), listed...)
	})
	if err != nil {
		g.opts.Logger.Error("the definitions that an upstream listed first were not saved: after a restart the list of that moment is approved", "upstream", u.name, "error", err)
		p = g.pins.Load().With(u.name, g.opts.Now(), listed...)
	}
	g.pins.Store(p)
	counts := map[pins.Kind]int{}
	for i := range listed {
		counts[listed[i].Subject.Kind]++
	}
	about := []any{"upstream", u.name, "tools", counts[pins.Tool], "prompts", counts[pins.Prompt], "instructions", counts[pins.Instructions] > 0}
	if g.lost {
		g.opts.Logger.Warn("tools_pinned", append(about, "reason", "the gateway ran before, and its state_dir is gone: what an upstream lists now is approved, whatever was approved before",
			"fix", "svc tools list; keep state_dir, or name a file in pins")...)
		return
	}
	g.opts.Logger.Info("tools_pinned", about...)
}
