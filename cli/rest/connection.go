package rest

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server/client"
)

// defaultURL is the default address of 'svc serve' and 'svc dev'.
const defaultURL = "http://127.0.0.1:8080"

// Connection is the control plane that a command calls, and the key. It must be used by
// one goroutine.
type Connection struct {
	Env     process.Env
	URL     string
	key     string
	keyFile string
	context string
	Timeout time.Duration

	target *Target  // set once it is known
	silent bool     // whether warnings are suppressed, for completion
	warned []string // the warnings so far
}

// AddFlags adds the flags to a group, for all of its commands.
func (r *Connection) AddFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&r.URL, "url", "", "control plane, or SVC_URL (default "+defaultURL+")")
	f.StringVar(&r.keyFile, "api-key-file", "", `file with the API key, "-" for standard input, or SVC_API_KEY_FILE`)
	f.StringVar(&r.key, "api-key", "", "API key; SVC_API_KEY keeps it out of the process list")
	f.StringVar(&r.context, "context", "", "control plane and key by name, or SVC_CONTEXT; see 'svc context'")
	f.DurationVar(&r.Timeout, "timeout", client.DefaultTimeout, "how long one request may take")
	complete := CompleteContexts(r)
	if err := cmd.RegisterFlagCompletionFunc("context", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, word)
	}); err != nil {
		panic(err) // only when registered twice
	}
}

// Client builds the client for the Target.
func (r *Connection) Client() (*client.Client, error) {
	t, err := r.Target()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, command.Usagef("write it like "+defaultURL, "--url or SVC_URL: %q is not the URL of a control plane", t.URL)
	}
	if t.Key == "" {
		if strings.HasPrefix(t.URLFrom, "context ") && t.Withheld != "" {
			return nil, command.Usagef("set SVC_URL to the control plane of that key, or unset the variable to use the context", "no API key for %s (%s): %s", t.URL, t.URLFrom, t.Withheld)
		}
		if t.Withheld != "" {
			return nil, command.Usagef("set SVC_API_KEY, give --api-key-file FILE, or add a context for that URL", "no API key for %s (%s): %s", t.URL, t.URLFrom, t.Withheld)
		}
		return nil, command.Usagef("set SVC_API_KEY, give --api-key-file FILE, or name a control plane with 'svc context add'", "no API key")
	}
	if strings.HasPrefix(t.Key, "svc_gw_") {
		return nil, command.Usagef("the control plane takes keys of 'svc keys create' (svc_api_…, svc_ingest_…)", "%s has the key of a client of a gateway (svc_gw_…)", t.KeyFrom)
	}
	return client.New(t.URL, t.Key, client.WithTimeout(r.Timeout), client.WithUserAgent("svc/"+r.Env.Build.Info().Version)), nil
}

// Address returns the URL of the control plane, for messages.
func (r *Connection) Address() string {
	t, err := r.Target()
	if err != nil {
		return cmp.Or(r.URL, r.Env.Getenv("SVC_URL"), defaultURL)
	}
	return t.URL
}

// givenKey returns the key of flags and variables, with its source; empty for none.
func (r *Connection) givenKey() (key, from string, err error) {
	if r.key != "" {
		return r.key, "--api-key", nil
	}
	path, from := r.keyFile, "--api-key-file"
	if path == "" {
		if key := r.Env.Getenv("SVC_API_KEY"); key != "" {
			return key, "SVC_API_KEY", nil
		}
		path, from = r.Env.Getenv("SVC_API_KEY_FILE"), "SVC_API_KEY_FILE"
	}
	if path == "" {
		return "", "", nil
	}
	key, err = ReadKey(r.Env, path)
	return key, from, err
}

// ReadKey reads an API key from a file, "-" for standard input.
func ReadKey(env process.Env, path string) (string, error) {
	data, err := env.ReadFile(path)
	if err != nil {
		return "", command.Usage(fmt.Errorf("read the API key: %w", err), "")
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", command.Usagef("", "%s holds no API key", path)
	}
	return key, nil
}

// Explain adds details and advice to an error of the client.
func (r *Connection) Explain(err error) error {
	if err == nil {
		return nil
	}
	var answer *client.Error
	if errors.As(err, &answer) {
		return r.explainAnswer(answer)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return command.Failed(errors.New("the control plane did not answer in time"), "raise --timeout, or look at its log")
	}
	base := r.Address()
	var dns *net.DNSError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return command.Failed(fmt.Errorf("nothing answers at %s", base), "start 'svc serve', or name another control plane with --url or SVC_URL")
	case errors.Is(err, http.ErrSchemeMismatch):
		return command.Failed(fmt.Errorf("%s answers without TLS", base), "write http:// in the URL, or turn TLS on there")
	case errors.As(err, &dns):
		return command.Failed(fmt.Errorf("the host of %s is not known", base), "check --url or SVC_URL")
	case errors.As(err, &unknownCA):
		return command.Failed(fmt.Errorf("the certificate of %s is not signed by an authority that this machine trusts", base), "set SSL_CERT_FILE to its CA")
	}
	return err
}

func (r *Connection) explainAnswer(answer *client.Error) error {
	message := answer.Message
	if answer.Status >= 500 && answer.RequestID != "" {
		message += " (request " + answer.RequestID + ")"
	}
	err := command.WithDetails(errors.New(message), answer.Details)
	switch answer.Status {
	case http.StatusUnauthorized:
		if t, tErr := r.Target(); tErr == nil && t.Context != "" && t.KeyFrom == "context "+t.Context {
			return command.Failed(err, "check the API key of "+t.KeyFrom+": 'svc context add "+t.Context+" --url "+t.URL+" --replace' asks for another")
		}
		return command.Failed(err, "check the API key: SVC_API_KEY, --api-key-file or --api-key")
	case http.StatusForbidden:
		return command.Failed(err, "use a key that may do this; 'api' keys without a team may do everything")
	case http.StatusTooManyRequests:
		if answer.RetryAfter > 0 {
			return command.Failed(err, fmt.Sprintf("try again in %s", answer.RetryAfter))
		}
	}
	return err
}

// Note writes a line about a completed action to standard error; id is cleaned.
func (r *Connection) Note(format, id string) {
	fmt.Fprintf(r.Env.Stderr, format+"\n", command.Clean(id))
}
