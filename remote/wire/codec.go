package wire

import (
	"fmt"
	"io"
	"sync"
	"unsafe"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// dataField is the number of VariableChunk.data.
const dataField = 8

// maxHeader bounds the encoded VariableChunk without its data.
const maxHeader = 64 << 10

// heads are buffers for the first bytes of chunks, which hold the headers.
var heads = sync.Pool{New: func() any { return new([maxHeader]byte) }}

// codec encodes protobuf messages, and Outgoing and Incoming without copying their data.
type codec struct{}

var _ encoding.CodecV2 = codec{}

// Name is "proto": on the wire nothing distinguishes this codec from gRPC's default.
func (codec) Name() string { return "proto" }

// Outgoing is a VariableChunk whose data is sent without a copy: from Data, which must not be written until the call has ended, or from Buffer,
// which the transport frees.
type Outgoing struct {
	Header *rpc.VariableChunk // without data
	Data   []byte
	Buffer mem.Buffer
}

// Incoming receives one VariableChunk. Place is called with the header and the number of data bytes that follow, and returns the memory for them. An
// error of Place is kept in Refused and does not fail the call: the transport would answer the peer at once, with the text of the error but without
// its kind.
type Incoming struct {
	Place   func(header *rpc.VariableChunk, n int) ([]byte, error)
	Refused error
}

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *Outgoing:
		head, err := proto.Marshal(m.Header)
		if err != nil {
			return nil, err
		}
		head = protowire.AppendTag(head, dataField, protowire.BytesType)
		data := m.Buffer
		if data == nil {
			data = mem.SliceBuffer(m.Data)
		}
		head = protowire.AppendVarint(head, uint64(data.Len()))
		return mem.BufferSlice{mem.SliceBuffer(head), data}, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return nil, fmt.Errorf("wire: cannot encode %T", v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *Incoming:
		return m.decode(data)
	case proto.Message:
		buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer buf.Free()
		return proto.Unmarshal(buf.ReadOnlyData(), m)
	}
	return fmt.Errorf("wire: cannot decode into %T", v)
}

// decode reads the header, asks for the memory for the data, and copies the data there. It refuses fields after the data, though protobuf allows any
// order, because the header must be complete before memory is chosen. Encoders write fields in the order of their numbers.
func (m *Incoming) decode(data mem.BufferSlice) error {
	total := data.Len()
	r := data.Reader()
	defer r.Close()
	buffer := heads.Get().(*[maxHeader]byte)
	defer heads.Put(buffer)
	n, err := io.ReadFull(r, buffer[:min(total, maxHeader)])
	if err != nil && err != io.EOF {
		return err
	}
	head := buffer[:n]
	at, size, err := splitHeader(head)
	if err != nil {
		return err
	}
	header := &rpc.VariableChunk{}
	if err := proto.Unmarshal(head[:at.header], header); err != nil {
		return err
	}
	if at.data+size != total {
		return fmt.Errorf("wire: a chunk of %d bytes announces %d of data", total, size)
	}
	dst, err := m.Place(header, size)
	if m.Refused = err; err != nil {
		return nil
	}
	if len(dst) != size {
		return fmt.Errorf("wire: room for %d bytes, and %d arrive", len(dst), size)
	}
	done := copy(dst, head[at.data:])
	_, err = io.ReadFull(r, dst[done:])
	return err
}

// offsets are positions in an encoded chunk: where the header ends and where the data begins.
type offsets struct{ header, data int }

func splitHeader(b []byte) (offsets, int, error) {
	at := 0
	for at < len(b) {
		num, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return offsets{}, 0, protowire.ParseError(n)
		}
		if num == dataField && typ == protowire.BytesType {
			size, m := protowire.ConsumeVarint(b[at+n:])
			if m < 0 {
				return offsets{}, 0, protowire.ParseError(m)
			}
			if size > 1<<31 {
				return offsets{}, 0, fmt.Errorf("wire: a chunk with %d bytes of data", size)
			}
			return offsets{header: at, data: at + n + m}, int(size), nil
		}
		m := protowire.ConsumeFieldValue(num, typ, b[at+n:])
		if m < 0 {
			return offsets{}, 0, protowire.ParseError(m)
		}
		at += n + m
	}
	return offsets{header: at, data: at}, 0, nil
}

// Memory returns the bytes of a tensor's elements, not a copy. It refuses bool, because a byte that is neither 0 nor 1 is no bool of Go.
func Memory(t *tensor.Tensor) ([]byte, error) {
	switch t.DType() {
	case tensor.Float32:
		return view(t.Float32s()), nil
	case tensor.Float64:
		return view(t.Float64s()), nil
	case tensor.Int64:
		return view(t.Int64s()), nil
	case tensor.Int32:
		return view(t.Int32s()), nil
	case tensor.BFloat16, tensor.Float16:
		return view(tensor.Data[uint16](t)), nil
	}
	return nil, fault.E(fault.Unsupported, fault.Got(t.String()+" on the wire"), fault.Want("float32, float64, bfloat16, float16, int32 or int64"))
}

func view[T float32 | float64 | int32 | int64 | uint16](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}

// Over returns a tensor whose elements are the bytes b, which must begin at a multiple of 8 in memory. It refuses bool, and a length that is not that of
// dims.
func Over(b []byte, dtype tensor.DType, dims ...int64) (*tensor.Tensor, error) {
	if dims == nil {
		dims = []int64{} // rank 0, not a vector
	}
	switch dtype {
	case tensor.Float32:
		return tensor.FromSlice(elements[float32](b), dims...)
	case tensor.Float64:
		return tensor.FromSlice(elements[float64](b), dims...)
	case tensor.Int64:
		return tensor.FromSlice(elements[int64](b), dims...)
	case tensor.Int32:
		return tensor.FromSlice(elements[int32](b), dims...)
	case tensor.BFloat16, tensor.Float16:
		return tensor.FromHalves(dtype, elements[uint16](b), dims...)
	}
	return nil, fault.E(fault.Unsupported, fault.Got(dtype.String()+" on the wire"),
		fault.Want("float32, float64, bfloat16, float16, int32 or int64"))
}

func elements[T float32 | float64 | int32 | int64 | uint16](b []byte) []T {
	if len(b) == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}
