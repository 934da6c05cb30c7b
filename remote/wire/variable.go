package wire

import (
	"fmt"
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
type Sender interface{ SendMsg(m any) error }

// Receiver is the receiving half.
type Receiver interface{ RecvMsg(m any) error }

// SendVariable sends t in chunks, the first of which carries header. t must not be written until the call has ended.
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

// A Snapshot is a copy of a variable's elements in buffers of the transport, taken so that the variable may change while the copy is sent.
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

// ReceiveVariable receives one variable. choose is called with the first chunk's header, before memory is touched, and returns the
// tensor to fill, whose dtype and dims must be the announced ones. It returns the header, and reads the stream to its end.
func ReceiveVariable(r Receiver, choose func(*rpc.VariableChunk) (*tensor.Tensor, error)) (*rpc.VariableChunk, error) {
	var first *rpc.VariableChunk
	var room []byte
	at := 0
	in := &Incoming{Place: func(h *rpc.VariableChunk, n int) ([]byte, error) {
		if first == nil {
			t, err := choose(h)
			if err != nil {
				return nil, err
			}
			if err := announced(h, t); err != nil {
				return nil, err
			}
			if room, err = Memory(t); err != nil {
				return nil, err
			}
			first = h
		}
		if h.Offset != int64(at) || n > len(room)-at {
			return nil, &fault.Fault{Kind: fault.Corrupt, Variable: first.Name,
				Got: fmt.Sprintf("%d bytes at offset %d", n, h.Offset), Want: fmt.Sprintf("at most %d at offset %d", len(room)-at, at)}
		}
		at += n
		return room[at-n : at], nil
	}}
	for {
		err := r.RecvMsg(in)
		if err == io.EOF {
			break
		}
		if err != nil {
			return first, err
		}
	}
	if first == nil || at != len(room) {
		return first, &fault.Fault{Kind: fault.Corrupt, Variable: first.GetName(), Got: fmt.Sprintf("a stream that ends after %d bytes", at), Want: fmt.Sprintf("%d bytes", len(room))}
	}
	return first, nil
}

// announced checks a header against the tensor that waits for it.
func announced(h *rpc.VariableChunk, t *tensor.Tensor) error {
	same := tensor.DType(h.Dtype) == t.DType() && len(h.Dims) == len(t.Dims()) && h.Bytes == t.Bytes()
	for i := range h.Dims {
		same = same && h.Dims[i] == t.Dims()[i]
	}
	if !same {
		return &fault.Fault{Kind: fault.ShapeMismatch, Variable: h.Name, Got: fmt.Sprintf("%v%v of %d bytes", tensor.DType(h.Dtype), h.Dims, h.Bytes), Want: t.String()}
	}
	return nil
}
