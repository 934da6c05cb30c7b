package edlcmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/issuer"
	"github.com/edl-go/edl/remote/web"
)

// webFlags are the flags of "edl listen" for its pages and metrics.
type webFlags struct {
	address          string
	debug            bool
	certificate, key string
	issuer           issuer.Config
	roles            []string               // of groups of the issuer, as GROUP=ROLE
	others           credential.Issuer      // of open; nil: none
	metrics          []prometheus.Collector // beside those of the pages
}

// anyPort is where pages are served that nobody has named an address for.
const anyPort = "127.0.0.1:0"

// noArguments refuses arguments. An address that follows --web without "=" is no value of the flag: the error says how to give it.
func (f *webFlags) noArguments(cmd *cobra.Command, args []string) error {
	if err := addressAfter("--web", f.address == anyPort, args); err != nil {
		return err
	}
	return cobra.NoArgs(cmd, args)
}

func (f *webFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "web", "", "serve the dashboard and /metrics on `HOST:PORT` (alone: a free port of the loopback interface); beyond loopback with TLS")
	flags.Lookup("web").NoOptDefVal = anyPort
	flags.StringVar(&f.certificate, "web-cert", "", "with --web: show the certificate in this `FILE`, and not one of the listener's authority")
	flags.StringVar(&f.key, "web-key", "", "the `FILE` with the key of --web-cert")
	flags.StringVar(&f.issuer.URL, "oidc-issuer", "", "take tokens of the OpenID Connect issuer at `URL`: for calls in place of certificates, and for the pages of --web")
	flags.StringVar(&f.issuer.Audience, "oidc-audience", "", "the `AUDIENCE` that these tokens are for: what the issuer calls this listener")
	flags.StringArrayVar(&f.roles, "oidc-role", nil, "`GROUP=ROLE`: users of this group of the issuer are viewer, submitter or admin, of all namespaces or of one (ROLE@NAMESPACE); * is each group; may be repeated")
	flags.StringVar(&f.issuer.UserClaim, "oidc-user-claim", "sub", "the `CLAIM` of tokens that names the user")
	flags.StringVar(&f.issuer.GroupsClaim, "oidc-groups-claim", "groups", "the `CLAIM` of tokens that has the groups of the user")
	flags.BoolVar(&f.debug, "web-debug", false, "with --web: let admins read profiles of the process, at /debug/pprof/")
}

// check refuses flags that do not go together.
func (f *webFlags) check(cmd *cobra.Command) error {
	if f.address == "" {
		if err := refuseIdle(cmd.Flags(), []string{"web-cert", "web-key", "web-debug"}, "a listener without pages", "--web"); err != nil {
			return err
		}
	}
	if (f.certificate == "") != (f.key == "") {
		return fault.E(fault.InvalidArgument, fault.At("--web-cert"), fault.Got("one of a certificate and its key"), fault.Want("both"))
	}
	if f.issuer.URL == "" {
		if err := refuseIdle(cmd.Flags(), issuerFlags[1:], "no issuer", "--oidc-issuer URL"); err != nil {
			return err
		}
	}
	f.issuer.Roles = map[string][]string{}
	for _, text := range f.roles {
		i := strings.LastIndex(text, "=")
		if i < 1 {
			return fault.E(fault.InvalidArgument, fault.At("--oidc-role"), fault.Got(fault.Quote(text)), fault.Want("GROUP=ROLE, such as ml=viewer"))
		}
		f.issuer.Roles[text[:i]] = append(f.issuer.Roles[text[:i]], text[i+1:])
	}
	if f.address == "" {
		return nil
	}
	return checkAddress("--web", f.address)
}

// issuerFlags are the flags about tokens of an issuer.
var issuerFlags = []string{"oidc-issuer", "oidc-audience", "oidc-role", "oidc-user-claim", "oidc-groups-claim"}

// open asks the issuer that the flags name, if there is one, for what it publishes.
func (f *webFlags) open(ctx context.Context) error {
	if f.issuer.URL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	i, err := issuer.Open(ctx, f.issuer)
	if err == nil {
		f.others = i
	}
	return err
}

// secret is the TLS configuration of the pages; nil at a loopback address, unless there is a certificate.
func (f *webFlags) secret(a *credential.Authority) (*tls.Config, error) {
	if f.certificate != "" {
		files := &pairFiles{certificate: f.certificate, key: f.key}
		if err := files.load(); err != nil {
			return nil, fault.File(fault.InvalidArgument, f.certificate, err)
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.get}, nil
	}
	if remote.Loopback(f.address) {
		return nil, nil
	}
	return web.Secret(a)
}

// serve serves the pages of a listener, prints where they are, and returns what ends them.
func (f *webFlags) serve(ctx context.Context, c *console, l *remote.Listener, tokens *credential.Tokens, quiet bool) (stop func(), err error) {
	client, authority, err := attachAsViewer(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			client.Close()
		}
	}()
	secret, err := f.secret(authority)
	if err != nil {
		return nil, err
	}
	port, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.address)
	if err != nil {
		return nil, portFault("--web", f.address, err)
	}
	cfg := web.Config{Source: web.Of(client), Tokens: tokens, Issuer: f.others, Authority: authority, Audit: l.Audit, Address: l.Address(), Version: c.currentVersion().Version, Debug: f.debug, Metrics: f.metrics}
	if !quiet {
		cfg.Log = slog.New(slog.NewTextHandler(c.err, nil))
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- web.New(cfg).Serve(serving, port, secret) }()
	stop = func() {
		cancel()
		<-ended
		client.Close()
	}
	scheme := "http"
	if secret != nil {
		scheme = "https"
	}
	_, err = fmt.Fprintf(c.out, "dashboard at %s://%s/#token=%s\n", scheme, port.Addr(), tokens.Lend(credential.UserName(), credential.Viewer))
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// webUser is the name under which the pages of a listener ask it.
const webUser = "web"

// tokenFile is where the tokens of a listener with a data folder are; empty: it has none.
func tokenFile(data string) string {
	if data == "" {
		return ""
	}
	return filepath.Join(data, credential.TokenFile)
}
