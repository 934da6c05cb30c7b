package trainer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
)

// links are the links of a trainer in one generation, by server. An entry is nil where calls go over gRPC; without links all do.
type links []*link

// openLinks opens a connection to every server that has a data plane, for the generation. p is the trainer program. Steps with servers that have none go
// over gRPC, unless somebody has asked for a carrier that does not work.
func openLinks(ctx context.Context, c *Comm, p *program.Program) (links, error) {
	if c.Data == nil {
		return nil, nil
	}
	c.init()
	traffic, err := comm.TrafficOf(p, len(c.Servers))
	if err != nil {
		return nil, err
	}
	all := make(links, len(c.Servers))
	err = forEach(ctx, len(c.Servers), c.slots, func(ctx context.Context, server int) error {
		l := newLink(c, server, traffic[server])
		err := l.exchange(ctx, "a data connection", func(*link) error { return nil })
		switch {
		case err == nil:
			all[server] = l
		case errors.Is(err, fault.Unsupported) && !c.Data.Carrier.Explicit():
			c.Log.Warn("steps go over gRPC, because there is no data connection", "server", server, "reason", err.Error())
			err = nil
		}
		return err
	})
	if err != nil {
		all.close()
		return nil, err
	}
	return all, nil
}

// close ends the connections. Nothing uses them.
func (ls links) close() {
	for _, l := range ls {
		if l != nil {
			l.disconnect(nil)
		}
	}
}

// transports counts the links of a trainer of servers servers by carrier. Without a link a server is asked over gRPC.
func (ls links) transports(servers int) map[string]uint32 {
	if len(ls) == 0 {
		return map[string]uint32{"grpc": uint32(servers)}
	}
	counts := map[string]uint32{}
	for _, l := range ls {
		name := "grpc"
		if l != nil && l.conn != nil {
			name = l.conn.Carrier().String()
		}
		counts[name]++
	}
	return counts
}

// to returns the link that leads to a server, or nil when messages to it are calls over gRPC.
func (ls links) to(server int) *link {
	switch {
	case ls == nil:
		return nil
	case ls[0] != nil && ls[0].toLeader:
		return ls[0]
	}
	return ls[server]
}

// mayCount reports whether a server may have a declaration of the step. With one server it is sent before the contribution is acknowledged.
func (ls links) mayCount() bool {
	return slices.ContainsFunc(ls, func(l *link) bool { return l != nil && l.mayCount })
}

// begin returns when the parameters before the first step of the generation are here, in a sync or an async job.
func (ls links) begin(ctx context.Context) error {
	return ls.each(ctx, func(*link) int { return 0 }, func(l *link, ctx context.Context) { l.attempt(ctx, requestParams) },
		func(l *link, ctx context.Context) error {
			if !l.expects() {
				return nil
			}
			return l.exchange(ctx, "the first parameters", func(l *link) error { return firstParams{l}.await() })
		})
}

// contribute returns when every server with a link has the whole contribution. It writes to all of them before it waits for any.
func (ls links) contribute(ctx context.Context) error {
	begin := func(l *link, ctx context.Context) {
		if l.out.count > 0 {
			l.attempt(ctx, sendContribution) // a connection that breaks is mended by contribute
		}
	}
	finish := func(l *link, ctx context.Context) error { return syncStep{l}.contribute(ctx) }
	return ls.each(ctx, func(l *link) int { return l.sends }, begin, finish)
}

// declare declares the contribution to every server. The answers are the parameters, for which fetch waits.
func (ls links) declare(ctx context.Context) {
	for _, l := range ls {
		if l != nil {
			syncStep{l}.declare(ctx)
		}
	}
}

// fetch returns when the parameters of every server with a link are here. It declares the contribution where that is not done.
func (ls links) fetch(ctx context.Context) error {
	begin := func(l *link, ctx context.Context) { syncStep{l}.declare(ctx) }
	finish := func(l *link, ctx context.Context) error { return syncStep{l}.fetch(ctx) }
	return ls.each(ctx, func(l *link) int { return l.receives }, begin, finish)
}

// update returns when every server with a link has applied the whole push of an async step, if it has one, and, if it pulls, the parameters after it are
// here.
func (ls links) update(ctx context.Context, pulls bool) error {
	idle := func(l *link) bool { return l.out.count == 0 && (len(l.receive) == 0 || !pulls) }
	begin := func(l *link, ctx context.Context) {
		if !idle(l) {
			l.attempt(ctx, func(l *link) error { return asyncStep{l}.sendUpdate(pulls) })
		}
	}
	what := "the parameters"
	if !pulls {
		what = "the end of its update"
	}
	finish := func(l *link, ctx context.Context) error {
		if idle(l) {
			return nil
		}
		return l.exchange(ctx, what, func(l *link) error { return asyncStep{l}.awaitUpdate(pulls) })
	}
	return ls.each(ctx, func(l *link) int { return l.sends }, begin, finish)
}

// pull receives the parameters in a step whose push update has confirmed.
func (ls links) pull(ctx context.Context) error {
	for _, l := range ls {
		if l != nil {
			l.asked = false // but for the end of the update
		}
	}
	return ls.each(ctx, func(l *link) int { return l.receives }, func(*link, context.Context) {}, func(l *link, ctx context.Context) error {
		if len(l.receive) == 0 {
			return nil
		}
		return l.exchange(ctx, "the parameters", func(l *link) error { return asyncStep{l}.awaitUpdate(true) })
	})
}

// inline is how many bytes usually fit into the buffers of a connection. A contribution of at most so many bytes is written to each server before any
// answer is read. Where the kernel has less room, the write waits until the server reads: servers always read.
const inline = 1 << 20

// each runs start on each link, and then finish on each. The first error ends the others, because a server may wait for what another link has not sent.
// bytes is how many bytes a link has to move: where those are more than inline, start is left out, and finish does all of it.
func (ls links) each(ctx context.Context, bytes func(*link) int, start func(*link, context.Context),
	finish func(*link, context.Context) error) error {
	count, last, total := 0, (*link)(nil), 0
	for _, l := range ls {
		if l != nil {
			count, last, total = count+1, l, total+bytes(l)
		}
	}
	if count == 0 {
		return nil
	}
	e := &last.comm.exchanges
	ctx = e.context(ctx)
	if count == 1 {
		start(last, ctx)
		return finish(last, ctx)
	}
	for _, l := range ls {
		if l != nil && bytes(l) <= inline {
			start(l, ctx)
		}
	}
	return e.finish(ctx, ls, total, finish)
}

// exchanges waits for several links at the same time. One context serves all steps that have the same parent, so that connections are bound to it once.
//
// One link is finished after the other, by the caller: while that takes microseconds, goroutines would cost more than they bring. After patience, and from
// the beginning where many bytes have to move, each link that is left has a goroutine of its own. So a link that waits for good hides no failure of
// another one, nor the need to send something again.
type exchanges struct {
	mu      sync.Mutex
	parent  context.Context // of ctx
	ctx     context.Context // ends with the first failure
	cancel  context.CancelFunc
	timer   *time.Timer // calls help after patience
	links   links       // to be finished
	next    int         // the first of links that nobody has taken to finish
	do      func(*link, context.Context) error
	first   error // the most telling error so far; the others may have broken connections because of it
	helpers sync.WaitGroup
}

// patience is how long links are finished one after the other.
const patience = 20 * time.Millisecond

// context returns a context that ends with parent, or with the first failure. After a failure the next call returns another one.
func (e *exchanges) context(parent context.Context) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil || e.parent != parent || e.ctx.Err() != nil {
		if e.cancel != nil {
			e.cancel()
		}
		e.parent = parent
		e.ctx, e.cancel = context.WithCancel(parent)
	}
	return e.ctx
}

// end ends the context, and so whatever waits in it.
func (e *exchanges) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel != nil {
		e.cancel()
	}
}

// finish runs do on each link, and returns the first error when all have ended. The links have so many bytes to move.
func (e *exchanges) finish(ctx context.Context, ls links, bytes int, do func(*link, context.Context) error) error {
	e.mu.Lock()
	e.links, e.next, e.do, e.first = ls, 0, do, nil
	e.mu.Unlock()
	l := e.take()
	switch {
	case bytes > inline:
		e.help()
	case e.timer == nil:
		e.timer = time.AfterFunc(patience, e.help)
	default:
		e.timer.Reset(patience)
	}
	for ; l != nil; l = e.take() {
		e.note(do(l, ctx))
	}
	if e.timer != nil {
		e.timer.Stop() // if help runs already, it finds no link
	}
	e.helpers.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links, e.do = nil, nil
	return e.first
}

// take returns a link that nobody finishes, nil if there is none. The caller then finishes it.
func (e *exchanges) take() *link {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pop()
}

// pop is take with the lock held.
func (e *exchanges) pop() *link {
	for e.next < len(e.links) {
		e.next++
		if l := e.links[e.next-1]; l != nil {
			return l
		}
	}
	return nil
}

// note notes how a link has ended.
func (e *exchanges) note(err error) {
	if err == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first = moreTelling(e.first, err)
	e.cancel()
}

// help gives each link that nobody finishes a goroutine of its own.
func (e *exchanges) help() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for l := e.pop(); l != nil; l = e.pop() {
		do, ctx := e.do, e.ctx
		e.helpers.Go(func() { e.note(do(l, ctx)) })
	}
}
