package issuer

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/issuer/issuertest"
)

func TestTokensOfAnIssuer(t *testing.T) {
	a := issuertest.New(t)
	i, err := Open(t.Context(), Config{URL: a.URL, Audience: "edl", UserClaim: "email", Roles: map[string][]string{"staff": {"viewer"}, "ml": {"submitter"}, "ops": {"admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	i.fetches.pause = 0
	good := func(change map[string]any) map[string]any {
		claims := a.Claims("17", []string{"staff", "ml"}, map[string]any{"email": "ann@example.org"})
		maps.Copy(claims, change)
		return claims
	}
	key, stranger := a.Key.Load(), issuertest.NewSigner(t, "first")
	nothing := func([]byte) []byte { return nil }
	shared := func(b []byte) []byte { // signs with what everybody knows: the public key
		point, err := key.Private.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		h := hmac.New(crypto.SHA256.New, point)
		h.Write(b)
		return h.Sum(nil)
	}
	other := strings.Replace(key.Token(t, good(nil)), ".", ".e30", 1)
	for name, c := range map[string]struct {
		token string
		as    credential.Access // empty: it is refused
		says  string
	}{
		"good":                    {key.Token(t, good(nil)), credential.Submitter, ""},
		"of one group, as a text": {key.Token(t, good(map[string]any{"groups": "ops"})), credential.Admin, ""},
		"for several":             {key.Token(t, good(map[string]any{"aud": []string{"wiki", "edl"}})), credential.Submitter, ""},
		"of no group with a role": {key.Token(t, good(map[string]any{"groups": []any{"sales", 3, nil, "*"}})), "", "none of whose groups has a role"},
		"without groups":          {key.Token(t, good(map[string]any{"groups": nil})), "", "none of whose groups"},
		"expired":                 {key.Token(t, good(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})), "", "valid until"},
		"that never expires":      {key.Token(t, good(map[string]any{"exp": nil})), "", "does not count"},
		"not valid yet":           {key.Token(t, good(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()})), "", "not before"},
		"for another audience":    {key.Token(t, good(map[string]any{"aud": "wiki"})), "", "audience"},
		"without an audience":     {key.Token(t, good(map[string]any{"aud": nil})), "", "audience"},
		"of another issuer":       {key.Token(t, good(map[string]any{"iss": "https://elsewhere.example"})), "", "different provider"},
		"of another key":          {stranger.Token(t, good(nil)), "", "does not count"},
		"of an unknown key":       {issuertest.NewSigner(t, "else").Token(t, good(nil)), "", "does not count"},
		"unsigned":                {issuertest.Sign(t, "none", "", good(nil), nothing), "", "does not count"},
		"unsigned, by a key":      {issuertest.Sign(t, "none", key.ID, good(nil), key.Sign), "", "does not count"},
		"signed by a shared key":  {issuertest.Sign(t, "HS256", key.ID, good(nil), shared), "", "does not count"},
		"with an empty signature": {issuertest.Sign(t, "ES256", key.ID, good(nil), nothing), "", "does not count"},
		"with other claims":       {other, "", "does not count"},
		"without a user":          {key.Token(t, good(map[string]any{"email": ""})), "", "without a name"},
		"with a control code":     {key.Token(t, good(map[string]any{"email": "a\x1b[2J"})), "", "without a name"},
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
	a := issuertest.New(t)
	i, err := Open(t.Context(), Config{URL: a.URL, Audience: "edl", Roles: map[string][]string{"staff": {"viewer"}, "ads": {"submitter@ads", "viewer@rank"}, "rank": {"admin@rank"}}})
	if err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string]string{"ads": "submitter@ads,viewer@rank", "ads rank": "submitter@ads,admin@rank", "rank staff": "viewer,admin@rank", "staff": "viewer"} {
		claims := map[string]any{"iss": a.URL, "aud": "edl", "sub": "17", "groups": strings.Fields(groups), "exp": time.Now().Add(time.Hour).Unix()}
		if who, err := i.Check(t.Context(), a.Key.Load().Token(t, claims)); err != nil || who.Roles() != want {
			t.Errorf("groups %s: %s, %v, want %s", groups, who.Roles(), err, want)
		}
	}
}

// A new key of the issuer counts as soon as a token comes, and the old one no more. Tokens that anybody makes up let it be asked only from time to time.
func TestKeysOfAnIssuer(t *testing.T) {
	a := issuertest.New(t)
	i, err := Open(t.Context(), Config{URL: a.URL, Audience: "edl", Roles: map[string][]string{AnyGroup: {"viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": a.URL, "aud": "edl", "sub": "17", "exp": time.Now().Add(time.Hour).Unix()}
	i.fetches.pause, i.known.life = 0, 0
	first := a.Key.Load()
	if who, err := i.Check(t.Context(), first.Token(t, claims)); err != nil || who.User != "17" || who.Access != credential.Viewer {
		t.Fatalf("%v, %v", who, err)
	}
	second := issuertest.NewSigner(t, "second")
	a.Key.Store(second)
	// A token that comes while keys are being fetched, or just after, shares what was fetched.
	await(t, func() bool { _, err := i.Check(t.Context(), second.Token(t, claims)); return err == nil }, "a token of the next key")
	await(t, func() bool {
		_, err := i.Check(t.Context(), first.Token(t, claims))
		return errors.Is(err, fault.Denied)
	}, "the end of the last key")
	i.fetches.pause = time.Hour
	asked := a.Fetched.Load()
	for range 10 {
		if _, err := i.Check(t.Context(), issuertest.NewSigner(t, "made up").Token(t, claims)); !errors.Is(err, fault.Denied) {
			t.Errorf("a token that was made up: %v", err)
		}
		if _, err := i.Check(t.Context(), second.Token(t, claims)); err != nil {
			t.Errorf("a good token beside it: %v", err)
		}
	}
	if n := a.Fetched.Load() - asked; n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
	i.fetches.pause = 0
	a.Down.Store(true)
	third := issuertest.NewSigner(t, "third").Token(t, claims)
	await(t, func() bool { _, err := i.Check(t.Context(), third); return errors.Is(err, fault.Unavailable) }, "an issuer that gives no keys")
	if _, err := i.Check(t.Context(), second.Token(t, claims)); err != nil {
		t.Errorf("a key that is known while the issuer is away: %v", err)
	}
}

// A token that has counted is not checked again while it is valid, and for a minute at most; one that has not counted is, each time. What is remembered is bounded.
func TestTokensThatHaveCounted(t *testing.T) {
	a := issuertest.New(t)
	i, err := Open(t.Context(), Config{URL: a.URL, Audience: "edl", Roles: map[string][]string{AnyGroup: {"viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	claims := func(user int, life time.Duration) map[string]any {
		return map[string]any{"iss": a.URL, "aud": "edl", "sub": fmt.Sprint(user), "exp": time.Now().Add(life).Unix()}
	}
	long, short := a.Key.Load().Token(t, claims(1, time.Hour)), a.Key.Load().Token(t, claims(2, 30*time.Second))
	for _, token := range []string{long, short} {
		if _, err := i.Check(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := i.Check(t.Context(), issuertest.NewSigner(t, "first").Token(t, claims(3, time.Hour))); err == nil || len(i.known.all) != 2 {
		t.Errorf("%v, and %d tokens are remembered, want 2", err, len(i.known.all))
	}
	now := time.Now().Round(0)
	for token, want := range map[string]map[time.Duration]bool{long: {59 * time.Second: true, 61 * time.Second: false}, short: {28 * time.Second: true, 31 * time.Second: false}} {
		for after, counts := range want {
			if _, ok := i.known.of(sha256.Sum256([]byte(token)), now.Add(after)); ok != counts {
				t.Errorf("after %v the token counts without a check: %t", after, ok)
			}
		}
	}
	for n := range 2*maxChecked + 10 {
		i.known.add(sha256.Sum256(fmt.Append(nil, n)), credential.Name{User: fmt.Sprint(n)}, now.Add(time.Hour), now)
		if name, ok := i.known.of(sha256.Sum256(fmt.Append(nil, n)), now); !ok || name.User != fmt.Sprint(n) || len(i.known.all) > maxChecked {
			t.Fatalf("token %d: %v, %t, and %d are remembered", n, name, ok, len(i.known.all))
		}
	}
	if who, err := i.Check(t.Context(), long); err != nil || who.User != "1" {
		t.Errorf("a token that is remembered no more: %v, %v", who, err)
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
	a := issuertest.New(t)
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
