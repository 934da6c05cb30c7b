package trainer

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/tensor"
)

// dialsAtFirst is how often the first connection to a server is tried. A server that answers calls and cannot be reached here has a firewall between.
// With a carrier that was asked for there is no other way, so dialsExplicit is a second or two: the server may still hold the memory of a connection
// that has ended.
const (
	dialsAtFirst  = 3
	dialsExplicit = 8
)

// connect opens a connection.
func (l *link) connect(ctx context.Context, retry id.Retry) error {
	c := l.comm
	answer, err := l.peer.OpenData(ctx, &rpc.OpenDataRequest{Id: c.identity.Of(c.Rank, c.round(), retry), Send: l.traffic.Send,
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
	if l.process != 0 && l.process != answer.Process { // a standby, which has taken over
		l.acked = false
		l.out.again(true)
	}
	l.process = answer.Process
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
	if errors.Is(err, dataplane.ErrUnshared) {
		l.comm.Log.Warn("TCP takes the place of shared memory", "peer", l.name, "error", err)
	}
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
		t[i] = dataplane.Slice{Name: names[i], DType: tensor.DType(info.GetDtype()), Dims: info.GetDims(), Bytes: int(info.GetBytes()), Rows: info.GetRows()}
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
