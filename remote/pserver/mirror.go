package pserver

import (
	"context"
	"errors"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// A mirror keeps the standby of a server equal to the server. standby.go has the other end.
//
//	server                                         standby
//	                                         <---  Follow, and a connection of the data plane
//	Begin                                    --->  is in step no more: it must not take over
//	                                         <---  Ack of each
//	State, with some slices   --+            --->  takes them
//	Round, with merges          +- any order --->  applies the round to all that it has
//	Synced, behind the last slice            --->  is in step: it may take over
//	Round, with merges                       --->
//	                                         <---  Ack: only now the server tells anybody that the round is applied
//
// The slices are sent between two rounds, some at a time (portions.go), while trainers compute. So a standby catches up while training goes on, and neither end keeps a
// copy for it. What a round is made of is sent once, however many trainers there are, while the server runs its updates. What Freeze, Resume and Complete
// change is at the standby before they are answered.
//
// From Synced on the server goes no further without the standby: it may be that the standby takes over, and does not know of the rounds after that. A
// server whose connection to a standby in step has ended waits until a standby begins anew, which is the same process or one that was started after it.
//
// asyncmirror.go has what differs in an async job.
type mirror struct {
	core    *core
	service *comm.Service
	values  *values
	targets []string        // what contributions merge into
	table   dataplane.Table // of targets, then of slices
	portion [][]int         // the slices, in the order in which a standby gets them
	wake    chan struct{}   // has a token when there may be something to send between two rounds

	current *follower // nil: there is no standby
	told    *Updates  // async: what a standby that was told everything knows of trainers; nil in sync mode. The lock of core guards it
	ends    bool      // the server ends without its standby
	latest  telling   // sync: of the round that is being applied, or that was applied last
}

// A telling says that a standby was told what a round is made of, or that there was none to be told.
type telling struct {
	round   id.Round
	any     bool      // there was a round
	to      *follower // nil: there was no standby
	message uint64
}

// A follower is a standby as its server sees it. The lock of core guards it.
type follower struct {
	start   uint32 // of the process: see FollowRequest
	offer   *dataplane.Offer
	queue   []message
	more    chan struct{} // has a token when queue has something
	told    uint64        // messages that were put into queue
	acked   uint64        // messages that the standby has
	asked   uint64        // the last message of slices
	started bool          // it is told of rounds
	next    int           // of the portions: those before it were sent
	synced  bool          // it may take over
	inStep  uint64        // the message that tells it so
	ended   bool          // nothing more is read or written on its connection
	done    chan struct{} // closed then
}

// A message is what follows the slices that belong to it.
type message struct {
	slices []int
	what   *rpc.Standing
}

// beginWait is how long a server waits for the first word of a standby, and overWait how long the end of a job waits for a standby to hear of it.
const (
	beginWait = 10 * time.Second
	overWait  = time.Second
)

// newMirror returns the mirror of a server that has opened its variables.
func newMirror(c *core, service *comm.Service, v *values) (*mirror, error) {
	m := &mirror{core: c, service: service, values: v, wake: make(chan struct{}, 1)}
	for _, list := range [][]comm.Contribution{service.Grads, service.States} {
		for _, contribution := range list {
			m.targets = append(m.targets, contribution.Target())
		}
	}
	names, rows := m.targets, rowsOf(service)
	for _, slice := range service.Slices {
		names = append(names[:len(names):len(names)], slice.Name)
	}
	for _, name := range names {
		t, ok := v.Variable(name)
		if !ok {
			return nil, noTensor(name)
		}
		if _, err := wire.Memory(t); err != nil {
			return nil, err
		}
		slice := dataplane.SliceOf(name, t)
		slice.Rows = rows[name]
		m.table = append(m.table, slice)
	}
	if !service.Sync {
		m.told = NewUpdates(c.cfg.MaxTrainers, namesOf(service))
	}
	var err error
	m.portion, err = portionsOf(service, v.BlockRunner, func(slice int) int { return m.table[len(m.targets)+slice].Bytes })
	return m, err
}

// memory returns the elements of a slice of the table that travel.
func (m *mirror) memory(slice int) ([]byte, error) {
	t, ok := m.values.Variable(m.table[slice].Name)
	if !ok || int(t.Bytes()) != m.table[slice].Bytes {
		return nil, fault.E(fault.Internal, fault.Var(m.table[slice].Name), fault.Got("another variable"), fault.Want("the variable as it was at first"))
	}
	b, err := wire.Memory(t)
	if err != nil {
		return nil, err
	}
	used, err := m.table[slice].Used(b)
	return b[:used], err
}

// Follow implements the rpc.
func (s *Server) Follow(ctx context.Context, r *rpc.FollowRequest) (*rpc.FollowResponse, error) {
	if err := s.admit(ctx, r.Id); err != nil {
		return nil, err
	}
	c, m := s.core, s.core.mirror
	if m == nil || c.cfg.Data == nil {
		return nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a standby"), fault.Want("a server of a job with standbys")))
	}
	f := &follower{start: r.Start, more: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	f.offer, err = c.cfg.Data.Offer(dataplane.Layout{Receive: m.table}, func(ctx context.Context, conn *dataplane.Conn) { m.serve(ctx, f, conn) })
	if err != nil {
		return nil, err
	}
	at := c.cfg.Data.Place(f.offer.Token)
	return &rpc.FollowResponse{Token: at.Token, Address: at.Address, Slices: infos(m.table)}, nil
}

// serve tells a standby what it has to know, until its connection ends.
func (m *mirror) serve(ctx context.Context, f *follower, conn *dataplane.Conn) {
	c := m.core
	if err := m.begin(ctx, f, conn); err != nil {
		conn.Fail(c.refuse(err))
		return
	}
	read := make(chan struct{})
	go func() { // ends when the connection does
		defer close(read)
		defer f.offer.Close()
		for {
			h, err := conn.ReadHead()
			if err != nil || h.Kind != dataplane.Ack || conn.End(h) != nil {
				return
			}
			c.Lock()
			f.acked = uint64(h.Round)
			c.Broadcast()
			lacks := !f.synced
			c.Unlock()
			if lacks {
				m.mayCatchUp()
			}
		}
	}()
	for ctx.Err() == nil {
		c.Lock()
		var next *message
		if len(f.queue) > 0 {
			next = &f.queue[0]
			f.queue = f.queue[1:]
		}
		c.Unlock()
		if next == nil {
			select {
			case <-f.more:
			case <-ctx.Done():
			}
			continue
		}
		if m.write(conn, f, *next) != nil {
			break
		}
	}
	f.offer.Close() // ends the reader
	<-read
	c.Lock()
	defer c.Unlock()
	f.ended = true
	close(f.done)
	if m.current == f && !f.synced {
		m.current = nil
	}
	c.cfg.Log.Info("no connection to the standby any more", "in step", f.synced)
	c.changed()
}

func (m *mirror) write(conn *dataplane.Conn, f *follower, next message) error {
	if len(next.slices) > 0 {
		if err := conn.WriteSlices(dataplane.Head{Kind: dataplane.Params}, next.slices, m.memory); err != nil {
			return err
		}
	}
	return conn.WriteMessage(dataplane.Head{Kind: dataplane.Declare}, next.what)
}

// begin makes a standby the one of this server, when it knows that it is in step no more.
func (m *mirror) begin(ctx context.Context, f *follower, conn *dataplane.Conn) error {
	c := m.core
	c.Lock()
	ends := m.ends || c.Ended()
	c.Unlock()
	if ends {
		return fault.E(fault.Unavailable, fault.At(c.Where), fault.Got("a standby that begins"), fault.Want("a server that goes on; this one ends"))
	}
	conn.Bound(ctx, time.Now().Add(beginWait))
	defer conn.Bound(ctx, time.Time{})
	if err := conn.WriteMessage(dataplane.Head{Kind: dataplane.Declare}, &rpc.Standing{Kind: rpc.Standing_BEGIN}); err != nil {
		return err
	}
	h, err := conn.ReadHead()
	if err == nil {
		err = conn.End(h)
	}
	if err != nil {
		return err
	}
	c.Lock()
	defer c.Unlock()
	if old := m.current; old != nil {
		if old.start > f.start {
			return fault.E(fault.Stale, fault.At(c.Where), fault.Gotf("the standby of start %d", f.start), fault.Wantf("that of start %d", old.start))
		}
		old.offer.Close()
	}
	f.told, f.acked = 1, 1
	m.current = f
	c.cfg.Log.Info("a standby catches up", "start", f.start)
	c.changed()
	m.mayCatchUp()
	return nil
}

// mayWake has a token when there may be something to send between two rounds; nil without a standby.
func (m *mirror) mayWake() <-chan struct{} {
	if m == nil {
		return nil
	}
	return m.wake
}

// mayCatchUp lets the goroutine that applies rounds look whether the standby lacks something.
func (m *mirror) mayCatchUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// put enters a message. The lock is held. It returns the number of the message.
func (m *mirror) put(f *follower, kind rpc.Standing_Kind, slices []int) uint64 {
	what := standingMessage(standingNow(m.core))
	what.Kind = kind
	switch {
	case m.told != nil:
		asyncMirror{m}.standing(what)
	case kind == rpc.Standing_SYNCED || kind == rpc.Standing_ROUND:
		what.Round, what.Applied = uint64(m.core.rounds.Round()), declaredMessages(m.core.rounds.lastApplied)
	}
	if kind == rpc.Standing_SYNCED && m.core.ledger != nil {
		what.Ledger = m.core.ledger.Encode()
	}
	return m.enqueue(f, message{slices, what})
}

// standingNow is what a standby has to know now, beside contributions. The lock is held.
func standingNow(c *core) Standing {
	if c.updates != nil {
		return standingOfUpdates(c.updates)
	}
	return standingOf(c.rounds)
}

func standingMessage(s Standing) *rpc.Standing {
	what := &rpc.Standing{Generation: uint64(s.Generation), Ended: uint64(s.Ended), Fence: uint64(s.Fence), First: uint64(s.First), History: s.History,
		Back: uint64(s.Back)}
	for _, member := range s.Members {
		leader := uint32(member.Leader)
		what.Members = append(what.Members, &rpc.Member{Rank: uint32(member.Rank), Since: uint64(member.Since), Leader: &leader})
	}
	for _, rank := range s.Completed {
		what.Completed = append(what.Completed, uint32(rank))
	}
	for _, c := range s.Clocks {
		what.Clocks = append(what.Clocks, &rpc.Clock{Rank: uint32(c.Rank), Since: uint64(c.since), Counts: c.counts, Pushes: c.pushes, Told: uint64(c.told)})
	}
	return what
}

// enqueue has a message sent. The lock is held. It returns the number of the message.
func (m *mirror) enqueue(f *follower, next message) uint64 {
	f.queue = append(f.queue, next)
	f.told++
	select {
	case f.more <- struct{}{}:
	default:
	}
	return f.told
}

// has reports whether a standby has a message, or nobody needs it to: the standby that the message was for has never been in step, or has another in its
// place. The lock is held. Nothing reads on what the message was sent of then.
func (m *mirror) has(f *follower, number uint64) bool {
	return f.acked >= number || f.ended && m.current != f
}

// await returns when the standby has a message.
func (m *mirror) await(ctx context.Context, f *follower, number uint64) error {
	c := m.core
	c.Lock()
	if m.has(f, number) {
		defer c.Unlock()
		return c.Err()
	}
	c.unfollowed++
	c.Unlock()
	defer func() {
		c.Lock()
		c.unfollowed--
		c.Unlock()
	}()
	w := func() waits.Wait {
		return waits.Wait{Who: c.name, What: "a standby that is in step", By: []string{standbyName(c.cfg.Index)}, Limit: c.cfg.RoundDeadline}
	}
	err := c.Await(ctx, w, func() (bool, error) { return m.has(f, number) || c.finished(), nil })
	if errors.Is(err, fault.DeadlineExceeded) && ctx.Err() == nil {
		err = fault.E(fault.LostMember, fault.At(c.Where), fault.Cause(err), fault.Hint("look at the log of the standby, or raise round_deadline"))
	}
	return err
}

// tell returns when the standby knows what the machine stands at.
func (m *mirror) tell(ctx context.Context) error {
	if m == nil {
		return nil
	}
	m.core.Lock()
	f := m.current
	if f == nil || !f.started {
		m.core.Unlock()
		return nil
	}
	number := m.put(f, rpc.Standing_STATE, nil)
	m.core.Unlock()
	return m.await(ctx, f, number)
}

// round begins to send what the round that is being applied is made of: the merges are there. wait returns when the standby has them; until then they must
// not change.
func (m *mirror) round() (wait func(ctx context.Context) error) {
	none := func(context.Context) error { return nil }
	if m == nil {
		return none
	}
	m.core.Lock()
	defer m.core.Unlock()
	f := m.current
	m.latest = telling{round: m.core.rounds.Round(), any: true}
	if f == nil || !f.started {
		m.core.Broadcast()
		return none
	}
	all := make([]int, len(m.targets))
	for i := range all {
		all[i] = i
	}
	number := m.put(f, rpc.Standing_ROUND, all)
	m.latest.to, m.latest.message = f, number
	return func(ctx context.Context) error {
		err := m.await(ctx, f, number)
		if err != nil {
			m.leave(f)
		}
		return err
	}
}

// leave ends the connection to the standby, because the server ends: what it was sending may change when it returns. No standby may begin anew here, because
// it would be in step no more, and could not take over.
func (m *mirror) leave(f *follower) {
	m.core.Lock()
	m.ends = true
	m.core.Unlock()
	f.offer.Close()
	<-f.done
}

// hasRound reports whether the standby knows what the round that is being applied is made of. The lock is held.
func (m *mirror) hasRound() bool {
	if m == nil || !m.core.rounds.applying {
		return true
	}
	t := m.latest
	return t.any && t.round == m.core.rounds.Round() && (t.to == nil || m.has(t.to, t.message))
}

// catchUp sends the standby some of what it lacks. The goroutine that applies rounds calls it between two of them, and awaits what was sent before it changes
// the parameters.
func (m *mirror) catchUp() (wait func(ctx context.Context) error) {
	none := func(context.Context) error { return nil }
	if m == nil {
		return none
	}
	c := m.core
	c.Lock()
	defer c.Unlock()
	f := m.current
	switch {
	case f == nil || f.synced || f.ended:
		return none
	case f.asked > f.acked: // what was sent last is on its way
	case f.next < len(m.portion):
		f.started = true
		var list []int
		for _, slice := range m.portion[f.next] {
			list = append(list, len(m.targets)+slice)
		}
		f.next++
		f.asked = m.put(f, rpc.Standing_STATE, list)
	case c.rounds == nil || !c.rounds.applying: // what the last round was made of is not known while one is applied
		f.started, f.synced = true, true
		f.inStep = m.put(f, rpc.Standing_SYNCED, nil)
		c.cfg.Log.Info("the standby is in step", "round", c.version())
		return none
	}
	number := f.asked
	return func(ctx context.Context) error { return m.await(ctx, f, number) }
}

// drop ends the connection to the standby: the state of the server is about to be another one.
func (m *mirror) drop() {
	if m == nil {
		return
	}
	m.core.Lock()
	f := m.current
	m.current = nil
	m.core.Unlock()
	if f != nil {
		f.offer.Close()
		<-f.done
	}
}

// status tells how far the standby is. The lock is held.
func (m *mirror) status() rpc.StatusResponse_Standby {
	switch {
	case m == nil || m.current == nil || m.current.ended:
		return rpc.StatusResponse_NONE
	case m.current.synced && m.current.acked >= m.current.inStep:
		return rpc.StatusResponse_IN_STEP
	}
	return rpc.StatusResponse_CATCHES_UP
}

// over tells the standby that the job has ended.
func (m *mirror) over(ctx context.Context) {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, overWait)
	defer cancel()
	m.core.Lock()
	f := m.current
	if f == nil || f.ended {
		m.core.Unlock()
		return
	}
	m.put(f, rpc.Standing_OVER, nil)
	m.core.Unlock()
	select { // the standby ends the connection
	case <-f.done:
	case <-ctx.Done():
	}
}
