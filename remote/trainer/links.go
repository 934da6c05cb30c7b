package trainer

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
)

// links are those of a generation, by server. An entry is nil where calls go over gRPC; without links all do.
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

// begin returns when the parameters are here as they are before the first step of the generation, in a sync or an async job.
func (ls links) begin(ctx context.Context) error {
	return ls.each(ctx, func(*link) int { return 0 }, func(l *link, ctx context.Context) { l.attempt(ctx, firstParams{l}.request) },
		func(l *link, ctx context.Context) error {
			if !l.expects() {
				return nil
			}
			return l.ask(ctx, "the first parameters", func(l *link) error { return firstParams{l}.await() })
		})
}

// contribute returns when every server with a link has the whole contribution. It writes to all of them before it waits for any.
func (ls links) contribute(ctx context.Context) error {
	begin := func(l *link, ctx context.Context) {
		if l.out.count > 0 {
			l.attempt(ctx, syncStep{l}.sendContribution) // a connection that breaks is mended by contribute
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

// update returns when every server with a link has the whole contribution of an async step, and the parameters are here to which it is applied.
func (ls links) update(ctx context.Context) error {
	return ls.each(ctx, func(l *link) int { return l.sends }, func(l *link, ctx context.Context) { l.attempt(ctx, asyncStep{l}.sendUpdate) },
		func(l *link, ctx context.Context) error {
			if l.out.count == 0 && len(l.receive) == 0 {
				return nil
			}
			return l.ask(ctx, "the parameters", func(l *link) error { return asyncStep{l}.awaitUpdate() })
		})
}

// inline is how many bytes, for one server, usually fit into the buffers of a connection: they are written before anything is waited for.
// More than the kernel gives is no mistake: servers read, so it costs a wait.
const inline = 1 << 20

// each starts something on each link, and then finishes it on all of them at the same time: the first that fails ends the others, because they may wait
// for each other's servers. Links that have so many bytes to move that they would wait for each other also start it there.
func (ls links) each(ctx context.Context, bytes func(*link) int, start func(*link, context.Context),
	finish func(*link, context.Context) error) error {
	all := slices.DeleteFunc(slices.Clone(ls), func(l *link) bool { return l == nil })
	if len(all) == 0 {
		return nil
	}
	if len(all) == 1 {
		start(all[0], ctx)
		return finish(all[0], ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, l := range all {
		if bytes(l) <= inline {
			start(l, ctx)
		}
	}
	var mu sync.Mutex
	var first error // that has failed; the others may have broken connections because of it
	end := func(l *link) {
		if err := finish(l, ctx); err != nil {
			mu.Lock()
			defer mu.Unlock()
			first = moreTelling(first, err)
			cancel()
		}
	}
	var group sync.WaitGroup
	for _, l := range all[1:] {
		group.Go(func() { end(l) })
	}
	end(all[0])
	group.Wait()
	return first
}
