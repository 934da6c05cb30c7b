package pickle

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// The functions and classes that arrays need. NumPy 2 has renamed the module.
const (
	reconstruct    global = "numpy.core.multiarray _reconstruct"
	reconstruct2   global = "numpy._core.multiarray _reconstruct"
	arrayClass     global = "numpy ndarray"
	typeClass      global = "numpy dtype"
	encode         global = "_codecs encode" // bytes, as Python 3 writes them by protocol 2
	orderedDict    global = "collections OrderedDict"
	tupleClass     global = "builtins tuple"
	tupleOfPython2 global = "__builtin__ tuple"
	bytesOfPython2 global = "__builtin__ bytes"            // none, as Python 3 writes them by protocol 2
	scalar         global = "numpy.core.multiarray scalar" // a number of the state of a schedule, which is left out
	scalar2        global = "numpy._core.multiarray scalar"
)

var known = map[global]bool{reconstruct: true, reconstruct2: true, arrayClass: true, typeClass: true, encode: true, orderedDict: true, tupleClass: true,
	tupleOfPython2: true, bytesOfPython2: true, scalar: true, scalar2: true}

// A dtype is the type of the elements of arrays.
type dtype struct {
	name string // such as f4
	big  bool   // big-endian
}

// An array gets its value when it is built.
type array struct{ value *tensor.Tensor }

// types are the names of element types in NumPy.
var types = map[string]tensor.DType{"b1": tensor.Bool, "i1": tensor.Int8, "u1": tensor.UInt8, "i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"f2": tensor.Float16, "f4": tensor.Float32, "f8": tensor.Float64, "u2": tensor.BFloat16} // Paddle makes uint16 of bfloat16

// nameOf names a value for messages.
func nameOf(v any) string {
	switch v := v.(type) {
	case *array:
		return "array"
	case *dict:
		return "dictionary"
	case global:
		return string(v)
	}
	return "value that is no dictionary"
}

func opcode(op byte) string { return fmt.Sprintf("the opcode 0x%02x", op) }

// make makes the object that a known function or class makes of its arguments.
func (m *machine) make(what, with any) (any, error) {
	function, _ := what.(global)
	args, ok := with.(tuple)
	if !ok {
		return nil, m.corrupt("arguments that are no tuple")
	}
	switch {
	case (function == reconstruct || function == reconstruct2) && len(args) == 3 && args[0] == arrayClass:
		return &array{}, nil
	case function == typeClass && len(args) > 0:
		name, _ := textOf(args[0]).(string)
		if _, ok := types[name]; !ok {
			return nil, m.refuse("elements of type "+fault.Quote(name), "bool, integers or floats")
		}
		return &dtype{name: name}, nil
	case function == encode && len(args) == 2:
		return encoded(m, args[0], args[1])
	case function == bytesOfPython2 && len(args) == 0:
		return &blob{}, nil
	case function == orderedDict:
		return ordered(m, args)
	case (function == tupleClass || function == tupleOfPython2) && len(args) == 1:
		if inner, ok := args[0].(tuple); ok {
			for i := range inner {
				inner[i] = textOf(inner[i])
			}
			return inner, nil
		}
	case function == scalar || function == scalar2:
		return nil, nil
	}
	return nil, m.corrupt("other arguments for " + nameOf(what))
}

// encoded returns the bytes of a text whose characters are below 256.
func encoded(m *machine, v, codec any) (any, error) {
	text, isText := v.(string)
	if name, _ := textOf(codec).(string); !isText || name != "latin1" {
		return nil, m.corrupt("another codec than latin1")
	}
	if m.bytesOfText += int64(len(text)); m.bytesOfText > m.size {
		return nil, m.corrupt("a text that is made into bytes again and again")
	}
	data := make([]byte, 0, utf8.RuneCountInString(text))
	for _, c := range text {
		if c > 0xff {
			return nil, m.corrupt("a character that is no byte")
		}
		data = append(data, byte(c))
	}
	return &blob{data: data}, nil
}

// ordered returns a dictionary, of pairs if there are any.
func ordered(m *machine, args tuple) (any, error) {
	d := &dict{}
	if len(args) == 0 {
		return d, nil
	}
	pairs, ok := args[0].(*list)
	if !ok || len(args) > 1 {
		return nil, m.corrupt("other arguments for a dictionary")
	}
	m.held += 2 * len(pairs.items)
	for _, p := range pairs.items {
		pair, ok := p.(*list)
		if !ok || len(pair.items) != 2 {
			return nil, m.corrupt("an item that is no pair")
		}
		d.items = append(d.items, item{textOf(pair.items[0]), textOf(pair.items[1])})
	}
	return d, nil
}

// build gives an object its state.
func (m *machine) build(object, with any) error {
	state, ok := with.(tuple)
	switch o := object.(type) {
	case *dtype:
		if !ok || len(state) < 2 {
			return m.corrupt("another state of a type")
		}
		order, _ := textOf(state[1]).(string)
		o.big = order == ">"
		return nil
	case *array:
		if !ok || len(state) != 5 || o.value != nil {
			return m.corrupt("another state of an array")
		}
		return fillArray(m, o, state)
	case *dict: // attributes of the object, which hold no entry
		return nil
	}
	return m.corrupt("the state of an object that has none")
}

// fillArray makes the tensor of an array from its version, shape, type, order and bytes. The bytes go: no other array has them.
func fillArray(m *machine, a *array, state tuple) error {
	shape, isShape := state[1].(tuple)
	kind, isType := state[2].(*dtype)
	columns, isOrder := state[3].(bool)
	b, isBytes := state[4].(*blob)
	if order, ok := state[3].(int64); ok {
		columns, isOrder = order != 0, true
	}
	if !isShape || !isType || !isOrder || !isBytes || b.used {
		return m.corrupt("another state of an array")
	}
	if len(shape) > tensor.MaxRank {
		return fault.E(fault.TooLarge, fault.At(m.place()), fault.Gotf("%d dims", len(shape)), fault.Wantf("at most %d", tensor.MaxRank))
	}
	dims, wide := []int64{}, 0
	for _, v := range shape {
		d, ok := v.(int64)
		if !ok || d < 0 {
			return m.corrupt("a shape that is no list of extents")
		}
		dims = append(dims, d)
		if d > 1 {
			wide++
		}
	}
	t := types[kind.name]
	count, ok := tensor.Count(dims)
	switch {
	case !ok || int64(count) > int64(len(b.data)) || count*t.Size() != len(b.data):
		return m.corrupt(fmt.Sprintf("%d bytes for elements of shape %v", len(b.data), dims))
	case kind.big:
		return m.refuse("a big-endian array", "little-endian ones")
	case columns && wide > 1:
		return m.refuse("an array in column-major order", "row-major ones")
	}
	value, err := tensor.ReadElements(bytes.NewReader(b.data), t, dims...)
	if err != nil {
		return err
	}
	if a.value = value; len(b.data) > 1 { // Python shares shorter ones
		b.data, b.used = nil, true
	}
	return nil
}
