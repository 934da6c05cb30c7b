package pserver

import (
	"context"
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Backup trainers. In a job with b of them a round counts without the contributions of the b slowest of its N members (Chen et al. 2016, "Revisiting
// Distributed Synchronous SGD"). Servers see declarations in different orders, so one of them decides for all: server 0.
//
//	trainer                       server 0                                   the other servers
//	sends its contribution -----> has it                                     have it
//	declares it ----------------> N-b have declared, with rows: the round
//	                              is made of these, and nothing else
//	            <---- Counted --- is told the decision, and so is who is late
//	declares it, with the decision ----------------------------------------> apply the round that the decision names
//	            <---------------- the parameters <-------------------------- the parameters
//
//   - A member declares a round at server 0 when all servers have its contribution. So all servers can apply what server 0 decides, whoever of its members
//     lives on. The first word of it is enough for a server, also from a trainer that is not counted.
//   - A decision counts as a round that is applied: Freeze tells it, and the coordinator gives it to the servers that have not heard of it. If server 0 is
//     lost, all go back to a checkpoint, so no two decisions of a round can meet.
//   - A round without rows is no decision: each round trains a record at least, and a pass ends.
//   - A server with a standby tells a decision when the standby has the round, too. A standby that takes over has what anybody may have heard of, and decides
//     the open round anew. That of another server waits until those who count have sent their contributions again.
//   - What is dropped is not in the ledger. So the ledger tells which records are owed, and the queue gives them to rounds at the end of the pass.
//
// A round does not wait for a late trainer, so nobody waits for it before the parameters change again. It gets a copy of one version, or none: whoever asks
// for a version that is not there any more is refused as stale, asks server 0 where the job is, and receives the parameters of that round.

// A jury is what a server knows of backup trainers. The zero value is that of a job without.
type jury struct {
	backup  int  // contributions that a round may lack
	decides bool // this is server 0
	dropped []id.Rank
	places  []uint32 // of dropped, among the members
}

// WithBackups makes r the machine of a job with so many backup trainers, before anything has happened. decides says that it is that of server 0.
func WithBackups(r *Rounds, backup int, decides bool) *Rounds {
	r.backup, r.decides = backup, backup > 0 && decides
	return r
}

// Asked asks which contributions count in the round of the sender.
type Asked struct{ Sender }

func (Asked) event() {}

// waitsFor reports whether the open round waits for members, or, where another server decides, for its decision.
func waitsFor(r *Rounds) bool {
	missing, rows := 0, int64(0)
	for _, m := range r.members {
		switch {
		case m.missing():
			missing++
		case m.declared:
			rows += m.declaration.Rows
		}
	}
	if r.backup == 0 || missing == 0 {
		return missing > 0
	}
	return !r.decides || missing > r.backup || rows == 0
}

// counted applies the open round as server 0 has decided.
func counted(r *Rounds, m *member, e Declared) (Effects, error) {
	next := 0
	for _, d := range e.Counted {
		if int(d.Rank) < next || d.Rows < 0 || d.Weight < 0 || r.members.find(d.Rank) == nil {
			return Effects{}, fault.E(fault.InvalidArgument, fault.Gotf("a decision on round %d that counts trainer %d", r.round, d.Rank),
				fault.Want("members, in rank order"))
		}
		next = int(d.Rank) + 1
	}
	if len(e.Counted) == 0 {
		return Effects{}, fault.E(fault.InvalidArgument, fault.Gotf("a declaration of trainer %d without the decision of pserver 0", m.rank))
	}
	if err := r.members.checkCommit(e.Counted, r.round, r.variables); err != nil {
		if !r.lacking(r.round) {
			return Effects{}, err
		}
		if slices.ContainsFunc(e.Counted, func(d Declaration) bool { return d.Rank == m.rank }) { // the last of them applies the round
			m.declared, m.declaration = true, e.Declaration
			m.declaration.Rank = m.rank
		}
		return Effects{}, nil
	}
	return r.apply(Effects{}, r.members, e.Counted), nil
}

// asked answers when the round is decided. Later ones are.
func asked(r *Rounds, e Asked) (Effects, error) {
	if !r.decides {
		return Effects{}, fault.E(fault.Unsupported, fault.Gotf("a question of trainer %d about what counts", e.Rank), fault.Want("one to pserver 0 of a job with backup trainers"))
	}
	return Effects{Hold: e.Round >= r.committed()}, nil
}

// noteDropped notes whose contributions a round that is applied does not have.
func noteDropped(j *jury, ms members, declared []Declaration) {
	if j.backup == 0 {
		return
	}
	j.dropped, j.places = nil, nil
	at := 0
	for place, m := range ms {
		for at < len(declared) && declared[at].Rank < m.rank {
			at++
		}
		if (at == len(declared) || declared[at].Rank != m.rank) && !m.complete {
			j.dropped, j.places = append(j.dropped, m.rank), append(j.places, uint32(place))
		}
	}
}

// Counted implements the rpc. It answers when the round of the request is decided, and the standby knows.
func (p pacer) Counted(ctx context.Context, m *rpc.CountedRequest) (*rpc.CountedResponse, error) {
	c := p.core
	if err := c.cfg.Identity.Check(m.Id); err != nil {
		return nil, c.refuse(err)
	}
	if err := c.serves(ctx); err != nil {
		return nil, err
	}
	if c.rounds == nil {
		return nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a question about what counts in a round"), fault.Want("a sync job")))
	}
	if _, err := c.decide(ctx, Asked{Sender(wire.SenderOf(m.Id))}); err != nil {
		return nil, err
	}
	var r *rpc.CountedResponse
	w := func() waits.Wait {
		return waits.Wait{Who: c.name, What: "its standby to have the round", By: []string{standbyName(c.cfg.Index)}, Limit: c.cfg.RoundDeadline}
	}
	err := c.Await(ctx, w, func() (bool, error) {
		if !c.mirror.hasRound() {
			return false, nil
		}
		r = &rpc.CountedResponse{Round: uint64(c.rounds.committed()), Dropped: c.rounds.places}
		for _, d := range c.rounds.lastApplied {
			r.Declared = append(r.Declared, &rpc.Declared{Rank: uint32(d.Rank), Rows: d.Rows, Weight: d.Weight, Void: d.Void, Pass: d.Pass, Hour: d.Hour})
		}
		return true, nil
	})
	return r, err
}

// give sends the parameters of a version that may change as soon as others have trained the next round: a copy. A trainer that asks for its first
// parameters gets those that are there, which may be of a later version than it has asked for: the answer says which. Another one is refused when its
// version is not there any more.
func (l *line) give(ctx context.Context, conn *dataplane.Conn, round id.Round, first bool) error {
	c, wanted := l.server.core, l.sender
	wanted.Round = round
	may := func() error {
		c.Lock()
		defer c.Unlock()
		now := c.rounds.Round()
		if now > round && first {
			round = now
		}
		if now != round || c.rounds.applying {
			return fault.E(fault.Stale, fault.At(c.Where), fault.Gotf("a request for version %d", round), fault.Wantf("version %d", c.rounds.committed()))
		}
		return nil
	}
	for {
		if _, err := c.decide(ctx, Read{wanted}); err != nil {
			return err
		}
		err := l.copy(conn, may)
		if first && errors.Is(err, fault.Stale) { // it has just begun to change
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	defer c.cfg.Times.Mark()
	return conn.WriteSlices(l.answer(dataplane.Params, round), l.all, l.copied)
}
