package edlcmd

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/freememory"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
)

// listenFlags are the flags of "edl listen".
type listenFlags struct {
	etcdFlags
	address  string
	data     string
	node     string
	spread   bool
	insecure bool
	allowed  struct{ data, save []string }
	history  struct {
		jobs int
		mib  int64
	}
	drain    bool
	life     time.Duration
	waits    bool
	maxRoles int
	cores    string
	memory   string
	cgroup   string
	bounds   struct {
		running time.Duration
		mib     int64
	}
	quiet    bool
	launcher *choice
	cluster  kubernetesFlags
	web      webFlags
	traces   traceFlags
	// attends works at the listener while it serves; nil: nothing does. Its end is that of the listener.
	attends func(ctx context.Context, l *remote.Listener, log *slog.Logger) error
}

// defaultAddress is where a listener listens that nobody has named an address for.
const defaultAddress = "127.0.0.1:7164"

func newListen(c *console) *cobra.Command {
	f := &listenFlags{}
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Serve jobs: the other end of \"edl run --remote=ADDR\"",
		Long: `Serve jobs until interrupted: take programs, spread them over trainers and parameter servers, start these as
processes of this machine, and follow them to their end. --allow-data and --allow-save bound what jobs may read and write; without
them, only jobs of admins at a loopback address may do what you may. With --etcd, listeners form a cluster: --node offers this machine to
others, and --spread starts the roles of jobs on all machines that are offered.`,
		Example: "  edl listen --addr 127.0.0.1:7164",
		Args:    f.web.noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serveJobs(cmd, c, f) },
	}
	f.addTo(cmd, c)
	cmd.Flags().BoolVar(&f.cluster.on, "kubernetes", false, "start roles as Jobs of a Kubernetes cluster")
	return cmd
}

// addTo adds the flags to a command, but that which says where roles run.
func (f *listenFlags) addTo(cmd *cobra.Command, c *console) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "addr", defaultAddress, "`HOST:PORT` to listen on; port 0 chooses a free one")
	flags.StringVar(&f.data, "data-dir", "", "keep checkpoints of jobs in the folder `DIR` (default: a folder of the user for this address; none with port 0 or --spread)")
	f.add(cmd)
	flags.StringVar(&f.node, "node", "", "offer this machine to other listeners of the etcd cluster as `NAME`")
	flags.BoolVar(&f.spread, "spread", false, "start roles on the machines that are offered, in turns")
	flags.BoolVar(&f.insecure, "insecure", false, "let tensors travel between machines in clear text, and take an etcd of another machine without TLS")
	flags.StringArrayVar(&f.allowed.data, "allow-data", nil, "let jobs read what is below `PLACE`, a folder or a URL such as s3://bucket/folder, and nothing else; may be repeated")
	flags.StringArrayVar(&f.allowed.save, "allow-save", nil, "let jobs write below `PLACE`, and nowhere else; may be repeated")
	flags.IntVar(&f.maxRoles, "max-roles", 1024, "refuse a job if all jobs that run would have more than `N` roles, which are processes")
	flags.StringVar(&f.cores, "cores", "", "let jobs share `N` cores, or auto: those of this machine; jobs that do not fit wait (default: cores are not counted)")
	flags.StringVar(&f.memory, "memory", "", "let jobs share `N` MiB of memory, or auto: what is free now; jobs that do not fit wait (default: memory is not counted)")
	flags.StringVar(&f.cgroup, "cgroup", "", "with --cores or --memory: give each role a group of its own in the control group (version 2) of the folder `DIR`, which this user may change and which has no process")
	flags.DurationVar(&f.bounds.running, "max-job-time", 0, "end a job that has run for `TIME`, without the time in which it waits; it can be resumed (default: none)")
	flags.Int64Var(&f.bounds.mib, "max-job-disk", 0, "end a job that has more than `N` MiB in the data folder, with its checkpoints there (default: none)")
	flags.IntVar(&f.history.jobs, "keep-jobs", 100, "remember the last `N` jobs of each namespace, with those that have ended")
	flags.Int64Var(&f.history.mib, "keep-mib", 4096, "forget the oldest jobs that have ended when what is kept of them is more than `N` MiB")
	f.launcher = c.launcherFlag(cmd)
	flags.DurationVar(&f.life, "credential-life", listen.CredentialLife, "let certificates of roles and of this listener be valid for `TIME`; others take their place when a third of it is over")
	f.cluster.add(cmd)
	flags.BoolVar(&f.drain, "drain", false, "end the jobs, each after a last checkpoint, when this process is terminated, instead of leaving them to the next listener")
	flags.BoolVar(&f.waits, "wait", false, "if another listener has the data folder, wait until it has gone, and go on with its jobs")
	flags.BoolVar(&f.quiet, "quiet", false, "do not log")
	f.web.add(cmd)
	f.traces.add(cmd)
}

// command is the command whose roles are pods, for messages.
func (f *listenFlags) command() string {
	if f.attends != nil {
		return "operator"
	}
	return "listen --kubernetes"
}

// leastLife bounds --credential-life: clocks of machines differ, and a machine that is busy renews late.
const leastLife = time.Minute

// automatic is the value of --cores and --memory for what the machine has.
const automatic = "auto"

// resources are the thousandths of cores and the bytes that jobs share; 0 where they are not counted.
func (f *listenFlags) resources() (millicores, memory int64, err error) {
	switch f.cores {
	case "":
	case automatic:
		millicores = 1000 * int64(runtime.GOMAXPROCS(0))
	default:
		n, err := strconv.ParseFloat(f.cores, 64)
		if err == nil {
			millicores, err = jobspec.Millicores(n)
		}
		if err != nil || millicores < 1 {
			return 0, 0, fault.E(fault.InvalidArgument, fault.At("--cores"), fault.Got(fault.Quote(f.cores)), fault.Want("a number of cores above 0, or auto"))
		}
	}
	switch f.memory {
	case "":
	case automatic:
		if memory = freememory.Bytes(); memory == 0 {
			return 0, 0, fault.E(fault.Unsupported, fault.At("--memory"), fault.Got("a system that does not say how much memory is free"), fault.Want("a number of MiB"))
		}
	default:
		n, err := strconv.ParseInt(f.memory, 10, 64)
		if err != nil || n < 1 || n > 1<<24 {
			return 0, 0, fault.E(fault.InvalidArgument, fault.At("--memory"), fault.Got(fault.Quote(f.memory)), fault.Want("a number of MiB, 1 or more, or auto"))
		}
		memory = n << 20
	}
	return millicores, memory, nil
}

// keeperCommand is how a keeper is run. The data folder follows.
func keeperCommand(p launch.Processes, ownEtcd bool) []string {
	command := []string{p.Binary, "keeper"}
	if ownEtcd {
		command = append(command, "--own-etcd")
	}
	if p.Cgroup != nil {
		command = append(command, "--cgroup="+p.Cgroup.Dir())
	}
	return append(command, "--")
}

// newKeeper is the command of the process that has the roles and the etcd of a listener. It is not for people.
func newKeeper(c *console) *cobra.Command {
	ownEtcd, cgroup := false, ""
	cmd := &cobra.Command{
		Use:    "keeper DIR",
		Short:  "Keep the processes of a listener's jobs; started by edl itself",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			launcher, err := childProcesses("", cluster.AccessFrom(os.Getenv))
			if err == nil {
				launcher, err = inGroup(launcher, cgroup)
			}
			if err != nil {
				return err
			}
			return remote.RunKeeper(cmd.Context(), args[0], launcher, ownEtcd, slog.New(slog.NewTextHandler(c.err, nil)))
		},
	}
	cmd.Flags().BoolVar(&ownEtcd, "own-etcd", false, "start an etcd, too")
	cmd.Flags().StringVar(&cgroup, "cgroup", "", "give each role a group of its own in the control group of the folder `DIR`")
	return cmd
}

// inGroup lets a launcher of processes give its roles control groups in that of a folder; empty: none.
func inGroup(l launch.Launcher, dir string) (launch.Launcher, error) {
	if dir == "" {
		return l, nil
	}
	p, ok := l.(launch.Processes)
	if !ok {
		return nil, fault.E(fault.InvalidArgument, fault.At("--cgroup"), fault.Got("roles that are no processes of this listener"), fault.Want("a listener that starts them itself"))
	}
	absolute, err := filepath.Abs(dir)
	if err == nil {
		p.Cgroup, err = launch.OpenCgroup(absolute)
	}
	return p, fault.Wrap(fault.KindOf(err), "--cgroup", err)
}

// defaultData is the data folder of a listener whose user names none: below the place of the system for what programs keep. A listener has none whose address
// no later one has, whose machines may not share a folder, or who cannot write there.
func defaultData(address string, spread bool) string {
	dir := dataOf(address, spread)
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}

// dataOf is where defaultData is.
func dataOf(address string, spread bool) string {
	if _, port, _ := net.SplitHostPort(address); spread || port == "0" {
		return ""
	}
	base, err := credential.Folder()
	if err != nil {
		return ""
	}
	return filepath.Join(base, strings.NewReplacer(":", "_", "/", "_").Replace(address))
}

// childLauncher is the name of the launcher that starts child processes.
const childLauncher = "processes"

// launcherFlag adds --launcher to a command if there is anything to choose.
func (s *settings) launcherFlag(cmd *cobra.Command) *choice {
	if len(s.launchers) == 0 {
		return nil
	}
	names := []string{childLauncher}
	for _, l := range s.launchers {
		names = append(names, l.name)
	}
	return choiceFlag(cmd, "launcher", "what starts the roles of jobs", names...)
}

// launcherOf returns the launcher that a flag has chosen.
func (s *settings) launcherOf(chosen *choice, binary string, access cluster.Access) (launch.Launcher, error) {
	if chosen != nil {
		for _, l := range s.launchers {
			if l.name == chosen.value {
				return l.launcher, nil
			}
		}
	}
	return childProcesses(binary, access)
}

// childProcesses starts roles as processes of a binary of edl, by default the one that runs, also when an upgrade has put another in its place. Passwords and certificates for etcd
// are in their environment only.
func childProcesses(binary string, access cluster.Access) (launch.Launcher, error) {
	p := launch.Processes{Binary: binary, Args: []string{"role", "--"}, Env: access.Environment()}
	if binary == "" {
		var err error
		if p.Opened, err = launch.OpenOwn(); err != nil {
			return nil, fault.Wrap(fault.Internal, "the binary of edl itself", err)
		}
		p.Binary = p.Opened.Path()
	}
	return p, nil
}
