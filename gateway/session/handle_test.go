package session

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

func newSealer(t testing.TB, fill byte) *Sealer {
	t.Helper()
	s, err := NewSealer(bytes.Repeat([]byte{fill}, keySize))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHandleRoundTrip(t *testing.T) {
	s := newSealer(t, 1)
	alice := OwnerOf("key", "", "alice")
	for _, upstream := range []string{"", "4fd0", strings.Repeat("x", MaxUpstreamID)} {
		for _, client := range []mcp.ClientInfo{{}, {Name: "claude-code", Version: "2.1.331"}, {Name: "x"}, {Version: "1"}, {Name: strings.Repeat("n", mcp.MaxClientName), Version: strings.Repeat("v", mcp.MaxClientVersion)}} {
			roundTrip(t, s, Handle{ID: NewID(), Owner: alice, Opened: 1 << 60, Upstream: upstream, Client: client})
			roundTrip(t, s, Handle{ID: NewID(), Owner: alice, Upstream: upstream, Client: client, Params: strings.Repeat("p", MaxHandleParams)})
		}
	}
	for _, tooLong := range []Handle{
		{Upstream: strings.Repeat("x", MaxUpstreamID+1)},
		{Params: strings.Repeat("x", MaxHandleParams+1)},
		{Client: mcp.ClientInfo{Name: strings.Repeat("x", mcp.MaxClientName+1)}},
		{Client: mcp.ClientInfo{Version: strings.Repeat("x", mcp.MaxClientVersion+1)}},
	} {
		if _, err := s.Seal(tooLong, nil); err == nil {
			t.Errorf("what is too long was sealed: %.80v", tooLong)
		}
	}
}

func roundTrip(t *testing.T, s *Sealer, want Handle) {
	t.Helper()
	text, err := s.Seal(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []byte(text) {
		if c < 0x21 || c > 0x7e {
			t.Fatalf("handle holds byte %#x: not visible ASCII", c)
		}
	}
	got, err := s.Open(text, want.Owner, nil)
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// A session survives a restart of the gateway because the key is saved.
func TestHandleOpensAfterARestartWithTheSameKey(t *testing.T) {
	alice := OwnerOf("key", "", "alice")
	text, err := newSealer(t, 1).Seal(Handle{ID: NewID(), Owner: alice, Upstream: "up"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newSealer(t, 1).Open(text, alice, nil); err != nil {
		t.Error(err)
	}
}

// A handle of another layout, which the same key sealed, is an unknown session: its bytes are not
// read as fields of this layout.
func TestHandleOfAnotherLayoutIsUnknown(t *testing.T) {
	s := newSealer(t, 1)
	id, owner := NewID(), OwnerOf("key", "", "alice")
	for _, fields := range []string{
		"\x01" + string(id[:]) + string(owner[:]) + "upstream-4fd0",
		"\x02" + string(id[:]) + string(owner[:]) + "\x06\x01planner1\x00\x00upstream-4fd0",
		"\x03" + string(id[:]) + string(owner[:]) + "12345678upstream-4fd0",
		"\x07" + string(id[:]) + string(owner[:]) + "12345678" + "12345678upstream-4fd0",
	} {
		text := base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, []byte(fields), nil))
		if h, err := s.Open(text, owner, nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("layout %d: %+v, %v", fields[0], h, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	s := newSealer(t, 1)
	alice := OwnerOf("key", "", "alice")
	text, err := s.Seal(Handle{ID: NewID(), Owner: alice, Upstream: "up"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(text)
	flipped[len(flipped)/2] ^= 1
	tests := []struct {
		name  string
		by    *Sealer
		text  string
		owner Owner
	}{
		{"another principal", s, text, OwnerOf("key", "", "bob")},
		{"a key named like a subject", s, text, OwnerOf("oauth", "", "alice")},
		{"another gateway's key", newSealer(t, 2), text, alice},
		{"a flipped bit", s, string(flipped), alice},
		{"cut short", s, text[:len(text)-4], alice},
		{"empty", s, "", alice},
		{"not base64", s, "%%%", alice},
		{"endless", s, strings.Repeat("A", 1<<20), alice},
		{"the upstream's own id", s, "up", alice},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.by.Open(tt.text, tt.owner, nil); !errors.Is(err, ErrUnknown) {
				t.Errorf("got %v, want ErrUnknown", err)
			}
		})
	}
}

func TestOwnerOfKeepsPartsApart(t *testing.T) {
	if OwnerOf("a", "bc") == OwnerOf("ab", "c") {
		t.Error("two principals share an owner digest")
	}
}

func FuzzOpen(f *testing.F) {
	s := newSealer(f, 1)
	alice := OwnerOf("key", "", "alice")
	good, err := s.Seal(Handle{ID: NewID(), Owner: alice, Upstream: "up"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("A" + good)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := s.Open(text, alice, nil); err == nil && text != good {
			t.Errorf("opened %q", text)
		}
	})
}
