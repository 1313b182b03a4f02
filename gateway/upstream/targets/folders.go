package targets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"svc/gateway/upstream"
	"svc/gateway/upstream/stdio"
)

// shared are folders that are used by more than the gateway: in such a folder, only the
// gateway's own files are hidden.
var shared = []string{
	"/", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/usr/local", "/usr/local/etc",
	"/usr/local/share", "/var", "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/tmp", "/private", "/private/etc", "/private/tmp", "/private/var",
}

// secretsDir is the folder in which Docker, Podman and Kubernetes mount secrets.
const secretsDir = "/run/secrets"

// Hidden returns the paths that the programs of upstreams must not open: the folders of the
// configuration, of the audit file, and of files with secrets, the files of ${file:PATH}, and the
// state directory. The folders of the paths are no symbolic links.
func Hidden(s *Settings) []string {
	files, state := s.PrivateFiles, s.StateDir
	hidden := []string{}
	add := func(path string) {
		if real, err := resolve(path); err == nil && !slices.Contains(hidden, real) {
			hidden = append(hidden, real)
		}
	}
	for _, path := range files {
		real, err := resolve(path)
		if err != nil {
			continue
		}
		if dir := filepath.Dir(real); !isShared(dir) {
			add(dir)
			continue
		}
		add(path) // package stdio finds rotated files, copies and the like beside it
	}
	add(state)
	if credentials := os.Getenv("CREDENTIALS_DIRECTORY"); credentials != "" {
		add(credentials)
	}
	steps := []string{}
	for _, path := range s.SecretFiles {
		real, links := follow(path)
		for _, step := range append(links, real) {
			steps = append(steps, step)
			switch {
			case filepath.Base(step) == "..data": // a Kubernetes volume, which gets a new folder with each change
				add(filepath.Dir(step))
			case stdio.Within(step, secretsDir):
				add(secretsDir)
			}
		}
	}
	for _, step := range steps { // links too, so that no program replaces them
		if within(step, hidden) == "" {
			hidden = append(hidden, step)
		}
	}
	return hidden
}

// follow returns where a path leads, and the symbolic links on the way, each below a folder without
// links. What does not exist is taken as it is written.
func follow(path string) (real string, links []string) {
	const most = 255 // links; the kernel follows 40
	root := filepath.VolumeName(path) + string(filepath.Separator)
	real, rest := root, filepath.ToSlash(path)[len(root)-1:]
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := filepath.Join(real, name)
		target, err := os.Readlink(next)
		switch {
		case err != nil || len(links) == most:
			real = next
			continue
		case filepath.IsAbs(target):
			real = root
		}
		links = append(links, next)
		rest = target + "/" + rest
	}
	return real, links
}

// isShared reports whether a folder is used by more than the gateway.
func isShared(dir string) bool {
	home, err := os.UserHomeDir()
	return slices.Contains(shared, dir) || err == nil && dir == filepath.Clean(home)
}

// childrenDir returns children_dir, or its default: beside state_dir, and outside of every
// hidden folder.
func childrenDir(s *Settings, hidden []string) string {
	if s.ChildrenDir != "" {
		if real, err := resolve(s.ChildrenDir); err == nil {
			return real
		}
		return s.ChildrenDir
	}
	base := s.StateDir
	if real, err := resolve(base); err == nil {
		base = real
	}
	for in := within(base, hidden); in != ""; in = within(base, hidden) {
		base = in + "-children"
	}
	return base
}

// within returns the hidden path that equals or contains a path; empty for none.
func within(path string, hidden []string) string {
	for _, h := range hidden {
		if stdio.Within(path, h) {
			return h
		}
	}
	return ""
}

// hides is [within] for files: it finds those beside a hidden file too.
func hides(path string, hidden []string) string {
	if in := within(path, hidden); in != "" {
		return in
	}
	info, err := os.Lstat(path)
	for _, h := range hidden {
		if err == nil && !info.IsDir() && filepath.Dir(h) == filepath.Dir(path) && stdio.Beside(filepath.Base(path), filepath.Base(h)) {
			return h
		}
	}
	return ""
}

// IsHidden reports whether a folder is inside one that the programs of upstreams must not
// open.
func IsHidden(s *Settings, dir string) bool {
	real, err := resolve(dir)
	return err != nil || within(real, Hidden(s)) != ""
}

// resolve returns a path without symbolic links. The end of the path need not exist.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if dir == filepath.Dir(dir) {
			return "", err
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// home creates the folder of a program, with one for temporary files, both owned by the
// account that the program runs as. It works on open folders, because a program that runs
// already can replace what is in them, by a link to a folder of somebody else for example.
func (p *programs) home(name string, a *stdio.Account) (string, error) {
	mode := fs.FileMode(0o700)
	if a != nil {
		mode = 0o711 // the account needs to traverse it
	}
	if err := os.MkdirAll(p.folder, mode); err != nil {
		return "", fmt.Errorf("children_dir: %w", err)
	}
	home := filepath.Join(p.folder, name)
	if err := p.openHome(name, mode, a); err != nil {
		return "", fmt.Errorf("children_dir: %w", err)
	}
	return home, nil
}

func (p *programs) openHome(name string, mode fs.FileMode, a *stdio.Account) error {
	all, err := os.OpenRoot(p.folder)
	if err != nil {
		return err
	}
	defer all.Close()
	if info, err := all.Stat("."); err == nil && info.Mode().Perm()|mode != info.Mode().Perm() {
		if err := all.Chmod(".", info.Mode().Perm()|mode); err != nil {
			return err
		}
	}
	if info, err := all.Lstat(name); a != nil && err == nil && info.IsDir() && info.Mode().Perm() == 0o700 && isOwner(info, int(a.UID)) {
		return nil // its content belongs to the account
	}
	home, err := ownFolder(all, name, a)
	if err != nil {
		return err
	}
	defer home.Close()
	tmp, err := ownFolder(home, "tmp", a)
	if err != nil {
		return err
	}
	defer tmp.Close()
	if a == nil {
		return nil
	}
	for _, dir := range []*os.Root{tmp, home} {
		if err := dir.Chown(".", int(a.UID), int(a.GID)); err != nil {
			return fmt.Errorf("%w (run 'install -d -m 700 -o %d -g %d %s', or give the gateway CAP_CHOWN)", err, a.UID, a.GID, home.Name())
		}
	}
	return nil
}

// ownFolder creates a folder that only one account can use, and opens it. A link is refused, and
// a folder of another account than the gateway's or the program's: a program could have put it
// there.
func ownFolder(in *os.Root, name string, a *stdio.Account) (_ *os.Root, err error) {
	path := filepath.Join(in.Name(), name)
	if err := in.Mkdir(name, 0o700); err != nil && !os.IsExist(err) {
		return nil, err
	}
	found, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !found.IsDir() {
		return nil, fmt.Errorf("%s is not a folder: remove it", path)
	}
	dir, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			dir.Close()
		}
	}()
	info, err := dir.Stat(".")
	if err != nil {
		return nil, err
	}
	if !os.SameFile(found, info) {
		return nil, fmt.Errorf("%s was replaced meanwhile: start again", path)
	}
	if a != nil && !isOwner(info, os.Geteuid()) && !isOwner(info, int(a.UID)) {
		return nil, fmt.Errorf("%s belongs to another account: remove it", path)
	}
	if info.Mode().Perm() == 0o700 {
		return dir, nil
	}
	return dir, dir.Chmod(".", 0o700)
}

// account finds an account by name or number, on systems where programs can run as another
// account.
func (p *programs) account(name string) (*stdio.Account, error) {
	found, err := user.Lookup(name)
	if err != nil {
		if found, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("there is no user %q", name)
		}
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("this system has no numeric user ids")
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("this system has no numeric group ids")
	}
	if !p.here.Accounts {
		return nil, errNoAccounts
	}
	return &stdio.Account{UID: uint32(uid), GID: uint32(gid)}, nil
}

var errNoAccounts = errors.New("another account needs Linux, and root or CAP_SETUID and CAP_SETGID (AmbientCapabilities= of the unit)")

// Defaults for variables of a program's environment that the gateway's own lacks.
const (
	defaultPath = "/usr/local/bin:/usr/bin:/bin"
	defaultLang = "C.UTF-8"
)

// environment returns the environment of a program. Of several values of a variable the
// last one is used.
func environment(c *upstream.Config, home string) []string {
	set := map[string]string{
		"PATH": cmp.Or(os.Getenv("PATH"), defaultPath), "LANG": cmp.Or(os.Getenv("LANG"), defaultLang),
		"HOME": home, "TMPDIR": filepath.Join(home, "tmp"),
	}
	for _, name := range c.InheritEnv {
		if value, ok := os.LookupEnv(name); ok {
			set[name] = value
		}
	}
	for name, value := range c.Env {
		set[name] = value
	}
	env := make([]string, 0, len(set))
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// pathOf returns the PATH of an environment.
func pathOf(env []string) string {
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			return path
		}
	}
	return ""
}
