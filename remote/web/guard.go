package web

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
)

// everybody is the access of routes that ask for no token. They tell nothing of jobs.
const everybody credential.Access = ""

// A route is something that can be asked for, and what it asks of a token. A user who has a role in single namespaces only is answered about the jobs of these; one that asks
// for an admin asks for one of all.
type route struct {
	pattern string // method and path, as http.ServeMux has them; {job}, or the value "job" of the query, is the id of a job
	needs   credential.Access
	serve   http.HandlerFunc
	// act gives the answer in place of serve where a request changes something, or hands out something that lasts: all methods but GET. The audit log has each such request
	// before it is answered.
	act func(q *http.Request) (kind string, body []byte, err error)
}

// routes lists all that the server answers.
func (s *Server) routes() []route {
	all := []route{
		{"GET /{$}", everybody, pageFile("index.html", "text/html; charset=utf-8"), nil},
		{"GET /style.css", everybody, pageFile("style.css", "text/css; charset=utf-8"), nil},
		{"GET /healthz", everybody, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }, nil},
		{"GET /metrics", credential.Viewer, s.metrics(), nil},
		{"GET /api/stream", credential.Viewer, s.stream, nil},
		{"GET /api/jobs", credential.Viewer, s.overview, nil},
		{"GET /api/jobs/{job}", credential.Viewer, s.job, nil},
		{"GET /api/jobs/{job}/logs", credential.Viewer, s.logs, nil},
		{"GET /api/jobs/{job}/program", credential.Viewer, s.program, nil},
		{"GET /api/jobs/{job}/report", credential.Viewer, s.report, nil},
	}
	for _, name := range scripts {
		all = append(all, route{"GET /" + name, everybody, pageFile(name, "text/javascript; charset=utf-8"), nil})
	}
	if s.cfg.Authority != nil {
		all = append(all, route{"POST /api/credentials", credential.Viewer, nil, s.credentials})
	}
	if s.cfg.Debug {
		all = append(all,
			route{"GET /debug/pprof/", credential.Admin, long(pprof.Index), nil},
			route{"GET /debug/pprof/profile", credential.Admin, long(pprof.Profile), nil},
			route{"GET /debug/pprof/symbol", credential.Admin, long(pprof.Symbol), nil},
			route{"GET /debug/pprof/trace", credential.Admin, long(pprof.Trace), nil})
	}
	return all
}

// guarded is the handler of all routes. Every answer has the same headers; every route but the files of the page asks for a token. What is refused, and what changes something, is in the
// audit log.
func (s *Server) guarded() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, q *http.Request) {
			if r.needs == everybody {
				r.serve(w, q)
				return
			}
			name, err := s.admitted(&r, q)
			q = q.WithContext(context.WithValue(q.Context(), callerKey{}, name))
			kind, body := "", []byte(nil)
			if err == nil && r.act != nil {
				kind, body, err = r.act(q)
			}
			if (r.act != nil || errors.Is(err, fault.Denied)) && s.cfg.Audit != nil {
				s.cfg.Audit(name, r.pattern, err)
			}
			switch {
			case err != nil:
				refuse(w, err)
			case r.act != nil:
				w.Header().Set("Content-Type", kind)
				_, _ = w.Write(body)
			default:
				r.serve(w, q)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		// Pictures of programs are loaded from memory of the page, as images: nothing in them runs.
		h.Set("Content-Security-Policy", "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Now().Add(writeTime))
		if q.ContentLength != 0 { // nobody waits for it
			_ = c.SetReadDeadline(time.Now().Add(headerTime))
			h.Set("Connection", "close")
		}
		mux.ServeHTTP(w, q)
	})
}

// admitted returns whose token a request shows, also where the route is not for that user. The name of an unknown caller has no kind.
func (s *Server) admitted(r *route, q *http.Request) (credential.Name, error) {
	name, err := s.caller(q)
	if err != nil {
		return credential.Name{}, err
	}
	if err := r.admit(name, q); err != nil {
		return name, err
	}
	if q.ContentLength != 0 {
		return name, fault.E(fault.InvalidArgument, fault.Got("a request with a body"), fault.Want("none"))
	}
	return name, nil
}

// admit refuses a caller that may not ask for what a request asks for. A job in a namespace that the caller may not see is one that is not there.
func (r *route) admit(name credential.Name, q *http.Request) error {
	if !name.Most().Covers(r.needs) || r.needs == credential.Admin && !name.Access.Covers(r.needs) {
		return fault.E(fault.Denied, fault.Got("the token of "+name.Roles()), fault.Want("that of a "+string(r.needs)))
	}
	for _, id := range []string{q.PathValue("job"), q.URL.Query().Get("job")} {
		if id != "" && !name.In(jobspec.NamespaceOf(id)).Covers(credential.Viewer) {
			return unknownJob(id)
		}
	}
	return nil
}

func unknownJob(id string) error {
	return fault.E(fault.NotFound, fault.Got("job "+fault.Quote(id)), fault.Want("one that the listener remembers"))
}

type callerKey struct{}

// seenBy reports of a job by its id whether the caller of a context that guarded has made may see it.
func seenBy(ctx context.Context) func(id string) bool {
	name, _ := ctx.Value(callerKey{}).(credential.Name)
	return func(id string) bool { return name.In(jobspec.NamespaceOf(id)).Covers(credential.Viewer) }
}

// caller is whose token a request shows.
func (s *Server) caller(q *http.Request) (credential.Name, error) {
	return credential.Bearers{Tokens: s.cfg.Tokens, Issuer: s.cfg.Issuer}.Of(q.Context(), q.Header.Get("Authorization"))
}

// refuse answers with an error, as text.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch fault.KindOf(err) {
	case fault.Denied:
		code = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="edl"`)
	case fault.NotFound:
		code = http.StatusNotFound
	case fault.InvalidArgument, fault.TooLarge, fault.Unsupported:
		code = http.StatusBadRequest
	case fault.Unavailable, fault.DeadlineExceeded, fault.Canceled:
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(strings.Join(strings.Fields(err.Error()), " ") + "\n"))
}

// long lets an answer take its time.
func long(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(profileTime))
		serve(w, q)
	}
}

//go:embed page
var pages embed.FS

// scripts are the modules of the page, in the order in which a report has them.
var scripts = []string{"dom.js", "charts.js", "panels.js", "app.js"}

// pageFile serves a file of the page.
func pageFile(name, kind string) http.HandlerFunc {
	b, err := fs.ReadFile(pages, "page/"+name)
	return func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			refuse(w, fault.File(fault.Internal, name, err))
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(b)
	}
}

// awaited bounds a question to the listener.
func awaited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askTime, errors.New("the listener does not answer"))
}

// askTime is how long the listener has for an answer. It is less than writeTime.
const askTime = 5 * time.Second
