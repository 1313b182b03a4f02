package storecmd

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server"
	"svc/server/background"
	"svc/store"
	"svc/store/api"
)

// reader has the operations on a store that are not in the API and change nothing.
type reader interface {
	tenants(ctx context.Context) ([]api.Tenant, error)
	backup(ctx context.Context, w io.Writer) (int64, error)
	info(ctx context.Context) (store.Info, error)
}

// operator has the operations on a store that are not in the API: on the opened store,
// or through the operator socket of the server that has it open.
type operator interface {
	reader
	createTenant(ctx context.Context, in api.TenantCreate) (api.Tenant, error)
	createTenantKey(ctx context.Context, in api.TenantKeyCreate) (api.Tenant, error)
	acceptClock(ctx context.Context) (acceptedClock, error)
}

// storeReader reads an opened store.
type storeReader struct {
	st interface {
		ListTenants(ctx context.Context) ([]store.TenantInfo, error)
		Info(ctx context.Context) (store.Info, error)
	}
}

// storeOperator works on an opened store.
type storeOperator struct {
	storeReader
	st   store.Engine
	path string // absolute path of its file, or its URL without secrets
	now  func() time.Time
	// link makes a link for one sign-in on the page; nil where no server serves one.
	link func(tenant, key string) (string, error)
}

func newStoreOperator(st store.Engine, path string, now func() time.Time) storeOperator {
	return storeOperator{storeReader: storeReader{st}, st: st, path: path, now: now}
}

func (o storeOperator) createTenant(ctx context.Context, in api.TenantCreate) (api.Tenant, error) {
	if wrong := in.Validate(); len(wrong) > 0 {
		return api.Tenant{}, &store.Error{Kind: store.Invalid, Message: "invalid input", Fields: wrong}
	}
	others, err := o.st.ListTenants(ctx)
	if err != nil {
		return api.Tenant{}, err
	}
	if err := server.UniqueName("tenant", in.Name, "", others, func(t store.TenantInfo) (string, string) { return t.ID, t.Name }); err != nil {
		return api.Tenant{}, err
	}
	secret := server.NewSecret(store.ScopeAPI)
	info, _, err := o.st.CreateTenant(ctx, store.TenantCreate{
		Name:  in.Name,
		OrgID: in.OrgID,
		Key:   NewKeyRecord("bootstrap", secret, store.ScopeAPI),
	})
	if err != nil {
		return api.Tenant{}, err
	}
	t := wireTenant(info)
	t.APIKey = secret
	return t, nil
}

// createTenantKey creates an unlimited key of the tenant with an id or, when no tenant
// has that id, a name.
func (o storeOperator) createTenantKey(ctx context.Context, in api.TenantKeyCreate) (api.Tenant, error) {
	if wrong := in.Validate(); len(wrong) > 0 {
		return api.Tenant{}, &store.Error{Kind: store.Invalid, Message: "invalid input", Fields: wrong}
	}
	info, err := o.tenant(ctx, in.Tenant)
	if err != nil {
		return api.Tenant{}, err
	}
	secret := server.NewSecret(store.ScopeAPI)
	if _, err := o.st.CreateTenantKey(ctx, info.ID, *NewKeyRecord(in.Name, secret, store.ScopeAPI)); err != nil {
		return api.Tenant{}, err
	}
	t := wireTenant(info)
	t.APIKey = secret
	return t, nil
}

// tenant returns the tenant with an id or, when no tenant has that id, a name.
func (o storeOperator) tenant(ctx context.Context, text string) (store.TenantInfo, error) {
	infos, err := o.st.ListTenants(ctx)
	if err != nil {
		return store.TenantInfo{}, err
	}
	at := slices.IndexFunc(infos, func(t store.TenantInfo) bool { return t.ID == text })
	for _, name := range []string{text, api.NormalizeName(text)} {
		if at < 0 {
			at = slices.IndexFunc(infos, func(t store.TenantInfo) bool { return t.Name == name })
		}
	}
	if at < 0 {
		return store.TenantInfo{}, store.FieldError(store.NotFound, "tenant not found", "tenant", "is neither the id nor the name of a tenant; svc tenant list shows them")
	}
	return infos[at], nil
}

func (o storeReader) tenants(ctx context.Context) ([]api.Tenant, error) {
	infos, err := o.st.ListTenants(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]api.Tenant, len(infos))
	for i, info := range infos {
		out[i] = wireTenant(info)
	}
	return out, nil
}

func (o storeReader) backup(ctx context.Context, w io.Writer) (int64, error) {
	st, ok := o.st.(backupStore)
	if !ok {
		return 0, command.Failed(errNoBackup, "see docs/scale-out.md")
	}
	return st.Backup(ctx, w)
}

// errNoBackup is the error for stores that have their own backup tools.
var errNoBackup = errors.New("a store on PostgreSQL is backed up with PostgreSQL's own tools, such as pg_dump or an archive of its log")

func (o storeReader) info(ctx context.Context) (store.Info, error) { return o.st.Info(ctx) }

// acceptedClock has the latest times of retention before (zero for none) and after a clock
// was accepted.
type acceptedClock struct {
	Before time.Time `json:"before"`
	After  time.Time `json:"after"`
}

func (o storeOperator) acceptClock(ctx context.Context) (c acceptedClock, err error) {
	c.After = o.now().UTC()
	c.Before, err = background.AcceptClock(ctx, o.st, c.After)
	return c, err
}

func wireTenant(info store.TenantInfo) api.Tenant {
	return api.Tenant{ID: info.ID, Name: info.Name, OrgID: info.OrgID, CreatedAt: info.CreatedAt.UTC()}
}

// The operator socket in the data directory, and the file with its secret, both with
// mode 0600. A request needs the secret: a connection to a socket proves less than the
// right to read a file, because Landlock, which hides the folder from the programs of a
// gateway, does not stop connections.
const (
	socketName = "svc.sock"
	secretName = "svc.sock.secret"
)

// backupTrailer is the trailer with the length of a backup, so that a truncated one is
// detected.
const backupTrailer = "Svc-Backup-Bytes"

// operatorHandler serves the operator socket to those who know its secret.
func operatorHandler(o storeOperator, secret string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /store", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, storeInfo{o.path}, nil)
	})
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, r *http.Request) {
		info, err := o.info(r.Context())
		answer(w, http.StatusOK, info, err)
	})
	mux.HandleFunc("GET /tenants", func(w http.ResponseWriter, r *http.Request) {
		ts, err := o.tenants(r.Context())
		answer(w, http.StatusOK, ts, err)
	})
	mux.HandleFunc("POST /clock", func(w http.ResponseWriter, r *http.Request) {
		c, err := o.acceptClock(r.Context())
		answer(w, http.StatusOK, c, err)
	})
	mux.HandleFunc("POST /tenants", created(o.createTenant))
	mux.HandleFunc("POST /keys", created(o.createTenantKey))
	mux.HandleFunc("POST /links", created(o.pageLink))
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := o.st.(backupStore); !ok {
			answer(w, http.StatusNotImplemented, nil, errNoBackup)
			return
		}
		w.Header().Set("Trailer", backupTrailer)
		n, err := o.backup(r.Context(), w)
		if err != nil {
			n = -1
		}
		w.Header().Set(backupTrailer, strconv.FormatInt(n, 10))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(bearer+secret)) != 1 {
			answer(w, http.StatusUnauthorized, nil, errNoSecret)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// bearer precedes the secret in the header Authorization.
const bearer = "Bearer "

// errNoSecret is the answer to a request without the secret of the running server.
var errNoSecret = errors.New("the operator socket needs the secret of the running server: it is in the file " + secretName + " beside the socket")

// created handles the creation of an object from a JSON body.
func created[In, Out any](create func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&in); err != nil {
			answer(w, http.StatusBadRequest, nil, &store.Error{Kind: store.Invalid, Message: "the request is not valid JSON"})
			return
		}
		out, err := create(r.Context(), in)
		answer(w, http.StatusCreated, out, err)
	}
}

// storeInfo names the store that a server has open.
type storeInfo struct {
	Path string `json:"path"`
}

// answer writes a value, or an error in the form of the API. The socket is for
// operators, so internal errors are shown unchanged.
func answer(w http.ResponseWriter, status int, v any, err error) {
	var body any = v
	if err != nil {
		e := api.Error{Error: err.Error()}
		var se *store.Error
		switch {
		case errors.As(err, &se):
			status = http.StatusBadRequest
			e = api.Error{Error: se.Message, Details: se.Fields}
		case errors.Is(err, store.ErrUnavailable):
			status = http.StatusServiceUnavailable
		case status < 400:
			status = http.StatusInternalServerError
		}
		body = e
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Only a disconnected reader can fail here.
	_ = json.NewEncoder(w).Encode(body)
}

// listenOperator binds the socket of a data directory, and writes a new secret beside it.
// The caller has locked the store, so a socket of a dead server may be removed.
func listenOperator(ctx context.Context, env process.Env, dataDir string) (ln net.Listener, secret string, err error) {
	path := filepath.Join(dataDir, socketName)
	if err := env.Remove(path); err != nil {
		return nil, "", fmt.Errorf("remove the old operator socket: %w", err)
	}
	secret = rand.Text() + rand.Text()
	if err := env.ReplaceFile(filepath.Join(dataDir, secretName), []byte(secret+"\n"), 0o600); err != nil {
		return nil, "", fmt.Errorf("write the secret of the operator socket: %w", err)
	}
	if ln, err = privateSocket.Listen(ctx, "unix", path); err != nil {
		return nil, "", fmt.Errorf("listen on the operator socket: %w", err)
	}
	if err := env.Chmod(path, 0o600); err != nil { // for systems without modes of sockets that have no path
		return nil, "", errors.Join(fmt.Errorf("protect the operator socket: %w", err), ln.Close())
	}
	return ln, secret, nil
}

// privateSocket binds sockets that have their mode before they have a path, so that others can at
// no time connect.
var privateSocket = net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return makePrivate(c) }}

// socketOperator calls the server that has the store open.
type socketOperator struct {
	http   *http.Client
	env    process.Env
	secret string // the path of the file with the secret
}

// dialOperator returns an operator for the server of a data directory; ok is false
// when no server listens there.
func dialOperator(env process.Env, dataDir string) (o *socketOperator, ok bool) {
	path := filepath.Join(dataDir, socketName)
	conn, err := net.DialTimeout("unix", path, 2*time.Second)
	if err != nil {
		return nil, false
	}
	conn.Close()
	return &socketOperator{env: env, secret: filepath.Join(dataDir, secretName), http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}}, true
}

// path returns the location of the server's store.
func (o *socketOperator) path(ctx context.Context) (string, error) {
	var held storeInfo
	err := o.call(ctx, http.MethodGet, "/store", nil, &held)
	return held.Path, err
}

func (o *socketOperator) createTenant(ctx context.Context, in api.TenantCreate) (api.Tenant, error) {
	var t api.Tenant
	err := o.call(ctx, http.MethodPost, "/tenants", in, &t)
	return t, err
}

func (o *socketOperator) createTenantKey(ctx context.Context, in api.TenantKeyCreate) (api.Tenant, error) {
	var t api.Tenant
	err := o.call(ctx, http.MethodPost, "/keys", in, &t)
	return t, err
}

func (o *socketOperator) tenants(ctx context.Context) ([]api.Tenant, error) {
	var ts []api.Tenant
	err := o.call(ctx, http.MethodGet, "/tenants", nil, &ts)
	return ts, err
}

func (o *socketOperator) backup(ctx context.Context, w io.Writer) (int64, error) {
	resp, err := o.do(ctx, http.MethodGet, "/backup", nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(w, resp.Body)
	if err != nil {
		return n, fmt.Errorf("read the backup: %w", err)
	}
	if want := resp.Trailer.Get(backupTrailer); want != strconv.FormatInt(n, 10) {
		return n, errors.New("the server broke off the backup; its log has the reason")
	}
	return n, nil
}

func (o *socketOperator) info(ctx context.Context) (info store.Info, err error) {
	err = o.call(ctx, http.MethodGet, "/info", nil, &info)
	return info, err
}

func (o *socketOperator) acceptClock(ctx context.Context) (c acceptedClock, err error) {
	err = o.call(ctx, http.MethodPost, "/clock", nil, &c)
	return c, err
}

// call exchanges JSON; out is filled from a successful response.
func (o *socketOperator) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		r, w := io.Pipe()
		go func() { w.CloseWithError(json.NewEncoder(w).Encode(in)) }()
		body = r
	}
	resp, err := o.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// do sends a request; an error response becomes an error.
func (o *socketOperator) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	secret, err := o.env.ReadFile(o.secret)
	if err != nil {
		return nil, command.Failed(fmt.Errorf("the server's operator socket asks for a secret: %w", err), "run the command as the user of the server, or as root")
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://svc"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", bearer+strings.TrimSpace(string(secret)))
	resp, err := o.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the server through its socket: %w", err)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	var e api.Error
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&e); err != nil || e.Error == "" {
		return nil, fmt.Errorf("the server responded %s", resp.Status)
	}
	return nil, command.WithDetails(errors.New(e.Error), e.Details)
}
