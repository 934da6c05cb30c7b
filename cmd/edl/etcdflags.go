package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
)

// etcdFlags name a real etcd cluster. There is no flag for the password: arguments of a process are shown to everybody.
type etcdFlags struct {
	endpoints []string
	access    cluster.Access
}

func (f *etcdFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.endpoints, "etcd", nil, "endpoints of an etcd cluster (default: one inside of this process)")
	flags.StringVar(&f.access.CA, "etcd-ca", "", "`FILE` of certificates that sign those of etcd's servers")
	flags.StringVar(&f.access.Certificate, "etcd-cert", "", "`FILE` of the certificate to show to etcd")
	flags.StringVar(&f.access.Key, "etcd-key", "", "`FILE` of its key")
	flags.StringVar(&f.access.User, "etcd-user", "", "user of etcd; the password is in the environment as "+cluster.EnvPassword)
}

// accessFlags are those that say what etcd asks for.
var accessFlags = append([]string{"etcd-user"}, etcdTLSFlags...)

// options checks the flags and returns what they mean to a listener.
func (f *etcdFlags) options(flags *pflag.FlagSet, c *console) ([]remote.Option, error) {
	if len(f.endpoints) == 0 {
		f.access = cluster.Access{} // the one inside of this process asks for nothing
		return nil, refuseIdle(flags, accessFlags, "the etcd inside of this process, which asks for nothing", "--etcd URL,... beside it")
	}
	a := &f.access
	if a.User != "" {
		a.Password, _ = c.env(cluster.EnvPassword)
	}
	for _, path := range []*string{&a.CA, &a.Certificate, &a.Key} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, fileFault(*path, err)
		}
		*path = absolute
	}
	if err := a.Check(f.endpoints); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(f.endpoints[0], "https://") {
		if err := refuseIdle(flags, etcdTLSFlags, "endpoints without TLS", "--etcd https://HOST:PORT,..."); err != nil {
			return nil, err
		}
	}
	return []remote.Option{remote.WithEtcd(f.endpoints...), remote.WithEtcdAccess(*a)}, nil
}
