package remote

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/wire"
)

// An Option changes how a listener is started.
type Option func(*listening)

type listening struct {
	address     string
	launcher    launch.Launcher
	processes   bool // roles are processes, so they need etcd to find each other
	elsewhere   bool // and run on machines that reach this one by the host of its address
	etcd        []string
	access      cluster.Access
	node        string
	spread      bool
	room        func(ctx context.Context, tell func([]schedule.Node) error) // of WithRoom
	insecure    bool
	stateDir    string
	dataDir     string
	waits       bool          // for the data folder
	maxJobs     int           // that the listener remembers; 0: as listen.Config has it
	maxJobBytes int64         // likewise
	maxTime     time.Duration // of each job; 0: without bound
	maxDisk     int64         // likewise, in the data folder
	traceRounds uint64        // of which roles tell: those whose number is a multiple of it; 0: none
	cores       int64         // thousandths of cores that jobs share; 0: they are not counted
	memory      int64         // bytes that jobs share; 0: they are not counted
	keeper      []string      // command that runs a keeper
	keeping     *listen.Keeping
	version     string
	log         *slog.Logger
	authority   *credential.Authority
	own         *credential.Credentials // of a client
	data        []string                // places that jobs may read
	save        []string                // places that jobs may write
	notice      func(text string)       // of a client
	tokens      *credential.Tokens
	issuer      credential.Issuer
	shown       *credential.TokenUse // of a client, in place of credentials
	maxRoles    int                  // of all jobs that run
	// credentialLife is how long credentials of roles and the listener are valid; 0: listen.CredentialLife
	credentialLife time.Duration
}

// WithAddress makes the listener listen on host:port. The default is a free port of the loopback interface.
func WithAddress(address string) Option { return func(o *listening) { o.address = address } }

// WithLauncher starts roles as launcher does. They find each other through etcd: the servers of WithEtcd, or one inside of this process. The
// default is roles that are goroutines; without WithEtcd they share a store in memory.
func WithLauncher(l launch.Launcher) Option {
	return func(o *listening) { o.launcher, o.processes = l, true }
}

// WithRolesElsewhere says that the launcher starts roles on other machines, such as pods: the etcd inside of this process, if there is one, listens on the host of
// WithAddress, and the default of WithStateDir lies in the data folder, if there is one, whose folders jobs and states roles must reach under the same path.
func WithRolesElsewhere() Option { return func(o *listening) { o.elsewhere = true } }

// WithEtcd uses a real etcd cluster instead of one inside of this process.
func WithEtcd(endpoints ...string) Option { return func(o *listening) { o.etcd = endpoints } }

// WithEtcdAccess says what the etcd cluster asks for; the default is what the environment says. Launchers of processes give the same to their
// children, through cluster.Access.Environment: it is never part of a job.
func WithEtcdAccess(a cluster.Access) Option { return func(o *listening) { o.access = a } }

// WithNode joins this listener to the nodes of the etcd cluster under an id, so that other listeners may start roles here.
func WithNode(id string) Option { return func(o *listening) { o.node = id } }

// WithNodes starts the roles of jobs on the nodes of the etcd cluster, in turns, instead of on this machine.
func WithNodes() Option { return func(o *listening) { o.spread = true } }

// WithRoom lets jobs share machines that the launcher knows: follow calls tell with all of them and what they have, until its context ends. Jobs that do not fit wait, and elastic jobs take and give
// trainers. Where the launcher starts a role is its own business.
func WithRoom(follow func(ctx context.Context, tell func([]schedule.Node) error)) Option {
	return func(o *listening) { o.room = follow }
}

// WithStateDir says where the listener holds the states that executors leave between jobs. Where roles run on other machines, these must reach the
// directory under the same path. The default is a scratch directory of this machine.
func WithStateDir(dir string) Option { return func(o *listening) { o.stateDir = dir } }

// WithDataDir gives the listener a folder that outlives it: for checkpoints of jobs that name no place for them, and for what is needed to resume a job by its
// name. No other listener may use it. Where roles run on other machines, these must reach it under the same path. The default is no such folder.
func WithDataDir(dir string) Option { return func(o *listening) { o.dataDir = dir } }

// WithWaiting lets Listen wait while another listener of this machine has the data folder, however long, and go on with its jobs when that has gone. The address is
// not open before. With it, a listener needs a data folder.
func WithWaiting() Option { return func(o *listening) { o.waits = true } }

// openData opens the data folder of a listener.
func openData(ctx context.Context, o *listening) (*listen.Data, error) {
	if !o.waits {
		return listen.OpenData(o.dataDir)
	}
	return listen.AwaitData(ctx, o.dataDir, func() {
		o.log.Info("another listener has the data folder: this one waits until it has gone", "folder", o.dataDir)
	})
}

// WithAllowedData bounds what jobs may read: to folders, with all that is below them, and to buckets or folders in them, such as s3://bucket/folder. The query of
// a URL, such as an endpoint, is part of it. A place "NAMESPACE=PLACE" is one for jobs of that namespace alone. With this option or WithAllowedSave, jobs read and write nothing else. Without both, jobs of admins may do what the
// process may, unless other machines reach the listener; jobs of others read and write nothing but what the listener does for them.
func WithAllowedData(places ...string) Option {
	return func(o *listening) { o.data = append(o.data, places...) }
}

// WithAllowedSave bounds what jobs may write, in the same way. What they may write they may also read. A folder that is missing is made.
func WithAllowedSave(places ...string) Option {
	return func(o *listening) { o.save = append(o.save, places...) }
}

// allowed is what jobs may read and write at the listener.
func (o *listening) allowed() (a listen.Allowed, err error) {
	a.Exposed = !Loopback(o.address)
	a.Guarded = o.secrets()
	a.DataOf, a.SaveOf = map[string][]string{}, map[string][]string{}
	for _, of := range []struct {
		flag   string
		list   []string
		to     **policy.Places
		within map[string][]string
	}{{policy.ReadFlag, o.data, &a.Data, a.DataOf}, {policy.WriteFlag, o.save, &a.Save, a.SaveOf}} {
		if of.list == nil {
			continue
		}
		*of.to = &policy.Places{}
		for _, text := range of.list {
			namespace, place, one := strings.Cut(text, "=")
			if one = one && credential.IsNamespace(namespace); !one {
				place = text
			}
			places, err := policy.ParsePlaces(of.flag, []string{place})
			if err != nil {
				return a, err
			}
			if err := preparePlace(of.flag, places.List[0]); err != nil {
				return a, err
			}
			if one {
				of.within[namespace] = append(of.within[namespace], places.List...)
			} else {
				(*of.to).List = append((*of.to).List, places.List...)
			}
		}
	}
	return a, nil
}

// preparePlace makes a folder in which jobs may write, and looks whether one is there that they may read.
func preparePlace(flag, place string) (err error) {
	switch {
	case bucket.IsURL(place):
		return nil
	case flag == policy.WriteFlag:
		err = os.MkdirAll(place, policy.FolderMode)
	default:
		_, err = os.ReadDir(place)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fault.E(fault.InvalidArgument, fault.At(flag+" "+place), fault.Got("no such folder"), fault.Want("one that is there"),
			fault.Hint("make it, or name the folder that has the data of jobs"))
	}
	return fault.File(fault.InvalidArgument, flag+" "+place, err)
}

// secrets are the files with which somebody is the listener, or its user: that of the authority, credentials, and what the etcd asks for.
func (o *listening) secrets() (files []string) {
	authority, _ := credential.File()          // a listener that needs it has failed without it
	token, _, _ := credential.UserTokenFiles() // likewise
	for _, file := range []string{authority, credential.UserFile(), token, o.access.CA, o.access.Certificate, o.access.Key} {
		if absolute, err := filepath.Abs(file); file != "" && err == nil {
			files = append(files, absolute)
		}
	}
	return files
}

// WithHistory says how many jobs of each namespace the listener remembers, those that have ended among them, and how many bytes of those that have ended may stay in its data
// folder. The oldest are forgotten first. 0 is the default: 100 jobs, and 4 GiB.
func WithHistory(jobs int, bytes int64) Option {
	return func(o *listening) { o.maxJobs, o.maxJobBytes = jobs, bytes }
}

// WithResources lets the jobs of a listener share so many thousandths of cores and so many bytes of memory: jobs that do not fit wait. Of 0 there is no bound, and
// without the option there is none of either.
func WithResources(millicores, memory int64) Option {
	return func(o *listening) { o.cores, o.memory = millicores, memory }
}

// WithJobBounds says for how long each job of a listener may run, without the time in which it waits or is suspended, and how many bytes it may have in the data folder,
// with its checkpoints there. A job that takes more fails, and can be resumed. 0 is no bound, which is the default.
func WithJobBounds(running time.Duration, disk int64) Option {
	return func(o *listening) { o.maxTime, o.maxDisk = running, disk }
}

// WithTracedRounds makes roles tell the listener of each round whose number is a multiple of every, at most 16 a second of each role. Package tracing makes traces of them.
// With 0, the default, roles tell of none.
func WithTracedRounds(every uint64) Option { return func(o *listening) { o.traceRounds = every } }

// WithKeeper lets the jobs of a listener with a data folder outlive it: the processes of their roles, and the etcd inside, are those of a process that command
// runs, with the path of the folder as its last argument. That process calls RunKeeper. If the listener dies, or its HandOver was called, the next listener with the
// folder goes on with the jobs. It takes the place of WithLauncher; but if that is launch.Processes with an open binary, roles of new jobs start from this. On a system without Unix sockets it changes nothing.
func WithKeeper(command ...string) Option { return func(o *listening) { o.keeper = command } }

// WithKeeping lets the jobs of a listener with a data folder and an etcd of the user outlive it, because its launcher starts roles that do. The next listener with the folder goes on
// with them, if its launcher has the same id. It takes the place of WithLauncher and WithKeeper.
func WithKeeping(k listen.Keeping) Option { return func(o *listening) { o.keeping = &k } }

// WithMaxRoles bounds the roles of all jobs that run at a time; the default is 1024. Jobs of a user who is no admin may have half of them.
func WithMaxRoles(n int) Option { return func(o *listening) { o.maxRoles = n } }

// WithTokens says which tokens there are: a user whose certificate was issued for a token, as pages do, may call the listener as long as the token counts. Without it
// no such user may.
func WithTokens(t *credential.Tokens) Option { return func(o *listening) { o.tokens = t } }

// WithIssuer lets users show a token of the issuer with each call in place of a certificate, as "authorization: Bearer TOKEN", or one of WithTokens. Such a call is one of the user
// whom the token names, with its roles. Connections without a certificate are taken then. The default is that each caller shows one.
func WithIssuer(i credential.Issuer) Option { return func(o *listening) { o.issuer = i } }

// WithCredentialLife says how long the credentials of roles and of the listener are valid; the default is 24 hours. Others take their place when a third of it is
// over, and connections that stand go on. A machine that is away for two thirds of it, and then comes back, may have to wait up to a minute for the next ones.
func WithCredentialLife(life time.Duration) Option {
	return func(o *listening) { o.credentialLife = life }
}

// WithoutSecurity lets gradients and parameters travel between machines in clear text, which costs less than TLS, and takes an etcd of another machine that
// answers everybody. It is for networks that nobody else reaches.
func WithoutSecurity() Option { return func(o *listening) { o.insecure = true } }

// WithAuthority says which authority issues the credentials of a listener, of its roles and, for a client, of the user. The default is that of the file
// that credential.File names. A listener makes the file if there is none.
func WithAuthority(a *credential.Authority) Option { return func(o *listening) { o.authority = a } }

// WithCredentials gives a client the credentials of a user, for a listener of an authority that the user does not have.
func WithCredentials(c *credential.Credentials) Option { return func(o *listening) { o.own = c } }

// WithTokenUse lets a client show a token, and no certificate, to a listener of WithIssuer.
func WithTokenUse(u *credential.TokenUse) Option { return func(o *listening) { o.shown = u } }

// WithNotice lets a client say when it has lost its listener and waits for the next one, and when that is there. It is for a listener whose jobs outlive it.
func WithNotice(notice func(text string)) Option { return func(o *listening) { o.notice = notice } }

// sides are how a listener takes calls and how it makes them to other listeners. It finds the authority that both come from.
func (o *listening) sides() (asking, toOthers *wire.Side, err error) {
	if o.authority == nil {
		file, err := credential.File()
		if err != nil {
			return nil, nil, err
		}
		if o.authority, err = credential.OpenOrMake(file); err != nil {
			return nil, nil, err
		}
	}
	own, err := listen.OwnCredentials(o.authority, o.credentialLife)
	if err != nil {
		return nil, nil, err
	}
	return wire.OfListener(own), wire.ToListener(own), nil
}

// WithVersion is the version that the listener reports.
func WithVersion(version string) Option { return func(o *listening) { o.version = version } }

// WithLogger logs what the listener does. The default is no log.
func WithLogger(log *slog.Logger) Option { return func(o *listening) { o.log = log } }

// host returns the host that roles listen on. An etcd of another machine that is reached in clear text is refused without WithoutSecurity: who changes its keys
// changes the jobs.
func (o *listening) host() (string, error) {
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return "", fault.Wrap(fault.InvalidArgument, "listen on "+o.address, err)
	}
	for _, e := range o.etcd {
		if at, secret := strings.CutPrefix(e, "https://"); !secret && !o.insecure && !Loopback(strings.TrimPrefix(at, "http://")) {
			return "", fault.E(fault.InvalidArgument, fault.At("listen on "+o.address), fault.Got("the etcd "+e+", which is reached in clear text"),
				fault.Want("an https:// endpoint, or one on the loopback interface"),
				fault.Hint("who changes its keys changes the jobs; in a network that nobody else reaches, say --insecure"))
		}
	}
	if o.insecure && o.log != nil {
		o.log.Warn("--insecure: gradients and parameters travel between machines in clear text")
	}
	return host, nil
}

// Loopback reports whether only this machine reaches an address host:port.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
