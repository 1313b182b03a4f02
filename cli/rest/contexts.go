package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"svc/cli/process"
)

const (
	maxFile     = 1 << 20 // bytes
	maxContexts = 1000
	maxKey      = 4096 // bytes
)

// Context is one control plane and the API key for it.
type Context struct {
	Name string `yaml:"name"`
	URL  string `yaml:"url"`
	// APIKey is empty when flags or variables give the key.
	APIKey string `yaml:"apiKey,omitempty"`
}

// File is the content of contexts.yaml.
type File struct {
	// Current is the name of the context that is used by default; empty for none.
	Current  string    `yaml:"current,omitempty"`
	Contexts []Context `yaml:"contexts"`
}

// Path returns the path of the file: $XDG_CONFIG_HOME/svc/contexts.yaml, or below
// ~/.config when that variable is unset or, as its specification demands, not an absolute
// path. It is empty when there is no home directory either.
func Path(env process.Env) string {
	dir := env.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := env.Home()
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "svc", "contexts.yaml")
}

// Load reads the file; a missing file is empty. An error names the file and, if possible,
// the line; it never contains a key.
func Load(env process.Env) (File, error) {
	var f File
	path := Path(env)
	if path == "" {
		return f, nil
	}
	in, err := env.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read contexts: %w", err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return f, fmt.Errorf("read contexts: %w", err)
	}
	if len(data) > maxFile {
		return f, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return File{}, fmt.Errorf("%s: %s", path, withoutValues(err))
	}
	if err := f.check(); err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// quoted matches a value that an error of the YAML decoder repeats.
var quoted = regexp.MustCompile("`[^`]*`")

// withoutValues removes the values from an error of the YAML decoder, because one may be a
// key.
func withoutValues(err error) string {
	text := strings.ReplaceAll(err.Error(), "yaml: unmarshal errors:\n  ", "")
	return quoted.ReplaceAllString(strings.TrimPrefix(text, "yaml: "), "a value")
}

func (f File) check() error {
	if len(f.Contexts) > maxContexts {
		return fmt.Errorf("more than %d contexts", maxContexts)
	}
	seen := map[string]bool{}
	for i, c := range f.Contexts {
		if err := c.Check(); err != nil {
			return fmt.Errorf("context %d: %w", i+1, err)
		}
		if seen[c.Name] {
			return fmt.Errorf("two contexts have the name %q", c.Name)
		}
		seen[c.Name] = true
	}
	if f.Current != "" && !seen[f.Current] {
		return fmt.Errorf("the current context %q is not among the contexts", f.Current)
	}
	return nil
}

// name matches the names of contexts, which need no quotes in a shell.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Check reports what is wrong with a context. The error never contains the key.
func (c Context) Check() error {
	if !name.MatchString(c.Name) {
		return fmt.Errorf("%q is not a name of a context: 1 to 64 letters, digits, dots, underscores and hyphens", c.Name)
	}
	if _, err := canonical(c.URL); err != nil {
		return fmt.Errorf("context %s: %w", c.Name, err)
	}
	if len(c.APIKey) > maxKey {
		return fmt.Errorf("context %s: the API key is longer than %d bytes", c.Name, maxKey)
	}
	for _, r := range c.APIKey {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("context %s: the API key has a character that is not allowed in keys", c.Name)
		}
	}
	return nil
}

// Get returns the context with a name.
func (f File) Get(name string) (Context, bool) {
	for _, c := range f.Contexts {
		if c.Name == name {
			return c, true
		}
	}
	return Context{}, false
}

// Names returns the names in the order of the file.
func (f File) Names() []string {
	names := make([]string, len(f.Contexts))
	for i, c := range f.Contexts {
		names[i] = c.Name
	}
	return names
}

// Put adds a context, or replaces the one with its name.
func (f *File) Put(c Context) {
	for i := range f.Contexts {
		if f.Contexts[i].Name == c.Name {
			f.Contexts[i] = c
			return
		}
	}
	f.Contexts = append(f.Contexts, c)
}

// Delete removes a context. When it was the current one, there is no current one
// afterwards.
func (f *File) Delete(name string) {
	f.Contexts = slices.DeleteFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if f.Current == name {
		f.Current = ""
	}
}

// Save replaces the file atomically, readable by its owner only. When the path is a
// symbolic link, the link's target is replaced.
func Save(env process.Env, f File) error {
	path := Path(env)
	if path == "" {
		return errors.New("there is no home directory to keep contexts in: set XDG_CONFIG_HOME")
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.Contexts == nil {
		f.Contexts = []Context{}
	}
	var b bytes.Buffer
	b.WriteString("# Control planes that svc knows by name; written by 'svc context'. It holds API keys.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(f), enc.Close()); err != nil {
		return err
	}
	if err := env.PrivateDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := env.ReplaceFile(env.Resolve(path), b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// loose reports whether users other than the owner may read or write the file, and its
// permissions. Windows has no such permissions.
func loose(env process.Env) (mode fs.FileMode, loose bool) {
	if runtime.GOOS == "windows" {
		return 0, false
	}
	path := Path(env)
	if path == "" {
		return 0, false
	}
	mode, ok := env.Mode(path)
	return mode, ok && mode&0o077 != 0
}

// sameURL reports whether two base URLs are those of the same control plane: equal scheme,
// host and port, and path. A URL that cannot be parsed equals none.
func sameURL(a, b string) bool {
	x, err := canonical(a)
	y, err2 := canonical(b)
	return err == nil && err2 == nil && x == y
}

// canonical returns the normalized form of a base URL: lower case, with its port, without
// /api and trailing slashes.
func canonical(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("the URL cannot be parsed")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not the URL of a control plane: write it like http://127.0.0.1:8080", u.Redacted())
	case u.User != nil:
		return "", errors.New("the URL must not have a user or a password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("the URL %q must not have a query or a fragment", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	path := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), "/api"), "/")
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port + path, nil
}
