package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// oneIssuer knows one token.
type oneIssuer struct {
	token string
	name  credential.Name
}

func (i oneIssuer) Check(_ context.Context, token string) (credential.Name, error) {
	if token != i.token {
		return credential.Name{}, fault.New(fault.Denied, "no token of the issuer")
	}
	return i.name, nil
}

// Who shows a token gets credentials of its user and its role, and of nobody else: a token of the listener, or of an issuer. They come from the authority of the listener, and end in
// a working day.
func TestCredentialsForAToken(t *testing.T) {
	s := newSite(t, newFake(t), false)
	issued := oneIssuer{"a.b.c", credential.Name{Kind: credential.User, User: "eve@example.org", Access: credential.Submitter}}
	s.cfg.Issuer = issued
	for token, want := range map[string]credential.Name{
		s.tokens.Lend("alice", credential.Viewer): {Kind: credential.User, User: "alice", Access: credential.Viewer},
		s.tokens.Lend("bob", credential.Admin):    {Kind: credential.User, User: "bob", Access: credential.Admin},
		issued.token:                              issued.name,
	} {
		a := s.ask(t, http.MethodPost, "/api/credentials", "Bearer "+token)
		b, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%v: %d %s, %v", want, a.StatusCode, b, err)
		}
		own, err := credential.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		got := own.Name()
		if listed := token != issued.token; listed != (got.Token != "") || listed && s.tokens.Counts(got) != nil {
			t.Errorf("the certificate of %v names the token %q", want, got.Token)
		}
		got.Token = ""
		if left := time.Until(own.Expires()); got != want || left > CredentialLife || left < CredentialLife-time.Hour {
			t.Errorf("%v with %v left, want %v", got, left, want)
		}
		if a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", a.Header)
		}
	}
	if a := s.ask(t, http.MethodGet, "/api/credentials", "Bearer "+issued.token); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("with GET: %d", a.StatusCode)
	}
	s.cfg.Issuer = oneIssuer{"a.b.c", credential.Name{Kind: credential.User, User: strings.Repeat("x", 101), Access: credential.Viewer}}
	if a := s.ask(t, http.MethodPost, "/api/credentials", "Bearer a.b.c"); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a name that is none: %d", a.StatusCode)
	}
	plain := New(Config{Source: newFake(t), Tokens: s.tokens})
	w := httptest.NewRecorder()
	q := httptest.NewRequest(http.MethodPost, "/api/credentials", nil)
	q.Header.Set("Authorization", "Bearer "+s.tokens.Lend("alice", credential.Admin))
	if plain.handler.ServeHTTP(w, q); w.Code != http.StatusNotFound {
		t.Errorf("without an authority: %d", w.Code)
	}
}

// Each route that changes something, or hands out credentials, notes who has asked, whether it did so or refused. Every other route notes refusals only.
func TestEveryRouteIsAudited(t *testing.T) {
	s := newSite(t, newFake(t), true)
	from := issuerOf(t, s, "admin@ads")
	type noted struct {
		by   string
		what string
		kind fault.Kind
	}
	told := make(chan noted, 1)
	s.cfg.Audit = func(by credential.Name, what string, err error) { told <- noted{by.User, what, fault.KindOf(err)} }
	changing := 0
	for _, r := range s.routes() {
		method, path, _ := strings.Cut(strings.NewReplacer("{$}", "", "{job}", "digits").Replace(r.pattern), " ")
		changes := method != http.MethodGet
		if changes != (r.act != nil) || changes == (r.serve != nil) {
			t.Errorf("%s has the wrong kind of handler", r.pattern)
		}
		if changes {
			changing++
		}
		ask := func(who, token, body string, want noted) {
			t.Helper()
			q, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+token)
			a, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			select {
			case got := <-told:
				if want.what = r.pattern; got != want || got.kind == fault.OK && a.StatusCode != http.StatusOK {
					t.Errorf("%s of %s is noted as %v, want %v; the answer is %d", r.pattern, who, got, want, a.StatusCode)
				}
			default: // it is noted before it is answered
				t.Errorf("%s of %s is not noted", r.pattern, who)
			}
		}
		if r.needs == everybody {
			continue
		}
		ask("nobody", "", "", noted{kind: fault.Denied})
		for who, token := range from.Refused(t, "eve", []string{"admin"}) {
			ask(who, token, "", noted{kind: fault.Denied})
		}
		if r.needs == credential.Admin {
			ask("a viewer", from.Token(t, "eve", []string{"viewer"}, nil), "", noted{by: "eve", kind: fault.Denied})
		}
		if changes {
			ask("a user", from.Token(t, "ann", []string{"viewer"}, nil), "", noted{by: "ann"})
			ask("a user with a body", from.Token(t, "ann", []string{"viewer"}, nil), "x", noted{by: "ann", kind: fault.InvalidArgument})
			ask("a user with a long name", from.Token(t, strings.Repeat("x", 101), []string{"viewer"}, nil), "", noted{by: strings.Repeat("x", 101), kind: fault.InvalidArgument})
		}
	}
	if changing == 0 {
		t.Error("no route changes something")
	}
	if a := s.get(t, "/api/jobs", "Bearer "+from.Token(t, "ann", []string{"viewer"}, nil)); a.StatusCode != http.StatusOK || len(told) > 0 {
		t.Errorf("reading is noted, or refused: %d", a.StatusCode)
	}
}
