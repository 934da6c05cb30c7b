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

// Zeros says whether zeros of a large variable may be left out. A table that grows is mostly zeros, which take no memory at either end until somebody writes them.
type Zeros bool

// LeaveOut is for a receiver that has asked for it, Keep for all others.
const (
	Keep     Zeros = false
	LeaveOut Zeros = true
)

const (
	leastLeftOut = 64 << 10 // bytes of zeros that are worth a message of their own
	leastLooked  = 4 << 20  // bytes of a variable in which zeros are looked for
)

// parts calls each with the parts of data that travel in a message of their own, at most ChunkBytes long, or, with zeros, of any length.
func (z Zeros) parts(data []byte, each func(part []byte, zeros bool) error) error {
	if len(data) < leastLooked {
		z = Keep
	}
	var usage tensor.Usage
	if z {
		usage = tensor.UsageOf(data)
	}
	for at := 0; at == 0 || at < len(data); {
		end, zeros := min(at+ChunkBytes, len(data)), false
		if z {
			end = min(at+leastLeftOut, len(data))
			zeros = usage.Zeros(at, end)
			for end < len(data) && (zeros || end < at+ChunkBytes) {
				next := min(end+leastLeftOut, len(data))
				if usage.Zeros(end, next) != zeros {
					break
				}
				end = next
			}
		}
		if err := each(data[at:end], zeros); err != nil {
			return err
		}
		if at = end; at == 0 {
			return nil
		}
	}
	return nil
}

// SendVariable sends t in chunks; the first one carries header. t must not be written until the call has ended.
func SendVariable(s Sender, header *rpc.VariableChunk, t *tensor.Tensor, z Zeros) error {
	data, err := Memory(t)
	if err != nil {
		return err
	}
	header.Dtype, header.Dims, header.Bytes = int32(t.DType()), t.Dims(), int64(len(data))
	offset := 0
	return z.parts(data, func(part []byte, zeros bool) error {
		out := &Outgoing{Header: header, Data: part}
		if zeros {
			header.Zeros, out.Data = int64(len(part)), nil
		}
		if err := s.SendMsg(out); err != nil {
			return err
		}
		offset += len(part)
		header = &rpc.VariableChunk{Offset: int64(offset)}
		return nil
	})
}

// A Snapshot is a copy of a variable's elements in buffers of the transport. The variable may change while the copy is sent.
type Snapshot struct {
	header *rpc.VariableChunk
	chunks []chunk
}

// A chunk is a part of a variable: a copy, or so many zeros.
type chunk struct {
	copied mem.Buffer
	zeros  int
}

// Snap copies t. The caller must Send or Free the result.
func Snap(header *rpc.VariableChunk, t *tensor.Tensor, z Zeros) (*Snapshot, error) {
	data, err := Memory(t)
	if err != nil {
		return nil, err
	}
	header.Dtype, header.Dims, header.Bytes = int32(t.DType()), t.Dims(), int64(len(data))
	s := &Snapshot{header: header}
	return s, z.parts(data, func(part []byte, zeros bool) error {
		if zeros {
			s.chunks = append(s.chunks, chunk{zeros: len(part)})
		} else {
			s.chunks = append(s.chunks, chunk{copied: mem.Copy(part, mem.DefaultBufferPool())})
		}
		return nil
	})
}

// Send sends the copy and gives its buffers back.
func (s *Snapshot) Send(to Sender) error {
	defer s.Free()
	header, offset := s.header, 0
	for len(s.chunks) > 0 {
		c := s.chunks[0]
		s.chunks = s.chunks[1:]
		out, n := &Outgoing{Header: header, Buffer: c.copied}, c.zeros
		if header.Zeros = int64(c.zeros); c.zeros == 0 {
			n = c.copied.Len()
		}
		if err := to.SendMsg(out); err != nil {
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
		if c.copied != nil {
			c.copied.Free()
		}
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
	usage  *tensor.Usage      // of room, when bytes were left out first; nil before
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
	} else if n == 0 && h.Zeros == 0 {
		return nil, fault.E(fault.Corrupt, fault.Var(a.header.Name), fault.Gotf("a chunk without data at offset %d", h.Offset),
			fault.Want("at least one byte"))
	}
	if h.Zeros != 0 {
		return nil, a.skip(h, n)
	}
	if h.Offset != int64(a.at) || n > len(a.room)-a.at {
		return nil, fault.E(fault.Corrupt, fault.Var(a.header.Name), fault.Gotf("%d bytes at offset %d", n, h.Offset),
			fault.Wantf("at most %d at offset %d", len(a.room)-a.at, a.at))
	}
	a.at += n
	return a.room[a.at-n : a.at], nil
}

// skip makes zeros of bytes that were left out.
func (a *assembly) skip(h *rpc.VariableChunk, n int) error {
	if left := int64(len(a.room) - a.at); n != 0 || h.Offset != int64(a.at) || h.Zeros < 0 || h.Zeros > left {
		return fault.E(fault.Corrupt, fault.Var(a.header.Name), fault.Gotf("%d zeros and %d bytes at offset %d", h.Zeros, n, h.Offset),
			fault.Wantf("at most %d zeros, or bytes, at offset %d", left, a.at))
	}
	if a.usage == nil {
		usage := tensor.UsageOf(a.room)
		a.usage = &usage
	}
	a.usage.Clear(a.at, a.at+int(h.Zeros))
	a.at += int(h.Zeros)
	return nil
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
