package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"
)

const probeTimeout = time.Second

// probe looks whether any of the endpoints accepts a connection, and else says why the last one does not. The client of etcd itself tries until its
// deadline whatever the reason is, and does not tell it.
func probe(ctx context.Context, endpoints []string, secured *tls.Config) error {
	var last error
	for _, e := range endpoints {
		if last = knock(ctx, e, secured); last == nil {
			return nil
		}
	}
	return last
}

func knock(ctx context.Context, endpoint string, secured *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, host, ok := strings.Cut(endpoint, "://")
	if !ok {
		host = endpoint
	}
	dialer := interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}(&net.Dialer{})
	if secured != nil {
		dialer = &tls.Dialer{Config: secured}
	}
	c, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return c.Close()
}

// mistrust reports whether no later attempt can mend what a probe found.
func mistrust(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &verification) || errors.As(err, &record)
}
