// Package issuertest is an OpenID Connect issuer for tests: it publishes one key at a time, and signs what a test wants.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// An Issuer is a server on a loopback address. Its URL is its name.
type Issuer struct {
	*httptest.Server
	Key     atomic.Pointer[Signer] // that it publishes
	Fetched atomic.Int32           // how often it was asked for its keys
	Down    atomic.Bool            // it gives no keys
}

// Audience is whom the tokens of Claims are for.
const Audience = "edl"

// New starts an issuer with a key of the name "first". It ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	a := &Issuer{}
	a.Key.Store(NewSigner(t, "first"))
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": a.URL, "jwks_uri": a.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		a.Fetched.Add(1)
		if a.Down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s := a.Key.Load()
		point, err := s.Private.PublicKey.Bytes()
		if err != nil {
			t.Error(err)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": s.ID,
			"x": coded(point[1:33]), "y": coded(point[33:])}}})
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

// Claims are those of a token of the issuer for a user with groups, valid for an hour, and with changes.
func (a *Issuer) Claims(user string, groups []string, change map[string]any) map[string]any {
	claims := map[string]any{"iss": a.URL, "aud": Audience, "sub": user, "groups": groups, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	maps.Copy(claims, change)
	return claims
}

// Token is one with Claims, signed by the key of now.
func (a *Issuer) Token(t testing.TB, user string, groups []string, change map[string]any) string {
	t.Helper()
	return a.Key.Load().Token(t, a.Claims(user, groups, change))
}

// Refused are tokens that must not count, for a user with groups: each but for one thing as a good one.
func (a *Issuer) Refused(t testing.TB, user string, groups []string) map[string]string {
	t.Helper()
	return map[string]string{
		"a JWT for another audience": a.Token(t, user, groups, map[string]any{"aud": "wiki"}),
		"an expired JWT":             a.Token(t, user, groups, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"a JWT of another issuer":    a.Token(t, user, groups, map[string]any{"iss": "https://elsewhere.example"}),
		"a JWT of another key":       NewSigner(t, a.Key.Load().ID).Token(t, a.Claims(user, groups, nil)),
		"a JWT without a group":      a.Token(t, user, nil, nil),
		"an unsigned JWT":            Sign(t, "none", "", a.Claims(user, groups, nil), func([]byte) []byte { return nil }),
	}
}

// A Signer is a key with its id.
type Signer struct {
	ID      string
	Private *ecdsa.PrivateKey
}

// NewSigner makes a key.
func NewSigner(t testing.TB, id string) *Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Signer{id, key}
}

// Sign signs as ES256 says.
func (s *Signer) Sign(b []byte) []byte {
	sum := sha256.Sum256(b)
	r, v, err := ecdsa.Sign(rand.Reader, s.Private, sum[:])
	if err != nil {
		panic(err)
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	v.FillBytes(out[32:])
	return out
}

// Token makes a JWT with claims.
func (s *Signer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	return Sign(t, "ES256", s.ID, claims, s.Sign)
}

// Sign makes a JWT; sign gets what is signed.
func Sign(t testing.TB, algorithm, key string, claims map[string]any, sign func([]byte) []byte) string {
	t.Helper()
	head, err := json.Marshal(map[string]string{"alg": algorithm, "kid": key, "typ": "JWT"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	text := coded(head) + "." + coded(body)
	return text + "." + coded(sign([]byte(text)))
}

func coded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
