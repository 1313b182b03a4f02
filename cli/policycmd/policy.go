package policycmd

import (
	"slices"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/base/diag"
	"svc/gateway/check"
	"svc/gateway/config"
)

// NewPolicyCmd is 'svc policy'. more are subcommands of packages that this one cannot import.
func NewPolicyCmd(env process.Env, more ...*cobra.Command) *cobra.Command {
	return command.NewGroupCmd("policy", "Check and test the rules of a gateway",
		`  svc policy lint /etc/svc/svc.yaml
  svc policy test svc.yaml
  svc policy explain svc.yaml --tool delete_order
  svc policy replay new.yaml /var/log/svc/audit.jsonl
  svc policy labels --config svc.yaml`,
		append(policyCmds(env), more...)...)
}

// policyCmds returns the subcommands of svc policy.
func policyCmds(env process.Env) []*cobra.Command {
	return []*cobra.Command{newPolicyLintCmd(env), newPolicyTestCmd(env), newPolicyExplainCmd(env), newPolicyReplayCmd(env), newPolicyReportCmd(env)}
}

// ReadDocument reads a gateway configuration from a file, or from standard input for "-".
// From the machine it reads the values of variables and, with o.Files, of files of ${file:PATH}.
func ReadDocument(env process.Env, path string, o config.Options) *config.Document {
	o.Getenv = env.LookupEnv
	if path != "-" {
		return config.ReadDocument(path, o)
	}
	data, err := env.ReadFile(path)
	if err != nil {
		return config.ReadDocument(path, o) // the error is about reading the file
	}
	return config.ParseDocument("stdin", data, o)
}

// LoadPolicy reads a gateway configuration for a command that evaluates its rules. If the
// file has errors, they are printed, nothing is evaluated, and the exit code is 2. Unset
// variables do not affect rules.
func LoadPolicy(env process.Env, path string) (*config.Document, *config.File, error) {
	doc := ReadDocument(env, path, config.Options{UnsetIsInfo: true, Files: true})
	if file := doc.File(); file != nil {
		return doc, file, nil
	}
	return nil, nil, printErrors(env, path, doc.Findings())
}

// loadEngine returns the rules and routes of a configuration, as LoadPolicy reads it.
func loadEngine(env process.Env, path string) (*config.Document, *check.Engine, error) {
	doc, file, err := LoadPolicy(env, path)
	if err != nil {
		return nil, nil, err
	}
	engine, err := check.New(file)
	return doc, engine, err
}

// printErrors prints the errors of a file for a command that needs a valid one.
func printErrors(env process.Env, path string, found []diag.Finding) error {
	if err := diag.WriteText(env.Stderr, errorsOf(found)); err != nil {
		return err
	}
	return command.Usagef("'svc policy lint' prints more about gateway configs", "%s has errors and cannot be used", path)
}

// errorsOf returns the findings that are errors.
func errorsOf(found []diag.Finding) []diag.Finding {
	var out []diag.Finding
	for _, f := range found {
		if f.Severity == diag.Error {
			out = append(out, f)
		}
	}
	return out
}

// completeConfig completes the first argument with YAML files.
func completeConfig(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeFromConfig completes a flag with values from the configuration that the first
// argument names. Errors are ignored.
func completeFromConfig(cmd *cobra.Command, env process.Env, flag string, list func(*config.File) []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 || args[0] == "-" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		file := ReadDocument(env, args[0], config.Options{UnsetIsInfo: true}).Draft()
		if file == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		values := list(file)
		slices.Sort(values)
		values = slices.Compact(values)
		for i := range values {
			values[i] = command.Clean(values[i])
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // only when the command has no such flag
	}
}
