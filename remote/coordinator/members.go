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

	evaluations *evaluations

	machine *generation.Machine // nil until core.ready
	begun   bool                // a generation has begun with this coordinator
	wanted  int                 // trainers; 0: nobody has said yet
	saver   *uint32             // who saves the model; durable
	records map[id.Rank]*memberRecord
	// lostServers are pservers whose parameters are gone, for this attempt of the job.
	lostServers map[int]bool
}

// memberRecord is what is known of the processes of a rank and is no business of the machine.
type memberRecord struct {
	lastError string // of the last one that has gone
	drained   bool   // one has drained since the last generation began
	losses    int    // how often the registry has reported that one is lost
}

func newMembers(c *core) *members {
	return &members{core: c, records: map[id.Rank]*memberRecord{}, lostServers: map[int]bool{}}
}

// record returns what is known of a rank, to be changed. The monitor is held.
func (m *members) record(rank id.Rank) *memberRecord {
	if m.records[rank] == nil {
		m.records[rank] = &memberRecord{}
	}
	return m.records[rank]
}

// whyGone tells whether the last process of a rank has drained, and its last error. The monitor is held.
func (m *members) whyGone(rank id.Rank) (drained bool, reason string) {
	r := m.record(rank)
	return r.drained, r.lastError
}

// begin starts the machine with what an earlier coordinator has left. live are the members that live now. The monitor is held.
func (m *members) begin(durable generation.State, live map[cluster.Member]id.Incarnation) {
	m.machine = generation.New(m.cfg.generationPolicy(), durable)
	m.ready = true
	if m.halted() { // the coordinator before may have been killed when some pservers had gone back: they do not have the state of one history
		m.cfg.Log.Warn("the job pauses, because it goes back to a checkpoint", "history", m.cfg.Awaits)
		m.awaitNext([]string{"the listener"}, func() {
			m.Fail(fault.E(fault.LostState, fault.At("coordinator"), fault.Gotf("no word of the listener for %v", m.cfg.StartDeadline), fault.Want("the request to go back to a checkpoint")))
		})
	}
	if m.wanted > 0 {
		_ = m.step(generation.Wanted{Trainers: m.wanted})
	}
	_ = m.step(generation.Began{})
	for _, old := range durable.Members {
		if m.cfg.Live != nil && live[trainerMember(old.Rank)] != old.Incarnation {
			_ = m.step(generation.Lost{Rank: old.Rank, Incarnation: old.Incarnation, Reason: "gone while there was no coordinator"})
		}
	}
	m.monitor.Broadcast()
}

// step tells the machine of an event and begins to carry out its effects. The monitor is held.
func (m *members) step(e generation.Event) error {
	if _, lost := e.(generation.ServerLost); m.ended || !m.ready || m.goesBack || m.halted() && !lost {
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

// halted reports whether the job waits for its listener to say that it goes back to a checkpoint. The machine is told nothing meanwhile: what it asks a
// pserver, one without the parameters might answer. The monitor is held.
func (m *members) halted() bool {
	return m.cfg.goesBack() && (len(m.lostServers) > 0 || m.cfg.Awaits > m.cfg.Back.GetHistory())
}

// event is step for those who do not hold the monitor.
func (m *members) event(e generation.Event) {
	m.locked(func() { _ = m.step(e) })
}

// keepTime tells the machine of deadlines, until the job ends.
func (m *members) keepTime() {
	next := func() time.Time {
		if at, ok := m.machine.Next(); ok && !m.halted() {
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
	from, incarnation := wire.SenderOf(r.Id), id.Incarnation(r.Incarnation)
	rank, last := from.Rank, from.Generation
	if err := m.joined(ctx, generation.Joined{Rank: rank, Incarnation: incarnation, Last: last, At: m.cfg.placeOf(r)}); err != nil {
		return nil, err
	}
	err = m.await(ctx, waitFor(trainerName(rank), "the other trainers"), func() (bool, error) {
		if m.ended && m.err == nil || m.machine.Left(rank) {
			answer = &rpc.JoinResponse{Fence: uint64(m.lead.Fence), DataEnded: true}
			return true, nil
		}
		g, ok := m.machine.Answer(rank, incarnation, last)
		if !ok {
			return false, nil
		}
		_ = m.step(generation.Answered{Rank: rank})
		answer, err = m.answer(rank, g)
		return true, err
	})
	return answer, err
}

// joined tells the machine of a trainer that waits for a generation, unless the lease of the trainer has ended. The registry reports the end of a lease
// once. When the machine knows the process, that report is still to come. For another process joined asks the registry, and asks again if a loss was
// reported meanwhile, because that may have been the report about this process.
func (m *members) joined(ctx context.Context, e generation.Joined) error {
	for losses := -1; ; {
		m.monitor.Lock()
		if m.cfg.Live == nil || losses == m.record(e.Rank).losses || slices.Contains(m.machine.Incarnations(e.Rank), e.Incarnation) {
			defer m.monitor.Unlock()
			if ctx.Err() != nil { // it does not wait any more, and may have taken leave since
				return gaveUp(ctx, "the other trainers")
			}
			return m.step(e)
		}
		losses = m.record(e.Rank).losses
		m.monitor.Unlock()
		live, err := m.cfg.Live(ctx)
		if err != nil {
			return err
		}
		if incarnation, lives := live[trainerMember(e.Rank)]; !lives || incarnation != e.Incarnation {
			return fault.E(fault.Fenced, fault.At(trainerMember(e.Rank).String()), fault.Gotf("the process of revision %d without a lease", e.Incarnation),
				fault.Want("one that lives"))
		}
	}
}

// answer is what a member has to know of its generation. The monitor is held.
func (m *members) answer(rank id.Rank, g generation.Generation) (*rpc.JoinResponse, error) {
	member, _ := g.Member(rank)
	r := &rpc.JoinResponse{Trainers: uint32(len(g.Members)), Generation: uint64(member.Since), Position: uint32(g.Position(rank)),
		Fence: uint64(m.lead.Fence), DataEnded: len(m.store.queues) > 0, Placement: m.cfg.Placement.GetNumber(), History: m.cfg.Back.GetHistory()}
	for name, q := range m.store.queues {
		r.DataEnded = r.DataEnded && q.Ended() && !m.evaluations.unfinished(g.Round)
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
	if !m.cfg.Sync {
		begin := m.cfg.start()
		r.Round, r.Segment = uint64(begin.Round), &rpc.Segment{Pass: begin.Pass, FirstRound: uint64(begin.Round)}
	}
	if m.cfg.Sync {
		r.Generation, r.Round = uint64(g.Number), uint64(g.Round)
		if group := g.Group(rank); len(group) > 1 {
			for _, member := range group {
				r.Group = append(r.Group, uint32(member.Rank))
			}
			r.LeaderAddress = group[0].At.Address
		}
		if r.Segment == nil && !m.cfg.Fed { // no dataset is reported yet
			r.Segment = m.cfg.queuePolicy(m.epoch).FirstSegment()
		}
	}
	return r, nil
}

// admit checks who calls, and waits until this coordinator may answer. If a caller names a later coordinator, this one asks the store whether it still has the
// lock, and ends if it has not. It does not take the word of the caller for it.
func (m *members) admit(ctx context.Context, who *rpc.Identity) error {
	if err := m.cfg.Identity.Check(who); err != nil {
		return err
	}
	from := wire.SenderOf(who)
	if n := max(m.cfg.Trainers, m.cfg.TrainersMax); int64(from.Rank) >= int64(n) {
		return fault.E(fault.Foreign, fault.Got(trainerName(from.Rank)), fault.Wantf("trainers 0 to %d", n-1))
	}
	reason := func() waits.Wait {
		return waits.Wait{Who: trainerName(from.Rank), What: "the coordinator's start", Unlisted: true}
	}
	var fence id.Fence
	if err := m.await(ctx, reason, func() (bool, error) { fence = m.lead.Fence; return m.ready, nil }); err != nil || from.Fence <= fence {
		return err
	}
	if err := m.store.holdsLock(ctx); err != nil {
		return fault.E(fault.Unavailable, fault.At("coordinator"), fault.Gotf("the fence %d from trainer %d", from.Fence, from.Rank), fault.Cause(err))
	}
	return fault.E(fault.Unavailable, fault.At("coordinator"), fault.Gotf("the fence %d from trainer %d", from.Fence, from.Rank), fault.Wantf("at most %d: nobody else has the lock", fence))
}

// isMember checks that a message comes from a member of the generation that trains now. fault.Superseded tells its sender to join the next generation;
// fault.Stale, that another process has taken its place. The monitor is held.
func (m *members) isMember(who *rpc.Identity) error {
	g, from := m.machine.Generation(), wire.SenderOf(who)
	member, ok := g.Member(from.Rank)
	switch {
	case m.cfg.late(who.Generation) && !m.cfg.Sync:
		return noMember(fault.Superseded, who, "a member of the next generation: the job has gone back to a checkpoint")
	case from.Generation > g.Number:
		return noMember(fault.Stale, who, fmt.Sprintf("at most generation %d", g.Number))
	case !m.cfg.Sync && (!ok || member.Since != from.Generation):
		return noMember(fault.Stale, who, "one that has not been given up")
	case m.cfg.Sync && (!ok || from.Generation != g.Number || m.machine.Phase() != generation.Running):
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
	rank := id.Rank(r.Id.Rank)
	m.monitor.Lock()
	member, isMember := m.machine.Generation().Member(rank)
	m.monitor.Unlock()
	if m.endedWell() { // all others have left, and the servers have told that this one was about to
		return nil
	}
	if isMember && r.Id.Generation > 0 && id.Generation(r.Id.Generation) < member.Since {
		return fault.E(fault.Stale, fault.At("coordinator"), fault.Gotf("leave of trainer %d as of generation %d", rank, r.Id.Generation),
			fault.Want("that of the process which took its place"))
	}
	if r.Failure == nil && !r.Drained && r.Id.Generation > 0 && m.cfg.late(r.Id.Generation) {
		return noMember(fault.Superseded, r.Id, "one that has trained again what was lost with a pserver")
	}
	switch {
	case r.Failure != nil:
		m.failed(r)
	case r.Drained:
		m.locked(func() {
			m.record(rank).drained = true
			_ = m.step(generation.Drained{Rank: rank})
		})
	case isMember:
		err := m.store.transact(ctx, func(t *txn) error {
			t.then(func() { _ = m.step(generation.Left{Rank: rank}); m.monitor.Broadcast() })
			return t.put(leftKey+fmt.Sprint(uint32(rank)), &state.Left{Rank: uint32(rank)})
		})
		if m.endedWell() {
			return nil
		}
		return err
	}
	return nil
}

// failed takes the leave of a trainer with a failure. A failure that another start cannot mend ends the job.
func (m *members) failed(r *rpc.LeaveRequest) {
	rank := id.Rank(r.Id.Rank)
	if r.Failure.Where == "" {
		r.Failure.Where = trainerName(rank)
	}
	err := wire.FaultOf(r.Failure)
	m.monitor.Lock()
	defer m.monitor.Unlock()
	if fault.KindOf(err).Permanent() {
		m.finish(err)
		return
	}
	m.record(rank).lastError = err.Error()
	for _, incarnation := range m.machine.Incarnations(rank) {
		_ = m.step(generation.Lost{Rank: rank, Incarnation: incarnation, Reason: err.Error()})
	}
}

// lost handles the end of the lease of a member that has not left. The incarnation tells whether another process has the rank by now.
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

// lostServer lets another server take the place of a lost one, if that had only initial parameters or has a standby. Otherwise the job cannot go on here: the listener
// ends it or begins its next attempt. The coordinator pauses until then, because the listener has the better error and would have to start a coordinator
// that ends again. If the listener does nothing, the job fails after the start deadline.
func (m *members) lostServer(index int) error {
	m.monitor.Lock()
	defer m.monitor.Unlock()
	if index >= len(m.cfg.Servers) { // of another placement
		return nil
	}
	if !m.machine.Progressed() || m.cfg.Standby {
		return m.step(generation.ServerLost{Server: index})
	}
	if m.lostServers[index] {
		return nil
	}
	m.lostServers[index] = true
	if m.halted() {
		m.changes.giveUpEffects()
	}
	m.cfg.Log.Warn("the job pauses, because parameters are gone", "pserver", index)
	m.awaitNext([]string{serverName(index)}, func() { m.event(generation.ServerLost{Server: index}) })
	return nil
}

// awaitNext waits for the listener to begin the next attempt, and calls otherwise if it does not within the start deadline. The monitor is held.
func (m *members) awaitNext(by []string, otherwise func()) {
	w := waits.Wait{Who: "coordinator", What: "the next attempt of the job, because parameters are gone", By: by, Since: time.Now(), Limit: m.cfg.StartDeadline}
	m.spawn(func() {
		err := m.await(m.ctx, func() waits.Wait { return w }, func() (bool, error) { return false, nil })
		if errors.Is(err, fault.DeadlineExceeded) {
			otherwise()
		}
	})
}

func (m *members) lostTrainer(ctx context.Context, who cluster.Member) error {
	rank := id.Rank(who.Index)
	var known []id.Incarnation
	m.locked(func() {
		m.record(rank).losses++
		known = m.machine.Incarnations(rank)
	})
	live, err := m.cfg.Live(ctx)
	if err != nil {
		return err
	}
	m.monitor.Lock()
	defer m.monitor.Unlock()
	for _, incarnation := range known {
		if live[who] == incarnation || m.machine.Phase() == generation.Ended {
			continue
		}
		_ = m.step(generation.Lost{Rank: rank, Incarnation: incarnation, Reason: m.record(rank).lastError})
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
