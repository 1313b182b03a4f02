package gatewaycmd

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"svc/cli/command"
	"svc/cli/foreign"
	"svc/cli/output"
	"svc/cli/process"
	"svc/gateway/auth"
)

type keygenOptions struct {
	id        string
	keyStdin  bool
	scopes    []string
	expiresAt string
	format    output.Format
	cost      auth.Params
}

// gatewayKey is the output of 'svc keygen'; without its key it is an entry of
// auth.keys.
type gatewayKey struct {
	ID        string     `json:"id" yaml:"id"`
	Key       string     `json:"key,omitempty" yaml:"-"`
	Hash      string     `json:"hash" yaml:"hash"`
	Scopes    []string   `json:"scopes,omitempty" yaml:"scopes,omitempty,flow"`
	CreatedAt time.Time  `json:"created_at" yaml:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" yaml:"expires_at,omitempty"`
}

func NewKeygenCmd(env process.Env) *cobra.Command {
	o := keygenOptions{format: output.FormatText, cost: auth.DefaultParams()}
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Create a gateway API key and the hash for the gateway config",
		Long: `Create a random API key for the gateway and its argon2id hash.

The key is shown once; give it to the client. The hash goes into auth.keys of
the gateway's config. With --key-stdin the hash of an existing key is created,
and the key is not shown.

With -o env the output is lines that a shell can source: SVC_GATEWAY_KEY is the key,
and SVC_CLIENT_HASH is its hash. In auth.keys, write hash: "${SVC_CLIENT_HASH}".`,
		Example: `  svc keygen --id ci-agent --expires-at 90d
  svc keygen --id ci-agent -o json
  (umask 077; svc keygen --id client -o env > key.env)
  svc keygen --key-stdin < key.txt`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runKeygen(env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "name of the key in audit lines (default a random one)")
	f.BoolVar(&o.keyStdin, "key-stdin", false, "read an existing key from standard input")
	f.StringSliceVar(&o.scopes, "scopes", nil, "scopes in the printed config entry, comma-separated")
	f.StringVar(&o.expiresAt, "expires-at", "", "expiry of the key: a time, a date, or a duration such as 90d")
	f.Uint32Var(&o.cost.MemoryKiB, "memory", o.cost.MemoryKiB, "argon2id memory in KiB")
	f.Uint32Var(&o.cost.Time, "time", o.cost.Time, "argon2id passes")
	f.Uint8Var(&o.cost.Threads, "parallelism", o.cost.Threads, "argon2id lanes")
	output.AddFormatFlag(cmd, &o.format, output.FormatText, output.FormatJSON, output.FormatYAML, formatEnv)
	return cmd
}

func runKeygen(env process.Env, o keygenOptions) error {
	now := env.Now().UTC().Truncate(time.Second)
	k := gatewayKey{ID: o.id, Scopes: o.scopes, CreatedAt: now}
	if o.expiresAt != "" {
		end, err := parseEnd(o.expiresAt, now)
		if err != nil {
			return command.Usage(fmt.Errorf("--expires-at: %w", err), "write 2027-06-30, 2027-06-30T12:00:00Z or 90d")
		}
		k.ExpiresAt = &end
	}
	text, err := keyText(env, o, &k)
	if err != nil {
		return err
	}
	if k.Hash, err = auth.Hash(text, o.cost); err != nil {
		return command.Usage(fmt.Errorf("hash the key: %w", err), "leave out --memory, --time and --parallelism for good values")
	}
	switch o.format {
	case output.FormatText:
		return writeKey(env, k)
	case formatEnv:
		return writeVariables(env, k)
	}
	return output.WriteValue(env.Stdout, o.format, k)
}

// keyText returns the key to hash: a new one, which it also stores in k to be shown, or
// the one on standard input.
func keyText(env process.Env, o keygenOptions, k *gatewayKey) (string, error) {
	if !o.keyStdin {
		if k.ID == "" {
			k.ID = "key-" + strings.ToLower(rand.Text()[:8])
		}
		text, err := auth.NewKey(k.ID)
		if err != nil {
			return "", command.Usage(err, "choose another --id")
		}
		k.Key = text
		return text, nil
	}
	text, err := readSecret(env, "key")
	if err != nil {
		return "", err
	}
	inside, ours := keyID(text)
	switch {
	case ours && k.ID == "":
		k.ID = inside
	case ours && k.ID != inside:
		return "", command.Usagef("leave out --id: the gateway finds the hash by the id inside the key",
			"the key was made for id %q, not %q", inside, k.ID)
	case k.ID == "":
		return "", command.Usagef("add --id NAME", "the key does not contain its id")
	case !auth.ValidID(k.ID):
		return "", command.Usagef("choose another --id", "id %q must be visible ASCII characters without spaces", k.ID)
	}
	return text, nil
}

// keyID returns the id in a key that 'svc keygen' generated.
func keyID(text string) (string, bool) {
	const secret = 1 + 43 // an underscore and 32 bytes in base64url
	rest, ours := strings.CutPrefix(text, "svc_gw_")
	if !ours || len(rest) <= secret || rest[len(rest)-secret] != '_' {
		return "", false
	}
	return rest[:len(rest)-secret], true
}

// readSecret reads one secret: without echo from a terminal, otherwise all of standard
// input without its last line end.
func readSecret(env process.Env, what string) (string, error) {
	var data []byte
	var err error
	if env.StdinTTY {
		fmt.Fprintf(env.Stderr, "%s: ", what)
		data, err = env.ReadPassword()
		fmt.Fprintln(env.Stderr)
	} else {
		data, err = env.ReadFile("-")
	}
	if err != nil {
		return "", command.Usage(fmt.Errorf("read %s: %w", what, err), "")
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", command.Usagef("", "no %s on standard input", what)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return "", command.Usagef("give one line of visible ASCII characters without spaces", "the %s on standard input cannot be sent in a header", what)
		}
	}
	return text, nil
}

// writeKey writes the key and a snippet to paste.
func writeKey(env process.Env, k gatewayKey) error {
	var snippet strings.Builder
	enc := yaml.NewEncoder(&snippet)
	enc.SetIndent(2)
	section := map[string]any{"auth": map[string]any{"keys": []gatewayKey{k}}}
	if err := errors.Join(enc.Encode(section), enc.Close()); err != nil {
		return err
	}
	var b strings.Builder
	if k.Key != "" {
		fmt.Fprintf(&b, "# Give this key to the client; it is not shown again.\n%s\n\n", k.Key)
	}
	fmt.Fprintf(&b, "# Add this to the gateway's config.\n%s", snippet.String())
	_, err := env.Stdout.Write([]byte(b.String()))
	return err
}

// formatEnv writes variables for a shell. Only keys have this format.
const formatEnv output.Format = "env"

// writeVariables writes the key and its hash as the variables that 'svc connect' and the
// output of 'svc import' read. The quotes preserve the $ of a hash and any characters of
// an id.
func writeVariables(env process.Env, k gatewayKey) error {
	var b strings.Builder
	line := func(name, value string) {
		fmt.Fprintf(&b, "%s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	if k.Key != "" {
		line("SVC_GATEWAY_KEY", k.Key)
	}
	line(foreign.ClientHash, k.Hash)
	_, err := env.Stdout.Write([]byte(b.String()))
	return err
}

// parseEnd parses a time in the future: RFC 3339, a date (its first second, UTC), or a
// duration from now.
func parseEnd(s string, now time.Time) (time.Time, error) {
	end, err := time.Parse(time.RFC3339, s)
	if err != nil {
		end, err = time.Parse(time.DateOnly, s)
	}
	if err != nil {
		var span time.Duration
		if span, err = command.ParseDuration(s); err == nil {
			end = now.Add(span)
		}
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time nor a span", s)
	}
	if !end.After(now) {
		return time.Time{}, fmt.Errorf("%s is not in the future", end.UTC().Format(time.RFC3339))
	}
	return end.UTC(), nil
}
