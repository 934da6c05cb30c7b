package listen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/wire"
)

// runRoles runs the roles of the job to their end, in one attempt or several.
func runRoles(ctx context.Context, j *Job) error {
	registry, err := j.manager.cfg.Registry(ctx, j.roleSpec(cluster.Member{Role: job.Role_COORDINATOR}, 0))
	if err != nil {
		return err
	}
	defer registry.Close()
	owner, err := prepareRegistry(ctx, j, registry)
	if err != nil {
		return err
	}
	defer func() {
		if !handedOver(ctx) {
			removeTraces(ctx, j, registry, owner)
		}
	}()
	watching, unwatch := context.WithCancel(ctx)
	side, err := sideOf(j)
	if err != nil {
		unwatch()
		return err
	}
	connections := cluster.NewPeers(watching, registry, side)
	defer connections.Close()
	peers, err := newPeers(connections)
	if err != nil {
		unwatch()
		return err
	}
	c, err := startRoles(ctx, j, registry, peers)
	if err != nil {
		unwatch()
		return err
	}
	defer endRoles(j)
	var group sync.WaitGroup
	defer func() { unwatch(); group.Wait() }()
	finals := newFinalReports(watching, j, peers, &group)
	j.withLock(func() { c.finals = finals })
	if lines := j.manager.cfg.Kept; lines != nil {
		group.Go(func() { readLines(watching, j, lines.Launcher) })
	}
	group.Go(func() { c.watcher.watch(watching) })
	if j.spec.MaxAhead > 0 || j.spec.Evaluation.GetWaits() {
		group.Go(func() { j.acks.passOn(watching, peers.coordinator, c.watcher) })
	}
	if j.spec.MaxAhead > 0 || j.spec.Evaluation.GetWaits() || j.spec.Fed {
		group.Go(func() { j.followers.watch(watching, j.stop) })
	}
	if q := j.manager.queue; q.grows {
		group.Go(func() { q.follow(watching, j, registry) })
	}
	group.Go(func() { suspends(watching, c) })
	group.Go(func() { j.finishing.passOn(watching, peers.coordinator, c.watcher) })
	group.Go(func() { probeRegularly(watching, j, peers) })
	group.Go(func() { keepToBounds(watching, c) })

	if err = c.run(ctx); err == nil {
		c.awaitFinals(ctx)
		countLast(ctx, c)
		c.job.withLock(func() { countLedger(c.job, c.finals.ledger) })
	}
	return whileSaving(ctx, c, err)
}

// whileSaving adds to the reason of a stop that the job had trained everything, and a trainer was about to write the model.
func whileSaving(ctx context.Context, c *jobRun, err error) error {
	if err == nil || ctx.Err() == nil || handedOver(ctx) || c.job.spec.Save == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.job.limits.Registry)
	defer cancel()
	if b, wrong := c.registry.Entry(ctx, coordinator.SaverEntry); wrong != nil || b == nil { // none was elected, or the registry is gone, too. That of trainer 0 has no bytes
		return err
	}
	return fault.E(fault.KindOf(err), fault.Cause(err), fault.Gotf("a trained state that was still being saved to %s", c.job.spec.Save),
		fault.Hint("that directory has what it had before, or the whole new state; \"edl stop --save\" keeps what is trained"))
}

// removeTraces removes all keys of a job whose roles have ended. What a manager has that fails does not answer, and is gone with it.
func removeTraces(ctx context.Context, j *Job, registry cluster.Registry, owner cluster.Membership) {
	if j.manager.failing() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.limits.Registry)
	defer cancel()
	if err := registry.Remove(ctx, owner); err != nil {
		j.manager.cfg.Log.Warn("traces of the job are left in the registry until a listener starts", "job", j.ID, "error", err)
	}
}

// prepareRegistry claims the name of the job, and removes what an earlier job of the same name has left in the registry. If roles of that job still live,
// the name is refused.
func prepareRegistry(ctx context.Context, j *Job, registry cluster.Registry) (owner cluster.Membership, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.limits.Start)
	defer cancel()
	if ran(j) {
		return cluster.Inherit(ctx, registry)
	}
	live, err := registry.Live(ctx)
	if err != nil {
		return nil, err
	}
	for m := range live {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a name whose "+m.String()+" lives"),
			fault.Want("another name"), fault.Hint("another listener of the cluster runs a job of this name, or its roles have not ended yet"))
	}
	claim := registry.Claim
	if j.inherited != nil {
		claim = func(ctx context.Context) (cluster.Membership, error) { return cluster.Inherit(ctx, registry) }
	}
	if owner, err = claim(ctx); err != nil {
		if errors.Is(err, fault.Fenced) {
			err = fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Cause(err))
		}
		return nil, err
	}
	if err = registry.Forget(ctx); err == nil {
		err = registry.SetDesired(ctx, int(j.spec.Pservers))
	}
	if err != nil {
		removeTraces(ctx, j, registry, owner)
		return nil, err
	}
	return owner, nil
}

// startRoles makes the jobRun of a job, once the registry knows how many trainers are wanted by then.
func startRoles(ctx context.Context, j *Job, registry cluster.Registry, peers *peers) (*jobRun, error) {
	ctx, cancel := context.WithTimeout(ctx, j.limits.Start)
	defer cancel()
	for known := int32(0); ; {
		j.mu.Lock()
		wanted := j.wanted
		if wanted == known || ran(j) { // whose registry knows
			defer j.mu.Unlock()
			j.roles = newJobRun(j, registry, peers, int(wanted))
			j.roles.watcher = newWatcher(j, peers.coordinator)
			if ran(j) {
				if err := inheritRoles(j.roles, j.inherited); err != nil {
					j.roles = nil
					return nil, err
				}
			}
			close(j.rolesStarted)
			return j.roles, nil
		}
		j.mu.Unlock()
		if err := registry.SetTrainers(ctx, int(wanted)); err != nil {
			return nil, err
		}
		known = wanted
	}
}

// endRoles notes that all roles have ended.
func endRoles(j *Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.roles = nil
}

// awaitFinals waits for the last steps, queues and ledger. What a listener that was paused finds may take long to read: it gives up when limits.LastReports have passed without a step, and after
// limits.Start in any case.
func (c *jobRun) awaitFinals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Start)
	defer cancel()
	for told := c.watcher.told(); ; {
		before := c.watcher.heard()
		waiting, stop := context.WithTimeout(ctx, c.job.limits.LastReports)
		select {
		case <-told:
		case <-waiting.Done():
		}
		if waiting.Err() == nil || ctx.Err() != nil || c.watcher.heard() == before {
			c.finals.wait(waiting.Done())
			stop()
			return
		}
		stop()
	}
}

// countLast counts the steps of a job that has ended well while the listener slept, so that it has not heard the last ones: their number is durable.
func countLast(ctx context.Context, c *jobRun) {
	select {
	case <-c.watcher.told():
		return
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Registry)
	defer cancel()
	b, err := c.registry.Entry(ctx, coordinator.StepsEntry)
	var last state.Steps
	if err == nil {
		err = fault.Wrap(fault.Corrupt, coordinator.StepsEntry, proto.Unmarshal(b, &last))
	}
	if err != nil {
		c.job.manager.cfg.Log.Warn("it is not known how many steps the job has made", "job", c.job.ID, "error", err)
		return
	}
	c.job.withLock(func() { c.job.countTo(last.Steps) })
}

// countLedger makes the records of a job that has ended well those of its last ledger, and in async mode its steps: of steps that a lost role has not
// reported, or has reported twice, only the ledger knows. job.mu is held.
func countLedger(j *Job, last *rpc.LedgerResponse) {
	if len(last.GetPasses()) == 0 || j.spec.Fed { // of an evaluation there is none
		return
	}
	records := -j.state.earlier
	for _, p := range last.Passes {
		records += p.Records + p.Again
	}
	j.status.Records = records
	if j.spec.Mode != job.Mode_SYNC {
		j.countTo(last.Steps)
	}
}

// A jobRun is the roles of a job that runs. It tells the supervision policy what happens, and carries out what the policy decides. The goroutine of
// run makes all decisions.
type jobRun struct {
	job      *Job
	registry cluster.Registry
	peers    *peers
	watcher  *watcher
	finals   *finalReports // set before run is called, with job.mu held
	began    time.Time
	events   chan func() supervise.Event
	over     chan struct{} // closed when no event matters any more
	group    sync.WaitGroup
	running  map[cluster.Member]*roleRun // that have not ended; of run
	failures []failure                   // of roles that have ended, until they start again; in order; of run
	scale    scaling                     // of run
	went     *rpc.GoBackResponse         // where the history begins that the job has gone back to; of run
	owed     *state.Owed                 // guarded by job.mu

	machine *supervise.Machine // guarded by job.mu
	decided chan struct{}      // closed and replaced after each decision, and when a change of pservers has ended; guarded by job.mu
}

// A failure is how a role has ended.
type failure struct {
	of  cluster.Member
	err error
}

// policyOf is what a job allows.
func policyOf(j *Job) supervise.Policy {
	return supervise.Policy{PServers: int(j.spec.Pservers), MaxRestarts: int(max(j.spec.MaxRestarts, 0)),
		DrainTime: j.limits.Drain, LostLease: j.limits.LostLease, Release: j.limits.Release, OneAttempt: j.spec.Fed,
		GoesBack: j.spec.Checkpoints != nil && !j.spec.Fed, Standbys: j.spec.Standby > 0}
}

func newJobRun(j *Job, registry cluster.Registry, peers *peers, trainers int) *jobRun {
	return &jobRun{job: j, registry: registry, peers: peers, began: time.Now(), events: make(chan func() supervise.Event),
		over: make(chan struct{}), decided: make(chan struct{}), running: map[cluster.Member]*roleRun{}, machine: supervise.New(policyOf(j), trainers), owed: &state.Owed{}}
}

// run starts the roles and returns when the job has ended and no role is left: nil when it has ended well.
func (c *jobRun) run(ctx context.Context) error {
	watching, unwatch := context.WithCancel(ctx)
	defer c.group.Wait()
	defer unwatch()
	defer c.stopAll(ctx)
	defer close(c.over)
	defer c.scale.end(fault.E(fault.Unavailable, fault.At("job "+c.job.ID), fault.Got("the end of the job")))
	c.group.Go(func() { watchLeases(watching, c) })
	c.group.Go(func() {
		subscribe(watching, c.job, "the number of trainers that are wanted", c.registry.WatchTrainers, func(n int) {
			c.happen(func() supervise.Event { return supervise.Wanted{Trainers: n} })
		})
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	effects := begin(ctx, c)
	for {
		if ended, err := c.carryOut(ctx, effects); ended {
			return c.cause(err)
		}
		c.arm(timer)
		select {
		case event := <-c.events:
			effects = c.step(event)
		case <-timer.C:
			effects = c.step(func() supervise.Event { return supervise.Tick{} })
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(context.Cause(ctx)), "job "+c.job.ID, context.Cause(ctx))
		}
	}
}

// begin starts the roles of a job that begins, or goes on with those of one that an earlier listener has begun.
func begin(ctx context.Context, c *jobRun) supervise.Effects {
	if ran(c.job) {
		return goOn(ctx, c)
	}
	return c.step(func() supervise.Event { return supervise.Began{} })
}

// now is the machine's clock.
func (c *jobRun) now() time.Duration { return time.Since(c.began) }

// at is the time of a machine's clock.
func (c *jobRun) at(d time.Duration) time.Time { return c.began.Add(d) }

// step makes one decision. It is written before it is carried out.
func (c *jobRun) step(event func() supervise.Event) supervise.Effects {
	c.job.telling.Lock()
	defer c.job.telling.Unlock()
	effects := decide(c, event)
	tell(c.job, true)
	c.job.manager.queue.has(c)
	return effects
}

func decide(c *jobRun, event func() supervise.Event) supervise.Effects {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	e := event()
	effects, err := c.machine.Step(c.now(), e)
	if err != nil {
		c.job.manager.cfg.Log.Warn("the supervision of roles refuses what it is told", "job", c.job.ID, "event", fmt.Sprintf("%T", e), "error", err)
		if _, ok := e.(supervise.Scaled); ok {
			c.job.placing.next, c.job.placing.changes = nil, false
			c.scale.end(err)
		}
	}
	wake(c)
	c.job.status.Trainers = int32(c.machine.Trainers())
	if effects.Back {
		c.owed.Back = c.went
	}
	return effects
}

// wake lets those look again who wait for a decision. job.mu is held.
func wake(c *jobRun) {
	close(c.decided)
	c.decided = make(chan struct{})
}

// arm sets the timer to when the machine has something to do.
func (c *jobRun) arm(timer *time.Timer) {
	c.job.mu.Lock()
	at, ok := c.machine.Next()
	c.job.mu.Unlock()
	if !ok {
		timer.Stop()
		return
	}
	timer.Reset(max(0, at-c.now()))
}

// happen passes an event on to run. It does nothing when the job is over.
func (c *jobRun) happen(event func() supervise.Event) {
	select {
	case c.events <- event:
	case <-c.over:
	}
}

// carryOut does what was decided, in order, and reports whether the job has ended.
func (c *jobRun) carryOut(ctx context.Context, effects supervise.Effects) (ended bool, err error) {
	if effects.Placed {
		placed(ctx, c)
	}
	if effects.Stays != nil {
		stays(c, effects.Stays)
	}
	for _, m := range effects.Drain {
		c.drain(m)
	}
	for _, m := range effects.Kill {
		c.kill(m)
	}
	if effects.Forget { // alone but for what is above
		return c.carryOut(ctx, forget(ctx, c))
	}
	for _, s := range effects.Start {
		c.start(ctx, s.Member, s.Before)
	}
	for _, t := range effects.TakeOver {
		c.group.Go(func() { askToTakeOver(ctx, c, t) })
	}
	for _, index := range effects.Replaced {
		replace(c, index)
	}
	if effects.Move > 0 {
		to := c.scale.to
		ctx, cancel := context.WithCancel(ctx)
		c.scale.cancel = cancel
		c.group.Go(func() {
			defer cancel()
			askToMove(ctx, c, effects.Move, to)
		})
	}
	if effects.Back {
		c.wentBack()
	}
	if effects.GoBack > 0 {
		c.group.Go(func() { askToGoBack(ctx, c, effects.GoBack) })
	}
	return effects.End, effects.Err
}

// askToGoBack lets the coordinator take the job back to its last checkpoint. A coordinator that is gone is waited for: the next one knows how far it was.
func askToGoBack(ctx context.Context, c *jobRun, number int) {
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Start)
	defer cancel()
	c.group.Go(func() { // the job may end meanwhile
		select {
		case <-c.over:
			cancel()
		case <-ctx.Done():
		}
	})
	m := &rpc.GoBackRequest{Id: identityOf(c.job)}
	c.job.withLock(func() { m.History = c.watcher.history + 1 })
	var answer *rpc.GoBackResponse
	err := wire.RetrySoon(ctx, retryPause, func(id.Retry) (err error) {
		answer, err = c.peers.coordinator.GoBack(ctx, m)
		if err = wire.FromStatus("coordinator", err); errors.Is(err, fault.Canceled) && ctx.Err() == nil { // its end
			err = fault.E(fault.Unavailable, fault.Cause(err))
		}
		return err
	})
	c.happen(func() supervise.Event {
		c.went = answer
		return supervise.WentBack{Number: number, Err: err}
	})
}

// wentBack begins the next attempt of a job whose processes have stayed. Its steps are told from the checkpoint on.
func (c *jobRun) wentBack() {
	c.watcher.turn.Lock()
	defer c.watcher.turn.Unlock()
	p, cause := c.went.GetProgress(), lastLoss(c)
	c.job.withLock(func() { // at once: what is written of it is all or nothing
		before := c.watcher.history
		wentBack(c.job, p, c.went.GetRecords(), c.watcher, c.job.acks, c.job.finishing)
		c.watcher.history, c.owed.Back = before+1, nil
	})
	c.job.manager.cfg.Log.Warn("the job has gone back to a checkpoint", "job", c.job.ID, "steps", p.GetSteps(), "because", cause)
	c.job.setState(job.State_STARTING, nil)
}

// lastLoss is how a pserver has ended last.
func lastLoss(c *jobRun) (err error) {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	var last time.Duration
	for _, r := range c.machine.Roles() {
		if r.Role == job.Role_PSERVER && r.Last != nil && r.Since >= last {
			last, err = r.Since, r.Last
		}
	}
	return err
}

// forget removes what an attempt has left whose roles have all ended, and begins the next one.
func forget(ctx context.Context, c *jobRun) supervise.Effects {
	err := removeAttempt(ctx, c)
	if err == nil && c.scale.anew {
		placed(ctx, c)
	}
	var cause error
	effects := c.step(func() supervise.Event { // job.mu is held
		if cause = c.machine.Cause(); err == nil {
			c.job.startOver(c.watcher, c.finals, c.job.acks, c.job.finishing)
		}
		return supervise.Forgotten{Err: err}
	})
	if err == nil {
		c.job.manager.cfg.Log.Warn("the job starts over", "job", c.job.ID, "from", c.job.state.whereFrom(), "because", cause)
		c.job.setState(job.State_STARTING, nil)
	}
	return effects
}

// removeAttempt removes what the registry has of an attempt, and finds out where the next one begins. It may be repeated until roles of the next one start.
func removeAttempt(long context.Context, c *jobRun) error {
	ctx, cancel := context.WithTimeout(long, c.job.limits.Start) // no role can start while etcd is away
	defer cancel()
	if err := c.registry.Forget(ctx); err != nil {
		return err
	}
	if err := goBack(long, c.job); err != nil {
		return fault.E(fault.KindOf(err), fault.At("job "+c.job.ID), fault.Cause(err),
			fault.Hintf("its pservers are lost, and its checkpoints in %s cannot be read; when they can, go on with --resume", c.job.spec.Checkpoints.Store))
	}
	return nil
}

// cause finds out why the job has failed; nil when it has not. If err is what a role says that misses another role, cause waits for the end of that
// other role, because it tells more. It waits no longer than limits.LastReports.
func (c *jobRun) cause(err error) error {
	if err == nil || !consequence(err) {
		return c.during(err)
	}
	timer := time.NewTimer(c.job.limits.LastReports)
	defer timer.Stop()
	for {
		for _, f := range c.failures {
			if fault.IsLost(f.err) {
				return c.during(f.err)
			}
		}
		if len(c.running) == 0 {
			return c.orReported(err)
		}
		select {
		case event := <-c.events:
			c.step(event)
		case <-timer.C:
			return c.orReported(err)
		}
	}
}

// consequence reports whether an error may follow from the end of another role.
func consequence(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.DeadlineExceeded, fault.Stale, fault.Superseded, fault.Canceled:
		return true
	}
	return false
}

// orFailure returns why the job has failed, if err says that its coordinator is gone. It waits for the end of the job, no longer than
// limits.OrFailure. If the job goes on, or ends well, it returns err.
func (j *Job) orFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Canceled) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, j.limits.OrFailure())
	defer cancel()
	select {
	case <-j.done:
		if cause := wire.FaultOf(j.Status().Failure); cause != nil {
			return cause
		}
	case <-ctx.Done():
	}
	return err
}

// orReported returns the failure that the coordinator has reported, if any: the coordinator knows who was missing.
func (c *jobRun) orReported(err error) error {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	if c.job.reported != nil {
		return c.job.reported
	}
	return err
}

// during adds to the error of a lost member, or of lost state, how far the job was.
func (c *jobRun) during(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || !fault.IsLost(err) {
		return err
	}
	lost := *f
	s := c.job.Status()
	at := fmt.Sprintf("after %d steps, in pass %d", s.EarlierSteps+s.Steps, s.Pass)
	if lost.Got == "" {
		lost.Got = "a job that was lost " + at
	} else {
		lost.Got += ", " + at
	}
	return &lost
}
