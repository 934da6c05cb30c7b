package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A link is a trainer's end of the connection of the data plane to one server, in one generation. In a step it does what send, the barriers and recv do
// over gRPC: syncStep and asyncStep have what each kind of job does. When its connection breaks it opens another one, until the deadline of the
// exchange, and sends again what the server may not have: the contribution until that is acknowledged, the declaration until the parameters are here.
//
// add may run at the same time as writeEarly. The other methods follow each other.
type link struct {
	comm     *Comm
	server   int                       // 0 where the peer is the leader of a group
	peer     rpc.ParameterServerClient // opens the connection: the server, or the leader of the group
	name     string                    // of the peer
	toLeader bool                      // the peer is the leader of the group: it has the slices of all servers
	homes    []int                     // by slice of what is received: its server; only where the peer is the leader
	traffic  comm.Traffic
	index    map[string]int // of what is sent
	places   map[string]int // of what is received

	conn     *dataplane.Conn // nil: there is none
	broken   error           // why the last one has ended; nil while there is one
	send     dataplane.Table
	receive  dataplane.Table
	merges   []ops.Merge // of send: how a group merges contributions
	arrived  *dataplane.Progress
	sending  []int    // slices that write is sending
	dials    int      // that have failed
	sends    int      // bytes of a contribution
	receives int      // bytes of the parameters
	declared bool     // on this connection
	asked    bool     // for the parameters, on this connection
	has      id.Round // one more than the version that was received last; 0: none
	mayCount bool     // a declaration was written in this step, on any connection
	acked    bool     // the server has the whole contribution: none of it is sent again, unless another process takes the place of the server
	process  uint64   // of the server, on the last connection; 0: none yet

	out     contribution
	targets [][]byte // of what is received; nil where the step does not receive it
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

// begin begins a step.
func (l *link) begin() {
	l.out.begin(len(l.send))
	clear(l.targets)
	l.declared, l.asked, l.mayCount, l.acked = false, false, false, false
}

// add enters a slice of the contribution. write asks the caller to call writeEarly.
func (l *link) add(name string, t *tensor.Tensor) (write bool, err error) {
	i, b, err := find(name, t, l.index, l.send, true)
	if err != nil {
		return false, fault.E(fault.KindOf(err), fault.At(l.name), fault.Cause(err))
	}
	used, err := l.send[i].Used(b)
	if err == nil && used > len(b) {
		err = fault.E(fault.Corrupt, fault.Var(name), fault.Gotf("%d bytes of rows", used), fault.Wantf("at most %d", len(b)))
	}
	if err != nil {
		return false, err
	}
	write, ok := l.out.add(i, b[:used])
	if !ok {
		return false, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a variable that is sent twice in a step"), fault.Want("once"))
	}
	return write, nil
}

// expect says where a slice of the parameters goes.
func (l *link) expect(name string, t *tensor.Tensor) error {
	i, b, err := find(name, t, l.places, l.receive, false)
	if err != nil {
		return fault.E(fault.KindOf(err), fault.At(l.name), fault.Cause(err))
	}
	l.targets[i] = b
	return nil
}

// receivesEachStep reports whether a variable is one of those that the trainer receives in every step, and so has a place on the connection. Parameters
// that travel compressed come in float32 at the beginning, over a call.
func (l *link) receivesEachStep(name string) bool {
	_, ok := l.places[name]
	return ok
}

// expects reports whether anything that the connection brings is wanted.
func (l *link) expects() bool {
	return slices.ContainsFunc(l.targets, func(b []byte) bool { return b != nil })
}

// find looks up a slice in a table, checks that the server has it in the same shape, and returns the elements of t.
// What is sent by rows may have room for fewer than the server.
func find(name string, t *tensor.Tensor, places map[string]int, table dataplane.Table, sends bool) (int, []byte, error) {
	i, ok := places[name]
	if !ok {
		return 0, nil, fault.E(fault.Internal, fault.Var(name), fault.Got("a slice that the program does not name"))
	}
	s := table[i]
	fits := slices.Equal(s.Dims, t.Dims()) && s.Bytes == int(t.Bytes())
	if d := t.Dims(); s.Rows && sends { // room for the rows of a batch
		fits = len(d) == 2 && d[0] > 0 && d[0] <= s.Dims[0] && d[1] == s.Dims[1]
	}
	if s.DType != t.DType() || !fits {
		return 0, nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(t.String()), fault.Wantf("%v%v", s.DType, s.Dims))
	}
	b, err := wire.Memory(t)
	return i, b, err
}

// writeEarly writes what is ready while the step goes on. A connection that breaks is not mended before the barrier.
func (l *link) writeEarly(ctx context.Context) {
	l.attempt(ctx, (*link).write)
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

// attempt does something with the connection, if there is one, and closes it when that fails.
func (l *link) attempt(ctx context.Context, do func(*link) error) {
	if l.conn == nil {
		return
	}
	l.conn.Bound(ctx, time.Now().Add(l.comm.Deadline))
	if err := do(l); err != nil {
		l.disconnect(err)
	}
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
		l.comm.torn.Store(true)
		version = h.Round
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
		if err := l.checkRows(parts); err != nil {
			return err
		}
		switch last := h.Flags&dataplane.Last != 0; {
		case last && l.arrived.Complete():
			l.has = version + 1
			return nil
		case last:
			return fault.E(fault.Corrupt, fault.At(l.name), fault.Got("parameters with slices missing"), fault.Want("all slices"))
		}
	}
}

// checkRows refuses rows of tables that have arrived with another length than they say.
func (l *link) checkRows(parts []dataplane.Part) error {
	for _, p := range parts {
		if to := l.targets[p.Slice]; to != nil && p.End {
			if err := l.arrived.Check(p.Slice, to); err != nil {
				return fault.E(fault.KindOf(err), fault.At(l.name), fault.Cause(err))
			}
		}
	}
	return nil
}

// get asks for the parameters, unless there are none or the connection has been asked.
func (l *link) get(h dataplane.Head) error {
	if len(l.receive) == 0 || l.asked {
		return nil
	}
	l.asked = true
	return l.conn.WriteMessage(h, nil)
}

// read reads the head of the frame that must come now.
func (l *link) read(k dataplane.Kind, round id.Round) (dataplane.Head, error) {
	h, err := l.conn.ReadHead()
	if f, ok := err.(*fault.Fault); ok && f.Where == "" { // a fault of the server that does not say where it was found
		err = f.In(l.name, "")
	}
	if err == nil && l.comm.verdicts.on && h.Kind == dataplane.Params && k == h.Kind && h.Round > round { // others have gone on meanwhile
		if l.comm.version == afterStep {
			return h, lateIn(l.comm.round())
		}
		round = h.Round
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
		return l.comm.probe.whileGenerationLasts(ctx, l.comm, func(ctx context.Context) error {
			err := l.repeat(ctx, what, do)
			if l.conn != nil {
				l.conn.Unbound() // the context is that of this exchange
			}
			return err
		})
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
				if l.toLeader && errors.Is(err, fault.Unavailable) && l.comm.probe.applied(l.comm.round()) {
					return errLeaderLeft
				}
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
