package pstest

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// WithData gives a server a port of the data plane, until the test ends.
func WithData(t testing.TB, cfg pserver.Config) pserver.Config {
	t.Helper()
	var err error
	if cfg.Data, err = dataplane.Listen(context.Background(), "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- cfg.Data.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return cfg
}

// A Line is the data connection of a trainer, frame by frame.
type Line struct {
	*dataplane.Conn
	Raw     net.Conn // what the frames travel on
	Trainer Trainer
	send    []string
	receive dataplane.Table
}

// Names are the first n gradients and parameters of SGD.
func Names(n int) (grads, params []string) {
	for i := range n {
		grads, params = append(grads, fmt.Sprintf("w%d@GRAD", i)), append(params, fmt.Sprintf("w%d", i))
	}
	return grads, params
}

// Open opens a data connection before a round, over TCP if the trainer has no carrier. wrap, which may be nil, is given the connection before it is used.
func (t Trainer) Open(ctx context.Context, round uint64, send, receive []string, wrap func(net.Conn) net.Conn) (*Line, error) {
	r, err := t.Client.OpenData(ctx, &rpc.OpenDataRequest{Id: t.ID(round), Send: send, Receive: receive})
	if err != nil {
		return nil, wire.FromStatus("pserver", err)
	}
	table := func(names []string, infos []*rpc.SliceInfo) (out dataplane.Table) {
		for i, info := range infos {
			out = append(out, dataplane.Slice{Name: names[i], DType: tensor.DType(info.Dtype), Dims: info.Dims, Bytes: int(info.Bytes), Rows: info.Rows})
		}
		return out
	}
	l := &Line{Trainer: t, send: send, receive: table(receive, r.Receive)}
	carrier := t.Carrier
	if carrier == dataplane.Auto {
		carrier = dataplane.TCP
	}
	d := dataplane.Dialer{Carrier: carrier, Wrap: func(c net.Conn) net.Conn {
		if l.Raw = c; wrap != nil {
			l.Raw = wrap(c)
		}
		return l.Raw
	}}
	if l.Conn, err = d.Dial(ctx, dataplane.Place{Address: r.Address, Host: r.Host, Local: r.Local, Token: r.Token},
		dataplane.Layout{Send: table(send, r.Send), Receive: l.receive}); err != nil {
		return nil, err
	}
	l.Bound(ctx, time.Now().Add(Patience)) // no test waits longer for a frame
	return l, nil
}

// Head is the head of a frame of the trainer.
func (l *Line) Head(k dataplane.Kind, round uint64) dataplane.Head {
	return dataplane.Head{Kind: k, Generation: id.Generation(l.Trainer.ID(0).Generation), Round: id.Round(round), Rank: id.Rank(l.Trainer.Rank)}
}

// Data sends slices of a contribution: values has one value for each number in slices, with the bytes that travel.
func (l *Line) Data(round uint64, slices []int, values ...*tensor.Tensor) error {
	of := make(map[int]*tensor.Tensor, len(slices))
	for i, slice := range slices {
		of[slice] = values[i]
	}
	return l.WriteSlices(l.Head(dataplane.Data, round), slices, func(slice int) ([]byte, error) { return wire.Memory(of[slice]) })
}

// Answer reads the head of a frame without a body, which must be of a kind and a round.
func (l *Line) Answer(k dataplane.Kind, round uint64) error {
	h, err := l.ReadHead()
	if err == nil && (h != l.Head(k, round)) {
		err = fmt.Errorf("the answer is %+v, want %s of round %d", h, k, round)
	}
	return err
}

// Contribute sends a whole contribution to a round, all of whose elements are x, and reads its acknowledgement.
func (l *Line) Contribute(round uint64, x float32, sizes ...int64) error {
	var list []int
	var values []*tensor.Tensor
	for i, n := range sizes {
		list, values = append(list, i), append(values, Filled(n, x))
	}
	if err := l.Data(round, list, values...); err != nil {
		return err
	}
	return l.Answer(dataplane.Ack, round)
}

// Declare sends a declaration.
func (l *Line) Declare(round uint64, rows int64, variables int) error {
	return l.WriteMessage(l.Head(dataplane.Declare, round), &rpc.BarrierRequest{Rows: rows, Variables: int32(variables)})
}

// Get asks for the parameters of a round, or, of an async job, with all contributions up to a step.
func (l *Line) Get(round uint64) error { return l.WriteMessage(l.Head(dataplane.Get, round), nil) }

// CopyBits copies the bits of a received vector to a tensor of another type with as many bytes.
func CopyBits(to, from *tensor.Tensor) {
	a, err := wire.Memory(to)
	b, wrong := wire.Memory(from)
	if err != nil || wrong != nil || copy(a, b) != len(a) {
		panic(fmt.Sprint("bits of ", from, " for ", to))
	}
}

// Params reads a version of the parameters.
func (l *Line) Params(version uint64) ([]*tensor.Tensor, error) {
	values := make([]*tensor.Tensor, len(l.receive))
	for i, s := range l.receive {
		values[i] = Vector(int64(s.Bytes / 4))
	}
	return values, l.ParamsInto(version, values)
}

// ParamsInto is Params into vectors that are there.
func (l *Line) ParamsInto(version uint64, values []*tensor.Tensor) error {
	p := dataplane.NewProgress(l.receive)
	for {
		h, err := l.ReadHead()
		if err != nil {
			return err
		}
		if h.Kind != dataplane.Params || h.Round != id.Round(version) || h.Rank != id.Rank(l.Trainer.Rank) {
			return fmt.Errorf("the answer is %+v, want the parameters of round %d", h, version)
		}
		parts, err := l.ReadParts(h, p)
		if err != nil {
			return err
		}
		for _, part := range parts {
			b, err := wire.Memory(values[part.Slice])
			if err == nil {
				err = l.ReadPart(part, b[part.Offset:part.Offset+part.Length])
			}
			if err != nil {
				return err
			}
		}
		if err := l.End(h); err != nil {
			return err
		}
		if last := h.Flags&dataplane.Last != 0; last != p.Complete() {
			return fault.E(fault.Corrupt, fault.Gotf("last %v, complete %v", last, p.Complete()))
		} else if last {
			return nil
		}
	}
}
