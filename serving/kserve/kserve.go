// Package kserve serves a model of package serving in the KServe v2 inference protocol, over HTTP and gRPC.
//
// Its files in reading order:
//
//   - kserve.go: Server, its bounds, and its life
//   - http.go: routes, bodies and answers; json.go, request.go and response.go: requests and responses as JSON; rows.go: rows of a table as requests
//   - grpc.go: the same as protobuf; datatype.go: what both have of tensors
//   - metrics.go: what Prometheus reads
//
// Clients are not trusted. What they send is checked against bounds before memory is taken for it.
package kserve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/inference"
	"github.com/edl-go/edl/serving"
)

// Config says what a Server serves, and how much clients may hold. Zero bounds are the defaults.
type Config struct {
	Name    string // of the model, in paths and requests
	Version string // of edl, for people
	// Rows reads the schema of the table that the model was trained on: at the start, and when the model was read again. With it the server also takes rows of that table, at
	// /v2/models/NAME/rows; nil: it does not.
	Rows func() (*schema.Schema, error)
	// MaxRequest bounds the bytes of one request; 4 MiB by default. Requests of HTTP that are in memory have at most 64 times as many together,
	// and there are at most 256 calls of gRPC; others are refused.
	MaxRequest int64
	// MaxConnections bounds the connections of each protocol; 1024 by default. Further ones wait.
	MaxConnections int
	// DrainTime bounds how long requests run on when the server ends; 15 seconds by default.
	DrainTime time.Duration
}

// Defaults and other bounds.
const (
	defaultMaxRequest     = 4 << 20
	defaultMaxConnections = 1024
	defaultDrainTime      = 15 * time.Second
	requestsInMemory      = 64 // of MaxRequest bytes
	maxHeader             = 16 << 10
	headerTime            = 5 * time.Second
	requestTime           = 30 * time.Second // for a body to arrive
	idleTime              = 2 * time.Minute
)

// Server serves one model.
type Server struct {
	cfg     Config
	model   *serving.Model
	rows    *rowReaders // nil: rows are not taken
	metrics *metrics
	bytes   atomic.Int64 // of requests that are in memory
	calls   atomic.Int64 // gRPC calls that have begun
	ready   atomic.Bool
}

// New returns a server. open opens the model; it is given the options by which the server measures it. Serve closes the model.
func New(cfg Config, open func(...serving.Option) (*serving.Model, error)) (*Server, error) {
	if cfg.MaxRequest == 0 {
		cfg.MaxRequest = defaultMaxRequest
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = defaultMaxConnections
	}
	if cfg.DrainTime == 0 {
		cfg.DrainTime = defaultDrainTime
	}
	if cfg.MaxRequest < 1 || cfg.MaxRequest > 1<<30 || cfg.MaxConnections < 1 || cfg.DrainTime < 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("requests of %d bytes, %d connections, %v to end", cfg.MaxRequest, cfg.MaxConnections, cfg.DrainTime),
			fault.Want("1 to 1073741824 bytes, at least one connection, and a time"))
	}
	s := &Server{cfg: cfg}
	s.metrics = newMetrics(s)
	var err error
	if s.model, err = open(serving.WithObserver(s.metrics.ran), serving.WithReloadObserver(s.metrics.reloaded)); err != nil || cfg.Rows == nil {
		return s, err
	}
	s.rows = &rowReaders{read: cfg.Rows}
	if _, err = s.rows.of(s.model); err != nil {
		return nil, errors.Join(err, s.model.Close())
	}
	return s, nil
}

// Model is what the server serves.
func (s *Server) Model() *serving.Model { return s.model }

// Serve serves HTTP on one listener and gRPC on another, either of which may be nil, until ctx ends. Then it is not ready any more, takes no further connection,
// lets requests end for DrainTime, and closes the listeners and the model. Without a TLS configuration both speak in clear text.
func (s *Server) Serve(ctx context.Context, plain, calls net.Listener, secret *tls.Config) error {
	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s.ready.Store(true)
	var group sync.WaitGroup
	if plain != nil {
		group.Go(func() { fail(s.serveHTTP(serving, plain, secret)) })
	}
	if calls != nil {
		group.Go(func() { fail(s.serveCalls(serving, calls, secret)) })
	}
	<-serving.Done()
	s.ready.Store(false)
	group.Wait()
	err := s.model.Close()
	if cause := context.Cause(serving); ctx.Err() == nil {
		err = errors.Join(cause, err)
	}
	return err
}

func (s *Server) serveHTTP(ctx context.Context, l net.Listener, secret *tls.Config) error {
	at := l.Addr().String()
	l = netutil.LimitListener(l, s.cfg.MaxConnections)
	if secret != nil {
		secret = secret.Clone()
		secret.NextProtos = []string{"http/1.1"}
		l = tls.NewListener(l, secret)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fault.Wrap(fault.Unavailable, "http "+at, err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTime)
	defer cancel()
	if server.Shutdown(draining) != nil {
		_ = server.Close() // of what is left
	}
	<-ended
	return nil
}

func (s *Server) serveCalls(ctx context.Context, l net.Listener, secret *tls.Config) error {
	at := l.Addr().String()
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(int(s.cfg.MaxRequest)), grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(requestsInMemory),
		grpc.ConnectionTimeout(headerTime), grpc.InTapHandle(s.admit), grpc.StatsHandler(counter{s})}
	if secret != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secret)))
	}
	server := grpc.NewServer(options...)
	inference.RegisterGRPCInferenceServiceServer(server, &service{server: s})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(l, s.cfg.MaxConnections)) }()
	select {
	case err := <-ended:
		return fault.Wrap(fault.Unavailable, "grpc "+at, err)
	case <-ctx.Done():
	}
	late := time.AfterFunc(s.cfg.DrainTime, server.Stop)
	defer late.Stop()
	server.GracefulStop()
	<-ended
	return nil
}

// hold counts bytes of a request that is to come into memory. It reports false if there would be too many; else the caller calls drop with the same number.
func (s *Server) hold(bytes int64) bool {
	if s.bytes.Add(bytes) <= requestsInMemory*s.cfg.MaxRequest {
		return true
	}
	s.drop(bytes)
	return false
}

func (s *Server) drop(bytes int64) { s.bytes.Add(-bytes) }

// errFull is the error of a request for which hold reports false.
func errFull() error {
	return fault.E(fault.Unavailable, fault.Got("requests that fill the memory for them"), fault.Want("less at the same time"), fault.Cause(serving.ErrBusy))
}

// version is the present version of the model.
func (s *Server) version() string {
	_, times := s.model.Loaded()
	return strconv.Itoa(times)
}

// checkModel checks the name and the version of a model in a request. An empty version is any.
func (s *Server) checkModel(name, version string) error {
	if name != s.cfg.Name {
		return fault.E(fault.NotFound, fault.Got("model "+fault.Quote(name)), fault.Want(fault.Quote(s.cfg.Name)))
	}
	if version != "" && version != s.version() {
		return fault.E(fault.NotFound, fault.Got("version "+fault.Quote(version)+" of model "+fault.Quote(name)), fault.Want(s.version()))
	}
	return nil
}

// What the server says of itself.
const (
	serverName = "edl"
	platform   = "edl_fluid"
)
