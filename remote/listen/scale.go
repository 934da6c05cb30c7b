package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/wire"
)

// A placement is a plan for a number of pservers. A job begins with one, and has another one after each change of that number.
type placement struct {
	*plan
	number uint64
	before []*job.Held // what pservers keep in the placement that it follows
	after  uint64      // number of that placement
}

// placing is which placement a job has. The coordinator decides, by what is durable. The listener hears of it, and gives roles that start both meanwhile.
type placing struct {
	now     *placement
	next    *placement // that the job may have changed to; nil: none
	numbers uint64     // of the last placement
	changes bool       // a change to another placement is under way
	wish    *wish      // a change that waits; nil: none does
}

// of is the placement whose programs a role is to have that starts. A pserver that only the next one has is of the next one.
func (p *placing) of(m cluster.Member) *placement {
	if m.Role == job.Role_PSERVER && m.Index >= len(p.now.pservers) && p.next != nil {
		return p.next
	}
	return p.now
}

// release drops the programs of a job that has ended.
func (p *placing) release() {
	p.now = &placement{plan: &plan{loads: p.now.loads, pservers: make([][]byte, len(p.now.pservers))}, number: p.now.number}
	p.next = nil
}

// spec is the specification of a job with this placement.
func (p *placement) spec(of *job.JobSpec) *job.JobSpec {
	if int(of.Pservers) == len(p.pservers) {
		return of
	}
	of = proto.CloneOf(of)
	of.Pservers = int32(len(p.pservers))
	return of
}

// message is the placement with the programs of trainers; nil where there is none.
func (p *placement) message() *job.Placement {
	if p == nil {
		return nil
	}
	return &job.Placement{Number: p.number, Pservers: int32(len(p.pservers)), Program: p.trainer, SaveProgram: p.save}
}

// held lists what the pservers of a plan keep.
func (p *plan) held() (list []*job.Held, err error) {
	for server, encoded := range p.pservers {
		program, err := program.Decode(encoded, program.DefaultLimits())
		if err != nil {
			return nil, err
		}
		for _, op := range program.Global().Ops {
			if op.Type != "listen_and_serv" {
				continue
			}
			service, err := comm.ServiceOf(op)
			if err != nil {
				return nil, err
			}
			for _, s := range service.Slices {
				list = append(list, &job.Held{Server: uint32(server), Name: s.Name, Origin: s.Origin, FirstRow: s.FirstRow, Rows: s.Rows, TotalRows: s.TotalRows})
			}
		}
	}
	return list, nil
}

// scaling is a change of the number of pservers that is under way. The goroutine of jobRun.run uses it.
type scaling struct {
	to     *placement
	anew   bool               // the next attempt has it
	cancel context.CancelFunc // ends what asks for the move; nil: nothing does. Roles that start again must not hear of a move that was given up
	ended  chan<- error       // has room; nil: nothing is under way
}

// end tells whoever waits how the change has ended.
func (s *scaling) end(err error) {
	if s.cancel != nil {
		s.cancel()
	}
	if s.ended != nil {
		s.ended <- err
	}
	*s = scaling{}
}

// scaleServers changes the number of pservers of a job, and returns when it has changed. It waits for the moment at which the job can begin to; another call that comes
// meanwhile takes its place. A change that has begun goes on if ctx ends.
func scaleServers(ctx context.Context, j *Job, servers int32) error {
	where := fault.At("job " + j.ID)
	var c *jobRun
	j.withLock(func() { c = j.roles })
	least, most := jobspec.PserverBounds(j.spec)
	switch got, want := jobspec.FixedPservers(j.spec); {
	case got != "":
		return fault.E(fault.Unsupported, where, fault.Got("another number of pservers "+got), fault.Want(want))
	case servers < least || servers > most:
		return fault.E(fault.InvalidArgument, where, fault.Gotf("%d pservers", servers), fault.Wantf("%d to %d", least, most))
	case c == nil:
		return fault.E(fault.Unavailable, where, fault.Got("a job that does not run"))
	}
	w := enterWish(j, int(servers))
	defer leaveWish(j, w)
	for {
		if err := w.await(ctx, c); err != nil {
			return err
		}
		have := 0
		j.withLock(func() { have = len(j.placing.now.pservers) })
		if have == int(servers) {
			return nil
		}
		if err := changeServers(ctx, j, c, servers); !errors.Is(err, errBusy) {
			return err
		}
	}
}

// errBusy says that a job has become busy, so that a change of its pservers has not begun.
var errBusy = errors.New("the job is busy")

// changeServers changes the number of pservers of a job that can, and returns when it has changed.
func changeServers(ctx context.Context, j *Job, c *jobRun, servers int32) error {
	where := fault.At("job " + j.ID)
	to, err := nextPlacement(ctx, j, servers)
	if err != nil {
		return err
	}
	anew := j.spec.Mode != job.Mode_SYNC
	if anew {
		if _, err := save(ctx, j); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	c.happen(func() supervise.Event { // job.mu is held
		if busyWith(c, int(servers)) != nil || to.after != j.placing.now.number {
			ended <- errBusy
			return supervise.Tick{}
		}
		c.scale = scaling{to: to, anew: anew, ended: ended}
		j.placing.changes = true
		if !anew {
			j.placing.next = to
		}
		return supervise.Scaled{Servers: int(servers), Anew: anew}
	})
	select {
	case err = <-ended:
	case <-c.over:
		select {
		case err = <-ended:
		default:
			err = fault.E(fault.Unavailable, where, fault.Got("a job that has ended"))
		}
	case <-ctx.Done():
		err = fault.E(fault.DeadlineExceeded, where, fault.Gotf("a change to %d pservers that goes on", servers), fault.Cause(context.Cause(ctx)))
	}
	return err
}

// nextPlacement makes the programs of a job for another number of pservers.
func nextPlacement(ctx context.Context, j *Job, servers int32) (*placement, error) {
	spec := proto.CloneOf(j.spec)
	spec.Pservers = servers
	var now plan // a copy, because the job may end meanwhile
	to := &placement{}
	j.withLock(func() {
		spec.Program, now, to.after = j.plan.encoded, *j.placing.now.plan, j.placing.now.number
		j.placing.numbers++
		to.number = j.placing.numbers
	})
	if len(spec.Program) == 0 {
		return nil, fault.E(fault.Unavailable, fault.At("job "+j.ID), fault.Got("a job that has ended"))
	}
	err := now.maker.sameBuild("job "+j.ID, "another number of pservers", "let \"edl jobs suspend\" and the end of the job, or its next run, come first: it has its number of pservers until then")
	if err == nil {
		to.before, err = now.held()
	}
	if err == nil {
		to.plan, err = newPlan(ctx, spec)
	}
	if err == nil && j.journal != nil {
		err = writePrograms(j.journal.dir, to.plan)
	}
	return to, err
}

// askToMove lets the state of a job move to the pservers of its next placement, which have started or run.
func askToMove(ctx context.Context, c *jobRun, number int, to *placement) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.group.Go(func() { // the job may end meanwhile
		select {
		case <-c.over:
			cancel()
		case <-ctx.Done():
		}
	})
	within := func(do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, c.job.limits.Start)
		defer cancel()
		return do(ctx)
	}
	log := c.job.manager.cfg.Log.With("job", c.job.ID, "pservers", len(to.pservers))
	asked := false
	err := within(func(ctx context.Context) error { return prepareServers(ctx, c, to) })
	if err == nil {
		err = copyAhead(ctx, c, to, log)
	}
	if err == nil {
		began := time.Now()
		var answer *rpc.MoveResponse
		asked = true
		if err = within(func(ctx context.Context) (err error) { answer, err = moveState(ctx, c, to); return err }); err == nil {
			if err = wire.FaultOf(answer.Failure); err != nil {
				asked = false
			}
			log.Info("the state of the job has moved", "bytes", answer.Bytes, "paused", time.Duration(answer.Nanoseconds), "took", time.Since(began), "failure", err)
		} else if fault.KindOf(err).Permanent() { // refused before anything has begun
			asked = false
		}
	}
	c.happen(func() supervise.Event { return supervise.Moved{Number: number, Err: err, Unknown: err != nil && asked} })
}

// copyAhead lets every pserver of a placement that is prepared copy what it will have, while the job trains. A pserver gives up when one of those that it
// copies from is silent for round_deadline, and this when a pserver is away for so long as roles may take to start.
func copyAhead(ctx context.Context, c *jobRun, to *placement, log *slog.Logger) error {
	began := time.Now()
	var bytes atomic.Int64
	err := wire.EachServer(ctx, len(to.pservers), func(ctx context.Context, i int) error {
		client, err := c.peers.of.Server(i)
		if err != nil {
			return err
		}
		return wire.RetryWithin(ctx, c.job.limits.Start, func(id.Retry) error {
			a, err := client.Restore(ctx, &rpc.RestoreRequest{Id: identityOf(c.job), Placement: to.number, Ahead: true}, grpc.WaitForReady(false))
			bytes.Add(a.GetBytes())
			return wire.FromStatus(fmt.Sprintf("pserver %d", i), err)
		})
	})
	log.Info("copied to the next pservers while the job trains", "bytes", bytes.Load(), "took", time.Since(began), "failure", err)
	return err
}

// prepareServers makes every pserver of a placement ready, also those that start.
func prepareServers(ctx context.Context, c *jobRun, to *placement) error {
	for i := range to.pservers {
		client, err := c.peers.of.Server(i)
		if err != nil {
			return err
		}
		m := &rpc.PrepareRequest{To: &job.Placement{Number: to.number, Pservers: int32(len(to.pservers)), Program: to.pservers[i], Before: to.before, Follows: to.after}}
		err = wire.Retry(ctx, func(id.Retry) error {
			call, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := client.Prepare(call, grpc.WaitForReady(true))
			if err == nil {
				sent := wire.SendAs(stream, identityOf(c.job), m)
				if _, err = stream.CloseAndRecv(); err == nil {
					err = sent
				}
			}
			return wire.FromStatus(fmt.Sprintf("pserver %d", i), err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// moveState asks the coordinator until it knows what has become of the move. The coordinator ends with the move; the next one answers.
func moveState(ctx context.Context, c *jobRun, to *placement) (answer *rpc.MoveResponse, err error) {
	err = wire.RetrySoon(ctx, retryPause, func(id.Retry) error {
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.peers.coordinator.Move(call, grpc.WaitForReady(true))
		if err == nil {
			sent := wire.SendAs(stream, identityOf(c.job), &rpc.MoveRequest{To: to.message()})
			if answer, err = stream.CloseAndRecv(); err == nil {
				err = sent
			}
		}
		if err = wire.FromStatus("coordinator", err); errors.Is(err, fault.Canceled) && ctx.Err() == nil { // its end
			err = fault.E(fault.Unavailable, fault.Cause(err))
		}
		return err
	})
	return answer, err
}

// stays notes that the job has the placement that it had.
func stays(c *jobRun, err error) {
	c.job.withLock(func() {
		c.job.placing.next, c.job.placing.changes = nil, false
		wake(c)
	})
	c.scale.end(err)
}

// placed makes the placement that the job has changed to the one that roles start with.
func placed(ctx context.Context, c *jobRun) {
	to := c.scale.to
	c.job.withLock(func() {
		c.job.placing.now, c.job.placing.next, c.job.placing.changes = to, nil, false
		c.job.status.Placement = to.loads
		wake(c)
	})
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Registry)
	defer cancel()
	if err := c.registry.SetDesired(ctx, len(to.pservers)); err != nil {
		c.job.manager.cfg.Log.Warn("the cluster's store has an earlier number of pservers", "job", c.job.ID, "error", err)
	}
	c.job.manager.rememberServers(c.job, len(to.pservers))
	c.scale.end(nil)
}
