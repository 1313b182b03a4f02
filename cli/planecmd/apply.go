package planecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/gateway/base/files"
	"svc/server/client"
	"svc/store/api"
)

// applyFlags are the flags that 'svc apply' and 'svc diff' share.
type applyFlags struct {
	r          *rest.Connection
	files      []string
	set        string
	prune      bool
	pruneLimit int
	adopt      bool
}

func (f *applyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, `file with documents, folder of such files, or "-" for standard input; may be given several times`)
	flags.StringVar(&f.set, "set", "", "name of the set; the resources of the documents are labeled with it")
	flags.BoolVar(&f.prune, "prune", false, "delete the resources of the set that are in none of the documents")
	flags.IntVar(&f.pruneLimit, "prune-limit", 0, "how many resources --prune may delete (default: no teams, no agents, a third of each other kind)")
	flags.BoolVar(&f.adopt, "adopt", false, "take over resources that exist outside of the set")
	command.RequireFlags(cmd, "file")
}

// read reads the documents and builds the request.
func (f *applyFlags) read(cmd *cobra.Command) (in api.Apply, docs []Document, err error) {
	paths, err := f.paths()
	if err != nil {
		return in, nil, err
	}
	size := 0
	for _, path := range paths {
		text, err := f.r.Env.ReadFile(path)
		if err != nil {
			return in, nil, command.Usage(err, "")
		}
		if size += len(text); size > api.MaxApplyBody {
			return in, nil, command.Usagef("apply fewer documents at a time, as several sets", "the documents have more than %d MiB", api.MaxApplyBody>>20)
		}
		more, err := Read(path, text)
		if err != nil {
			return in, nil, command.Usage(err, "")
		}
		docs = append(docs, more...)
	}
	switch {
	case len(docs) == 0:
		return in, nil, command.Usagef("", "there are no documents in %s", strings.Join(f.files, ", "))
	case len(docs) > api.MaxDocuments:
		return in, nil, command.Usagef("apply fewer at a time, as several sets", "there are %d documents; one request has at most %d", len(docs), api.MaxDocuments)
	case f.set == "" && f.prune:
		return in, nil, command.Usagef("only what carries the set is deleted", "--prune needs --set NAME")
	case f.set == "" && f.adopt:
		return in, nil, command.Usagef("what is taken over carries the set", "--adopt needs --set NAME")
	}
	in = api.Apply{Set: f.set, Prune: f.prune, Adopt: f.adopt}
	if cmd.Flags().Changed("prune-limit") {
		if !f.prune {
			return in, nil, command.Usagef("", "--prune-limit needs --prune")
		}
		in.PruneLimit = &f.pruneLimit
	}
	for _, d := range docs {
		if d.Kind == api.KindWebhook {
			if d.Spec, err = expandURL(d, f.r.Env.LookupEnv); err != nil {
				return in, nil, err
			}
		}
		in.Documents = append(in.Documents, d.Document)
	}
	return in, docs, nil
}

// reference matches a reference to a variable of the environment, or to a file.
var reference = regexp.MustCompile(`\$\{(file:[^}]*|[A-Za-z_][A-Za-z0-9_]*)\}`)

// expandURL returns the spec of a webhook with the variables and files of its URL replaced: the URL is
// a secret, which documents do not have.
func expandURL(d Document, lookup func(string) (string, bool)) (json.RawMessage, error) {
	var spec map[string]json.RawMessage
	var url string
	if json.Unmarshal(d.Spec, &spec) != nil || json.Unmarshal(spec["url"], &url) != nil {
		return d.Spec, nil // the server says what is wrong
	}
	problem := ""
	url = reference.ReplaceAllStringFunc(url, func(ref string) (value string) {
		name := ref[2 : len(ref)-1]
		path, isFile := strings.CutPrefix(name, "file:")
		var err error
		switch {
		case !isFile:
			value, _ = lookup(name)
		case !filepath.IsAbs(path):
			problem = fmt.Sprintf("the path of the file %q in url is not absolute", path)
			return ""
		default:
			value, _, err = files.ReadSecret(path)
		}
		switch {
		case err != nil:
			problem = fmt.Sprintf("the file %q in url %v", path, err)
		case value == "" && isFile:
			problem = fmt.Sprintf("the file %q in url is empty", path)
		case value == "":
			problem = fmt.Sprintf("the variable %s in url is not set", name)
		}
		return value
	})
	if problem != "" {
		return nil, command.Usagef("set it to the URL of the webhook", "%s: Webhook %s: %s", d.At(), command.Clean(d.Name), problem)
	}
	spec["url"] = json.RawMessage(mustQuote(url))
	return json.Marshal(spec)
}

// paths returns the files of documents; those of a directory in order.
func (f *applyFlags) paths() (paths []string, err error) {
	for _, path := range f.files {
		names, folder, err := f.r.Env.FilesIn(path)
		switch {
		case err != nil:
			return nil, command.Usage(err, "")
		case !folder:
			paths = append(paths, path)
			continue
		}
		n := len(paths)
		for _, name := range names {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) && !strings.HasPrefix(name, ".") {
				paths = append(paths, filepath.Join(path, name))
			}
		}
		if len(paths) == n {
			return nil, command.Usagef("documents are in files that end in .yaml, .yml or .json", "there are no documents in the folder %s", path)
		}
	}
	return paths, nil
}

// indexed matches the reference to a document in the details of an error.
var indexed = regexp.MustCompile(`^documents\[(\d+)\]\.(?:spec\.)?(.*)$`)

// asFlags replaces members of the REST API in its texts by the flags that set them.
var asFlags = strings.NewReplacer("set pruneLimit to", "set --prune-limit to", "set adopt to", "set --adopt to")

// explain adds the files and lines of the documents that an error response
// refers to.
func (f *applyFlags) explain(err error, docs []Document, dryRun bool) error {
	var answer *client.Error
	if !errors.As(err, &answer) || len(answer.Details) == 0 {
		return f.r.Explain(err)
	}
	details := map[string]string{}
	var lines []string
	for field, text := range answer.Details {
		text = asFlags.Replace(text)
		if flag := map[string]string{"prune": "--prune", "pruneLimit": "--prune-limit", "set": "--set"}[field]; flag != "" {
			field = flag
		}
		m := indexed.FindStringSubmatch(field)
		if m == nil {
			details[field] = text
			continue
		}
		i, aerr := strconv.Atoi(m[1])
		if aerr != nil || i >= len(docs) {
			details[field] = text
			continue
		}
		lines = append(lines, fmt.Sprintf("%06d%s: %s %s: %s %s", i, docs[i].At(), docs[i].Kind, docs[i].Name, m[2], text))
	}
	slices.Sort(lines)
	message := answer.Message
	if len(lines) > 0 {
		message = "nothing was applied"
		if dryRun {
			message = "the documents cannot be applied"
		}
	}
	for _, line := range lines {
		message += "\n" + line[6:]
	}
	return command.WithDetails(errors.New(message), details)
}

// NewApplyCmd returns the command 'svc apply'.
func NewApplyCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	f := &applyFlags{r: r}
	var dryRun bool
	format := command.FormatTable
	cmd := &cobra.Command{
		Use: "apply", Short: "Create and update teams, agents, policies, budgets, SLA targets and webhooks from documents",
		Long: `Create and update the resources of the control plane to match documents. Either all
documents are applied or, after an error, none. A document has a kind
(` + strings.Join(api.DocumentKinds, ", ") + `), a name and a spec. Documents in one
file are separated by "---". A field that a spec omits gets the default of a new
resource. A document that equals its resource writes nothing. ${NAME} in the url of a
Webhook is replaced by the environment variable NAME, ${file:/PATH} by the text of a file.

With --set the resources are labeled with the name of the set. --prune then deletes
the resources of the set that are in none of the documents.`,
		Example: `  svc apply -f agents.yaml
  svc apply -f policies/ --set production --prune
  svc export Policy | svc apply --context staging -f -`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, docs, err := f.read(cmd)
			if err != nil {
				return err
			}
			in.DryRun = dryRun
			applied, err := f.send(cmd, in, docs)
			if err != nil {
				return err
			}
			return writeApplied(env, format, applied)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check everything and show what would change")
	command.AddFormatFlag(cmd, &format, command.FormatTable, command.FormatJSON, command.FormatYAML)
	r.AddFlags(cmd)
	return cmd
}

// send sends the request; errors name the file and line.
func (f *applyFlags) send(cmd *cobra.Command, in api.Apply, docs []Document) (api.Applied, error) {
	c, err := f.r.Client()
	if err != nil {
		return api.Applied{}, err
	}
	applied, err := c.Apply(cmd.Context(), in)
	if err != nil {
		return applied, f.explain(err, docs, in.DryRun)
	}
	rest.WriteWarnings(f.r.Env, applied.Warnings)
	return applied, nil
}

// NewDiffCmd returns the command 'svc diff'.
func NewDiffCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	f := &applyFlags{r: r}
	format := command.FormatTable
	cmd := &cobra.Command{
		Use: "diff", Short: "Show what 'svc apply' would change",
		Long: `Read documents as 'svc apply' does and show the differences from the control plane.
Nothing is changed. For each update the old and the new values are shown; values that
look like secrets are hidden. The exit code is 0 if nothing differs, 1 if something
differs, and 2 if the comparison failed.`,
		Example: `  svc diff -f policies/ --set production --prune`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, docs, err := f.read(cmd)
			if err != nil {
				return err
			}
			in.DryRun = true
			applied, err := f.send(cmd, in, docs)
			if err != nil {
				return command.Usage(err, "")
			}
			c, err := r.Client()
			if err != nil {
				return command.Usage(err, "")
			}
			list, err := diffOf(cmd.Context(), c, in, applied)
			if err != nil {
				fmt.Fprintf(env.Stderr, "svc: values are not shown: %v\n", r.Explain(err))
			}
			if err := writeDiff(env, format, applied, list); err != nil {
				return command.Usage(err, "")
			}
			for _, c := range applied.Data {
				if c.Change != api.ChangeNone {
					return command.ErrReported
				}
			}
			return nil
		},
	}
	f.add(cmd)
	command.AddFormatFlag(cmd, &format, command.FormatTable, command.FormatJSON, command.FormatYAML)
	r.AddFlags(cmd)
	return cmd
}

// writeApplied shows the changes; the text form also has the number of
// unchanged documents.
func writeApplied(env process.Env, format command.Format, applied api.Applied) error {
	if format != command.FormatTable {
		return command.WriteValue(env.Stdout, format, applied)
	}
	n := map[string]int{}
	rows := [][]string{{"CHANGE", "KIND", "NAME", "FIELDS"}}
	for _, c := range applied.Data {
		n[c.Change]++
		if c.Change != api.ChangeNone {
			rows = append(rows, []string{c.Change, c.Kind, c.Name, strings.Join(c.Fields, ",")})
		}
	}
	if len(rows) > 1 {
		t := command.NewTable(env)
		if err := t.Write(rows); err != nil {
			return err
		}
	}
	done := ""
	if !applied.Applied {
		done = "to be "
	}
	_, err := fmt.Fprintf(env.Stderr, "%s%d created, %d updated, %d deleted; %d unchanged\n", done, n[api.ChangeCreate], n[api.ChangeUpdate], n[api.ChangeDelete], n[api.ChangeNone])
	return err
}

// NewExportCmd returns the command 'svc export'.
func NewExportCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	format := command.FormatYAML
	cmd := &cobra.Command{
		Use: "export [KIND...]", Short: "Write the resources of the control plane as documents for 'svc apply'",
		Long: `Write the teams, agents, policies, budgets, SLA targets and webhooks of the control plane
to standard output, as documents from which 'svc apply' creates the same resources. Policies
are in the order in which they apply. Secrets, keys, members and traces are not exported: in
place of the URL of a webhook is a variable, such as ${SVC_WEBHOOK_ON_CALL_URL}.`,
		Example: `  svc export > production.yaml
  svc export Policy Budget
  svc export -o json | jq '.documents[].name'`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
			for _, kind := range api.DocumentKinds {
				if !slices.Contains(args, kind) {
					list = append(list, kind)
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var kinds []string
			for _, arg := range args {
				i := slices.IndexFunc(api.DocumentKinds, func(kind string) bool { return strings.EqualFold(kind, arg) })
				if i < 0 {
					return command.Usagef("the kinds are "+strings.Join(api.DocumentKinds, ", "), "there is no kind %q", arg)
				}
				kinds = append(kinds, api.DocumentKinds[i])
			}
			c, err := r.Client()
			if err != nil {
				return err
			}
			out, err := c.ExportDocuments(cmd.Context(), kinds...)
			if err != nil {
				return r.Explain(err)
			}
			rest.WriteWarnings(env, out.Warnings)
			if n := len(out.Documents); n > api.MaxDocuments {
				fmt.Fprintf(env.Stderr, "warning: there are %d documents, and 'svc apply' takes %d at a time\n", n, api.MaxDocuments)
			}
			if format == command.FormatJSON {
				return command.WriteValue(env.Stdout, format, out)
			}
			return write(env.Stdout, out.Documents)
		},
	}
	command.AddFormatFlag(cmd, &format, command.FormatYAML, command.FormatJSON)
	r.AddFlags(cmd)
	return cmd
}
