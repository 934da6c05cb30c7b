package pserver

import (
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Contributions over shared memory stay where the trainer has written them: the inbox has tensors over the memory of the line until the round is applied or
// dropped. An honest trainer writes the slices of the next round when it has received the parameters of this one, so the server has applied this one. One
// that writes earlier changes its own contribution and nothing else. Where it is the only one, updates read it where it is (inbox.merged).
//
// When the line ends, its memory is unmapped. Before that withdraw moves what has arrived and still counts to memory of the server.

// lend lets slices stay in the memory that both ends share, if they share any. A trainer that receives no parameters goes on before its round is applied,
// so it lends nothing. Neither does one of an async job, whose contributions may wait in queues when the line ends.
func (l *line) lend(conn *dataplane.Conn) error {
	if len(l.receive) == 0 || l.server.core.updates != nil {
		return nil
	}
	lent := make([]*tensor.Tensor, len(l.send))
	for i, s := range l.send {
		b := conn.Lent(i, s.Bytes)
		if b == nil {
			return nil
		}
		var err error
		if lent[i], err = wire.Over(b, s.DType, s.Dims...); err != nil {
			return err
		}
	}
	c := l.server.core
	c.Lock()
	defer c.Unlock()
	for _, t := range lent {
		c.inbox.lent[t] = true
	}
	l.lent = lent
	return nil
}

// withdraw takes the memory of the line back. It waits for those who read what has arrived there.
func (l *line) withdraw() {
	c := l.server.core
	var used []int
	c.Lock()
	for i, t := range l.lent {
		if c.inbox.arrived[l.send[i].Name][l.sender.Rank] == t {
			used = append(used, i)
		}
	}
	c.Unlock()
	if len(used) > 0 {
		c.inbox.elements.Lock()
		for _, i := range used {
			_ = tensor.Share(l.lent[i], copyOf(l.lent[i], l.send[i])) // the same type and length: it never fails
		}
		c.inbox.elements.Unlock()
	}
	c.Lock()
	defer c.Unlock()
	for _, t := range l.lent {
		delete(c.inbox.lent, t)
	}
}

// copyOf copies what is in use of a slice. The rest of a slice with rows may have no memory.
func copyOf(t *tensor.Tensor, s dataplane.Slice) *tensor.Tensor {
	to, err := tensor.New(t.DType(), t.Dims()...)
	if err != nil {
		return t.Clone()
	}
	from, err := wire.Memory(t)
	n := len(from)
	if err == nil {
		n, err = s.Used(from)
	}
	if b, wrong := wire.Memory(to); err == nil && wrong == nil {
		copy(b[:n], from)
		return to
	}
	return t.Clone() // rows that cannot be: who merges them says so
}
