package edlcmd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// Bounds of what is read of a token, and of an answer.
const (
	maxLoginToken  = 16 << 10
	maxLoginAnswer = 64 << 10
)

func newLogin(c *console) *cobra.Command {
	var file, token, ca string
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Get credentials for a token, with which you may call a listener",
		Long: `Show a token to the pages of a listener at URL, and write the credentials that they give for it into a file: for the user and the role of the token, for 8
hours, and no longer than the token counts. The token is one of "edl token create", or of the OpenID Connect issuer that the listener was told of. Name the file in the environment variable
EDL_CREDENTIALS. Get others in the same way when they expire; the file is replaced.`,
		Example: "  edl login https://edl.example.org:7165 --token token.txt -o me.pem",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVarP(&file, "out", "o", "", "write `FILE`, in place of credentials that it has")
	cmd.Flags().StringVar(&token, "token", "-", "read the token from `FILE`; - is the standard input")
	cmd.Flags().StringVar(&ca, "ca", "", "trust the certificates in `FILE`, such as that of the listener's authority, and not those of this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file == "" {
			return fault.E(fault.InvalidArgument, fault.At("login"), fault.Got("no file"), fault.Want("-o FILE"))
		}
		at, err := loginURL(args[0])
		if err != nil {
			return err
		}
		trust, err := trusted(ca)
		if err != nil {
			return err
		}
		secret, err := readToken(c, token)
		if err != nil {
			return err
		}
		q, err := http.NewRequestWithContext(cmd.Context(), http.MethodPost, at.JoinPath("api", "credentials").String(), nil)
		if err != nil {
			return fault.Wrap(fault.InvalidArgument, args[0], err)
		}
		q.Header.Set("Authorization", "Bearer "+secret)
		b, err := askPages(q, trust)
		if err != nil {
			return err
		}
		own, err := credential.Parse(b)
		if err != nil {
			return fault.E(fault.Corrupt, fault.At(args[0]), fault.Got("an answer without credentials"), fault.Want("a listener with pages"), fault.Cause(err))
		}
		if err := replaceSecret(file, b); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "%s: %s until %s\n", file, own, own.Expires().Format(time.DateTime))
		return err
	}
	return cmd
}

// loginURL is where pages are. A token goes to nobody who can be read on the way.
func loginURL(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	if err == nil && at.Host != "" && at.User == nil && at.RawQuery == "" {
		ip := net.ParseIP(at.Hostname())
		if at.Scheme == "https" || at.Scheme == "http" && (at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
			return &url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}, nil
		}
	}
	return nil, fault.E(fault.InvalidArgument, fault.At(fault.Quote(text)), fault.Got("no URL of pages"), fault.Want("https://HOST:PORT, or http at a loopback address"))
}

// trusted is how the server shows who it is: by a certificate that this machine trusts, or with a file by one of these, for its host or for the name of every listener.
func trusted(file string) (*tls.Config, error) {
	secret := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return secret, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fileFault(file, err)
	}
	if secret.RootCAs = x509.NewCertPool(); !secret.RootCAs.AppendCertsFromPEM(b) {
		return nil, fault.E(fault.InvalidArgument, fault.At(file), fault.Got("no certificate"), fault.Want("PEM"))
	}
	secret.ServerName = credential.Host
	return secret, nil
}

// readToken reads a token.
func readToken(c *console, file string) (string, error) {
	from := c.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fileFault(file, err)
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxLoginToken))
	if err != nil {
		return "", fileFault(file, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return "", fault.E(fault.InvalidArgument, fault.At("--token"), fault.Got("no token"), fault.Want("one line"))
	}
	return token, nil
}

// askPages sends a request, and returns the answer. It follows no redirection, which would take the token along.
func askPages(q *http.Request, trust *tls.Config) ([]byte, error) {
	client := &http.Client{Timeout: callTime, Transport: &http.Transport{TLSClientConfig: trust},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	a, err := client.Do(q)
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.At(q.URL.Host), fault.Cause(err), fault.Hint("look at the address, and at --ca"))
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, maxLoginAnswer))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, q.URL.Host, err)
	}
	said := strings.TrimSpace(string(b))
	switch a.StatusCode {
	case http.StatusOK:
		return b, nil
	case http.StatusUnauthorized:
		return nil, fault.E(fault.Denied, fault.At(q.URL.Host), fault.Got(said))
	}
	return nil, fault.E(fault.Unavailable, fault.At(q.URL.Host), fault.Gotf("answer %d: %.200q", a.StatusCode, said), fault.Want("credentials"), fault.Hint("is that the address of the pages of a listener?"))
}

// replaceSecret writes a file that only its user may read, whole or not at all.
func replaceSecret(file string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // of mode 0600
	if err != nil {
		return fileFault(file, err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fileFault(file, err)
	}
	return nil
}
