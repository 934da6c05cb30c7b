package hostile_test

import (
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// maxDepth bounds messages in messages.
const maxDepth = 5

// A liar makes messages. Names of the job are right often enough to come past the first checks.
type liar struct {
	*rand.Rand
	identity wire.Identity
	names    []string
}

var (
	numbers = []int64{0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 7, 40, -1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}
	floats  = []float64{0, 1, -1, math.NaN(), math.Inf(1), math.MaxFloat64}
)

func pick[T any](l liar, list []T) T { return list[l.IntN(len(list))] }

// fill sets some fields of m.
func (l liar) fill(m protoreflect.Message, depth int) {
	if id, ok := m.Interface().(*rpc.Identity); ok && l.IntN(8) > 0 {
		rank, round := uint32(pick(l, numbers)), uint64(pick(l, numbers))
		proto.Merge(id, l.identity.Of(rank, round, 0))
		if l.IntN(30) == 0 { // rarely: who is heard of with the highest fence is obeyed ever after
			id.Generation, id.Fence = uint64(pick(l, numbers)), uint64(pick(l, numbers))
		}
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap() || l.IntN(5) == 0 || f.Message() != nil && depth == maxDepth:
		case f.IsList():
			list := m.Mutable(f).List()
			for range l.IntN(4) {
				list.Append(l.value(f, list.NewElement(), depth))
			}
		default:
			m.Set(f, l.value(f, m.NewField(f), depth))
		}
	}
}

func (l liar) value(f protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) protoreflect.Value {
	n := pick(l, numbers)
	switch f.Kind() {
	case protoreflect.MessageKind:
		l.fill(empty.Message(), depth+1)
		return empty
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(l.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(pick(l, floats)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(pick(l, floats))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(pick(l, l.names))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(pick(l, [][]byte{nil, l.identity.Program, {0xff, 0xff, 0xff, 0xff}, make([]byte, 100)}))
	}
	return empty
}
