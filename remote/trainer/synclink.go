package trainer

import (
	"context"
	"errors"

	"github.com/edl-go/edl/remote/dataplane"
)

// A syncStep is what a link does in a step of a sync job: it contributes, declares, and fetches the next parameters.
type syncStep struct{ *link }

// sendContribution writes what is left of the contribution. A job with one server declares it in the same breath.
func (l syncStep) sendContribution() error {
	err := l.write()
	if err == nil && (len(l.comm.Servers) == 1 || l.toLeader) && !l.declared && !l.comm.verdicts.on {
		err = l.writeDeclaration()
	}
	return err
}

func sendContribution(l *link) error { return syncStep{l}.sendContribution() }

// contribute returns when the server has the whole contribution.
func (l syncStep) contribute(ctx context.Context) error {
	if l.out.count == 0 {
		return nil
	}
	err := l.exchange(ctx, "taking the contribution", func(l *link) error { return syncStep{l}.awaitAck() })
	if errors.Is(err, errLeaderLeft) { // the round is applied, so the contribution and the declaration have arrived
		return nil
	}
	return err
}

// awaitAck writes what is left of the contribution, and waits until the server has all of it.
func (l syncStep) awaitAck() error {
	if err := l.sendContribution(); err != nil {
		return err
	}
	if _, err := l.read(dataplane.Ack, l.comm.round()); err != nil {
		return err
	}
	l.acked = true
	return nil
}

// declare sends the declaration. When the connection breaks, fetch sends it again.
func (l syncStep) declare(ctx context.Context) {
	if !l.declared {
		l.attempt(ctx, writeDeclaration)
	}
}

func (l syncStep) writeDeclaration() error {
	l.declared, l.mayCount = true, true
	if l.comm.verdicts.on && l.server == 0 { // it has the declaration, by a call
		h := l.head(dataplane.Get)
		h.Round++
		return l.get(h)
	}
	return l.conn.WriteMessage(l.head(dataplane.Declare), l.comm.declaration(l.server))
}

func writeDeclaration(l *link) error { return syncStep{l}.writeDeclaration() }

// fetch returns when the parameters of the next round are received, or, where nothing is received from the server, when it knows the declaration.
func (l syncStep) fetch(ctx context.Context) error {
	what := "the parameters"
	if len(l.receive) == 0 {
		what = "the answer to the declaration"
	}
	err := l.exchange(ctx, what, func(l *link) error { return syncStep{l}.awaitParams() })
	if errors.Is(err, errLeaderLeft) {
		return l.fromServers(ctx)
	}
	return err
}

// awaitParams contributes and declares what this server does not have of the step, and waits for the answer.
func (l syncStep) awaitParams() error {
	if !l.acked && l.out.count > 0 { // another process is the server since it was
		if err := l.awaitAck(); err != nil {
			return err
		}
	}
	if !l.declared {
		if err := l.writeDeclaration(); err != nil {
			return err
		}
	}
	if len(l.receive) == 0 {
		if l.comm.verdicts.on && l.server == 0 {
			return nil
		}
		_, err := l.read(dataplane.Ack, l.comm.round())
		return err
	}
	return l.readParams(l.conn, l.comm.round()+1)
}
