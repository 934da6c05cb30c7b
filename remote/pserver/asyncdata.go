package pserver

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
)

// The data connections of an async job. A step is:
//
//	trainer                                  pserver
//	Data                               --->  a buffer of its own for each slice, then the queue of its update
//	Get                                --->  waits until all contributions of this trainer are applied
//	                                   <---  Params; Ack, where it asked with Confirm; or Ack after Data, where the trainer receives nothing
//	all servers have answered
//	Declare, to server 0               --->  the ledger has the step
//	                                   <---  Ack
//
// While a queue is full, its line does not read: so a trainer that is ahead of the updates waits. A slice that has arrived in shared memory is copied
// before anything answers it, so the trainer may write there again after the answer.

// acknowledgedByParams reports whether the trainer learns from Params that its contribution is here. In an async job Get follows the contribution.
func (l *line) acknowledgedByParams() bool { return l.server.core.updates != nil && len(l.receive) > 0 }

// get sends the parameters that a trainer asks for: before its first step, and in each step of an async job.
func (l *line) get(ctx context.Context, conn *dataplane.Conn, h dataplane.Head) error {
	c := l.server.core
	if err := conn.End(h); err != nil {
		return c.refuse(err)
	}
	if h.Flags&dataplane.Confirm != 0 {
		return l.confirm(ctx, conn, h)
	}
	asItIs := h.Flags&dataplane.AnyVersion != 0
	var e Event = Read{l.sender}
	if asItIs {
		e = ReadAny{l.sender}
	}
	if c.cfg.Backup > 0 && !asItIs {
		return l.give(ctx, conn, h.Round, true)
	}
	if _, err := c.decide(ctx, e); err != nil {
		return err
	}
	if c.rounds != nil && !asItIs {
		return l.push(conn, h.Round)
	}
	if err := l.copy(conn, func() error { return nil }); err != nil {
		return err
	}
	return conn.WriteSlices(l.answer(dataplane.Params, h.Round), l.all, l.copied)
}

// copied returns the elements of a parameter that travel of its copy.
func (l *line) copied(slice int) ([]byte, error) {
	used, err := l.receive[slice].Used(l.copies[slice])
	return l.copies[slice][:used], err
}

// confirm tells a trainer that everything is applied that it has sent.
func (l *line) confirm(ctx context.Context, conn *dataplane.Conn, h dataplane.Head) error {
	c := l.server.core
	if c.updates == nil {
		return c.refuse(fault.E(fault.Corrupt, fault.Got("a frame get that asks for no parameters, in a sync job"), fault.Want("get of a version")))
	}
	if _, err := c.decide(ctx, Read{l.sender}); err != nil {
		return err
	}
	return conn.WriteMessage(l.answer(dataplane.Ack, h.Round), nil)
}

// copy copies the parameters while nobody changes them: into the memory that the trainer shares, or into memory of the line. A trainer that does not
// read holds up no update. may is asked first, and refuses the copy with its error.
func (l *line) copy(conn *dataplane.Conn, may func() error) error {
	if l.copies == nil {
		copies := make([][]byte, len(l.receive))
		for i, s := range l.receive {
			if copies[i] = conn.Place(i, s.Bytes); copies[i] == nil {
				copies[i] = make([]byte, s.Bytes)
			}
		}
		l.copies = copies
	}
	l.server.values.Lock()
	defer l.server.values.Unlock()
	if err := may(); err != nil {
		return err
	}
	for i := range l.receive {
		b, err := l.value(i)
		if err != nil {
			return err
		}
		copy(l.copies[i], b)
	}
	return nil
}

// keep ends the connections of an async job whose trainers are not members of a generation that begins. Those of the others go on. The lock is held.
func (ls lines) keep(e Resumed) {
	since := make(map[id.Rank]id.Generation, len(e.Members))
	for _, m := range e.Members {
		since[m.Rank] = m.Since
	}
	for rank, l := range ls {
		if own, ok := since[rank]; l.sender.Generation <= e.Generation && (!ok || own != l.sender.Generation) {
			l.offer.Close()
			delete(ls, rank)
		}
	}
}
