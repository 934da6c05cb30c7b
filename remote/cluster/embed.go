package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/tlsutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// Ticks of the embedded server. It has no peers, so it may elect itself at once; with etcd's defaults that takes almost a second.
const (
	tickMilliseconds     = 10
	electionMilliseconds = 100
)

// quota is how large the store of an embedded server may become.
const quota = 8 << 30

// Embedded is an etcd server in this process, for a cluster on one machine. Its data is not synced to disk, because nobody needs it after this
// process.
type Embedded struct {
	server *embed.Etcd
	broken *breakage
	cancel context.CancelFunc
	once   sync.Once
}

// Embed starts a server on free ports of the loopback interface, with its files in dir, which must be empty or absent. It returns when the server
// takes requests. An etcd that cannot go on, as on a full disk, does not end this process: Embed returns why, or, once it has returned, Broken and the log
// say so, and all calls to the server fail.
//
// With own, clients must show certificates of the same authority, and what they reach follows from whom these name: users.go. nil: the server answers everybody
// who reaches it.
func Embed(ctx context.Context, dir string, log *slog.Logger, own *credential.Credentials) (*Embedded, error) {
	return start(ctx, "127.0.0.1", dir, log, own, false)
}

// EmbedOn is Embed with a server that listens for clients on a host of this machine, such as the address of a pod, so that roles on other machines reach it. It must
// have own.
func EmbedOn(ctx context.Context, host, dir string, log *slog.Logger, own *credential.Credentials) (*Embedded, error) {
	if own == nil {
		return nil, fault.E(fault.InvalidArgument, fault.At(where(dir)), fault.Got("an etcd on "+host+" that answers everybody"), fault.Want("credentials of an authority"))
	}
	return start(ctx, host, dir, log, own, false)
}

func start(ctx context.Context, host, dir string, log *slog.Logger, own *credential.Credentials, synced bool) (*Embedded, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.E(contextKind(ctx), fault.At("embedded etcd"), fault.Cause(context.Cause(ctx)))
	}
	if err := enoughFiles(); err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Dir = dir
	c.TickMs, c.ElectionMs = tickMilliseconds, electionMilliseconds
	c.UnsafeNoFsync = !synced
	// The state of a coordinator changes many times a second. Nobody reads old revisions, and they would fill the store.
	c.AutoCompactionMode, c.AutoCompactionRetention, c.QuotaBackendBytes = embed.CompactorModePeriodic, "1m", quota
	c.EnableGRPCGateway = false
	// The server listens on ports that the system chooses. With no peers nobody reads what it advertises.
	free, clients := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}, []url.URL{{Scheme: "http", Host: net.JoinHostPort(host, "0")}}
	c.ListenPeerUrls, c.AdvertisePeerUrls, c.ListenClientUrls, c.AdvertiseClientUrls = free, free, clients, clients
	if own != nil {
		keys, err := writeKeys(dir+"-keys", own)
		if err != nil {
			return nil, err
		}
		free[0].Scheme, clients[0].Scheme, c.TlsMinVersion = "https", "https", string(tlsutil.TLSVersion13) // it takes the place of MinVersion of the keys
		c.ClientTLSInfo, c.PeerTLSInfo = keys, keys
	}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	closing, cancel := context.WithCancel(context.Background())
	broken := &breakage{dir: dir, done: make(chan struct{}), stop: cancel, log: log}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(closing, log).WithOptions(zap.WithFatalHook(broken), zap.WithPanicHook(broken)))
	c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(endWith(closing))}

	started := make(chan *Embedded, 1)
	go func() { // ends with the start, or with the goroutine of etcd that breaks
		server, err := embed.StartEtcd(c)
		if err != nil {
			broken.enter(err)
			return
		}
		started <- &Embedded{server: server, broken: broken, cancel: cancel}
	}()
	var e *Embedded
	select {
	case e = <-started:
	case <-broken.done:
		return nil, broken.err
	}
	var err error
	select {
	case <-e.server.Server.ReadyNotify():
		broken.running.Store(true)
		if own == nil {
			return e, nil
		}
		if err = guard(ctx, e.server.Server); err == nil {
			return e, nil
		}
	case err = <-e.server.Err():
	case <-broken.done:
		err = broken.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = e.Close()
	kind := fault.Unavailable
	if ctx.Err() != nil {
		kind = contextKind(ctx)
	}
	return nil, fault.Wrap(kind, where(dir), err)
}

// writeKeys writes credentials as etcd reads them: as files in a folder that only this user reads.
func writeKeys(dir string, own *credential.Credentials) (transport.TLSInfo, error) {
	info := transport.TLSInfo{CertFile: filepath.Join(dir, "certificate.pem"), KeyFile: filepath.Join(dir, "key.pem"), TrustedCAFile: filepath.Join(dir, "authority.pem"),
		ClientCertAuth: true, MinVersion: tls.VersionTLS13, SkipClientSANVerify: true, ServerName: credential.Host}
	certificate, key, authority := own.Parts()
	err := os.MkdirAll(dir, 0o700)
	for file, b := range map[string][]byte{info.CertFile: certificate, info.KeyFile: key, info.TrustedCAFile: authority} {
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
	}
	return info, fault.Wrap(fault.Unavailable, where(dir), err)
}

// Endpoints returns what Config.Endpoints needs.
func (e *Embedded) Endpoints() []string {
	scheme := ""
	if !e.server.Config().ClientTLSInfo.Empty() {
		scheme = "https://"
	}
	var endpoints []string
	for _, l := range e.server.Clients {
		endpoints = append(endpoints, scheme+l.Addr().String())
	}
	return endpoints
}

// Broken is closed when the server cannot go on. It will not answer again, and nobody else has its data.
func (e *Embedded) Broken() <-chan struct{} { return e.broken.done }

// Cause says why the server cannot go on; nil while it is not Broken.
func (e *Embedded) Cause() error {
	select {
	case <-e.broken.done:
		return e.broken.err
	default:
		return nil
	}
}

// Close ends the server; its files stay. Registries should be closed first: their calls fail when the server ends.
func (e *Embedded) Close() error {
	e.once.Do(func() {
		e.cancel()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			e.server.Close()
		}()
		select {
		case <-closed:
		case <-e.broken.done: // it may wait for ever for its goroutine that is gone
		}
	})
	return nil
}

// endWith ends streams with ctx. Watches and renewals of leases last as long as their client, and the server would wait several seconds for them.
func endWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		both, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return handle(srv, &endingStream{ServerStream: stream, ctx: both})
	}
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endingStream) Context() context.Context { return s.ctx }

// zapTo returns the logger for etcd. Errors of etcd become warnings, because EDL itself reports what it cannot do. Warnings become debug messages,
// because there are many on a busy machine. The rest is left out, and so is everything after ended: servers complain when they are closed. A new
// server calls it an error that its storage has no entry yet; it tries again, so that message is a debug message, too.
func zapTo(ended context.Context, log *slog.Logger) *zap.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return zap.New(zapCore{log: log.With("from", "etcd"), ended: ended})
}

// zapCore is a zapcore.Core over slog.
type zapCore struct {
	log   *slog.Logger
	ended context.Context
}

// storageVersionMessage is the message of a new server whose storage has no entry yet.
const storageVersionMessage = "failed to update storage version"

func levelOf(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (c zapCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && c.ended.Err() == nil && c.log.Enabled(context.Background(), levelOf(l))
}

func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{log: slog.New(c.log.Handler().WithAttrs(attributes(fields))), ended: c.ended}
}

func (c zapCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := levelOf(e.Level)
	if e.Message == storageVersionMessage {
		level = slog.LevelDebug
	}
	c.log.LogAttrs(context.Background(), level, e.Message, attributes(fields)...)
	return nil
}

func (c zapCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	values := zapcore.NewMapObjectEncoder()
	attrs := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		f.AddTo(values)
		attrs = append(attrs, slog.Any(f.Key, values.Fields[f.Key]))
	}
	return attrs
}
