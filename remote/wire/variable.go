package wire

import (
	"io"

	"google.golang.org/grpc/mem"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// ChunkBytes is how much of a tensor one message carries: large enough for full bandwidth, small enough that several tensors share
// a connection fairly.
const ChunkBytes = 1 << 20

// Sender is the sending half of a stream of chunks, on either side of a call.
type Sender interface {
	SendMsg(m any) error // as of grpc.ClientStream and grpc.ServerStream
}

// SendVariable sends t in chunks; the first one carries header. t must not be written until the call has ended.
func SendVariable(s Sender, header *rpc.VariableChunk, t *tensor.Tensor) error {
	data, err := Memory(t)
	if err != nil {
		return err
	}
	header.Dtype, header.Dims, header.Bytes = int32(t.DType()), t.Dims(), int64(len(data))
	for offset := 0; ; {
		n := min(ChunkBytes, len(data)-offset)
		if err := s.SendMsg(&Outgoing{Header: header, Data: data[offset : offset+n]}); err != nil {
			return err
		}
		if offset += n; offset >= len(data) {
			return nil
		}
		header = &rpc.VariableChunk{Offset: int64(offset)}
	}
}

// A Snapshot is a copy of a variable's elements in buffers of the transport. The variable may change while the copy is sent.
type Snapshot struct {
	header *rpc.VariableChunk
	chunks []mem.Buffer
}

// Snap copies t. The caller must Send or Free the result.
func Snap(header *rpc.VariableChunk, t *tensor.Tensor) (*Snapshot, error) {
	data, err := Memory(t)
	if err != nil {
		return nil, err
	}
	header.Dtype, header.Dims, header.Bytes = int32(t.DType()), t.Dims(), int64(len(data))
	s := &Snapshot{header: header}
	for {
		n := min(ChunkBytes, len(data))
		s.chunks = append(s.chunks, mem.Copy(data[:n], mem.DefaultBufferPool()))
		if data = data[n:]; len(data) == 0 {
			return s, nil
		}
	}
}

// Send sends the copy and gives its buffers back.
func (s *Snapshot) Send(to Sender) error {
	defer s.Free()
	header, offset := s.header, 0
	for len(s.chunks) > 0 {
		chunk := s.chunks[0]
		s.chunks = s.chunks[1:]
		n := chunk.Len()
		if err := to.SendMsg(&Outgoing{Header: header, Buffer: chunk}); err != nil {
			return err
		}
		offset += n
		header = &rpc.VariableChunk{Offset: int64(offset)}
	}
	return nil
}

// Free gives back what was not sent.
func (s *Snapshot) Free() {
	for _, c := range s.chunks {
		c.Free()
	}
	s.chunks = nil
}

// Receiver is the receiving half.
type Receiver interface {
	RecvMsg(m any) error // as of grpc.ClientStream and grpc.ServerStream
}

// ReceiveVariable receives one variable and reads the stream to its end. choose gets the header of the first chunk, before anything is written, and
// returns the tensor to fill; its dtype and dims must be those of the header. ReceiveVariable returns the header, or an error of choose unchanged. It
// writes nothing outside the tensor. The tensor is complete only if the error is nil.
func ReceiveVariable(r Receiver, choose func(*rpc.VariableChunk) (*tensor.Tensor, error)) (*rpc.VariableChunk, error) {
	a := assembly{choose: choose}
	in := &Incoming{Place: a.place}
	for {
		err := r.RecvMsg(in)
		switch {
		case err == io.EOF:
			return a.header, a.complete()
		case err != nil:
			return a.header, err
		case in.Refused != nil:
			return a.header, in.Refused
		}
	}
}

// assembly is a variable that is being received.
type assembly struct {
	choose func(*rpc.VariableChunk) (*tensor.Tensor, error)
	header *rpc.VariableChunk // of the first chunk, nil before
	room   []byte             // where all bytes go
	at     int                // bytes received
}

// place returns where the n bytes of a chunk go.
func (a *assembly) place(h *rpc.VariableChunk, n int) ([]byte, error) {
	if a.header == nil {
		t, err := a.choose(h)
		if err != nil {
			return nil, err
		}
		if err := announced(h, t); err != nil {
			return nil, err
		}
		if a.room, err = Memory(t); err != nil {
			return nil, err
		}
		a.header = h
	} else if n == 0 {
		return nil, fault.E(fault.Corrupt, fault.Var(a.header.Name), fault.Gotf("a chunk without data at offset %d", h.Offset),
			fault.Want("at least one byte"))
	}
	if h.Offset != int64(a.at) || n > len(a.room)-a.at {
		return nil, fault.E(fault.Corrupt, fault.Var(a.header.Name), fault.Gotf("%d bytes at offset %d", n, h.Offset),
			fault.Wantf("at most %d at offset %d", len(a.room)-a.at, a.at))
	}
	a.at += n
	return a.room[a.at-n : a.at], nil
}

// complete checks that the stream has ended with the last byte of the variable.
func (a *assembly) complete() error {
	if a.header == nil || a.at != len(a.room) {
		return fault.E(fault.Corrupt, fault.Var(a.header.GetName()), fault.Gotf("a stream that ends after %d bytes", a.at),
			fault.Wantf("%d bytes", len(a.room)))
	}
	return nil
}

// announced checks a header against the tensor that waits for it.
func announced(h *rpc.VariableChunk, t *tensor.Tensor) error {
	same := tensor.DType(h.Dtype) == t.DType() && len(h.Dims) == len(t.Dims()) && h.Bytes == t.Bytes()
	for i := range h.Dims {
		same = same && h.Dims[i] == t.Dims()[i]
	}
	if !same {
		return fault.E(fault.ShapeMismatch, fault.Var(h.Name), fault.Gotf("%v%v of %d bytes", tensor.DType(h.Dtype), h.Dims, h.Bytes),
			fault.Want(t.String()))
	}
	return nil
}
