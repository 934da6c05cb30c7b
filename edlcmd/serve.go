package edlcmd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/serving"
	following "github.com/edl-go/edl/serving/follow"
	"github.com/edl-go/edl/serving/kserve"
)

// leastTable is how many bytes a table has at least that lies in a file.
const leastTable = 64 << 20

// defaultServing is where a model is served that nobody has named an address for.
const defaultServing = "127.0.0.1:8500"

// serveFlags are the flags of "edl serve".
type serveFlags struct {
	address, calls                       string
	name, params, schema                 string
	fetch                                []string
	follow, tables                       string
	workers, maxBatch, maxQueue, maxConn int
	maxWait, reload, drain               time.Duration
	maxRequest                           int64
	certificate, key, clients            string
	insecure, quiet                      bool
}

func newServe(c *console) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve MODEL",
		Short: "Answer requests with a trained model, over HTTP and gRPC",
		Long: `Answer requests for predictions in the KServe v2 inference protocol until interrupted. MODEL is a directory that "edl export" or Fluid has
written, or a program file with --params or --follow. When the directory is replaced, the model is read again, and no request fails for it. Requests that wait share runs of the model.
GET /metrics is for Prometheus.

With --follow the parameters are those of the newest checkpoint of a job, while it trains. Of each new checkpoint, what has changed is read.

Tables of 64 MiB and more lie in files, from which the system brings rows to memory as they are looked up. So they may be larger than memory.`,
		Example: `  edl serve served
  edl serve served --addr 0.0.0.0:8500 --tls-cert cert.pem --tls-key key.pem --grpc 0.0.0.0:8501
  edl serve program.pb --params model --fetch prediction
  edl serve served --follow s3://models/clicks`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return serveModel(cmd.Context(), c, f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.address, "addr", defaultServing, "`HOST:PORT` of HTTP; port 0 chooses a free one")
	flags.StringVar(&f.calls, "grpc", "", "`HOST:PORT` of gRPC (default: no gRPC)")
	flags.StringVar(&f.name, "name", "", "the `NAME` of the model in requests (default: the last part of the path of MODEL)")
	flags.StringVar(&f.params, "params", "", "the parameters are in `PATH`, a directory or a file")
	flags.StringVar(&f.follow, "follow", "", "take the parameters of the newest checkpoint of `STORE[@JOB]`, as a job writes them; until there is one, those of MODEL")
	flags.StringVar(&f.tables, "tables", "", "keep tables of 64 MiB and more in files in `DIR`, which needs twice their size (default: the directory for temporary files)")
	flags.StringSliceVar(&f.fetch, "fetch", nil, "compute the variables `NAME,...` (default: what the program's fetch ops name)")
	flags.StringVar(&f.schema, "schema", "", "take rows of the table that the model was trained on, too, and encode them by the schema `FILE` of \"edl data table\" (default: that beside MODEL)")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "run the model `N` times at once, each on one core (default: the cores of the machine)")
	flags.IntVar(&f.maxBatch, "max-batch", 64, "compute at most `N` rows, or sequences, in one run; requests with more run in pieces")
	flags.DurationVar(&f.maxWait, "max-wait", 0, "let a request wait for `TIME`, such as 1ms, for others to share its run")
	flags.IntVar(&f.maxQueue, "max-queue", 1024, "refuse a request if `N` others wait already")
	flags.Int64Var(&f.maxRequest, "max-request", 4096, "refuse requests of more than `N` KiB")
	flags.IntVar(&f.maxConn, "max-connections", 1024, "let connections beyond `N` wait")
	flags.DurationVar(&f.reload, "reload", time.Second, "look each `TIME` whether the files of MODEL have changed; 0: never")
	flags.DurationVar(&f.drain, "drain", 15*time.Second, "when terminated, let requests run on for at most `TIME`")
	flags.StringVar(&f.certificate, "tls-cert", "", "speak TLS, and show the certificate in `FILE`")
	flags.StringVar(&f.key, "tls-key", "", "the `FILE` with the key of --tls-cert")
	flags.StringVar(&f.clients, "client-ca", "", "with --tls-cert: serve only clients that show a certificate of the authority in `FILE`")
	flags.BoolVar(&f.insecure, "insecure", false, "serve beyond the loopback interface in clear text")
	flags.BoolVar(&f.quiet, "quiet", false, "do not log")
	flags.Lookup("workers").DefValue = "0" // prints no default
	return cmd
}

// check refuses addresses that are wrong, or that others could listen to.
func (f *serveFlags) check() error {
	for flag, address := range map[string]string{"--addr": f.address, "--grpc": f.calls} {
		if address == "" && flag == "--grpc" {
			continue
		}
		if err := checkAddress(flag, address); err != nil {
			return err
		}
		if !remote.Loopback(address) && f.certificate == "" && !f.insecure {
			return fault.E(fault.InvalidArgument, fault.At(flag+" "+address), fault.Got("clear text beyond the loopback interface"),
				fault.Want("--tls-cert and --tls-key, or --insecure behind a proxy that speaks TLS"))
		}
	}
	if (f.certificate == "") != (f.key == "") {
		return fault.E(fault.InvalidArgument, fault.At("--tls-cert"), fault.Got("one of a certificate and its key"), fault.Want("--tls-cert and --tls-key"))
	}
	if f.clients != "" && f.certificate == "" {
		return fault.E(fault.InvalidArgument, fault.At("--client-ca"), fault.Got("no TLS"), fault.Want("--tls-cert and --tls-key"))
	}
	if f.tables != "" {
		if info, err := os.Stat(f.tables); err != nil || !info.IsDir() {
			return fault.E(fault.InvalidArgument, fault.At("--tables "+f.tables), fault.Got("no directory"), fault.Want("one that is there, with room for twice the tables"))
		}
	}
	if f.follow != "" && f.params != "" {
		return fault.E(fault.InvalidArgument, fault.At("--follow"), fault.Got("--params, too"), fault.Want("one of the two"))
	}
	if f.follow != "" && f.reload <= 0 {
		return fault.E(fault.InvalidArgument, fault.At("--follow"), fault.Gotf("--reload %v", f.reload), fault.Want("a time above 0, after which it looks for a new checkpoint"))
	}
	if f.maxRequest < 1 || f.maxRequest > 1<<20 {
		return fault.E(fault.InvalidArgument, fault.At("--max-request"), fault.Gotf("%d", f.maxRequest), fault.Want("1 to 1048576 KiB"))
	}
	if f.maxConn < 1 {
		return tooFew("--max-connections", int64(f.maxConn))
	}
	if f.drain <= 0 {
		return fault.E(fault.InvalidArgument, fault.At("--drain"), fault.Got(f.drain.String()), fault.Want("a time above 0"))
	}
	return nil
}

// secret is the TLS configuration; nil for clear text.
func (f *serveFlags) secret() (*tls.Config, error) {
	if f.certificate == "" {
		return nil, nil
	}
	pair := &pairFiles{certificate: f.certificate, key: f.key}
	if err := pair.load(); err != nil {
		return nil, fault.E(fault.InvalidArgument, fault.At("--tls-cert "+f.certificate), fault.Cause(err), fault.Want("a certificate in --tls-cert and its key in --tls-key, both as PEM"))
	}
	secret := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	if f.clients != "" {
		b, err := os.ReadFile(f.clients)
		if err != nil {
			return nil, fault.File(fault.InvalidArgument, f.clients, err)
		}
		secret.ClientCAs, secret.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !secret.ClientCAs.AppendCertsFromPEM(b) {
			return nil, fault.E(fault.InvalidArgument, fault.At(f.clients), fault.Got("no certificate"), fault.Want("that of an authority, as PEM"))
		}
	}
	return secret, nil
}

// nameOf is the name of a model in requests that nobody has named.
func nameOf(path string) string {
	if u, err := url.Parse(path); err == nil && bucket.IsURL(path) {
		path = cmp.Or(strings.Trim(u.Path, "/"), u.Host) // without what the driver is told
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

// serveModel prints the addresses once they are open, and returns when ctx has ended and every request with it.
func serveModel(ctx context.Context, c *console, f *serveFlags, path string) error {
	if err := f.check(); err != nil {
		return err
	}
	secret, err := f.secret()
	if err != nil {
		return err
	}
	if f.name == "" {
		f.name = nameOf(path)
	}
	for _, place := range []*string{&path, &f.params} {
		local, done, err := localModel(ctx, *place)
		if err != nil {
			return err
		}
		defer done()
		*place = local
	}
	if strings.Contains(f.name, "/") {
		return fault.E(fault.InvalidArgument, fault.At("--name"), fault.Got(fault.Quote(f.name)), fault.Want("a name without /"))
	}
	config := kserve.Config{Name: f.name, Version: c.currentVersion().Version, MaxRequest: f.maxRequest << 10, MaxConnections: f.maxConn, DrainTime: f.drain}
	if f.schema == "" {
		f.schema = schemaIn(path)
	}
	if f.schema != "" {
		config.Rows = func() (*schema.Schema, error) { return schema.Load(f.schema) }
	}
	more := []serving.Option{serving.WithTables(f.tables, leastTable)}
	if f.follow != "" {
		source, err := following.Checkpoints(ctx, f.follow)
		if err != nil {
			return err
		}
		defer source.Close()
		more = append(more, serving.WithSource(source))
	}
	server, err := kserve.New(config, func(options ...serving.Option) (*serving.Model, error) {
		options = append(append(options, more...), serving.WithWorkers(f.workers), serving.WithMaxBatch(f.maxBatch), serving.WithMaxWait(f.maxWait), serving.WithMaxQueue(f.maxQueue),
			serving.WithReload(f.reload), serving.WithParams(f.params), serving.WithFetch(f.fetch...))
		if !f.quiet {
			options = append(options, serving.WithLogger(slog.New(slog.NewTextHandler(c.err, nil))))
		}
		return serving.Open(path, options...)
	})
	if err != nil {
		return err
	}
	plain, calls, err := f.listen(ctx, c, secret)
	if err != nil {
		return errors.Join(err, server.Model().Close())
	}
	if err := server.Serve(ctx, plain, calls, secret); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// portFault is the fault of an address that a flag names and nothing can listen on.
func portFault(flag, address string, err error) error {
	return fault.E(fault.Unavailable, fault.At(flag+" "+address), fault.Cause(err), fault.Hint("name another address or port, or end what listens there; port 0 chooses a free one"))
}

// listen opens the addresses and prints them.
func (f *serveFlags) listen(ctx context.Context, c *console, secret *tls.Config) (plain, calls net.Listener, err error) {
	defer func() {
		for _, l := range []net.Listener{plain, calls} {
			if err != nil && l != nil {
				_ = l.Close()
			}
		}
	}()
	open := func(flag, address string) (net.Listener, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, portFault(flag, address, err)
		}
		return l, nil
	}
	if plain, err = open("--addr", f.address); err != nil {
		return nil, nil, err
	}
	if f.calls != "" {
		if calls, err = open("--grpc", f.calls); err != nil {
			return plain, nil, err
		}
	}
	scheme := "http"
	if secret != nil {
		scheme = "https"
	}
	if calls != nil {
		if _, err = fmt.Fprintf(c.out, "serving %s over gRPC at %s\n", f.name, calls.Addr()); err != nil {
			return plain, calls, err
		}
	}
	_, err = fmt.Fprintf(c.out, "serving %s at %s://%s/v2/models/%s\n", f.name, scheme, plain.Addr(), f.name)
	return plain, calls, err
}
