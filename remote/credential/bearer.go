package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/edl-go/edl/fault"
)

// An Issuer checks tokens that it did not make: package issuer has one. It is safe for concurrent use.
type Issuer interface {
	// Check returns whose token it is. A token that does not count gives a fault of kind fault.Denied that does not quote it.
	Check(ctx context.Context, token string) (Name, error)
}

// Bearers are whose tokens count in place of a certificate: for pages, and for calls of a listener that has an issuer.
type Bearers struct {
	Tokens *Tokens // of the listener
	Issuer Issuer  // nil: none
}

// Of is whose token a header "Authorization" shows.
func (b Bearers) Of(ctx context.Context, authorization string) (Name, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	token = strings.TrimSpace(token)
	if b.Issuer != nil && strings.Count(token, ".") == 2 { // as a JWT has, and no token of the listener
		return b.Issuer.Check(ctx, token)
	}
	return b.Tokens.Check(token)
}

// What names files in the environment of a client that shows a token and no certificate: that of the token, and that of the certificate of the listener's authority.
const (
	tokenEnv = "EDL_TOKEN_FILE"
	trustEnv = "EDL_CA_FILE"
)

// UserTokenFiles are the files that the environment variables EDL_TOKEN_FILE and EDL_CA_FILE name; both empty: this user shows no token. One without the other, and
// both beside credentials, are refused: it would not be clear who calls.
func UserTokenFiles() (token, ca string, err error) {
	token, ca = os.Getenv(tokenEnv), os.Getenv(trustEnv)
	switch {
	case token == "" && ca == "":
		return "", "", nil
	case token == "" || ca == "":
		return "", "", fault.E(fault.InvalidArgument, fault.At(tokenEnv+", "+trustEnv), fault.Got("one of the two"), fault.Want("the file of a token, and that of the certificate of the listener's authority"))
	case UserFile() != "":
		return "", "", fault.E(fault.InvalidArgument, fault.At(tokenEnv+", "+userEnv), fault.Got("both"), fault.Want("a token, or credentials"))
	}
	return token, ca, nil
}

// A TokenUse is how a client shows a token: it trusts listeners of an authority, and reads the token anew for each call, so that another one may take its place.
type TokenUse struct {
	file  string
	roots *x509.CertPool
}

// maxShown bounds what is read of a file with a token.
const maxShown = 16 << 10

// OpenTokenUse reads the certificates of authorities in the file ca, and looks whether a token is in its file, which only this user may read.
func OpenTokenUse(token, ca string) (*TokenUse, error) {
	b, err := os.ReadFile(ca)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.E(fault.NotFound, fault.At(ca), fault.Got("no file"), fault.Want("the certificate of the listener's authority, as PEM"), fault.Hint("name its file in "+trustEnv))
	}
	if err != nil {
		return nil, fault.File(fault.InvalidArgument, ca, err)
	}
	u := &TokenUse{file: token, roots: x509.NewCertPool()}
	if !u.roots.AppendCertsFromPEM(b) {
		return nil, fault.E(fault.InvalidArgument, fault.At(ca), fault.Got("no certificate"), fault.Want("the certificate of the listener's authority, as PEM"))
	}
	_, err = u.Token()
	return u, err
}

// Client is the configuration of the side that opens connections and shows no certificate. It hangs up on peers that accept does not accept.
func (u *TokenUse) Client(accept func(Name) error) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: u.roots, ServerName: Host,
		VerifyConnection: func(state tls.ConnectionState) error { return accepted(state, accept) }}
}

// Token is what stands in the file now.
func (u *TokenUse) Token() (string, error) {
	b, err := read(u.file, "a token", "get one from the issuer that the listener knows")
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" || len(token) > maxShown || strings.ContainsAny(token, " \r\n\t") {
		return "", fault.E(fault.InvalidArgument, fault.At(u.file), fault.Got("no token"), fault.Want("one line"))
	}
	return token, nil
}
