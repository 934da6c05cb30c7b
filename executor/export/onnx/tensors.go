package onnx

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/onnx"
	"github.com/edl-go/edl/tensor"
)

// elementTypes are ONNX's numbers of the types that models may have.
var elementTypes = map[tensor.DType]onnx.TensorProto_DataType{
	tensor.Float32: onnx.TensorProto_FLOAT, tensor.Float64: onnx.TensorProto_DOUBLE, tensor.Int32: onnx.TensorProto_INT32,
	tensor.Int64: onnx.TensorProto_INT64, tensor.Bool: onnx.TensorProto_BOOL,
}

// elementType returns ONNX's number of a type. what is named in the error.
func elementType(dtype tensor.DType, what string) (onnx.TensorProto_DataType, error) {
	if t, ok := elementTypes[dtype]; ok {
		return t, nil
	}
	return 0, fault.E(fault.Unsupported, fault.Var(what), fault.Got(dtype.String()), fault.Want("float32, float64, int32, int64 or bool in an ONNX model"))
}

// dtypeOf is the inverse of elementType.
func dtypeOf(number int32, what string) (tensor.DType, error) {
	for dtype, t := range elementTypes {
		if int32(t) == number {
			return dtype, nil
		}
	}
	return 0, fault.E(fault.Unsupported, fault.Var(what), fault.Gotf("elements of ONNX's type %d (%s)", number, onnx.TensorProto_DataType(number)),
		fault.Want("float32, float64, int32, int64 or bool"))
}

// encode makes the message of a value.
func encode(name string, t *tensor.Tensor) (*onnx.TensorProto, error) {
	number, err := elementType(t.DType(), name)
	if err != nil {
		return nil, err
	}
	m := &onnx.TensorProto{Name: name, DataType: int32(number), Dims: t.Dims(), RawData: make([]byte, 0, t.Bytes())}
	var data any
	switch t.DType() {
	case tensor.Float32:
		data = t.Float32s()
	case tensor.Float64:
		data = t.Float64s()
	case tensor.Int32:
		data = t.Int32s()
	case tensor.Int64:
		data = t.Int64s()
	default:
		data = t.Bools()
	}
	m.RawData, err = binary.Append(m.RawData, binary.LittleEndian, data)
	return m, err
}

// decode makes the value of a message. It is hostile input: the elements must be there before memory for them is taken.
func decode(m *onnx.TensorProto) (*tensor.Tensor, error) {
	dtype, err := dtypeOf(m.GetDataType(), m.GetName())
	if err != nil {
		return nil, err
	}
	if m.GetDataLocation() == onnx.TensorProto_EXTERNAL {
		return nil, fault.E(fault.Unsupported, fault.Var(m.GetName()), fault.Got("elements in another file"), fault.Want("a model of one file"))
	}
	n, ok := tensor.Count(m.GetDims())
	if !ok {
		return nil, fault.E(fault.InvalidArgument, fault.Var(m.GetName()), fault.Gotf("dims %v", m.GetDims()), fault.Want("extents of at least 0"))
	}
	switch raw := m.GetRawData(); {
	case len(raw) == n*dtype.Size() && (n > 0 || raw != nil):
		return fromRaw(dtype, raw, n, m.GetDims())
	case len(raw) > 0:
		return nil, wrongLength(m, len(raw)/dtype.Size(), n)
	case dtype == tensor.Float32 && len(m.GetFloatData()) == n:
		return tensor.FromSlice(m.GetFloatData(), m.GetDims()...)
	case dtype == tensor.Float64 && len(m.GetDoubleData()) == n:
		return tensor.FromSlice(m.GetDoubleData(), m.GetDims()...)
	case dtype == tensor.Int64 && len(m.GetInt64Data()) == n:
		return tensor.FromSlice(m.GetInt64Data(), m.GetDims()...)
	case dtype == tensor.Int32 && len(m.GetInt32Data()) == n:
		return tensor.FromSlice(m.GetInt32Data(), m.GetDims()...)
	case dtype == tensor.Bool && len(m.GetInt32Data()) == n:
		all := make([]bool, n)
		for i, v := range m.GetInt32Data() {
			all[i] = v != 0
		}
		return tensor.FromSlice(all, m.GetDims()...)
	}
	return nil, wrongLength(m, max(len(m.GetFloatData()), len(m.GetDoubleData()), len(m.GetInt64Data()), len(m.GetInt32Data())), n)
}

func wrongLength(m *onnx.TensorProto, got, want int) error {
	return fault.E(fault.InvalidArgument, fault.Var(m.GetName()), fault.Gotf("%d elements", got), fault.Wantf("%d, for dims %v", want, m.GetDims()))
}

func fromRaw(dtype tensor.DType, raw []byte, n int, dims []int64) (*tensor.Tensor, error) {
	switch dtype {
	case tensor.Float32:
		return read(make([]float32, n), raw, dims)
	case tensor.Float64:
		return read(make([]float64, n), raw, dims)
	case tensor.Int32:
		return read(make([]int32, n), raw, dims)
	case tensor.Int64:
		return read(make([]int64, n), raw, dims)
	}
	return read(make([]bool, n), raw, dims)
}

func read[T tensor.Element](data []T, raw []byte, dims []int64) (*tensor.Tensor, error) {
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, data); err != nil {
		return nil, err
	}
	return tensor.FromSlice(data, dims...)
}

// scalar is a value of one element without axes.
func scalar(dtype tensor.DType, v float64) (*tensor.Tensor, error) {
	switch dtype {
	case tensor.Float32:
		return tensor.FromSlice([]float32{float32(v)})
	case tensor.Float64:
		return tensor.FromSlice([]float64{v})
	case tensor.Int32:
		return tensor.FromSlice([]int32{int32(v)})
	case tensor.Int64:
		return tensor.FromSlice([]int64{int64(v)})
	}
	return tensor.FromSlice([]bool{v != 0 && !math.IsNaN(v)})
}
