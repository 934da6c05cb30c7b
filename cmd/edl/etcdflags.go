package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edl-go/edl/fault"
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

// refuse says which flag of the command line nothing would come of, because no listener is started here.
func (f *etcdFlags) refuse(flags *pflag.FlagSet, where place) (err error) {
	flags.VisitAll(func(given *pflag.Flag) {
		if given.Name != "etcd" && !strings.HasPrefix(given.Name, "etcd-") || !onCommandLine(given) || err != nil {
			return
		}
		wrong := &fault.Fault{Kind: fault.InvalidArgument, Where: "--" + given.Name, Got: "a run without a cluster", Want: "--remote beside it"}
		if where.remote {
			wrong.Got, wrong.Want = "a cluster that has its etcd", "--remote without an address"
			wrong.Hint = "give it to the \"edl listen\" that listens there"
		}
		err = wrong
	})
	return err
}

// options checks the flags and returns what they mean to a listener.
func (f *etcdFlags) options(c *console) ([]remote.Option, error) {
	if len(f.endpoints) == 0 {
		f.access = cluster.Access{} // the one inside of this process asks for nothing
		return nil, nil
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
	return []remote.Option{remote.WithEtcd(f.endpoints...), remote.WithEtcdAccess(*a)}, nil
}
