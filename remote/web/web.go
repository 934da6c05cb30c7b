// Package web shows the jobs of a listener to browsers and to Prometheus: a dashboard, metrics, and the report of a job as one file. Nothing here changes a job.
// Who shows a token may also get credentials, with which it calls the listener itself.
//
// It knows of a listener only what a client of it can ask (Source), and asks for what the listener knows already (remote.Known). So an open page costs the
// roles of a job nothing. It asks only while somebody looks, and once for all who do.
//
// Its files in reading order:
//
//   - web.go: Server and its connections; guard.go: routes, who may call them, and headers; token is package credential's; credentials.go: credentials for a token
//   - hub.go: what is known of the jobs, kept fresh while somebody looks; series.go: the values that steps have fetched, thinned; steps.go: how they come
//   - pages.go: what the pages show, as keys and values; roles.go: the rows of roles; stream.go: changes of them, as server-sent events; logs.go, picture.go
//   - metrics.go: the same for Prometheus; report.go: the same as a file
//   - page/: the files that a browser loads
//
// # Keys and values
//
// A page is a map: "listener", "row/JOB" of each job, and of one job "head", "role/NAME", "series/NAME" and so on (pages.go lists them). A stream sends all of it
// first, and then what has changed, at most once a second; null takes a key away. A report has the same map in it. So the page has one way to draw both.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
)

// Source is what a listener tells. Its methods are those of package remote with the same names.
type Source interface {
	// Jobs returns the jobs that the listener remembers, those that were submitted first before the others; with live, only those that have not ended.
	Jobs(ctx context.Context, live bool) ([]*job.JobStatus, error)
	Known(ctx context.Context, id string) (*rpc.JobDetails, error)
	Programs(ctx context.Context, id string) (*rpc.Programs, error)
	WatchScalars(ctx context.Context, id string, from uint64, each func(number uint64, events []*job.Event) error) error
	Logs(ctx context.Context, id, role string, wait bool, each func(role, line string) error) error
}

// Of returns what the listener of a client tells.
func Of(c *remote.Client) Source { return source{c} }

type source struct{ *remote.Client }

func (s source) Jobs(ctx context.Context, live bool) ([]*job.JobStatus, error) {
	var f remote.JobFilter
	if live {
		f.States = []job.State{job.State_PENDING, job.State_WAITING, job.State_STARTING, job.State_RUNNING}
	}
	return remote.FindJobs(ctx, s.Client, f)
}

func (s source) Known(ctx context.Context, id string) (*rpc.JobDetails, error) {
	return remote.Known(ctx, s.Client, id)
}

func (s source) Programs(ctx context.Context, id string) (*rpc.Programs, error) {
	return remote.Programs(ctx, s.Client, id)
}

func (s source) WatchScalars(ctx context.Context, id string, from uint64, each func(uint64, []*job.Event) error) error {
	return remote.WatchScalars(ctx, s.Client, id, from, each)
}

// Config is what a Server works with.
type Config struct {
	Source Source
	Tokens *credential.Tokens // who may read
	Issuer credential.Issuer  // whose tokens count, too; nil: none
	// Authority issues credentials for who shows a token: POST /api/credentials. nil: nobody does.
	Authority *credential.Authority
	// Audit notes requests that change something, and those that are refused (remote.Listener.Audit). The name of an unknown caller has no kind. nil: nothing is noted.
	Audit   func(by credential.Name, what string, err error)
	Address string                 // of the listener, for people
	Version string                 // of edl
	Metrics []prometheus.Collector // beside those of this package; registered once
	Debug   bool                   // admins may read profiles of the process
	Log     *slog.Logger           // nil: none
}

// Server serves the pages of one listener.
type Server struct {
	cfg     Config
	hub     *hub
	handler http.Handler
	streams chan struct{} // has a value for each stream that is open
}

// Bounds of what callers may hold.
const (
	maxConnections = 1024
	maxStreams     = 64
	maxHeader      = 16 << 10
	headerTime     = 5 * time.Second
	idleTime       = 30 * time.Second
	writeTime      = 10 * time.Second // for one message of a stream, and for any other answer
	profileTime    = 2 * time.Minute  // for a profile
)

// New returns a server. It does nothing until Serve.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, hub: newHub(cfg.Source, cfg.Log), streams: make(chan struct{}, maxStreams)}
	s.handler = s.guarded()
	return s
}

// Serve serves connections of l until ctx ends, and closes l. Without a TLS configuration it speaks HTTP in clear text, which is for loopback addresses only.
func (s *Server) Serve(ctx context.Context, l net.Listener, secret *tls.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l = netutil.LimitListener(l, maxConnections)
	if secret != nil {
		l = tls.NewListener(l, secret)
	}
	server := &http.Server{Handler: s.handler, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: log.New(io.Discard, "", 0)}
	var group sync.WaitGroup
	group.Go(func() { s.hub.run(ctx) })
	group.Go(func() {
		<-ctx.Done()
		_ = server.Close() // streams never end by themselves
	})
	err := server.Serve(l)
	cancel()
	group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fault.Wrap(fault.Unavailable, "web "+l.Addr().String(), err)
}

// Secret is the TLS configuration of a server that shows a certificate of the listener's authority: browsers and Prometheus check it against that authority, and
// the name credential.Host.
func Secret(a *credential.Authority) (*tls.Config, error) {
	own, err := a.IssueRenewing(credential.Name{Kind: credential.Listener}, certificateLife)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: own.Certificate}, nil
}

// certificateLife is how long a certificate of a server is valid. Others take its place in time.
const certificateLife = 24 * time.Hour
