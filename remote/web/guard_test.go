package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/issuer"
	"github.com/edl-go/edl/remote/credential/issuer/issuertest"
	"github.com/edl-go/edl/remote/jobspec"
)

const tokenLike = "edl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// Every route answers who may call it, and nobody else. The only routes without a token are the files of the page and the sign of life, and these tell nothing
// of jobs.
func TestEveryRouteAsksForAToken(t *testing.T) {
	s := newSite(t, newFake(t), true)
	from := issuerOf(t, s)
	tokens, issued := map[credential.Access]string{}, map[credential.Access]string{}
	for _, a := range credential.Accesses() {
		tokens[a], issued[a] = s.tokens.Lend(string(a), a), from.Token(t, string(a), []string{string(a)}, nil)
	}
	revoked, err := s.tokens.Create(credential.Name{User: "gone", Access: credential.Admin}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	expired, err := s.tokens.Create(credential.Name{User: "expired", Access: credential.Admin}, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.tokens.Revoke("gone"); err != nil {
		t.Fatal(err)
	}
	open := []string{"GET /{$}", "GET /style.css", "GET /healthz", "GET /dom.js", "GET /charts.js", "GET /panels.js", "GET /app.js"}
	for _, r := range s.routes() {
		method, path, _ := strings.Cut(strings.NewReplacer("{$}", "", "{job}", "digits").Replace(r.pattern), " ")
		if path == "/debug/pprof/profile" || path == "/debug/pprof/trace" {
			path += "?seconds=1"
		}
		if slices.Contains(open, r.pattern) != (r.needs == everybody) {
			t.Errorf("%s is open to everybody, or should be", r.pattern)
		}
		headers := map[string]string{"no": "", "an empty": "Bearer ", "a wrong": "Bearer " + tokenLike, "a revoked": "Bearer " + revoked, "an expired": "Bearer " + expired,
			"a token of another scheme": "Basic " + tokens[credential.Admin], "a token without a scheme": tokens[credential.Admin], "a cut": "Bearer " + tokens[credential.Admin][1:]}
		for name, token := range from.Refused(t, "eve", []string{string(credential.Admin)}) {
			headers[name] = "Bearer " + token
		}
		for name, header := range headers {
			a := s.ask(t, method, path, header)
			body, _ := io.ReadAll(io.LimitReader(a.Body, 1<<16))
			if r.needs == everybody {
				if a.StatusCode != http.StatusOK || strings.Contains(string(body), "alice") {
					t.Errorf("%s with %s token: %d", r.pattern, name, a.StatusCode)
				}
			} else if a.StatusCode != http.StatusUnauthorized || strings.Contains(string(body), "alice") || a.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %s token: %d %.80q", r.pattern, name, a.StatusCode, body)
			}
			checkHeaders(t, r.pattern, a.Header)
		}
		for _, a := range credential.Accesses() {
			if r.needs == everybody || a.Covers(r.needs) {
				continue
			}
			for _, token := range []string{tokens[a], issued[a]} {
				if answer := s.ask(t, method, path, "Bearer "+token); answer.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s with the token of a %s: %d", r.pattern, a, answer.StatusCode)
				}
			}
		}
	}
	for _, path := range []string{"/debug/pprof/heap", "/debug/pprof/cmdline", "/api", "/page/app.js", "/../web.go"} {
		if a := s.get(t, path, ""); a.StatusCode == http.StatusOK {
			t.Errorf("%s without a token: %d", path, a.StatusCode)
		}
	}
	for path, token := range map[string]string{"/metrics": tokens[credential.Viewer], "/api/jobs": tokens[credential.Submitter], "/api/jobs/digits": tokens[credential.Viewer],
		"/api/jobs/digits/report": tokens[credential.Viewer], "/debug/pprof/heap?debug=1": tokens[credential.Admin]} {
		if a := s.get(t, path, "Bearer "+token); a.StatusCode != http.StatusOK {
			t.Errorf("%s with a token: %d", path, a.StatusCode)
		}
		if a := s.get(t, path, "Bearer "+issued[credential.Admin]); a.StatusCode != http.StatusOK {
			t.Errorf("%s with a JWT: %d", path, a.StatusCode)
		}
	}
	plain := New(Config{Source: newFake(t), Tokens: s.tokens})
	if w := recorded(plain, "/debug/pprof/heap", tokens[credential.Admin]); w.Code != http.StatusNotFound {
		t.Errorf("profiles that nobody has asked for: %d", w.Code)
	}
}

// issuerOf lets a site take tokens of an issuer, whose groups are named as the roles that they give.
func issuerOf(t *testing.T, s *site, more ...string) *issuertest.Issuer {
	t.Helper()
	from := issuertest.New(t)
	roles := map[string][]string{}
	for _, a := range credential.Accesses() {
		roles[string(a)] = []string{string(a)}
	}
	for _, role := range more {
		roles[role] = strings.Split(role, ",")
	}
	i, err := issuer.Open(t.Context(), issuer.Config{URL: from.URL, Audience: issuertest.Audience, Roles: roles})
	if err != nil {
		t.Fatal(err)
	}
	s.cfg.Issuer = i
	return from
}

// Who has roles in single namespaces is told of the jobs there, and of no others: by no route, and not that there are some.
func TestRoutesOfANamespace(t *testing.T) {
	source := newFake(t)
	source.change(func() {
		for i, d := range source.jobs {
			d = proto.CloneOf(d)
			source.events[jobspec.ID("ads", fmt.Sprint("their-", i))] = source.events[d.Status.Job]
			d.Status.Job, d.Status.Owner = jobspec.ID("ads", fmt.Sprint("their-", i)), "zoe"
			source.jobs = append(source.jobs, d)
		}
	})
	s := newSite(t, source, true)
	from := issuerOf(t, s, "admin@ads", "viewer@default")
	for who, c := range map[string]struct {
		roles        credential.Grants
		sees, hidden string // jobs
		telling      string // what nobody else's answers have
	}{
		"of ads": {"admin@ads", "ads.their-2", "digits", "alice"}, "of default": {"viewer@default", "digits", "ads.their-2", "zoe"}, "of another one": {"submitter@rank,viewer@web", "", "digits", "alice"},
		"of ads, with a JWT": {"admin@ads", "ads.their-2", "digits", "alice"}, "of default, with a JWT": {"viewer@default", "digits", "ads.their-2", "zoe"},
	} {
		token, err := s.tokens.Create(credential.Name{User: who, Within: c.roles}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		header := "Bearer " + token
		if strings.Contains(who, "JWT") {
			header = "Bearer " + from.Token(t, who, []string{string(c.roles)}, nil)
		}
		for _, r := range s.routes() {
			if r.needs == everybody {
				continue
			}
			method, path, _ := strings.Cut(strings.NewReplacer("{job}", c.hidden).Replace(r.pattern), " ")
			names := strings.Contains(r.pattern, "{job}")
			if path == "/api/stream" {
				path, names = path+"?job="+c.hidden, true
			}
			a := s.ask(t, method, path, header)
			body, _ := io.ReadAll(io.LimitReader(a.Body, 1<<20))
			want := http.StatusOK
			switch {
			case names:
				want = http.StatusNotFound
			case r.needs == credential.Admin:
				want = http.StatusUnauthorized
			}
			if a.StatusCode != want || strings.Contains(string(body), c.telling) || !names && strings.Contains(string(body), c.hidden) {
				t.Errorf("%s for a user %s: %d %.200q", path, who, a.StatusCode, body)
			}
			if path == "/metrics" && (strings.Contains(string(body), "go_goroutines") || !strings.Contains(string(body), c.sees)) {
				t.Errorf("metrics for a user %s: %s", who, body)
			}
			if !names {
				continue
			}
			missing := s.ask(t, method, strings.ReplaceAll(path, c.hidden, jobspec.ID(jobspec.NamespaceOf(c.hidden), "none")), header)
			other, _ := io.ReadAll(missing.Body)
			if missing.StatusCode != a.StatusCode || strings.ReplaceAll(string(other), jobspec.ID(jobspec.NamespaceOf(c.hidden), "none"), c.hidden) != string(body) {
				t.Errorf("%s for a user %s: a job that is there is told apart from one that is not: %q and %q", path, who, body, other)
			}
		}
		if c.sees == "" {
			continue
		}
		for _, path := range []string{"/api/jobs/" + c.sees, "/api/jobs/" + c.sees + "/report", "/api/jobs/" + c.sees + "/logs"} {
			a := s.get(t, path, header)
			if body, _ := io.ReadAll(io.LimitReader(a.Body, 1<<22)); a.StatusCode != http.StatusOK || strings.Contains(string(body), c.telling) {
				t.Errorf("%s for a user %s: %d", path, who, a.StatusCode)
			}
		}
		for path, want := range map[string]string{"/api/stream": "row/" + c.sees, "/api/stream?job=" + c.sees: "head"} {
			eventsOf(t, s.get(t, path, header).Body, func(_ int, p page) bool {
				_, told := p["row/"+c.hidden]
				if p[want] == nil || told {
					t.Errorf("%s for a user %s: %s", path, who, p)
				}
				return false
			})
		}
	}
	header := "Bearer " + s.tokens.Lend("all", credential.Viewer)
	for asked, of := range map[string][]string{"ads": {"ads"}, "default": {"default"}, "rank": nil, "": {"ads", "default"}} {
		p := page{}
		if err := json.NewDecoder(s.get(t, "/api/jobs?namespace="+asked, header).Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
		shown := map[string]bool{}
		for key := range p {
			if id, ok := strings.CutPrefix(key, "row/"); ok {
				shown[jobspec.NamespaceOf(id)] = true
			}
		}
		var a about
		unpack(t, p, "listener", &a)
		if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, of) || !slices.Equal(a.Namespaces, []string{"ads", "default"}) {
			t.Errorf("of the namespace %q there are jobs of %v, and there are the namespaces %v", asked, got, a.Namespaces)
		}
	}
}

func checkHeaders(t *testing.T, what string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if !strings.Contains(h.Get(name), want) {
			t.Errorf("%s: %s is %q, want %s", what, name, h.Get(name), want)
		}
	}
	if strings.Contains(h.Get("Content-Security-Policy"), "unsafe") || h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%s: %v", what, h)
	}
}

// Other methods, and bodies that nobody asks for, are refused.
func TestRequestsThatChangeSomething(t *testing.T) {
	s := newSite(t, newFake(t), false)
	token := "Bearer " + s.tokens.Lend("me", credential.Admin)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		q, err := http.NewRequestWithContext(t.Context(), method, s.url+"/api/jobs/digits", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", token)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode < 400 || a.StatusCode >= 500 {
			t.Errorf("%s: %d", method, a.StatusCode)
		}
	}
}

// lenient is an issuer whose tokens name a role.
type lenient struct{}

func (lenient) Check(_ context.Context, token string) (credential.Name, error) {
	role, _, _ := strings.Cut(token, ".")
	if !slices.Contains(credential.Accesses(), credential.Access(role)) {
		return credential.Name{}, fault.E(fault.Denied, fault.Got("a token of nobody"))
	}
	return credential.Name{Kind: credential.User, User: "ann", Access: credential.Access(role)}, nil
}

// Tokens of an issuer count beside those of the listener, where there is an issuer, and only for what their role may.
func TestTokensOfAnIssuerCount(t *testing.T) {
	tokens := credential.OpenTokens("")
	own := tokens.Lend("ann", credential.Viewer)
	gone, cancel := context.WithCancel(t.Context())
	cancel() // so that nobody waits for an answer of the listener
	ask := func(issuer credential.Issuer, path, token string) int {
		q := httptest.NewRequestWithContext(gone, http.MethodGet, path, nil)
		q.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		New(Config{Source: newFake(t), Tokens: tokens, Issuer: issuer, Debug: true}).handler.ServeHTTP(w, q)
		return w.Code
	}
	for _, c := range []struct {
		issuer      credential.Issuer
		path, token string
		may         bool
	}{
		{lenient{}, "/api/jobs", "viewer.x.y", true}, {lenient{}, "/api/jobs", own, true}, {lenient{}, "/api/jobs", "nobody.x.y", false},
		{lenient{}, "/debug/pprof/", "viewer.x.y", false}, {lenient{}, "/debug/pprof/", "admin.x.y", true}, {nil, "/api/jobs", "admin.x.y", false},
	} {
		if got := ask(c.issuer, c.path, c.token); (got != http.StatusUnauthorized) != c.may {
			t.Errorf("%s with %s: %d, it may: %t", c.path, c.token, got, c.may)
		}
	}
}
