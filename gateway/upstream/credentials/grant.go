package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"svc/gateway/base/files"
)

// version is the version of the file format.
const version = 1

// maxFile bounds the file, in bytes.
const maxFile = 256 << 10

// ErrNone: no operator is logged in.
var ErrNone = errors.New("nobody is logged in")

// Grant is the grant of an operator: the tokens and the server that issued them.
type Grant struct {
	Version int `json:"version"`
	// Upstream is the name of the upstream. URL and Resource are its address and resource
	// indicator; the tokens are sent to no other.
	Upstream string `json:"upstream"`
	URL      string `json:"url"`
	Resource string `json:"resource"`
	// Issuer is the authorization server that the operator accepted, with its endpoints.
	Issuer             string `json:"issuer"`
	TokenEndpoint      string `json:"token_endpoint"`
	RevocationEndpoint string `json:"revocation_endpoint,omitempty"`
	// ClientID is the gateway's client account there; Registered reports whether the login
	// registered it. ClientSecret is empty if there is none, or if it is in the configuration.
	ClientID     string   `json:"client_id"`
	Registered   bool     `json:"registered,omitempty"`
	ClientSecret string   `json:"client_secret,omitempty"`
	AuthMethod   string   `json:"token_endpoint_auth_method"`
	Scopes       []string `json:"scopes,omitempty"`

	LoggedIn     time.Time `json:"logged_in"`
	RefreshToken string    `json:"refresh_token,omitempty"`
	AccessToken  string    `json:"access_token"`
	Issued       time.Time `json:"issued"`
	Expires      time.Time `json:"expires"`
	// Ended is set when the authorization server no longer accepted the refresh token.
	Ended bool `json:"ended,omitempty"`
}

// Take stores the tokens of a response. Without a new refresh token the old one is kept.
func (g *Grant) Take(a *Answer) {
	g.AccessToken, g.Issued, g.Expires, g.Ended = a.AccessToken, a.Asked, a.Asked.Add(a.Valid), false
	if a.RefreshToken != "" {
		g.RefreshToken = a.RefreshToken
	}
	if scopes := strings.Fields(a.Scope); len(scopes) > 0 {
		g.Scopes = scopes
	}
}

// File is the file of one upstream's grant.
type File string

// FileOf returns the file of an upstream in a state_dir. Characters of the name that a file name
// cannot have are encoded.
func FileOf(stateDir, upstream string) File {
	sum := sha256.Sum256([]byte(upstream))
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, upstream)
	return File(filepath.Join(stateDir, "upstream-login-"+plain[:min(len(plain), 40)]+"-"+hex.EncodeToString(sum[:4])+".json"))
}

// Read returns the grant; [ErrNone] if there is none.
func (f File) Read() (*Grant, error) {
	data, err := files.Read(string(f), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	g := new(Grant)
	if err := json.Unmarshal(data, g); err != nil || g.Version != version {
		return nil, fmt.Errorf("%s is damaged, or of another version of svc: log in again", f)
	}
	return g, nil
}

// Write replaces the grant. The caller holds the lock. A file that root writes is given to the
// owner of the folder, which is the gateway's user.
func (f File) Write(g *Grant) error {
	g.Version = version
	data, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	if err := files.Replace(string(f), append(data, '\n')); err != nil {
		return err
	}
	return files.GiveAway(string(f))
}

// Remove removes the grant. The caller holds the lock.
func (f File) Remove() error {
	if err := os.Remove(string(f)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lock waits until no other process replaces the grant.
func (f File) Lock(ctx context.Context) (unlock func(), err error) {
	return files.Lock(ctx, string(f))
}
