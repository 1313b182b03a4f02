package auth

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// sign returns a token signed with the issuer's key, with any header and claims.
func (is issuer) sign(t *testing.T, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	key, err := readPrivateKey(is.key)
	if err != nil {
		t.Fatal(err)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	for k, v := range header {
		token.Header[k] = v
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func good() jwt.MapClaims {
	return jwt.MapClaims{"iss": "svc", "sub": "acme", "iat": issued.Unix(), "exp": issued.Add(day).Unix(), "grace_days": 1}
}

func without(name string) jwt.MapClaims {
	c := good()
	delete(c, name)
	return c
}

func having(name string, value any) jwt.MapClaims {
	c := good()
	c[name] = value
	return c
}

func TestParseRefuses(t *testing.T) {
	is := newIssuer(t)
	other := newIssuer(t)
	hs256 := func(key any) string {
		s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, good()).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, good()).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	token := is.sign(t, nil, good())
	parts := strings.Split(token, ".")
	for _, c := range []struct {
		name, token string
		want        error
	}{
		{"wrong key", other.sign(t, nil, good()), errSignature},
		{"alg none", none, errSignature},
		{"HS256 with the public key as secret", hs256([]byte(is.public)), errSignature},
		{"alg of another name", is.sign(t, map[string]any{"alg": "ES256"}, good()), errSignature},
		{"changed claims", parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"svc","sub":"x","iat":1,"exp":2}`)) + "." + parts[2], errSignature},
		{"signature cut off", parts[0] + "." + parts[1] + ".", errSignature},
		{"crit", is.sign(t, map[string]any{"crit": []string{"exp"}}, good()), errMalformed},
		{"crit empty", is.sign(t, map[string]any{"crit": nil}, good()), errMalformed},
		{"empty", "", errMalformed},
		{"junk", "not a token", errMalformed},
		{"two parts", parts[0] + "." + parts[1], errMalformed},
		{"padding", parts[0] + "=." + parts[1] + "." + parts[2], errMalformed},
		{"payload that is not JSON", parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte("x")) + "." + parts[2], errMalformed},
		{"no iss", is.sign(t, nil, without("iss")), errMalformed},
		{"no sub", is.sign(t, nil, without("sub")), errMalformed},
		{"no iat", is.sign(t, nil, without("iat")), errMalformed},
		{"no exp", is.sign(t, nil, without("exp")), errMalformed},
		{"exp as text", is.sign(t, nil, having("exp", "tomorrow")), errMalformed},
		{"exp of 1e300", is.sign(t, nil, having("exp", 1e300)), errMalformed},
		{"exp with a fraction", is.sign(t, nil, having("exp", 1772366400.5)), errMalformed},
		{"exp past the year 9999", is.sign(t, nil, having("exp", int64(maxUnix+1))), errMalformed},
		{"exp before iat", is.sign(t, nil, having("exp", issued.Unix()-1)), errMalformed},
		{"iat negative", is.sign(t, nil, having("iat", -1)), errMalformed},
		{"grace_days negative", is.sign(t, nil, having("grace_days", -1)), errMalformed},
		{"grace_days out of bounds", is.sign(t, nil, having("grace_days", maxGraceDays+1)), errMalformed},
		{"grace_days of 1e18", is.sign(t, nil, having("grace_days", 1000000000000000000)), errMalformed},
		{"long sub", is.sign(t, nil, having("sub", strings.Repeat("x", 2000))), errMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := parse([]byte(c.token), is.public)
			if !errors.Is(err, c.want) {
				t.Errorf("Parse() = %v, %v; want %v", l, err, c.want)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	is := newIssuer(t)
	for _, c := range []struct {
		name, token string
		grace       int
	}{
		{"white space around it", "\n " + is.sign(t, nil, good()) + "\r\n", 1},
		{"no grace_days means none", is.sign(t, nil, without("grace_days")), 0},
		{"claims that are not known", is.sign(t, nil, having("plan", "gold")), 1},
		{"long expired", is.sign(t, nil, having("exp", issued.Unix()+1)), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := parse([]byte(c.token), is.public)
			if err != nil || l.GraceDays != c.grace {
				t.Errorf("Parse() = %v, %v", l, err)
			}
		})
	}
}

// FuzzParse passes arbitrary bytes to the parser: it must not panic, and must accept nothing that
// was not signed.
func FuzzParse(f *testing.F) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("eyJhbGciOiJFZERTQSJ9.e30.AAAA"))
	f.Add([]byte("eyJhbGciOiJub25lIn0.e30."))
	f.Add([]byte("..."))
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := parse(data, public); err == nil {
			t.Errorf("accepted %+v", l)
		}
		_, _ = unverified(data)
		_, _ = parsePublicKey(data)
	})
}
