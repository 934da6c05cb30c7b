package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// members is the shell of the generation machine towards trainers: who joins, who leaves, who is lost. What the machine wants done is carried out by
// changes.
type members struct {
	*core
	store   *store
	changes *changes

	machine *generation.Machine // nil until core.ready
	begun   bool                // a generation has begun with this coordinator
	wanted  int                 // trainers; 0: not told yet
	saver   *uint32             // who saves the model; durable
	records map[uint32]*memberRecord
	// lostServers are pservers whose parameters are gone, for this attempt of the job.
	lostServers map[int]bool
}

// memberRecord is what is known of the processes of a rank beside the machine.
type memberRecord struct {
	lastError string // why the last one has gone
	drained   bool   // since the last generation began
	losses    int    // how often word of the loss of one has come
}

func newMembers(c *core) *members {
	return &members{core: c, records: map[uint32]*memberRecord{}, lostServers: map[int]bool{}}
}

// record returns what is known of a rank, to be changed. The monitor is held.
func (m *members) record(rank uint32) *memberRecord {
	if m.records[rank] == nil {
		m.records[rank] = &memberRecord{}
	}
	return m.records[rank]
}

// whyGone tells whether the last process of a rank has drained, and its last error. The monitor is held.
func (m *members) whyGone(rank uint32) (drained bool, reason string) {
	r := m.record(rank)
	return r.drained, r.lastError
}

// begin starts the machine with what an earlier coordinator has left. live are the members that live now. The monitor is held.
func (m *members) begin(durable generation.State, live map[cluster.Member]uint64) {
	m.machine = generation.New(m.cfg.generationPolicy(), durable)
	m.ready = true
	if m.wanted > 0 {
		_ = m.step(generation.Wanted{Trainers: m.wanted})
	}
	_ = m.step(generation.Began{})
	for _, old := range durable.Members {
		if m.cfg.Live != nil && id.Incarnation(live[trainerMember(uint32(old.Rank))]) != old.Incarnation {
			_ = m.step(generation.Lost{Rank: old.Rank, Incarnation: old.Incarnation, Reason: "gone while there was no coordinator"})
		}
	}
	m.monitor.Broadcast()
}

// step tells the machine of an event and begins to carry out its effects. The monitor is held.
func (m *members) step(e generation.Event) error {
	if m.ended || !m.ready {
		return nil
	}
	before := m.machine.Phase()
	out, err := m.machine.Step(m.now(), e)
	if err != nil {
		return err
	}
	m.changes.carryOut(out)
	if out.Superseded || before != m.machine.Phase() {
		m.monitor.Broadcast()
	}
	return nil
}

// event is step for those who do not hold the monitor.
func (m *members) event(e generation.Event) {
	m.locked(func() { _ = m.step(e) })
}

// keepTime tells the machine of deadlines, until the job ends.
func (m *members) keepTime() {
	next := func() time.Time {
		if at, ok := m.machine.Next(); ok {
			return m.epoch.Add(at)
		}
		return time.Time{}
	}
	for m.alarm(next) {
		m.event(generation.Tick{})
	}
}

// join waits for a generation that has the trainer as a member.
func (m *members) join(ctx context.Context, r *rpc.JoinRequest) (answer *rpc.JoinResponse, err error) {
	rank, last := r.Id.Rank, r.Id.Generation
	if err := m.joined(ctx, generation.Joined{Rank: id.Rank(rank), Incarnation: id.Incarnation(r.Incarnation), Last: id.Generation(last)}); err != nil {
		return nil, err
	}
	err = m.await(ctx, waitFor(trainerName(rank), "the other trainers"), func() (bool, error) {
		if m.ended && m.err == nil || m.machine.Left(id.Rank(rank)) {
			answer = &rpc.JoinResponse{Fence: m.lead.Fence, DataEnded: true}
			return true, nil
		}
		g, ok := m.machine.Answer(id.Rank(rank), id.Incarnation(r.Incarnation), id.Generation(last))
		if !ok {
			return false, nil
		}
		_ = m.step(generation.Answered{Rank: id.Rank(rank)})
		answer, err = m.answer(rank, g)
		return true, err
	})
	return answer, err
}

// joined takes the word of a trainer that waits for a generation, unless its lease has ended: of that nobody would tell once more. The loss of a
// process that is known here will be told. For another the registry is asked, and again if word of a loss has come meanwhile, which may have been its
// own.
func (m *members) joined(ctx context.Context, e generation.Joined) error {
	for losses := -1; ; {
		m.monitor.Lock()
		if m.cfg.Live == nil || losses == m.record(uint32(e.Rank)).losses || slices.Contains(m.machine.Incarnations(e.Rank), e.Incarnation) {
			defer m.monitor.Unlock()
			if ctx.Err() != nil { // it does not wait any more, and may have taken leave since
				return gaveUp(ctx, "the other trainers")
			}
			return m.step(e)
		}
		losses = m.record(uint32(e.Rank)).losses
		m.monitor.Unlock()
		live, err := m.cfg.Live(ctx)
		if err != nil {
			return err
		}
		if incarnation, lives := live[trainerMember(uint32(e.Rank))]; !lives || id.Incarnation(incarnation) != e.Incarnation {
			return fault.E(fault.Fenced, fault.At(trainerMember(uint32(e.Rank)).String()), fault.Gotf("the process of revision %d without a lease", e.Incarnation),
				fault.Want("one that lives"))
		}
	}
}

// answer is what a member has to know of its generation. The monitor is held.
func (m *members) answer(rank uint32, g generation.Generation) (*rpc.JoinResponse, error) {
	member, _ := g.Member(id.Rank(rank))
	r := &rpc.JoinResponse{Trainers: uint32(len(g.Members)), Generation: uint64(member.Since), Position: uint32(g.Position(id.Rank(rank))), Fence: m.lead.Fence,
		DataEnded: len(m.store.queues) > 0}
	if begin := m.cfg.Begin; m.cfg.Sync && !m.cfg.Fed { // until a dataset is reported
		r.Segment = &rpc.Segment{Pass: begin.GetPass(), FirstRound: begin.GetSteps(), FirstBatch: begin.GetBatch()}
	}
	for name, q := range m.store.queues {
		r.DataEnded = r.DataEnded && q.Ended()
		if !m.cfg.Sync {
			continue
		}
		if end, ok := q.EndRound(); ok {
			r.EndRound = (*uint64)(&end)
		}
		if r.Segment = q.Segment(g.Round); r.Segment == nil {
			return nil, fault.E(fault.Internal, fault.At("dataset "+fault.Quote(name)),
				fault.Gotf("round %d, of which it is not known where it lies", g.Round))
		}
	}
	if m.cfg.Sync {
		r.Generation, r.Round = uint64(g.Number), uint64(g.Round)
		if r.Segment == nil { // no dataset is reported yet
			r.Segment = m.cfg.queuePolicy(m.epoch).FirstSegment()
		}
	}
	return r, nil
}

// admit checks who speaks, and waits until this coordinator may answer. One that hears of a later coordinator ends.
func (m *members) admit(ctx context.Context, id *rpc.Identity) error {
	if err := m.cfg.Identity.Check(id); err != nil {
		return err
	}
	if n := max(m.cfg.Trainers, m.cfg.TrainersMax); int64(id.Rank) >= int64(n) {
		return fault.E(fault.Foreign, fault.Got(trainerName(id.Rank)), fault.Wantf("trainers 0 to %d", n-1))
	}
	return m.await(ctx, waitFor(trainerName(id.Rank), "the coordinator's start"), func() (bool, error) {
		if m.ready && id.Fence > m.lead.Fence {
			return false, m.lostLock(fmt.Sprintf("trainer %d has heard of fence %d", id.Rank, id.Fence))
		}
		return m.ready, nil
	})
}

// isMember checks that a message comes from a member of the generation that trains now: fault.Superseded tells its sender to join the next one, and
// fault.Stale that another has taken its place. The monitor is held.
func (m *members) isMember(who *rpc.Identity) error {
	g := m.machine.Generation()
	member, ok := g.Member(id.Rank(who.Rank))
	switch {
	case id.Generation(who.Generation) > g.Number:
		return noMember(fault.Stale, who, fmt.Sprintf("at most generation %d", g.Number))
	case !m.cfg.Sync && (!ok || member.Since != id.Generation(who.Generation)):
		return noMember(fault.Stale, who, "one that has not been given up")
	case m.cfg.Sync && (!ok || id.Generation(who.Generation) != g.Number || m.machine.Phase() != generation.Running):
		return noMember(fault.Superseded, who, "a member of the next generation")
	}
	return nil
}

// check is isMember for those who do not hold the monitor.
func (m *members) check(id *rpc.Identity) error {
	m.monitor.Lock()
	defer m.monitor.Unlock()
	return m.isMember(id)
}

// leave takes a trainer's last message.
func (m *members) leave(ctx context.Context, r *rpc.LeaveRequest) error {
	rank := r.Id.Rank
	m.monitor.Lock()
	member, isMember := m.machine.Generation().Member(id.Rank(rank))
	m.monitor.Unlock()
	if m.endedWell() { // all others have left, and the servers have told that this one was about to
		return nil
	}
	if isMember && r.Id.Generation > 0 && id.Generation(r.Id.Generation) < member.Since {
		return fault.E(fault.Stale, fault.At("coordinator"), fault.Gotf("leave of trainer %d as of generation %d", rank, r.Id.Generation),
			fault.Want("that of the process which took its place"))
	}
	switch {
	case r.Failure != nil:
		m.failed(r)
	case r.Drained:
		m.locked(func() {
			m.record(rank).drained = true
			_ = m.step(generation.Drained{Rank: id.Rank(rank)})
		})
	case isMember:
		err := m.store.transact(ctx, func(t *txn) error {
			t.then(func() { _ = m.step(generation.Left{Rank: id.Rank(rank)}); m.monitor.Broadcast() })
			return t.put(leftKey+fmt.Sprint(rank), &state.Left{Rank: rank})
		})
		if m.endedWell() {
			return nil
		}
		return err
	}
	return nil
}

// failed takes the leave of a trainer with a failure: one that another start cannot mend ends the job.
func (m *members) failed(r *rpc.LeaveRequest) {
	if r.Failure.Where == "" {
		r.Failure.Where = trainerName(r.Id.Rank)
	}
	err := wire.FaultOf(r.Failure)
	m.monitor.Lock()
	defer m.monitor.Unlock()
	if fault.KindOf(err).Permanent() {
		m.finish(err)
		return
	}
	m.record(r.Id.Rank).lastError = err.Error()
	for _, incarnation := range m.machine.Incarnations(id.Rank(r.Id.Rank)) {
		_ = m.step(generation.Lost{Rank: id.Rank(r.Id.Rank), Incarnation: incarnation, Reason: err.Error()})
	}
}

// lost takes the word that the lease of a member has ended without its having left. A trainer that has come back since is known by its incarnation.
func (m *members) lost(ctx context.Context, who cluster.Member) error {
	err := m.await(ctx, waitFor("", "the coordinator's start"), func() (bool, error) { return m.ready || m.ended, nil })
	if err != nil {
		return nil // the job has ended, or the caller has
	}
	over := false
	m.locked(func() { over = m.ended || m.machine.Phase() == generation.Ended })
	switch {
	case over:
	case who.Role == job.Role_PSERVER:
		return m.lostServer(who.Index)
	case who.Role == job.Role_TRAINER:
		return m.lostTrainer(ctx, who)
	}
	return nil
}

// lostServer lets another server take the place of one that had nothing to lose. The loss of any other cannot be mended here: who supervises the job
// ends it, or begins its next attempt, and the coordinator pauses until then, because its own end would tell less and be one more thing to mend. It
// fails where nobody does anything.
func (m *members) lostServer(index int) error {
	m.monitor.Lock()
	defer m.monitor.Unlock()
	if !m.machine.Progressed() {
		return m.step(generation.ServerLost{Server: index})
	}
	if m.lostServers[index] {
		return nil
	}
	m.lostServers[index] = true
	m.cfg.Log.Warn("the job pauses, because parameters are gone", "pserver", index)
	w := waits.Wait{Who: "coordinator", What: "the job to begin again, because parameters are gone", By: []string{serverName(index)},
		Since: time.Now(), Limit: m.cfg.StartDeadline}
	m.spawn(func() {
		err := m.await(m.ctx, func() waits.Wait { return w }, func() (bool, error) { return false, nil })
		if errors.Is(err, fault.DeadlineExceeded) {
			m.event(generation.ServerLost{Server: index})
		}
	})
	return nil
}

func (m *members) lostTrainer(ctx context.Context, who cluster.Member) error {
	rank := uint32(who.Index)
	var known []id.Incarnation
	m.locked(func() {
		m.record(rank).losses++
		known = m.machine.Incarnations(id.Rank(rank))
	})
	live, err := m.cfg.Live(ctx)
	if err != nil {
		return err
	}
	m.monitor.Lock()
	defer m.monitor.Unlock()
	for _, incarnation := range known {
		if id.Incarnation(live[who]) == incarnation || m.machine.Phase() == generation.Ended {
			continue
		}
		_ = m.step(generation.Lost{Rank: id.Rank(rank), Incarnation: incarnation, Reason: m.record(rank).lastError})
	}
	return nil
}

// want says how many trainers an elastic job is to have.
func (m *members) want(trainers int) {
	m.locked(func() {
		m.wanted = trainers
		_ = m.step(generation.Wanted{Trainers: trainers})
	})
}
