package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A link is a trainer's end of the connection of the data plane to one server, in one generation. In a step it does what send, the barriers and recv do
// over gRPC; asynclink.go has what differs in an async job. When its connection breaks it opens another one, as often as the deadline of the job allows,
// and sends again what the server may not have: the contribution until that is acknowledged, the declaration until the parameters are here.
//
// add may run at the same time as writeEarly. The other methods follow each other.
type link struct {
	comm     *Comm
	server   int                       // 0 where the peer is the leader of a group
	peer     rpc.ParameterServerClient // opens the connection: the server, or the leader of the group
	name     string                    // of the peer
	toLeader bool                      // the peer is the leader of the group: it has the slices of all servers
	traffic  comm.Traffic
	index    map[string]int // of what is sent
	places   map[string]int // of what is received

	conn     *dataplane.Conn // nil: there is none
	broken   error           // why the last one has ended; nil while there is one
	send     dataplane.Table
	receive  dataplane.Table
	merges   []ops.Merge // of send: how a group merges contributions
	arrived  *dataplane.Progress
	sending  []int // slices that write is sending
	dials    int   // that have failed
	sends    int   // bytes of a contribution
	receives int   // bytes of the parameters
	declared bool  // on this connection
	asked    bool  // for the parameters, on this connection
	mayCount bool  // a declaration was written in this step, on any connection
	acked    bool  // the server has the whole contribution: none of it is sent again, because its memory may change

	out     contribution
	targets [][]byte // of what is received; nil where the step does not receive it
}

// A contribution is what a step sends to one server. It is safe for concurrent use.
type contribution struct {
	mu      sync.Mutex
	values  [][]byte // by slice
	has     []bool   // values that the step has made
	count   int      // of them
	ready   []int    // that are not written to this connection
	bytes   int      // of those
	writing bool     // they are written while the step goes on
}

// begin begins a step. A contribution has so many slices.
func (c *contribution) begin(slices int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values, c.has = make([][]byte, slices), make([]bool, slices)
	}
	clear(c.values)
	clear(c.has)
	c.ready, c.bytes, c.count, c.writing = c.ready[:0], 0, 0, false
}

// add enters a slice. write reports whether enough is there to be written before the barrier; the caller then does that, and calls written.
func (c *contribution) add(slice int, b []byte) (write, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.has[slice] {
		return false, false
	}
	c.values[slice], c.has[slice] = b, true
	c.ready = append(c.ready, slice)
	c.bytes += len(b)
	c.count++
	write = c.bytes >= early && !c.writing
	c.writing = c.writing || write
	return write, true
}

// written says that what add has asked for is done.
func (c *contribution) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = false
}

// take appends the slices to list that are ready. They are not ready any more.
func (c *contribution) take(list []int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = append(list, c.ready...)
	c.ready, c.bytes = c.ready[:0], 0
	return list
}

// again makes all slices ready that the step has made, or none.
func (c *contribution) again(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready, c.bytes = c.ready[:0], 0
	for i, has := range c.has {
		if has && all {
			c.ready = append(c.ready, i)
			c.bytes += len(c.values[i])
		}
	}
}

// early is how many bytes of a contribution are worth a message of their own while the step still computes. Less goes with the rest, at the barrier.
const early = 256 << 10

// inline is how many bytes, for one server, usually fit into the buffers of a connection: they are written before anything is waited for.
// More than the kernel gives is no mistake: servers read, so it costs a wait.
const inline = 1 << 20

// dialsAtFirst is how often the first connection to a server is tried. A server that answers calls and cannot be reached here has a firewall between.
// With a carrier that was asked for there is no other way, so dialsExplicit is a second or two: the server may still hold the memory of a connection
// that has ended.
const (
	dialsAtFirst  = 3
	dialsExplicit = 8
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
	err = c.everyServer(ctx, func(ctx context.Context, server int) error {
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

func newLink(c *Comm, server int, t comm.Traffic) *link {
	l := &link{comm: c, server: server, peer: c.Servers[server], name: serverName(server), traffic: t, index: map[string]int{}, places: map[string]int{}}
	for i, name := range l.traffic.Send {
		l.index[name] = i
	}
	for i, name := range l.traffic.Receive {
		l.places[name] = i
	}
	return l
}

// close ends the connections. Nothing uses them.
func (ls links) close() {
	for _, l := range ls {
		if l != nil {
			l.disconnect(nil)
		}
	}
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

// begin begins a step.
func (l *link) begin() {
	l.out.begin(len(l.send))
	clear(l.targets)
	l.declared, l.asked, l.mayCount, l.acked = false, false, false, false
}

// add enters a slice of the contribution. write asks the caller to call writeEarly.
func (l *link) add(name string, t *tensor.Tensor) (write bool, err error) {
	i, b, err := find(name, t, l.index, l.send)
	if err != nil {
		return false, fault.E(fault.KindOf(err), fault.At(l.name), fault.Cause(err))
	}
	write, ok := l.out.add(i, b)
	if !ok {
		return false, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a variable that is sent twice in a step"), fault.Want("once"))
	}
	return write, nil
}

// expect says where a slice of the parameters goes.
func (l *link) expect(name string, t *tensor.Tensor) error {
	i, b, err := find(name, t, l.places, l.receive)
	if err != nil {
		return fault.E(fault.KindOf(err), fault.At(l.name), fault.Cause(err))
	}
	l.targets[i] = b
	return nil
}

// find looks up a slice in a table, checks that the server has it in the same shape, and returns the elements of t.
func find(name string, t *tensor.Tensor, places map[string]int, table dataplane.Table) (int, []byte, error) {
	i, ok := places[name]
	if !ok {
		return 0, nil, fault.E(fault.Internal, fault.Var(name), fault.Got("a slice that the program does not name"))
	}
	if s := table[i]; s.DType != t.DType() || !slices.Equal(s.Dims, t.Dims()) || s.Bytes != int(t.Bytes()) {
		return 0, nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(t.String()), fault.Wantf("%v%v", s.DType, s.Dims))
	}
	b, err := wire.Memory(t)
	return i, b, err
}

// writeEarly writes what is ready while the step goes on. A connection that breaks is not mended before the barrier.
func (l *link) writeEarly(ctx context.Context) {
	l.attempt(ctx, l.write)
	l.out.written()
}

// write sends the slices that are ready.
func (l *link) write() error {
	l.sending = l.out.take(l.sending[:0])
	if len(l.sending) == 0 {
		return nil
	}
	return l.conn.WriteSlices(l.head(dataplane.Data), l.sending, func(slice int) ([]byte, error) { return l.out.values[slice], nil })
}

// sendContribution writes what is left of the contribution. A job with one server declares it in the same breath.
func (l *link) sendContribution() error {
	err := l.write()
	if err == nil && (len(l.comm.Servers) == 1 || l.toLeader) && !l.declared {
		err = l.writeDeclaration()
	}
	return err
}

// attempt does something with the connection, if there is one, and closes it when that fails.
func (l *link) attempt(ctx context.Context, do func() error) {
	if l.conn == nil {
		return
	}
	l.conn.Bound(ctx, time.Now().Add(l.comm.Deadline))
	if err := do(); err != nil {
		l.disconnect(err)
	}
}

// contribute returns when the server has the whole contribution.
func (l *link) contribute(ctx context.Context) error {
	if l.out.count == 0 {
		return nil
	}
	return l.exchange(ctx, "taking the contribution", (*link).awaitAck)
}

// awaitAck writes what is left of the contribution, and waits until the server has all of it.
func (l *link) awaitAck() error {
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
func (l *link) declare(ctx context.Context) {
	if !l.declared {
		l.attempt(ctx, l.writeDeclaration)
	}
}

func (l *link) writeDeclaration() error {
	l.declared, l.mayCount = true, true
	return l.conn.WriteMessage(l.head(dataplane.Declare), l.comm.declaration(l.server))
}

// fetch returns when the parameters of the next round are received, or, where nothing is received from the server, when it knows the declaration.
func (l *link) fetch(ctx context.Context) error {
	what := "the parameters"
	if len(l.receive) == 0 {
		what = "the answer to the declaration"
	}
	err := l.exchange(ctx, what, (*link).awaitParams)
	if l.conn != nil {
		l.conn.Unbound() // the context may be that of one step
	}
	return err
}

// awaitParams declares the contribution, unless that is done, and waits for the answer.
func (l *link) awaitParams() error {
	if !l.declared {
		if err := l.writeDeclaration(); err != nil {
			return err
		}
	}
	if len(l.receive) == 0 {
		_, err := l.read(dataplane.Ack, l.comm.round())
		return err
	}
	return l.readParams(l.conn, l.comm.round()+1)
}

// readParams reads the frames of one version of the parameters.
func (l *link) readParams(conn *dataplane.Conn, version id.Round) error {
	l.arrived.Reset()
	for {
		h, err := l.read(dataplane.Params, version)
		if err != nil {
			return err
		}
		l.comm.Times.Enter(timing.Receive)
		parts, err := conn.ReadParts(h, l.arrived)
		if err != nil {
			return err
		}
		for _, p := range parts {
			to := l.targets[p.Slice]
			if to != nil {
				to = to[p.Offset : p.Offset+p.Length]
			}
			if err := conn.ReadPart(p, to); err != nil {
				return err
			}
		}
		if err := conn.End(h); err != nil {
			return err
		}
		switch last := h.Flags&dataplane.Last != 0; {
		case last && l.arrived.Complete():
			return nil
		case last:
			return fault.E(fault.Corrupt, fault.At(l.name), fault.Got("parameters with slices missing"), fault.Want("all slices"))
		}
	}
}

// read reads the head of the frame that must come now.
func (l *link) read(k dataplane.Kind, round id.Round) (dataplane.Head, error) {
	h, err := l.conn.ReadHead()
	if f, ok := err.(*fault.Fault); ok && f.Where == "" { // a fault of the server that does not say where it was found
		err = f.In(l.name, "")
	}
	if err == nil && (h.Kind != k || h.Round != round || h.Generation != l.comm.identity.Generation || h.Rank != l.comm.Rank) {
		err = fault.E(fault.Corrupt, fault.At(l.name), fault.Gotf("a frame %s of round %d", h.Kind, h.Round),
			fault.Wantf("%s of round %d", k, round))
	}
	return h, err
}

func (l *link) head(k dataplane.Kind) dataplane.Head {
	return dataplane.Head{Kind: k, Generation: l.comm.identity.Generation, Round: l.comm.round(), Rank: l.comm.Rank}
}

// exchange runs do on a connection, and again on another one when the connection breaks, until the deadline of the job: one for all tries. A
// leader may be gone and tell those whom it leads nothing; the servers know then that the generation has ended.
func (l *link) exchange(ctx context.Context, what string, do func(*link) error) error {
	if l.toLeader {
		return l.comm.whileGenerationLasts(ctx, func(ctx context.Context) error { return l.repeat(ctx, what, do) })
	}
	return l.repeat(ctx, what, do)
}

// repeat is exchange with a peer that tells when the generation ends.
func (l *link) repeat(ctx context.Context, what string, do func(*link) error) error {
	until := time.Now().Add(l.comm.Deadline)
	w := l.comm.caller.begin(callTarget{l.name, what}, l.comm.Deadline)
	defer w.end()
	if l.conn != nil { // without what only a second try needs
		err := l.try(ctx, what, until, do)
		if !errors.Is(err, fault.Unavailable) {
			return err
		}
	}
	if l.broken != nil {
		w.note(l.broken)
		l.comm.Log.Info("a data connection has ended, another one is opened", "peer", l.name, "reason", l.broken.Error())
	}
	return w.repeat(ctx, until, func(ctx context.Context, retry id.Retry) error {
		if l.conn == nil {
			if err := l.connect(ctx, retry); err != nil {
				return gaveUp(ctx, l, what, err)
			}
		}
		return l.try(ctx, what, until, do)
	})
}

// try runs do once, and ends the connection when that fails.
func (l *link) try(ctx context.Context, what string, until time.Time, do func(*link) error) error {
	l.conn.Bound(ctx, until)
	err := do(l)
	if err == nil {
		return nil
	}
	l.disconnect(err)
	if !errors.Is(ctx.Err(), context.Canceled) && !time.Now().Before(until) {
		return waits.TimedOut(l.name, waits.Wait{What: fmt.Sprintf("%s of round %d", what, l.comm.round()),
			Since: until.Add(-l.comm.Deadline), Limit: l.comm.Deadline})
	}
	return gaveUp(ctx, l, what, err)
}

// gaveUp is the error of an exchange that err has ended: where ctx did, it says what the exchange has waited for.
func gaveUp(ctx context.Context, l *link, what string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return waits.GaveUp(ctx, l.name, waits.Wait{What: fmt.Sprintf("%s of round %d", what, l.comm.round())})
}

// connect opens a connection.
func (l *link) connect(ctx context.Context, retry id.Retry) error {
	c := l.comm
	answer, err := l.peer.OpenData(ctx, &rpc.OpenDataRequest{Id: c.message(c.identity, c.round(), retry), Send: l.traffic.Send,
		Receive: l.traffic.Receive}, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	var layout dataplane.Layout
	if layout.Send, err = tableOf(l.traffic.Send, answer.Send); err == nil {
		layout.Receive, err = tableOf(l.traffic.Receive, answer.Receive)
	}
	if err == nil && l.targets != nil && !(layout.Send.Equal(l.send) && layout.Receive.Equal(l.receive)) { // values and targets have the sizes of the first
		err = fault.E(fault.Corrupt, fault.Got("other slices than on the connection before"), fault.Want("the same"))
	}
	if err != nil {
		return fault.E(fault.KindOf(err), fault.At(l.name), fault.Cause(err))
	}
	l.merges = mergesOf(answer.Send)
	conn, err := c.Data.Dial(ctx, dataplane.Place{Address: answer.Address, Host: answer.Host, Local: answer.Local, Token: answer.Token}, layout)
	if err != nil {
		return l.notConnected(err)
	}
	c.Log.Info("a data connection is open", "peer", l.name, "transport", conn.Carrier().String())
	l.send, l.receive = layout.Send, layout.Receive
	l.conn, l.broken, l.arrived = conn, nil, dataplane.NewProgress(l.receive)
	l.sends, l.receives = l.send.Bytes(), l.receive.Bytes()
	if l.targets == nil {
		l.targets = make([][]byte, len(l.receive))
		l.out.begin(len(l.send))
	}
	return nil
}

// mergesOf reads how a group merges contributions.
func mergesOf(infos []*rpc.SliceInfo) []ops.Merge {
	list := make([]ops.Merge, len(infos))
	for i, info := range infos {
		list[i] = ops.Merge(info.GetMerge())
	}
	return list
}

// notConnected is the error of a connection that could not be opened, for the err of the Dialer. It is fault.Unavailable where another try may help, and
// fault.Unsupported where this carrier does not work.
func (l *link) notConnected(err error) error {
	l.dials++
	carrier := l.comm.Data.Carrier
	tries := dialsAtFirst
	if carrier.Explicit() {
		tries = dialsExplicit
	}
	unsupported := errors.Is(err, fault.Unsupported)
	switch {
	case !unsupported && !errors.Is(err, fault.Unavailable):
		return err
	case l.targets == nil && (l.dials >= tries || unsupported && !carrier.Explicit()):
		if carrier.Explicit() {
			return fault.E(fault.Unsupported, fault.At(l.name), fault.Gotf("no data connection over %s: %v", carrier, err),
				fault.Wantf("a server with which %s works", carrier), fault.Hint("use --transport auto"))
		}
		return fault.E(fault.Unsupported, fault.At(l.name), fault.Got(err.Error())) // not Cause: another try cannot help
	case unsupported: // it has worked, or it may work when an earlier connection has ended
		return fault.E(fault.Unavailable, fault.At(l.name), fault.Got(err.Error()))
	}
	return err
}

// tableOf joins names and what the server says of them.
func tableOf(names []string, infos []*rpc.SliceInfo) (dataplane.Table, error) {
	if len(infos) != len(names) {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d slices in the answer", len(infos)), fault.Wantf("%d", len(names)))
	}
	t := make(dataplane.Table, len(names))
	for i, info := range infos {
		t[i] = dataplane.Slice{Name: names[i], DType: tensor.DType(info.GetDtype()), Dims: info.GetDims(), Bytes: int(info.GetBytes())}
	}
	return t, t.Check()
}

// disconnect ends the connection. What the server has not acknowledged is to be sent again on the next one.
func (l *link) disconnect(why error) {
	if l.conn == nil {
		return
	}
	l.conn.Free()
	l.broken = why
	l.conn, l.declared, l.asked = nil, false, false
	l.out.again(!l.acked)
}

// contribute returns when every server with a link has the whole contribution. It writes to all of them before it waits for any.
func (ls links) contribute(ctx context.Context) error {
	begin := func(l *link, ctx context.Context) {
		if l.out.count > 0 {
			l.attempt(ctx, l.sendContribution) // a connection that breaks is mended by contribute
		}
	}
	return ls.each(ctx, func(l *link) int { return l.sends }, begin, (*link).contribute)
}

// declare declares the contribution to every server. The answers are the parameters, for which fetch waits.
func (ls links) declare(ctx context.Context) {
	for _, l := range ls {
		if l != nil {
			l.declare(ctx)
		}
	}
}

// fetch returns when the parameters of every server with a link are here. It declares the contribution where that is not done.
func (ls links) fetch(ctx context.Context) error {
	return ls.each(ctx, func(l *link) int { return l.receives }, (*link).declare, (*link).fetch)
}

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
