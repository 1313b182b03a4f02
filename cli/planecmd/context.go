package planecmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/store/api"
)

// NewContextCmd returns the commands on the file of contexts; none of them calls a
// control plane.
func NewContextCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("context", "Manage named control planes and their API keys",
		`  svc context add staging --url https://svc.staging.example.com --api-key-file key.txt
  svc context use staging
  svc agents list --context production`,
		newContextListCmd(env), newContextUseCmd(env), newContextAddCmd(env), newContextRemoveCmd(env), newContextShowCmd(env))
}

// contextItem is a context in outputs: without its key.
type contextItem struct {
	Name      string `json:"name"`
	Current   bool   `json:"current"`
	URL       string `json:"url"`
	KeyPrefix string `json:"keyPrefix"`
}

// keyPrefix is the beginning of a key that lists show, so that it can be recognized.
// For a key of another form only its presence is shown.
func keyPrefix(key string) string {
	at := strings.LastIndexByte(key[:min(len(key), 16)], '_') + 1
	switch {
	case key == "":
		return ""
	case at == 0 || len(key) < at+24:
		return "…"
	}
	return key[:at+4] + "…"
}

func newContextListCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	return rest.NewLocalListCmd(r, &cobra.Command{
		Use: "list", Short: "List the contexts", Example: `  svc context list`,
	}, rest.Columns[contextItem]{
		Header: []string{"CURRENT", "NAME", "URL", "KEY"},
		Row: func(c contextItem) []string {
			current := ""
			if c.Current {
				current = "*"
			}
			return []string{current, c.Name, c.URL, command.Dash(c.KeyPrefix)}
		},
	}, func() (api.List[contextItem], error) {
		file, err := r.LoadContexts()
		items := make([]contextItem, len(file.Contexts))
		for i, c := range file.Contexts {
			items[i] = contextItem{c.Name, c.Name == file.Current, c.URL, keyPrefix(c.APIKey)}
		}
		return api.List[contextItem]{Data: items, Total: len(items)}, err
	})
}

func newContextUseCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one",
		Long: `Make a context the current one. Commands use the current context unless --context or
SVC_CONTEXT names another.`,
		Example: `  svc context use staging`,
		Args:    command.WantArgs("a NAME"), ValidArgsFunction: rest.CompleteContexts(r),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := r.LoadContexts()
			if err != nil {
				return err
			}
			c, err := r.FindContext(file, args[0])
			if err != nil {
				return err
			}
			file.Current = c.Name
			if err := rest.Save(env, file); err != nil {
				return err
			}
			r.Note("context "+c.Name+" (%s) is used now", c.URL)
			return nil
		},
	}
}

func newContextAddCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	var url, key, keyFile string
	var use, replace bool
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a control plane under a name",
		Long: `Add a context: the name of a control plane, its URL and its API key. The key is read
from --api-key-file ("-" is standard input) or from a prompt on a terminal. It is
stored in contexts.yaml, which only its owner can read, and is sent to this URL only.
A key of the environment (SVC_API_KEY) is never sent to the address of a context: set
SVC_URL with it. If a context has no key, give --api-key-file with each command.

The first context becomes the current one.`,
		Example: `  svc context add staging --url https://svc.staging.example.com --api-key-file key.txt
  svc context add local --url http://127.0.0.1:8080 --use`,
		Args: command.WantArgs("a NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := r.LoadContexts()
			if err != nil {
				return err
			}
			c := rest.Context{Name: args[0], URL: url, APIKey: key}
			if err := c.Check(); err != nil {
				return command.Usage(err, "")
			}
			if _, exists := file.Get(c.Name); exists && !replace {
				return command.Failed(fmt.Errorf("there is a context %s already", c.Name), "--replace replaces it")
			}
			if c.APIKey == "" {
				if c.APIKey, err = askKey(env, keyFile, c.URL); err != nil {
					return err
				}
			}
			if err := c.Check(); err != nil {
				return command.Usage(err, "")
			}
			file.Put(c)
			if use || len(file.Contexts) == 1 {
				file.Current = c.Name
			}
			if err := rest.Save(env, file); err != nil {
				return err
			}
			note := "context " + c.Name + " (%s) added"
			if file.Current == c.Name {
				note += "; commands use it"
			}
			r.Note(note, c.URL)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&url, "url", "", "URL of the control plane")
	f.StringVar(&keyFile, "api-key-file", "", `file with the API key, "-" for standard input`)
	f.StringVar(&key, "api-key", "", "API key; a file keeps it out of the process list")
	f.BoolVar(&use, "use", false, "make the context the current one")
	f.BoolVar(&replace, "replace", false, "replace the context of this name")
	cmd.MarkFlagsMutuallyExclusive("api-key", "api-key-file")
	command.RequireFlags(cmd, "url")
	return cmd
}

// askKey reads the key of a new context from a file or a terminal; empty for none.
func askKey(env process.Env, file, url string) (string, error) {
	if file != "" {
		return rest.ReadKey(env, file)
	}
	if !env.StdinTTY || env.ReadPassword == nil {
		return "", nil
	}
	fmt.Fprintf(env.Stderr, "API key for %s (none: press Enter): ", command.Clean(url))
	key, err := env.ReadPassword()
	fmt.Fprintln(env.Stderr)
	return strings.TrimSpace(string(key)), err
}

func newContextRemoveCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	var yes bool
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a context and the key in it",
		Long: `Remove a context and its key from contexts.yaml. The control plane still accepts the
key; 'svc keys delete' revokes it.`,
		Example: `  svc context remove staging --yes`,
		Args:    command.WantArgs("a NAME"), ValidArgsFunction: rest.CompleteContexts(r),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := r.LoadContexts()
			if err != nil {
				return err
			}
			c, err := r.FindContext(file, args[0])
			if err != nil {
				return err
			}
			if err := command.Confirm(env, yes, "remove context "+c.Name+" ("+command.Clean(c.URL)+")"); err != nil {
				return err
			}
			file.Delete(c.Name)
			if err := rest.Save(env, file); err != nil {
				return err
			}
			r.Note("context %s removed", c.Name)
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// connectionInUse is the control plane and the key that commands use, with the source
// of each.
type connectionInUse struct {
	Context   string `json:"context"`
	URL       string `json:"url"`
	URLFrom   string `json:"urlFrom"`
	KeyPrefix string `json:"keyPrefix"`
	KeyFrom   string `json:"keyFrom"`
	Note      string `json:"note,omitempty"`
	File      string `json:"file"`
}

func newContextShowCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := rest.NewLocalValueCmd(r, &cobra.Command{
		Use: "show [NAME]", Short: "Show which control plane and which key commands use, and the source of each",
		Long: `Show which control plane and which API key commands use with the same flags and
variables, and the source of each. With a NAME, show them for that context. The key
itself is never shown, and no request is sent.`,
		Example: `  svc context show
  svc context show staging -o json`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: rest.CompleteContexts(r),
	}, func(_ context.Context, args []string) (connectionInUse, error) {
		if len(args) > 0 {
			r.UseContext(args[0])
		}
		t, err := r.Target()
		return connectionInUse{Context: t.Context, URL: t.URL, URLFrom: t.URLFrom, KeyPrefix: keyPrefix(t.Key), KeyFrom: t.KeyFrom,
			Note: t.Withheld, File: cmp.Or(rest.Path(env), "no home directory")}, err
	})
	r.AddFlags(cmd)
	return cmd
}
