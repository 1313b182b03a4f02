package translate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"svc/gateway/mcp"
)

// maxState bounds a received requestState, in bytes.
const maxState = 1 << 10

// notForThis is the error for a client whose requestState was not made by this gateway, or
// not for its request.
const notForThis = "requestState was not made for this request: send the same request again, with the answers to the questions that it was answered with, as the same caller"

// Reasons why a requestState is refused, for the log.
var (
	errForged = errors.New("requestState was not sealed with the key of this gateway: it is forged or damaged, or it is of a replica with another sessions.key_file")
	errOther  = errors.New("requestState was made for another request: another caller, credential, upstream or method, or other parameters")
	errUsed   = errors.New("requestState was used before: the addresses of an error -32042 are visited once")
)

// digest binds a requestState to its request: the sender and the content.
type digest [sha256.Size]byte

// state is the content of a requestState.
type state struct {
	Digest digest `json:"d"`
	// Held is the name of the held call; empty if the retry is a new call.
	Held string `json:"h,omitempty"`
	// Visit is the name of the state if the retry is a new call, so that it can be used
	// once.
	Visit string `json:"v,omitempty"`
	// Instance is the id of the process that holds the call.
	Instance string `json:"i"`
	Expires  int64  `json:"e"` // Unix time
}

// sealer seals and opens requestState. It is safe for concurrent use.
type sealer struct {
	aead     cipher.AEAD
	instance string
}

// newSealer returns a sealer for a key that replicas may share.
func newSealer(key []byte, instance string) (*sealer, error) {
	aead, err := newAEAD(key, "requestState")
	return &sealer{aead: aead, instance: instance}, err
}

// newAEAD returns the encryption for one purpose. The key is derived from one that replicas may share.
func newAEAD(key []byte, purpose string) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal returns the text of a state.
func (s *sealer) seal(st state) string {
	st.Instance = s.instance
	text, err := json.Marshal(st)
	if err != nil {
		panic("a state of plain values cannot be encoded: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, nil))
}

// open opens a state that was sealed for a request with this digest. The error is
// errForged or errOther otherwise.
func (s *sealer) open(text string, want digest) (st state, err error) {
	st, ok := s.read(text)
	switch {
	case !ok:
		return state{}, errForged
	case st.Digest != want:
		return state{}, errOther
	}
	return st, nil
}

// read opens a sealed state of any request.
func (s *sealer) read(text string) (st state, ok bool) {
	if len(text) > maxState {
		return st, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return st, false
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	return st, err == nil && json.Unmarshal(plain, &st) == nil
}

// expired reports whether the time for the answer has passed.
func (st *state) expired(now time.Time) bool { return now.Unix() > st.Expires }

// digestOf returns the digest of a request: its sender, the upstream, the method and the
// parameters except those that differ between a request and its retry.
func digestOf(sender poolKey, upstream string, m *mcp.Message) (digest, error) {
	text, err := mcp.CallForm(m)
	if err != nil {
		return digest{}, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d ", upstream, m.Method, len(text))
	h.Write(sender[:])
	h.Write(text)
	return digest(h.Sum(nil)), nil
}

// maxVisits bounds the stored states of visits at one upstream. Beyond it the oldest is
// forgotten; its retry could then be sent twice by the client.
const maxVisits = 4096

// visits are the used states of errors -32042. Their retry is a new call, so the use of a
// state must be recorded. It is safe for concurrent use.
type visits struct {
	mu    sync.Mutex
	used  map[string]bool
	order []visit // in the order of their use
}

// visit is a used state.
type visit struct {
	name    string
	expires int64
}

// use uses a state; false if this replica has used it before.
func (v *visits) use(st *state, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.order) > 0 && (v.order[0].expires < now.Unix() || len(v.order) >= maxVisits) {
		delete(v.used, v.order[0].name)
		v.order = v.order[1:]
	}
	if v.used[st.Visit] {
		return false
	}
	if v.used == nil {
		v.used = map[string]bool{}
	}
	v.used[st.Visit] = true
	v.order = append(v.order, visit{st.Visit, st.Expires})
	return true
}
