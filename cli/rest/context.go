package rest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
)

// Target is the control plane that a command calls, the key that it sends, and the source
// of each.
type Target struct {
	URL, URLFrom string
	Key, KeyFrom string // Key is empty when there is none
	Context      string // the context that either comes from; empty for none
	// Withheld is the reason why the key of the context, or of the environment, is not used.
	Withheld string
}

// Target returns the control plane and the key. The URL is that of --url, SVC_URL, the
// context, or else the default one. The key is that of --api-key, --api-key-file, the
// context of --context, SVC_API_KEY, SVC_API_KEY_FILE, or the context of SVC_CONTEXT or
// the current one in the file. A context's key is only used with the context's URL, and a key of
// the environment, which may be for another control plane, never with the URL of a context.
//
// The result is cached, because standard input can be read only once.
func (r *Connection) Target() (Target, error) {
	if r.target != nil {
		return *r.target, nil
	}
	t, err := r.findTarget()
	if err == nil {
		r.target = &t
	}
	return t, err
}

func (r *Connection) findTarget() (Target, error) {
	ctx, named, err := r.selected()
	if err != nil {
		return Target{}, err
	}
	var t Target
	switch {
	case r.URL != "":
		t.URL, t.URLFrom = r.URL, "--url"
	case r.Env.Getenv("SVC_URL") != "":
		t.URL, t.URLFrom = r.Env.Getenv("SVC_URL"), "SVC_URL"
	case ctx.Name != "":
		t.URL, t.URLFrom, t.Context = ctx.URL, "context "+ctx.Name, ctx.Name
	default:
		t.URL, t.URLFrom = defaultURL, "default"
	}
	own := ctx.APIKey
	if own != "" && !sameURL(t.URL, ctx.URL) {
		own, t.Withheld = "", fmt.Sprintf("the key of context %s is for %s alone", ctx.Name, ctx.URL)
	}
	fromContext := func() {
		t.Key, t.KeyFrom, t.Context = own, "context "+ctx.Name, ctx.Name
	}
	if named && own != "" && r.key == "" && r.keyFile == "" {
		fromContext()
		return t, nil
	}
	if t.Key, t.KeyFrom, err = r.givenKey(); err != nil {
		return t, err
	}
	switch fromEnv := t.Key != "" && r.key == "" && r.keyFile == ""; {
	case fromEnv && t.Context != "":
		t.Withheld = fmt.Sprintf("%s is set, and a key of the environment is not sent to the address of a context", t.KeyFrom)
		t.Key, t.KeyFrom = "", ""
	case t.Key == "" && own != "":
		fromContext()
	}
	return t, nil
}

// selected returns the context that is named or current, empty for none, and whether
// --context named it. An unreadable file is an error only when a context is named, or
// when the URL or the key is still unknown.
func (r *Connection) selected() (ctx Context, byFlag bool, err error) {
	name := cmp.Or(r.context, r.Env.Getenv("SVC_CONTEXT"))
	hasURL := r.URL != "" || r.Env.Getenv("SVC_URL") != ""
	hasKey := r.key != "" || r.keyFile != "" || r.Env.Getenv("SVC_API_KEY") != "" || r.Env.Getenv("SVC_API_KEY_FILE") != ""
	if name == "" && hasURL && hasKey {
		return Context{}, false, nil
	}
	file, err := r.LoadContexts()
	if err != nil {
		return Context{}, false, err
	}
	if name == "" {
		ctx, _ = file.Get(file.Current)
		return ctx, false, nil
	}
	if ctx, err = r.FindContext(file, name); err != nil {
		return ctx, false, err
	}
	if r.context != "" && r.URL == "" && hasURL && !sameURL(r.Env.Getenv("SVC_URL"), ctx.URL) {
		r.warn("SVC_URL is set: %s is asked, not %s of context %s", r.Env.Getenv("SVC_URL"), ctx.URL, ctx.Name)
	}
	return ctx, r.context != "", nil
}

// UseContext has the effect of --context.
func (r *Connection) UseContext(name string) { r.context = name }

// LoadContexts reads the file of contexts. It warns when others may read the file.
func (r *Connection) LoadContexts() (File, error) {
	file, err := Load(r.Env)
	if err != nil {
		return file, command.Usage(err, "correct the file, or move it away")
	}
	if mode, loose := loose(r.Env); loose {
		r.warn("%s holds API keys, and others may read or change it (mode %04o): chmod 600 it", Path(r.Env), mode)
	}
	return file, nil
}

// FindContext returns the context with a name, or an error that lists the existing ones.
func (r *Connection) FindContext(file File, name string) (Context, error) {
	if ctx, ok := file.Get(name); ok {
		return ctx, nil
	}
	hint := "'svc context add' adds one"
	if names := file.Names(); len(names) > 0 {
		hint = "there are " + strings.Join(names, ", ")
		if near := command.Nearest(name, names); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
	}
	return Context{}, command.Usagef(hint, "there is no context %q in %s", name, cmp.Or(Path(r.Env), "contexts.yaml: there is no home directory"))
}

// warn writes a warning to standard error, once per text; completion writes none.
func (r *Connection) warn(format string, args ...any) {
	text := command.Clean(fmt.Sprintf(format, args...))
	if r.silent || slices.Contains(r.warned, text) {
		return
	}
	r.warned = append(r.warned, text)
	fmt.Fprintln(r.Env.Stderr, "warning: "+text)
}

// CompleteContexts completes the name of a context.
func CompleteContexts(r *Connection) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		file, err := Load(r.Env)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := make([]string, len(file.Contexts))
		for i, c := range file.Contexts {
			list[i] = c.Name + "\t" + command.Clean(c.URL)
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}
