package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/tracing"
)

// A jobServer is what "edl listen" serves jobs with, from its flags to its end.
type jobServer struct {
	*listenFlags
	console *console
	log     *slog.Logger
	tokens  *credential.Tokens
	pods    *listenerOfCluster // whose roles are pods; nil: none
	lost    <-chan struct{}    // closed when another takes the place of this listener; nil: nobody does
}

// serveJobs prints the address once it is open, and returns when ctx has ended and every job with it.
func serveJobs(cmd *cobra.Command, c *console, f *listenFlags) (err error) {
	ctx := cmd.Context()
	options, err := f.check(cmd, c)
	if err != nil {
		return err
	}
	if f.cluster.on && f.cluster.dry != "" {
		return f.dryRun(ctx, c)
	}
	if f.data == "" {
		f.data = defaultData(f.address, f.spread)
	}
	s := &jobServer{listenFlags: f, console: c, log: slog.New(slog.DiscardHandler), tokens: credential.OpenTokens(tokenFile(f.data))}
	if !f.quiet {
		s.log = slog.New(slog.NewTextHandler(c.err, nil))
	}
	if err := s.web.open(ctx); err != nil {
		return err
	}
	launcher, more, err := s.findLauncher(cmd)
	if err != nil {
		return err
	}
	if s.pods != nil {
		defer s.pods.Close()
	}
	l, err := remote.Listen(ctx, append(append(options, more...), s.listenerOptions(launcher)...)...)
	if err != nil {
		return unanswered(f.endpoints, err)
	}
	defer announce(l.Address())()
	if _, err := fmt.Fprintln(c.out, "listening on", l.Address()); err != nil {
		return err
	}
	if len(f.endpoints) > 0 {
		s.log.Info(sharedEtcd)
	}
	hidden, err := s.show(ctx, l)
	if err != nil {
		return errors.Join(err, l.HandOver())
	}
	err = s.await(ctx, l, hidden)
	end := l.Close
	if errors.Is(err, fault.Drained) && !f.drain || s.pods != nil && s.pods.term.Cause() != nil {
		end = l.HandOver
	}
	if wrong := end(); wrong != nil {
		return wrong
	}
	return err
}

// sharedEtcd is what is said of an etcd that is not the listener's own: there a job has no user.
const sharedEtcd = "the roles of all jobs show this etcd the same credentials as the listener, so each of them reaches the keys of all jobs"

// check refuses flags that do not go together, and returns the options that follow from those of etcd and from what jobs share.
func (f *listenFlags) check(cmd *cobra.Command, c *console) ([]remote.Option, error) {
	if len(f.endpoints) == 0 && (f.node != "" || f.spread) {
		return nil, fault.E(fault.InvalidArgument, fault.At("listen"), fault.Got("no cluster for --node or --spread"), fault.Want("--etcd ENDPOINTS"))
	}
	etcd, err := f.options(cmd.Flags(), c)
	if err != nil {
		return nil, err
	}
	if err := checkAddress("--addr", f.address); err != nil {
		return nil, err
	}
	cores, memory, err := f.resources()
	if err != nil {
		return nil, err
	}
	if f.cluster.on && (f.spread || f.node != "" || cores+memory > 0) {
		return nil, fault.E(fault.InvalidArgument, fault.At(f.command()), fault.Got("roles that are pods, and --spread, --node, --cores or --memory"), fault.Want("none of these: the cluster shares its nodes among pods"))
	}
	if f.spread && cores+memory > 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("listen"), fault.Got("--cores or --memory of a listener whose roles run on other machines"), fault.Want("it at those that offer them, with --node"))
	}
	if f.cgroup != "" && cores+memory == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("--cgroup"), fault.Got("a listener that counts neither cores nor memory"), fault.Want("--cores or --memory, or both"))
	}
	if err := f.checkBounds(); err != nil {
		return nil, err
	}
	if err := f.web.check(cmd); err != nil {
		return nil, err
	}
	return append(etcd, remote.WithResources(cores, memory)), f.traces.check(cmd)
}

// checkBounds refuses numbers that are out of bounds.
func (f *listenFlags) checkBounds() error {
	switch b := f.bounds; {
	case f.life < leastLife || f.life > maxDays*24*time.Hour:
		return fault.E(fault.InvalidArgument, fault.At("--credential-life"), fault.Gotf("%v", f.life), fault.Wantf("%v to %d days", leastLife, maxDays))
	case f.history.jobs < 1:
		return tooFew("--keep-jobs", int64(f.history.jobs))
	case f.history.mib < 1:
		return tooFew("--keep-mib", f.history.mib)
	case b.running < 0 || b.running > 0 && b.running < time.Second:
		return fault.E(fault.InvalidArgument, fault.At("--max-job-time"), fault.Gotf("%v", b.running), fault.Want("a second or more"))
	case b.mib < 0:
		return tooFew("--max-job-disk", b.mib)
	case f.maxRoles < 1:
		return fault.E(fault.InvalidArgument, fault.At("--max-roles"), fault.Gotf("%d", f.maxRoles), fault.Want("at least 1"))
	}
	return nil
}

// findLauncher finds what starts the roles of jobs, and the options that it needs of the listener.
func (s *jobServer) findLauncher(cmd *cobra.Command) (launcher launch.Launcher, more []remote.Option, err error) {
	if s.cluster.on {
		if s.pods, err = s.cluster.join(cmd.Context(), s.listenFlags, s.log); err != nil {
			return nil, nil, err
		}
		launcher, s.lost, more = s.pods.Launcher, s.pods.term.Lost(), s.pods.options
	} else if err := refuseIdle(cmd.Flags(), kubernetesFlagNames, "roles that are processes", "them together with --kubernetes"); err != nil {
		return nil, nil, err
	} else if launcher, err = s.console.launcherOf(s.launcher, "", s.access); err != nil {
		return nil, nil, err
	}
	inside, err := inGroup(launcher, s.cgroup)
	if err != nil && s.pods != nil {
		s.pods.Close()
	}
	return inside, more, err
}

// listenerOptions are what the flags ask of a listener with a launcher.
func (s *jobServer) listenerOptions(launcher launch.Launcher) []remote.Option {
	options := []remote.Option{remote.WithAddress(s.address), remote.WithLauncher(launcher), remote.WithVersion(s.console.currentVersion().Version), remote.WithCredentialLife(s.life),
		remote.WithTokens(s.tokens), remote.WithMaxRoles(s.maxRoles), remote.WithDataDir(s.data), remote.WithHistory(s.history.jobs, min(s.history.mib, 1<<40)<<20),
		remote.WithJobBounds(s.bounds.running, min(s.bounds.mib, 1<<40)<<20)}
	if s.web.others != nil {
		options = append(options, remote.WithIssuer(s.web.others))
	}
	if s.node != "" {
		options = append(options, remote.WithNode(s.node))
	}
	if s.spread {
		options = append(options, remote.WithNodes())
	}
	if s.allowed.data != nil {
		options = append(options, remote.WithAllowedData(s.allowed.data...))
	}
	if s.allowed.save != nil {
		options = append(options, remote.WithAllowedSave(s.allowed.save...))
	}
	if p, ok := launcher.(launch.Processes); ok && (!s.spread || s.node != "") {
		options = append(options, remote.WithKeeper(keeperCommand(p, len(s.endpoints) == 0)...))
	}
	if s.waits || s.pods != nil && s.data != "" { // of a listener whose lease has ended the folder is free soon
		options = append(options, remote.WithWaiting())
	}
	if s.traces.on() {
		options = append(options, remote.WithTracedRounds(uint64(s.traces.every)))
	}
	if s.insecure {
		options = append(options, remote.WithoutSecurity())
	}
	if !s.quiet {
		options = append(options, remote.WithLogger(s.log))
	}
	return options
}

// show sends traces and serves pages of a listener, if it is to, until hidden is called.
func (s *jobServer) show(ctx context.Context, l *remote.Listener) (hidden func(), err error) {
	noTraces := func() {}
	if s.traces.on() {
		var t *tracing.Tracer
		if t, noTraces, err = s.traces.begin(ctx, s.console, l, s.log); err != nil {
			return nil, err
		}
		s.web.metrics = t.Metrics()
	}
	if s.web.address == "" {
		return noTraces, nil
	}
	noPages, err := s.web.serve(ctx, s.console, l, s.tokens, s.quiet)
	if err != nil {
		noTraces()
		return nil, err
	}
	return func() { noPages(); noTraces() }, nil
}

// await returns why the listener is to end, once nothing looks at it any more.
func (s *jobServer) await(ctx context.Context, l *remote.Listener, hidden func()) (err error) {
	attending, leave := context.WithCancel(ctx)
	defer leave()
	var attended chan error
	if s.attends != nil {
		attended = make(chan error, 1)
		go func() { attended <- s.attends(attending, l, s.log) }()
	}
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.Broken():
		err = l.Cause()
	case <-s.lost:
		err = s.pods.term.Cause()
	case err = <-attended:
		attended = nil
	}
	hidden()
	if leave(); attended != nil {
		<-attended // it must not see how the listener ends its jobs
	}
	return err
}
