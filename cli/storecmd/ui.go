package storecmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/daemon"
	"svc/cli/process"
	"svc/store"
)

func NewUICmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("ui", "Open the page of the control plane",
		`  svc ui link --data-dir /var/lib/svc`,
		newUILinkCmd(env))
}

func newUILinkCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	var in linkRequest
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Make a link that signs a browser in",
		Long: `Make a link that signs a browser on this machine in to the page of 'svc serve --ui',
without an API key. It works once, for a minute, and only at a loopback address without
a proxy. The browser then acts as an API key: the one that the first start made, or
that of --key. At most 16 links are open; the oldest gives way.

The command uses the socket in the data directory of the running server.`,
		Example: `  svc ui link --data-dir /var/lib/svc
  svc ui link --tenant acme --key key_01jd3r8k4v`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op, _, err := so.server(cmd, env)
			if err != nil {
				return err
			}
			if op == nil {
				return command.Failed(errors.New("no server runs on this data directory"), "start 'svc serve --ui', or name its --data-dir; svc dev has no such socket: it prints a link when it starts, and dev.json in its directory has the API key")
			}
			var out pageLink
			if err := op.call(cmd.Context(), http.MethodPost, "/links", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(env.Stdout, out.URL)
			fmt.Fprintln(env.Stderr, "Open it in a browser on this machine within a minute. It signs in once.")
			return nil
		},
	}
	so.addFlags(cmd)
	cmd.Flags().StringVar(&in.Tenant, "tenant", DefaultTenant, "id or name of the tenant")
	cmd.Flags().StringVar(&in.Key, "key", "", "id of the API key to act as (default: the tenant's bootstrap key)")
	return cmd
}

// linkRequest asks for a link.
type linkRequest struct {
	Tenant string `json:"tenant"`
	Key    string `json:"key"`
}

// pageLink is a link for one sign-in.
type pageLink struct {
	URL string `json:"url"`
}

// pageLink makes a link for a key.
func (o storeOperator) pageLink(ctx context.Context, in linkRequest) (l pageLink, err error) {
	if o.link == nil {
		return l, errNoPage
	}
	info, err := o.tenant(ctx, in.Tenant)
	if err != nil {
		return l, err
	}
	t := o.st.Tenant(info.ID)
	if in.Key == "" {
		if in.Key, err = bootstrapKey(ctx, t); err != nil {
			return l, err
		}
	}
	k, err := t.GetKey(ctx, in.Key)
	switch {
	case store.KindOf(err) == store.NotFound:
		return l, store.FieldError(store.NotFound, "API key not found", "key", "is not the id of a key of the tenant; svc keys list shows them")
	case err != nil:
		return l, err
	case k.Scope == store.ScopeIngest:
		return l, store.FieldError(store.Invalid, "the key cannot sign in", "key", "has scope ingest, which is for gateways; name a key of scope api or agent")
	}
	l.URL, err = o.link(info.ID, k.ID)
	return l, err
}

// errNoPage is the error of a server without --ui.
var errNoPage = &store.Error{Kind: store.Invalid, Message: "this server has no page: start it with 'svc serve --ui'"}

// bootstrapKey returns the id of the key that a tenant began with.
func bootstrapKey(ctx context.Context, t store.Tenant) (string, error) {
	oldest := ""
	for page := (store.Page{Limit: 100}); ; page.Offset += page.Limit {
		list, total, err := t.ListKeys(ctx, store.KeyFilter{}, page)
		if err != nil {
			return "", err
		}
		for _, k := range list { // newest first
			if k.Name == "bootstrap" && k.Unlimited() {
				oldest = k.ID
			}
		}
		if page.Offset+len(list) >= total || len(list) == 0 {
			break
		}
	}
	if oldest == "" {
		return "", store.FieldError(store.NotFound, "the bootstrap key was deleted", "key",
			"must name another key: svc keys list shows them, and svc tenant key creates one")
	}
	return oldest, nil
}

// Link returns a link for one sign-in on the page as a key of a tenant.
func (p *ControlPlane) Link(tenant, key string) (string, error) {
	if p.Page == nil {
		return "", errNoPage
	}
	if ip := p.address.IP; !ip.IsUnspecified() && !ip.IsLoopback() {
		return "", &store.Error{Kind: store.Invalid, Message: fmt.Sprintf("the server listens at %s only, and links are for loopback: sign in with an API key", net.JoinHostPort(ip.String(), fmt.Sprint(p.address.Port)))}
	}
	return daemon.BaseURL(p.address, p.cert != nil) + p.Page.Link(tenant, key), nil
}
