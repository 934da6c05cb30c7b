package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/edl-go/edl/fault"
)

// Flags by what they need to be of any use. A new flag belongs into one of these lists, or is of use to every run.
var (
	clusterFlags = []string{"trainers", "pservers", "mode", "min-block-size", "no-slice", "split-method", "max-restarts", "max-task-failures", "follow"}
	etcdTLSFlags = []string{"etcd-ca", "etcd-cert", "etcd-key"}
	// readingFlags are for programs that read their own data. A role of any other job is not started again.
	readingFlags = []string{"data", "passes", "every", "follow", "max-restarts", "max-task-failures"}
)

// refuseIdle refuses the first of some flags that stands on the command line, because nothing would come of it: got is what makes it useless, want
// what it is for. Those that the environment sets are for whoever can use them.
func refuseIdle(flags *pflag.FlagSet, names []string, got, want string, hint ...string) error {
	for _, name := range names {
		if given := flags.Lookup(name); given != nil && onCommandLine(given) {
			return fault.E(fault.InvalidArgument, fault.At("--"+name), fault.Got(got), fault.Want(want), fault.Hint(strings.Join(hint, "; ")))
		}
	}
	return nil
}
