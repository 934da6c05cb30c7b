package trainer

import (
	"context"
	"sync"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
)

// An asyncStep is what a link does in a step of an async job: it pushes, and pulls the parameters that the push is applied to, or one of both.
type asyncStep struct{ *link }

// sendUpdate writes what is left of the push, and asks for the parameters, or only whether it is applied.
func (l asyncStep) sendUpdate(pulls bool) error {
	if err := l.write(); err != nil {
		return err
	}
	h := l.head(dataplane.Get)
	if !pulls {
		h.Flags = dataplane.Confirm
	}
	return l.get(h)
}

// awaitUpdate returns when the parameters are here, which say that the server has the push. Without a pull, and where a server has no parameters, it
// acknowledges the push.
func (l asyncStep) awaitUpdate(pulls bool) error {
	err := l.sendUpdate(pulls)
	switch {
	case err != nil:
	case len(l.receive) == 0 || !pulls:
		_, err = l.read(dataplane.Ack, l.comm.round())
	default:
		err = l.readParams(l.conn, l.comm.round())
	}
	l.acked = err == nil // until another process takes the place of the server: it has all that this one has answered for
	return err
}

// firstParams is how a link receives the parameters before the first step of a generation, in a sync or an async job.
type firstParams struct{ *link }

// request asks for the parameters before the first step.
func (l firstParams) request() error {
	if !l.expects() || l.hasFirst() {
		return nil
	}
	h := l.head(dataplane.Get)
	h.Round = l.comm.first
	if !l.comm.Sync {
		h.Flags = dataplane.AnyVersion
	}
	return l.get(h)
}

func requestParams(l *link) error { return firstParams{l}.request() }

// await waits for them.
func (l firstParams) await() error {
	if err := l.request(); err != nil || l.hasFirst() {
		return err
	}
	return l.readParams(l.conn, l.comm.first)
}

// hasFirst reports whether the parameters are here already, where servers are asked until all have sent one version.
func (l firstParams) hasFirst() bool { return l.comm.verdicts.on && l.has == l.comm.first+1 }

// A ledgerStep is an async step that was declared to server 0, and whose answer was not awaited yet. It is safe for concurrent use: all Sends of the next
// step wait for it.
type ledgerStep struct {
	call callGroup // the declaration where server 0 has no link

	mu   sync.Mutex
	err  error           // why the step is not in the ledger; no step may follow
	link *link           // to server 0, where it has the declaration or is to have it; else nil
	ctx  context.Context // of the step
	head dataplane.Head
	step *rpc.BarrierRequest
	on   *dataplane.Conn // that the declaration was written on
}

// declare declares the step that has ended. Every server has its contribution.
func (s *ledgerStep) declare(ctx context.Context, c *Comm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := c.declaration(0)
	l := c.links.to(0)
	if l == nil {
		identity, round := c.identity, c.round()
		s.call.start(ctx, c.slots, func(ctx context.Context) error { return c.declare(ctx, 0, identity, round, step) })
		return
	}
	ctx = c.exchanges.context(ctx)
	s.link, s.ctx, s.head, s.step, s.on = l, ctx, l.head(dataplane.Declare), step, nil
	l.attempt(ctx, func(*link) error { return s.write() }) // a connection that breaks is mended by await
}

// write writes the declaration, unless the connection has it.
func (s *ledgerStep) write() error {
	if s.on == s.link.conn {
		return nil
	}
	s.on = s.link.conn
	return s.on.WriteMessage(s.head, s.step)
}

// await returns when the step is in the ledger. On another connection it declares the step again, and the server enters it once.
func (s *ledgerStep) await() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
	case s.link == nil:
		s.err = s.call.end()
	default:
		s.err = s.link.exchange(s.ctx, "the ledger", func(l *link) error {
			if err := s.write(); err != nil {
				return err
			}
			_, err := l.read(dataplane.Ack, s.head.Round)
			return err
		})
		s.link, s.ctx, s.on = nil, nil, nil
	}
	return s.err
}

// forget forgets the step. Nobody waits for it.
func (s *ledgerStep) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.ctx, s.on, s.err = nil, nil, nil, nil
}
