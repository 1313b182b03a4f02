package gatewaycmd

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"svc/cli/clients"
	"svc/cli/command"
	"svc/cli/policycmd"
	"svc/cli/process"
	"svc/gateway/auth"
	"svc/gateway/config"
)

type keygenOptions struct {
	id        string
	keyStdin  bool
	rotate    string // id of the key that gets another secret
	config    string // the file that has it
	scopes    []string
	expiresAt string
	format    command.Format
	cost      auth.Params
}

// gatewayKey is the output of 'svc keygen'; without its key it is an entry of
// auth.keys.
type gatewayKey struct {
	ID        string     `json:"id" yaml:"id"`
	Key       string     `json:"key,omitempty" yaml:"-"`
	N         int        `json:"n,omitempty" yaml:"-"`
	Hash      string     `json:"hash" yaml:"hash"`
	WithoutID bool       `json:"without_id,omitempty" yaml:"without_id,omitempty"`
	Scopes    []string   `json:"scopes,omitempty" yaml:"scopes,omitempty,flow"`
	CreatedAt time.Time  `json:"created_at" yaml:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" yaml:"expires_at,omitempty"`
}

func NewKeygenCmd(env process.Env) *cobra.Command {
	o := keygenOptions{format: command.FormatText, cost: auth.DefaultParams()}
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Create a gateway API key and the hash for the gateway config",
		Long: `Create a random API key for the gateway and its argon2id hash.

The key is shown once; give it to the client. The hash goes into auth.keys of
the gateway's config. With --key-stdin the hash of an existing key is created,
and the key is not shown.

With --rotate the new key is another secret of a key that the file of --config has,
so that its holder remains the same agent for policies, budgets and limits. The
command prints the key and the line to add, and changes nothing.

With -o env the output is lines that a shell can source: SVC_GATEWAY_KEY is the key,
and SVC_CLIENT_HASH is its hash. In auth.keys, write hash: "${SVC_CLIENT_HASH}".`,
		Example: `  svc keygen --id ci-agent --expires-at 90d
  svc keygen --id ci-agent -o json
  (umask 077; svc keygen --id client -o env > key.env)
  svc keygen --rotate ci-agent --config /etc/svc/svc.yaml
  svc keygen --key-stdin < key.txt`,
		Args: command.NoArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		if o.rotate != "" {
			o.config, _ = command.ConfigPath(env, cmd.Flags(), config.DefaultPath)
			if o.format == command.FormatYAML {
				return command.Usagef("use -o text, json or env", "-o yaml is a whole entry of auth.keys, and --rotate makes a part of one")
			}
		} else if cmd.Flags().Changed("config") {
			return command.Usagef("add --rotate ID", "--config is the file of --rotate")
		}
		return runKeygen(env, o)
	}
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "name of the key in audit lines (default a random one)")
	f.BoolVar(&o.keyStdin, "key-stdin", false, "read an existing key from standard input")
	f.StringVar(&o.rotate, "rotate", "", "id of a key in the config that gets another secret")
	f.StringVar(&o.config, "config", config.DefaultPath, "configuration file that has the key of --rotate")
	f.StringSliceVar(&o.scopes, "scopes", nil, "scopes in the printed config entry, comma-separated")
	f.StringVar(&o.expiresAt, "expires-at", "", "expiry of the key: a time, a date, or a duration such as 90d")
	f.Uint32Var(&o.cost.MemoryKiB, "memory", o.cost.MemoryKiB, "argon2id memory in KiB")
	f.Uint32Var(&o.cost.Time, "time", o.cost.Time, "argon2id passes")
	f.Uint8Var(&o.cost.Threads, "parallelism", o.cost.Threads, "argon2id lanes")
	command.AddFormatFlag(cmd, &o.format, command.FormatText, command.FormatJSON, command.FormatYAML, formatEnv)
	for _, other := range []string{"id", "key-stdin", "scopes"} {
		cmd.MarkFlagsMutuallyExclusive("rotate", other)
	}
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
	var doc *config.Document
	place := 0
	if o.rotate != "" {
		var err error
		if doc, place, err = nextSecret(env, o, &k); err != nil {
			return err
		}
	}
	text, err := keyText(env, o, &k)
	if err != nil {
		return err
	}
	if k.Hash, err = auth.Hash(text, o.cost); err != nil {
		return command.Usage(fmt.Errorf("hash the key: %w", err), "leave out --memory, --time and --parallelism for good values")
	}
	switch {
	case doc != nil && o.format == command.FormatText:
		return writeSecret(env, o, k, doc, place)
	case o.format == command.FormatText:
		return writeKey(env, k)
	}
	switch o.format {
	case formatEnv:
		return writeVariables(env, k)
	}
	return command.WriteValue(env.Stdout, o.format, k)
}

// firstN is the time at which the numbers of secrets begin.
var firstN = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// nextSecret reads the file of --config, and sets the id and the number of a new secret for the
// key of --rotate. It returns the file and the index of the key in it. The number is the minute
// of its creation, because the file does not contain the numbers of secrets that were removed,
// and a number must not be used again.
func nextSecret(env process.Env, o keygenOptions, k *gatewayKey) (*config.Document, int, error) {
	doc, file, err := policycmd.LoadPolicy(env, o.config)
	if err != nil {
		return nil, 0, err
	}
	place := slices.IndexFunc(file.Auth.Keys, func(c auth.KeyConfig) bool { return c.ID == o.rotate })
	if place < 0 {
		return nil, 0, command.Usagef("'svc keygen --id NAME' makes the first key of a client", "auth.keys in %s has no key with the id %q", o.config, o.rotate)
	}
	c := &file.Auth.Keys[place]
	if len(c.Hashes) >= auth.MaxHashes {
		return nil, 0, command.Usagef("remove the entries that no client uses any more: key_n in audit lines names the secret that a request used",
			"the key %q in %s has %d secrets, and can have no more", o.rotate, o.config, len(c.Hashes))
	}
	n := int(k.CreatedAt.Sub(firstN) / time.Minute)
	for _, secret := range c.Hashes {
		n = max(n, secret.N+1)
	}
	if n > auth.MaxN {
		return nil, 0, command.Usagef("replace the entry with this number by one with a lower number", "the largest n of the key %q is %d, and no number follows", o.rotate, n-1)
	}
	k.ID, k.N = o.rotate, n
	return doc, place, nil
}

// keyText returns the key to hash: a new one, which it also stores in k to be shown, or
// the one on standard input.
func keyText(env process.Env, o keygenOptions, k *gatewayKey) (string, error) {
	if !o.keyStdin {
		if k.ID == "" {
			k.ID = "key-" + strings.ToLower(rand.Text()[:8])
		}
		id := k.ID
		if k.N != 0 {
			id += "." + strconv.Itoa(k.N)
		} else if !auth.ValidID(id) {
			return "", command.Usagef("choose another --id", "id %q must be 1 to %d visible ASCII characters without spaces", id, auth.MaxIDBytes)
		}
		text, err := auth.NewKey(id)
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
	inside, ours := auth.SplitKey(text)
	if k.WithoutID = !ours; ours {
		if base, n, ok := auth.CutN(inside); ok && k.ID == base {
			k.ID, k.N = base, n
			return text, nil
		}
	}
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

// writeSecret writes another secret of a key, and the line of the file that it changes.
func writeSecret(env process.Env, o keygenOptions, k gatewayKey, doc *config.Document, place int) error {
	entry := func(n int, hash string, end *time.Time) string {
		text := "{"
		if n != 0 {
			text += fmt.Sprintf("n: %d, ", n)
		}
		text += "hash: '" + strings.ReplaceAll(hash, "'", "''") + "'"
		if end != nil {
			text += ", expires_at: " + end.Format(time.RFC3339)
		}
		return text + "}"
	}
	added := entry(k.N, k.Hash, k.ExpiresAt)
	path := fmt.Sprintf("auth.keys[%d].hash", place)
	what := fmt.Sprintf("# Add this to the list hashes of %q in auth.keys of %s (line %d).\n", k.ID, o.config, doc.Pos(path+"es").Line)
	old, single := doc.Written(path)
	switch end := doc.Draft().Auth.Keys[place].ExpiresAt; {
	case single && end.IsZero():
		what = fmt.Sprintf("# In auth.keys of %s (line %d), replace hash of %q by this.\n", o.config, doc.Pos(path).Line, k.ID)
		added = "hashes: [" + entry(0, old, nil) + ", " + added + "]"
	case single:
		// expires_at of the key would apply to the new secret too.
		what = fmt.Sprintf("# In auth.keys of %s (line %d), replace hash and expires_at of %q by this.\n", o.config, doc.Pos(path).Line, k.ID)
		added = "hashes: [" + entry(0, old, &end) + ", " + added + "]"
	default:
		added = "- " + added
	}
	_, err := fmt.Fprintf(env.Stdout, "# Give this key to the client; it is not shown again.\n%s\n\n%s%s\n", k.Key, what, added)
	return err
}

// formatEnv writes variables for a shell. Only keys have this format.
const formatEnv command.Format = "env"

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
	line(clients.ClientHash, k.Hash)
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
