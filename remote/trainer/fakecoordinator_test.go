package trainer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	machine "github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// A fakeCoordinator is a coordinator whose generations a test begins. What it decides, the pure machines of the coordinator decide: queue.Queue and
// generation.Decide.
type fakeCoordinator struct {
	rpc.UnimplementedCoordinatorServer
	policy  queue.Policy
	servers []rpc.ParameterServerClient

	changing sync.Mutex // one change at a time
	condition
	current machine.Generation
	began   []machine.Generation
	ended   id.Generation // generations up to this one have ended
	waiting map[uint32]*rpc.JoinRequest
	told    map[uint32]id.Generation // the last generation that each rank has joined
	data    *rpc.Dataset
	queue   *queue.Queue
	gets    int // requests for tasks
	failed  []*rpc.TaskFailedRequest
	reports []*rpc.TrainerStep
	asked   map[uint32]uint64  // the generation after which each rank has asked for another
	late    []*rpc.TrainerStep // reports of a generation by a process that had asked for another: they are not counted
	saver   *uint32
	left    map[uint32]*rpc.LeaveRequest
	noLeave bool                    // it answers no Leave
	hold    chan struct{}           // until it is closed no report is taken; nil: reports are taken at once
	known   int                     // reports that had been taken when somebody left last
	over    bool                    // all members have left: no other trainer is wanted
	failing func(generation uint64) // is called after a failed task in sync mode, when its generation has ended
	fence   uint64

	countsAgain bool // takes a report again that it has
	fedItems

	permitted uint64        // rounds below this number may begin
	permits   int           // requests for permission
	endRound  *uint64       // the first round that is not trained
	endAfter  int           // so many answers for tasks do not say endRound
	endAtJoin *uint64       // what answers to Join say as the end
	progress  *job.Progress // of the state that is saved

	withoutSave bool // it is only kept
}

func newFakeCoordinator(p queue.Policy, servers ...rpc.ParameterServerClient) *fakeCoordinator {
	p.Epoch = time.Now()
	return &fakeCoordinator{policy: p, fence: 5, servers: servers, condition: condition{changed: make(chan struct{})}, waiting: map[uint32]*rpc.JoinRequest{}, told: map[uint32]id.Generation{},
		asked: map[uint32]uint64{}, left: map[uint32]*rpc.LeaveRequest{}}
}

// A condition is a lock whose holders' changes others wait for.
type condition struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every change
}

// change changes the state under the lock and wakes those who wait.
func (c *condition) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until ok, which is called with the lock held.
func (c *condition) await(ctx context.Context, ok func() (bool, error)) error {
	for {
		c.mu.Lock()
		done, err := ok()
		changed := c.changed
		c.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *fakeCoordinator) id(generation id.Generation) *rpc.Identity {
	return wire.Identity{Job: pstest.Identity.Job, Program: pstest.Identity.Program, Generation: generation, Fence: id.Fence(c.fence)}.Of(0, 0, 0)
}

// end ends the current generation as far as the coordinator itself is concerned, and reports whether it had not ended before.
func (c *fakeCoordinator) end() (first bool) {
	c.change(func() {
		first = c.ended < c.current.Number
		c.ended = c.current.Number
	})
	return first
}

// errJobOver answers a trainer that waits for a generation when all others have ended.
var errJobOver = fault.New(fault.Canceled, "the job has ended")

// freeze ends the current generation at one server.
func (c *fakeCoordinator) freeze(ctx context.Context, server int) error {
	c.mu.Lock()
	who := c.id(c.current.Number)
	c.mu.Unlock()
	_, err := c.servers[server].Freeze(ctx, &rpc.FreezeRequest{Id: who})
	return err
}

// admit refuses messages of generations that have ended, in sync mode.
func (c *fakeCoordinator) admit(who *rpc.Identity) error {
	if c.policy.Sync && (id.Generation(who.Generation) <= c.ended || id.Generation(who.Generation) != c.current.Number) {
		return fault.New(fault.Superseded, "a generation that has ended")
	}
	return nil
}

// News tells that a generation has ended.
func (c *fakeCoordinator) News(ctx context.Context, m *rpc.NewsRequest) (*rpc.NewsResponse, error) {
	err := c.await(ctx, func() (bool, error) { return c.admit(m.Id) != nil, nil })
	return &rpc.NewsResponse{}, err
}

// members returns how many trainers the round that was committed had.
func (c *fakeCoordinator) members(round uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range slices.Backward(c.began) {
		if g.Round <= id.Round(round) {
			return len(g.Members)
		}
	}
	return 0
}

// begins reports whether the generation that committed the round began with it.
func (c *fakeCoordinator) begins(round uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.began, func(g machine.Generation) bool { return g.Round == id.Round(round) })
}

func (c *fakeCoordinator) Join(ctx context.Context, m *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	c.change(func() {
		if last := c.waiting[m.Id.Rank]; last == nil || last.Incarnation <= m.Incarnation { // else it was overtaken by the process that took its place
			c.waiting[m.Id.Rank], c.asked[m.Id.Rank] = m, m.Id.Generation
		}
	})
	var r *rpc.JoinResponse
	err := c.await(ctx, func() (bool, error) {
		position := c.current.Position(id.Rank(m.Id.Rank))
		if c.over {
			return false, errJobOver
		}
		if c.current.Number <= max(c.ended, id.Generation(m.Id.Generation)) || position < 0 {
			return false, nil
		}
		c.answered(m)
		c.told[m.Id.Rank] = c.current.Number
		close(c.changed)
		c.changed = make(chan struct{})
		r = &rpc.JoinResponse{Trainers: uint32(len(c.current.Members)), Generation: uint64(c.current.Number), Position: uint32(position),
			Round: uint64(c.current.Round),
			Fence: c.fence}
		if group := c.current.Group(id.Rank(m.Id.Rank)); len(group) > 1 {
			for _, member := range group {
				r.Group = append(r.Group, uint32(member.Rank))
			}
			r.LeaderAddress = group[0].At.Address
		}
		if c.policy.Sync {
			r.Segment, r.EndRound = c.policy.FirstSegment(), c.endAtJoin
			if c.queue != nil {
				r.Segment = c.queue.Segment(id.Round(c.current.Round))
			}
		}
		return true, nil
	})
	if err != nil {
		c.change(func() { c.answered(m) })
	}
	return r, err
}

// answered forgets a call of Join, unless the rank has made another. The lock is held.
func (c *fakeCoordinator) answered(m *rpc.JoinRequest) {
	if c.waiting[m.Id.Rank] == m {
		delete(c.waiting, m.Id.Rank)
	}
}

func (c *fakeCoordinator) Leave(_ context.Context, m *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	if c.noLeave {
		return nil, fault.New(fault.Unavailable, "gone")
	}
	c.change(func() {
		c.left[m.Id.Rank], c.known = m, len(c.reports)
		c.over = c.over || len(c.left) == len(c.current.Members)
	})
	return &rpc.LeaveResponse{}, nil
}

// regroup ends the current generation and begins the next one, of the ranks that are given, when all of them have joined.
func (c *fakeCoordinator) regroup(ctx context.Context, ranks ...uint32) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.end()
	next := machine.Generation{Number: c.current.Number + 1, Round: max(c.current.Round, c.policy.Start.Round)}
	if c.policy.Sync && c.current.Number > 0 {
		answers := make([]*rpc.FreezeResponse, len(c.servers))
		err := pstest.Parallel(len(c.servers), func(i int) (err error) {
			answers[i], err = c.servers[i].Freeze(ctx, &rpc.FreezeRequest{Id: c.id(c.current.Number)})
			return err
		})
		if err != nil {
			return err
		}
		if next.Round, next.Commit, err = machine.Decide(c.policy.Start.Round, 0, c.current, answers); err != nil {
			return err
		}
	}
	err := c.await(ctx, func() (bool, error) {
		next.Members = nil
		for _, rank := range ranks {
			if m := c.waiting[rank]; m != nil {
				next.Members = append(next.Members, machine.Member{Rank: id.Rank(rank), Since: next.Number, Incarnation: id.Incarnation(m.Incarnation),
					At: machine.Place{Host: m.Host, Address: m.Address}})
			}
		}
		return len(next.Members) == len(ranks), nil
	})
	if err != nil {
		return fmt.Errorf("generation %d of trainers %v has only %v: %w", next.Number, ranks, next.Members, err)
	}
	if c.queue != nil && c.queue.Regrouping() {
		if err := c.cut(ctx, uint64(next.Round)); err != nil {
			return err
		}
	}
	resume := &rpc.ResumeRequest{Id: c.id(next.Number), Round: uint64(next.Round), Commit: next.Commit}
	for _, m := range next.Members {
		leader := uint32(next.Leader(m.Rank))
		resume.Members = append(resume.Members, &rpc.Member{Rank: uint32(m.Rank), Since: uint64(m.Since), Leader: &leader})
	}
	err = pstest.Parallel(len(c.servers), func(i int) error {
		_, err := c.servers[i].Resume(ctx, resume)
		return err
	})
	c.change(func() {
		c.current = next
		c.began = append(c.began, next)
		c.handOutAgain(c.current.Round)
	})
	if err != nil {
		return err
	}
	return c.await(ctx, func() (bool, error) { // as the coordinator does: a trainer that has not joined a generation cannot know what became of the last one
		for _, rank := range ranks {
			if c.told[rank] != next.Number {
				return false, nil
			}
		}
		return true, nil
	})
}

// joined reports whether all members of the current generation know that they are. Before that, the coordinator does not end a generation.
func (c *fakeCoordinator) joined() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.current.Members, func(m machine.Member) bool { return c.told[uint32(m.Rank)] != c.current.Number })
}

// cut begins a segment after a task has failed.
func (c *fakeCoordinator) cut(ctx context.Context, round uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pass := c.queue.Segment(id.Round(round)).GetPass()
	ledger, err := wire.Ledger(ctx, "pserver 0", c.servers[0], &rpc.LedgerRequest{Job: pstest.Identity.Job, Ranges: true, Pass: pass})
	if err != nil {
		return err
	}
	e := queue.Regrouped{Round: id.Round(round), Pass: pass}
	for _, p := range ledger.Passes {
		if p.Pass == pass {
			e.Committed = ranges.Of(wire.RangesOf(p.Committed)...)
		}
	}
	_, err = c.queue.Step(0, e)
	return err
}

// committed returns the reports but those of rounds that have not committed in their generation, which their trainers could not know.
func (c *fakeCoordinator) committed() (reports []*rpc.TrainerStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.reports {
		next := slices.IndexFunc(c.began, func(g machine.Generation) bool { return g.Number == id.Generation(m.Id.Generation)+1 })
		if !m.Pending || next >= 0 && id.Round(m.Id.Round) < c.began[next].Round {
			reports = append(reports, m)
		}
	}
	return reports
}

func (c *fakeCoordinator) ReportDataset(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportDatasetResponse]) error {
	m := &rpc.ReportDatasetRequest{}
	if err := wire.Receive("coordinator", stream, m, wire.MaxDataset); err != nil {
		return err
	}
	var err error
	c.change(func() {
		if c.queue == nil {
			c.data = m.Dataset
			c.queue, _, err = queue.New(c.policy, queue.Dataset{Name: m.Dataset.Name, Files: m.Dataset.Files})
		}
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.ReportDatasetResponse{})
}

func (c *fakeCoordinator) GetTask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	r := &rpc.GetTaskResponse{}
	first := true
	err := c.await(ctx, func() (bool, error) {
		if err := c.admit(m.Id); err != nil {
			return false, err
		}
		for _, task := range m.Finished {
			if !first {
				break
			}
			if _, err := c.queue.Step(time.Since(c.policy.Epoch), queue.TaskFinished{Rank: id.Rank(m.Id.Rank), Since: id.Generation(m.Id.Generation), Task: task}); err != nil {
				return false, err
			}
			close(c.changed)
			c.changed = make(chan struct{})
		}
		if first && !m.ReportOnly {
			c.gets++
		}
		first = false
		if m.ReportOnly {
			return true, nil
		}
		effects, err := c.queue.Step(time.Since(c.policy.Epoch), queue.TaskWanted{Rank: id.Rank(m.Id.Rank), Since: id.Generation(m.Id.Generation), Request: m.Id.Round,
			Pass: m.Pass, Position: m.Position, Records: m.Records, Round: id.Round(m.Id.Round)})
		if err != nil {
			return false, err
		}
		g := effects.Grant
		r = &rpc.GetTaskResponse{Task: g.Task, Next: g.Next, EndOfPass: g.EndOfPass, EndOfData: g.EndOfData, Pending: g.Wait}
		if c.gets > c.endAfter {
			r.EndRound = c.endRound
		}
		return !g.Wait || !m.Wait, nil
	})
	return r, err
}

func (c *fakeCoordinator) Permit(ctx context.Context, m *rpc.PermitRequest) (*rpc.PermitResponse, error) {
	r := &rpc.PermitResponse{}
	c.change(func() { c.permits++ })
	err := c.await(ctx, func() (bool, error) {
		if err := c.admit(m.Id); err != nil {
			return false, err
		}
		r.Until, r.End = c.permitted, c.endRound != nil && m.Id.Round >= *c.endRound
		return r.End || r.Until > m.Id.Round, nil
	})
	return r, err
}

func (c *fakeCoordinator) TaskFailed(_ context.Context, m *rpc.TaskFailedRequest) (r *rpc.TaskFailedResponse, err error) {
	var ended id.Generation
	c.change(func() {
		if err = c.admit(m.Id); err != nil {
			return
		}
		c.failed = append(c.failed, m)
		_, err = c.queue.Step(time.Since(c.policy.Epoch), queue.TaskFailed{Rank: id.Rank(m.Id.Rank), Since: id.Generation(m.Id.Generation), Task: m.Task, Reason: m.Reason})
		if err == nil && c.policy.Sync {
			c.ended, ended = c.current.Number, c.current.Number
		}
	})
	if ended > 0 {
		c.failing(uint64(ended))
	}
	return &rpc.TaskFailedResponse{}, err
}

func (c *fakeCoordinator) RequestSaveModel(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	granted := false
	err := c.await(ctx, func() (bool, error) {
		if err := c.admit(m.Id); err != nil {
			return false, err
		}
		if c.saver == nil {
			c.saver = &m.Id.Rank
		}
		granted = *c.saver == m.Id.Rank
		return !granted || len(c.left) == len(c.current.Members)-1, nil
	})
	return &rpc.SaveModelResponse{Granted: granted, Progress: c.progress, WithoutSave: c.withoutSave}, err
}

func (c *fakeCoordinator) ReportSteps(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportStepsResponse]) error {
	m := &rpc.TrainerSteps{}
	if err := wire.Receive("trainer", stream, m, 1<<20); err != nil {
		return wire.FromStatus("trainer", err)
	}
	if c.hold != nil {
		<-c.hold
	}
	c.change(func() {
		for _, step := range m.Steps {
			round := step.Id.Round
			step.Id = proto.Clone(m.Id).(*rpc.Identity)
			step.Id.Round = round
			if !c.countsAgain && c.repeated(step) {
				continue
			}
			if c.reports = append(c.reports, step); m.Id.Generation <= c.asked[m.Id.Rank] {
				c.late = append(c.late, step)
			}
		}
	})
	return stream.SendAndClose(&rpc.ReportStepsResponse{})
}

// repeated reports whether a trainer of a sync job has sent the same report before, which it may do until it joins the next generation. Only a report of
// the same generation, with the same content, counts as the same.
func (c *fakeCoordinator) repeated(step *rpc.TrainerStep) bool {
	return slices.ContainsFunc(c.reports, func(have *rpc.TrainerStep) bool {
		a, b := proto.Clone(have).(*rpc.TrainerStep), proto.Clone(step).(*rpc.TrainerStep)
		a.Id.Retry, b.Id.Retry = 0, 0
		return proto.Equal(a, b) && step.GlobalRows > 0
	})
}
