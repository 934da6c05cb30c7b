package issuer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// An authority is an OpenID Connect issuer of the test, with one key at a time.
type authority struct {
	*httptest.Server
	key     atomic.Pointer[signer]
	fetched atomic.Int32
	down    atomic.Bool // it gives no keys
}

type signer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newSigner(t *testing.T, id string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{id, key}
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.key.Store(newSigner(t, "first"))
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": a.URL, "jwks_uri": a.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		a.fetched.Add(1)
		if a.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s := a.key.Load()
		point, err := s.key.PublicKey.Bytes()
		if err != nil {
			t.Error(err)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": s.id,
			"x": coded(point[1:33]), "y": coded(point[33:])}}})
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func coded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// token makes a JWT; sign gets what is signed.
func token(t *testing.T, algorithm, key string, claims map[string]any, sign func([]byte) []byte) string {
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

func (s *signer) sign(b []byte) []byte {
	sum := sha256.Sum256(b)
	r, v, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		panic(err)
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	v.FillBytes(out[32:])
	return out
}

func (s *signer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	return token(t, "ES256", s.id, claims, s.sign)
}

func TestTokensOfAnIssuer(t *testing.T) {
	a := newAuthority(t)
	i, err := Open(t.Context(), Config{URL: a.URL, Audience: "edl", UserClaim: "email", Roles: map[string][]string{"staff": {"viewer"}, "ml": {"submitter"}, "ops": {"admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	i.fetches.pause = 0
	good := func(change map[string]any) map[string]any {
		claims := map[string]any{"iss": a.URL, "aud": "edl", "sub": "17", "email": "ann@example.org", "groups": []string{"staff", "ml"}, "exp": time.Now().Add(time.Hour).Unix(),
			"iat": time.Now().Unix()}
		maps.Copy(claims, change)
		return claims
	}
	key, stranger := a.key.Load(), newSigner(t, "first")
	nothing := func([]byte) []byte { return nil }
	shared := func(b []byte) []byte { // signs with what everybody knows: the public key
		point, err := key.key.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		h := hmac.New(crypto.SHA256.New, point)
		h.Write(b)
		return h.Sum(nil)
	}
	other := strings.Replace(key.token(t, good(nil)), ".", ".e30", 1)
	for name, c := range map[string]struct {
		token string
		as    credential.Access // empty: it is refused
		says  string
	}{
		"good":                    {key.token(t, good(nil)), credential.Submitter, ""},
		"of one group, as a text": {key.token(t, good(map[string]any{"groups": "ops"})), credential.Admin, ""},
		"for several":             {key.token(t, good(map[string]any{"aud": []string{"wiki", "edl"}})), credential.Submitter, ""},
		"of no group with a role": {key.token(t, good(map[string]any{"groups": []any{"sales", 3, nil, "*"}})), "", "none of whose groups has a role"},
		"without groups":          {key.token(t, good(map[string]any{"groups": nil})), "", "none of whose groups"},
		"expired":                 {key.token(t, good(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})), "", "valid until"},
		"that never expires":      {key.token(t, good(map[string]any{"exp": nil})), "", "does not count"},
		"not valid yet":           {key.token(t, good(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()})), "", "not before"},
		"for another audience":    {key.token(t, good(map[string]any{"aud": "wiki"})), "", "audience"},
		"without an audience":     {key.token(t, good(map[string]any{"aud": nil})), "", "audience"},
		"of another issuer":       {key.token(t, good(map[string]any{"iss": "https://elsewhere.example"})), "", "different provider"},
		"of another key":          {stranger.token(t, good(nil)), "", "does not count"},
		"of an unknown key":       {newSigner(t, "else").token(t, good(nil)), "", "does not count"},
		"unsigned":                {token(t, "none", "", good(nil), nothing), "", "does not count"},
		"unsigned, by a key":      {token(t, "none", key.id, good(nil), key.sign), "", "does not count"},
		"signed by a shared key":  {token(t, "HS256", key.id, good(nil), shared), "", "does not count"},
		"with an empty signature": {token(t, "ES256", key.id, good(nil), nothing), "", "does not count"},
		"with other claims":       {other, "", "does not count"},
		"without a user":          {key.token(t, good(map[string]any{"email": ""})), "", "without a name"},
		"with a control code":     {key.token(t, good(map[string]any{"email": "a\x1b[2J"})), "", "without a name"},
		"that is none":            {"a.b.c", "", "does not count"},
		"that is too long":        {strings.Repeat("a", maxToken+1), "", "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := i.Check(t.Context(), c.token)
			switch {
			case c.as != "" && (err != nil || who != credential.Name{Kind: credential.User, User: "ann@example.org", Access: c.as}):
				t.Errorf("%v, %v, want a %s", who, err, c.as)
			case c.as == "" && (!errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, %v, want a refusal with %q", who, err, c.says)
			}
		})
	}
}

// Groups have roles in single namespaces, too: those of all groups of a user count, the greatest where several are for one namespace.
func TestNamespacesOfGroups(t *testing.T) {
	a := newAuthority(t)
	i, err := Open(t.Context(), Config{URL: a.URL, Audience: "edl", Roles: map[string][]string{"staff": {"viewer"}, "ads": {"submitter@ads", "viewer@rank"}, "rank": {"admin@rank"}}})
	if err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string]string{"ads": "submitter@ads,viewer@rank", "ads rank": "submitter@ads,admin@rank", "rank staff": "viewer,admin@rank", "staff": "viewer"} {
		claims := map[string]any{"iss": a.URL, "aud": "edl", "sub": "17", "groups": strings.Fields(groups), "exp": time.Now().Add(time.Hour).Unix()}
		if who, err := i.Check(t.Context(), a.key.Load().token(t, claims)); err != nil || who.Roles() != want {
			t.Errorf("groups %s: %s, %v, want %s", groups, who.Roles(), err, want)
		}
	}
}

// A new key of the issuer counts as soon as a token comes, and the old one no more. Tokens that anybody makes up let it be asked only from time to time.
func TestKeysOfAnIssuer(t *testing.T) {
	a := newAuthority(t)
	i, err := Open(t.Context(), Config{URL: a.URL, Audience: "edl", Roles: map[string][]string{AnyGroup: {"viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": a.URL, "aud": "edl", "sub": "17", "exp": time.Now().Add(time.Hour).Unix()}
	i.fetches.pause = 0
	first := a.key.Load()
	if who, err := i.Check(t.Context(), first.token(t, claims)); err != nil || who.User != "17" || who.Access != credential.Viewer {
		t.Fatalf("%v, %v", who, err)
	}
	second := newSigner(t, "second")
	a.key.Store(second)
	// A token that comes while keys are being fetched, or just after, shares what was fetched.
	await(t, func() bool { _, err := i.Check(t.Context(), second.token(t, claims)); return err == nil }, "a token of the next key")
	await(t, func() bool {
		_, err := i.Check(t.Context(), first.token(t, claims))
		return errors.Is(err, fault.Denied)
	}, "the end of the last key")
	i.fetches.pause = time.Hour
	asked := a.fetched.Load()
	for range 10 {
		if _, err := i.Check(t.Context(), newSigner(t, "made up").token(t, claims)); !errors.Is(err, fault.Denied) {
			t.Errorf("a token that was made up: %v", err)
		}
		if _, err := i.Check(t.Context(), second.token(t, claims)); err != nil {
			t.Errorf("a good token beside it: %v", err)
		}
	}
	if n := a.fetched.Load() - asked; n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
	i.fetches.pause = 0
	a.down.Store(true)
	third := newSigner(t, "third").token(t, claims)
	await(t, func() bool { _, err := i.Check(t.Context(), third); return errors.Is(err, fault.Unavailable) }, "an issuer that gives no keys")
	if _, err := i.Check(t.Context(), second.token(t, claims)); err != nil {
		t.Errorf("a key that is known while the issuer is away: %v", err)
	}
}

// await tries until something is so.
func await(t *testing.T, so func() bool, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !so() {
		if ctx.Err() != nil {
			t.Fatalf("timed out waiting for %s", what)
		}
		runtime.Gosched()
	}
}

func TestOpenRefuses(t *testing.T) {
	a := newAuthority(t)
	roles := map[string][]string{AnyGroup: {"viewer"}}
	for name, c := range map[string]Config{
		"http":          {URL: "http://login.example.org", Audience: "edl", Roles: roles},
		"a user":        {URL: "https://me@login.example.org", Audience: "edl", Roles: roles},
		"no URL":        {URL: "login", Audience: "edl", Roles: roles},
		"no audience":   {URL: a.URL, Roles: roles},
		"no roles":      {URL: a.URL, Audience: "edl"},
		"no such role":  {URL: a.URL, Audience: "edl", Roles: map[string][]string{"ops": {"root"}}},
		"another name":  {URL: strings.Replace(a.URL, "127.0.0.1", "localhost", 1), Audience: "edl", Roles: roles},
		"another place": {URL: a.URL + "/realms/x", Audience: "edl", Roles: roles},
	} {
		if i, err := Open(t.Context(), c); err == nil {
			t.Errorf("%s: %v", name, i.config)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(gone, Config{URL: a.URL, Audience: "edl", Roles: roles}); !errors.Is(err, fault.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
