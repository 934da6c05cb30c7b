package wire

import (
	"google.golang.org/grpc/mem"

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
