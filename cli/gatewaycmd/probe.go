package gatewaycmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/check"
	"svc/gateway/config"
	"svc/server/client"
)

// kindConfiguration is the kind of results that are errors of the file.
const kindConfiguration = "configuration"

// probeGateway checks the file like --check, and probes the servers in it. machine adds
// the checks of 'svc doctor'.
func probeGateway(ctx context.Context, env process.Env, o gatewayOptions, machine bool) error {
	token, err := callerToken(env, o.tokenEnv)
	if err != nil {
		return err
	}
	env.LookupEnv = unitCredentials(env, o.config)
	file, found := readAll(ctx, env, o)
	results := []check.ProbeResult{}
	if o.format == command.FormatJSON {
		results = findingResults(found)
	} else if err := diag.WriteText(env.Stdout, found); err != nil {
		return err
	}
	if file != nil {
		tellPrograms(env, o.format, file)
		results = append(results, askServers(ctx, env, o.config, file, token, machine)...)
	}
	if err := writeResults(env, o.format, results); err != nil {
		return err
	}
	switch {
	case unreadable(found):
		return &command.ExitError{Err: command.ErrReported, Code: command.ExitUsage}
	case file == nil, diag.HasErrors(found), check.Failed(results):
		return command.ErrReported
	}
	return nil
}

// addTokenEnv adds the flag for the token of a caller. The token itself is not an
// argument, because other users of the machine could see it.
func addTokenEnv(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "token-env", "", "`variable` that holds the token of a caller, for upstreams with token_exchange or id_jag")
}

// callerToken returns the token in the variable of --token-env.
func callerToken(env process.Env, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	token, ok := env.LookupEnv(name)
	switch token = strings.TrimSpace(token); {
	case !ok || token == "":
		return "", command.Usagef("export "+name+"=…", "the variable %s of --token-env is not set", name)
	case auth.BearerToken(http.Header{"Authorization": {"Bearer " + token}}) != token || strings.Contains(token, " "):
		return "", command.Usagef("set it to the token alone, without Bearer", "the variable %s of --token-env holds no token", name)
	}
	return token, nil
}

// tellPrograms prints why a probe may take long.
func tellPrograms(env process.Env, format command.Format, file *config.File) {
	programs := 0
	for i := range file.Upstreams {
		if file.Upstreams[i].IsProcess() {
			programs++
		}
	}
	if programs > 0 && format != command.FormatJSON {
		fmt.Fprintf(env.Stderr, "starting %d program(s): one that downloads itself the first time, as npx and uvx do, may take until its start_timeout\n", programs)
	}
}

// probeHomes is the directory for the home directories of programs while they are
// probed; empty when this user has no cache directory.
func probeHomes(env process.Env, config string) string {
	cache := env.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		if !filepath.IsAbs(env.Home()) {
			return ""
		}
		cache = filepath.Join(env.Home(), ".cache")
	}
	path, err := filepath.Abs(config)
	if err != nil {
		return ""
	}
	digest := sha256.Sum256([]byte(path))
	return filepath.Join(cache, "svc", "probe", hex.EncodeToString(digest[:8]))
}

// askServers probes every server in the file at path.
func askServers(ctx context.Context, env process.Env, path string, file *config.File, token string, machine bool) []check.ProbeResult {
	o := check.ProbeOptions{Version: env.Build.Info().Version, Now: env.Now, CallerToken: token, Homes: probeHomes(env, path)}
	var dates []check.Dated
	if cp := &file.ControlPlane; len(cp.URL) > 0 {
		o.ControlPlane = func(ctx context.Context, url string) error {
			name, _ := audit.GatewayName(cp.Gateway) // without a name there is no key to compare
			bound, err := client.New(url, cp.IngestKey,
				client.WithTimeout(cp.Traces.Timeout),
				client.WithMaxAnswer(maxGovernance),
				client.WithUserAgent("svc-probe/"+o.Version)).GatewayKeyID(ctx, name)
			if err != nil || bound == "" || file.Audit.CheckpointKeyFile == "" {
				return err
			}
			// A key file that cannot be read is an error of the file already.
			if own, err := audit.CheckpointKeyID(file.Audit.CheckpointKeyFile); err == nil && own != bound {
				return fmt.Errorf("%w: %s to %s, and audit.checkpoint_key_file has %s", check.ErrNameBound, name, bound, own)
			}
			return nil
		}
		o.Status = func(err error) int {
			status, _ := SinkStatus(err)
			return status
		}
		for _, u := range cp.URL {
			if !machine {
				break
			}
			if d, ok := check.AskClock(ctx, u, env.Now); ok {
				dates = append(dates, d)
			}
		}
	}
	results := check.Probe(ctx, file, o)
	if machine {
		results = append(results, check.Machine(file, results, dates)...)
	}
	return results
}

// findingResults converts the findings in a file to results, so that the output is one
// list, with all that the text form has. What is no error, like the end of the license, is no
// failure: its text is the advice.
func findingResults(found []diag.Finding) []check.ProbeResult {
	results := []check.ProbeResult{}
	for _, f := range found {
		name := f.Pos.String()
		if f.Path != "" {
			name = f.Path
		}
		r := check.ProbeResult{
			Kind: kindConfiguration, Name: name, Cause: f.Message, Advice: f.Hint,
			Clashes: []string{}, Unrouted: []string{}, LeftOut: []string{},
		}
		if r.OK = f.Severity != diag.Error; r.OK {
			r.Cause, r.Advice = "", strings.TrimSuffix(f.Message+"; "+f.Hint, "; ")
		}
		results = append(results, r)
	}
	return results
}

// writeResults writes a table, and below it the notes of each result.
func writeResults(env process.Env, f command.Format, results []check.ProbeResult) error {
	if f == command.FormatJSON {
		return command.WriteValue(env.Stdout, f, results)
	}
	if len(results) == 0 {
		return nil
	}
	rows := make([][]string, len(results))
	for i := range results {
		rows[i] = resultRow(&results[i])
	}
	if err := command.ShowTable(env, []string{"KIND", "NAME", "STATUS", "REVISION", "TOOLS", "PROMPTS", "RESOURCES", "TIME"}, rows); err != nil {
		return err
	}
	var b strings.Builder
	failed := 0
	for i := range results {
		if !results[i].OK {
			failed++
		}
		writeNotes(&b, &results[i])
	}
	if _, err := io.WriteString(env.Stdout, b.String()); err != nil {
		return err
	}
	if failed > 0 {
		fmt.Fprintf(env.Stderr, "%d of %d failed\n", failed, len(results))
	}
	return nil
}

func resultRow(r *check.ProbeResult) []string {
	status, took := "ok", fmt.Sprintf("%d ms", r.MS)
	if !r.OK {
		status = "FAILED"
	}
	counts := []string{"-", "-", "-"}
	if r.Kind == check.KindUpstream && r.OK {
		counts = []string{strconv.Itoa(r.Tools), strconv.Itoa(r.Prompts), strconv.Itoa(r.Resources)}
	}
	switch r.Kind {
	case check.KindClock, check.KindFiles, check.KindDirectory:
		took = "-"
	}
	return append(append([]string{r.Kind, r.Name, status, command.Dash(r.Revision)}, counts...), took)
}

// shownNames bounds each list of names in the text form; -o json has them all.
const shownNames = 8

// writeNotes writes the cause, the lists of names and the advice of a result.
func writeNotes(b *strings.Builder, r *check.ProbeResult) {
	if r.Cause == "" && r.Advice == "" && r.Skills == 0 && len(r.Clashes)+len(r.Unrouted)+len(r.LeftOut) == 0 {
		return
	}
	line := func(label, text string) {
		fmt.Fprintf(b, "  %-11s %s\n", label, command.Clean(text))
	}
	fmt.Fprintf(b, "\n%s %s\n", r.Kind, command.Clean(r.Name))
	if r.Cause != "" {
		line("cause:", r.Cause)
	}
	if r.Skills > 0 {
		line("skills:", fmt.Sprintf("%d, of which %d invalid and %d not approved", r.Skills, r.SkillsInvalid, r.SkillsChanged))
	}
	for _, l := range []struct {
		label string
		names []string
	}{{"clash:", r.Clashes}, {"unrouted:", r.Unrouted}, {"left out:", r.LeftOut}} {
		for i, name := range l.names {
			if i == shownNames && len(l.names) > shownNames+1 {
				line(l.label, fmt.Sprintf("and %d more (-o json lists them)", len(l.names)-i))
				break
			}
			line(l.label, name)
		}
	}
	if r.Advice != "" {
		line("what to do:", r.Advice)
	}
}
