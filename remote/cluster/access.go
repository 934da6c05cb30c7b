package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strings"

	"github.com/edl-go/edl/fault"
)

// Variables of the environment that say where etcd is and what it asks for. Roles get what they need in them, for a JobSpec and the arguments of a
// process are shown to everybody.
const (
	EnvEndpoints   = "EDL_ETCD" // URLs separated by commas
	EnvCA          = "EDL_ETCD_CA"
	EnvCertificate = "EDL_ETCD_CERT"
	EnvKey         = "EDL_ETCD_KEY"
	EnvUser        = "EDL_ETCD_USER"
	EnvPassword    = "EDL_ETCD_PASSWORD"
)

// Access is what an etcd cluster asks of its clients. The zero value is what one without TLS and users asks: nothing.
type Access struct {
	CA          string // file of PEM certificates that sign those of the servers; empty: those that the system trusts
	Certificate string // file of this client's certificate, if the servers ask for one
	Key         string // file of its key
	User        string // empty: no authentication
	Password    string
}

// AccessFrom reads the variables of an environment, as of os.Getenv.
func AccessFrom(getenv func(string) string) Access {
	return Access{CA: getenv(EnvCA), Certificate: getenv(EnvCertificate), Key: getenv(EnvKey), User: getenv(EnvUser), Password: getenv(EnvPassword)}
}

// Environment returns the variables, as NAME=value, from which AccessFrom makes a in another process.
func (a Access) Environment() []string {
	return []string{EnvCA + "=" + a.CA, EnvCertificate + "=" + a.Certificate, EnvKey + "=" + a.Key, EnvUser + "=" + a.User,
		EnvPassword + "=" + a.Password}
}

// ParseEndpoints reads what --etcd and EDL_ETCD hold: URLs or host:port, separated by commas.
func ParseEndpoints(list string) ([]string, error) {
	var endpoints []string
	for _, e := range strings.Split(list, ",") {
		if e = strings.TrimSpace(e); e != "" {
			endpoints = append(endpoints, strings.TrimSuffix(e, "/"))
		}
	}
	_, err := secure(endpoints)
	return endpoints, err
}

// Check reports what is missing or does not fit, before anybody connects. Files are read.
func (a Access) Check(endpoints []string) error {
	_, err := a.tls(endpoints)
	return err
}

// secure reports whether the endpoints are to be spoken to through TLS.
func secure(endpoints []string) (bool, error) {
	if len(endpoints) == 0 {
		return false, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got("no endpoint"))
	}
	safe := 0
	for _, e := range endpoints {
		scheme, host, ok := strings.Cut(e, "://")
		if !ok {
			scheme, host = "http", e
		}
		u, err := url.Parse(scheme + "://" + host)
		if err != nil || scheme != "http" && scheme != "https" || u.Host == "" || u.Port() == "" || u.Host != host {
			return false, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got("endpoint "+fault.Quote(e)),
				fault.Want("http://HOST:PORT, https://HOST:PORT or HOST:PORT"))
		}
		if scheme == "https" {
			safe++
		}
	}
	if safe != 0 && safe != len(endpoints) {
		return false, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Gotf("%d of %d endpoints with https", safe, len(endpoints)),
			fault.Want("all or none"))
	}
	return safe != 0, nil
}

// tls returns the configuration for the endpoints, nil for plain text.
func (a Access) tls(endpoints []string) (*tls.Config, error) {
	refuse := func(got, want, hint string, err error) error {
		return fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got(got), fault.Want(want), fault.Hint(hint), fault.Cause(err))
	}
	safe, err := secure(endpoints)
	switch {
	case err != nil:
		return nil, err
	case (a.Certificate == "") != (a.Key == ""):
		return nil, refuse("a certificate without its key, or a key without its certificate", "both or none", "", nil)
	case (a.User == "") != (a.Password == ""):
		return nil, refuse("a user without a password, or a password without a user", "both or none",
			"the password is in the environment: "+EnvPassword, nil)
	case !safe:
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, refuse("", "", "the file of the certificate authority must be readable", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, refuse("no certificate in "+a.CA, "PEM", "", nil)
		}
	}
	if a.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(a.Certificate, a.Key)
		if err != nil {
			return nil, refuse("", "", "the certificate and its key must be readable and fit", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
