package kserve

import (
	"math"
	"slices"
	"strconv"

	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/integer"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// A request is what a client asks for.
type request struct {
	id      string
	inputs  map[string]*tensor.Tensor
	outputs []string // empty: all
}

// readRequest reads the body of a request as JSON.
func readRequest(body []byte, schema *serving.Schema) (*request, error) {
	r := &request{inputs: map[string]*tensor.Tensor{}}
	s := &scanner{b: body}
	if s.peek() != '{' {
		return nil, s.wrong(`a request such as {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}`)
	}
	err := s.object(func(key string) (err error) {
		switch key {
		case "id":
			r.id, err = s.text()
		case "inputs":
			err = s.array(func() error { return r.readInput(s, schema) })
		case "outputs":
			err = s.array(func() error {
				return s.object(func(key string) error {
					if key != "name" {
						_, err := s.skip()
						return err
					}
					name, err := s.text()
					r.outputs = append(r.outputs, name)
					return err
				})
			})
		default:
			_, err = s.skip()
		}
		return err
	})
	if err == nil && s.peek() != 0 {
		err = s.wrong("the end")
	}
	if err != nil {
		return nil, err
	}
	return r, r.checkOutputs(schema)
}

// checkOutputs checks that the model has the outputs that are asked for.
func (r *request) checkOutputs(schema *serving.Schema) error {
	for i, name := range r.outputs {
		if slices.Contains(r.outputs[:min(i, len(schema.Outputs))], name) { // there are no more without one that is there twice, or unknown
			return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("the output again"), fault.Want("each output once"))
		}
		if !slices.ContainsFunc(schema.Outputs, func(f serving.Field) bool { return f.Name == name }) {
			return unknown("output", name, schema.Outputs)
		}
	}
	return nil
}

func unknown(what, name string, fields []serving.Field) error {
	var known []string
	for _, f := range fields {
		known = append(known, f.Name)
	}
	return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("an "+what+" that the model does not have"), fault.Wantf("one of %v", known), fault.DidYouMean(name, known))
}

// add gives the request an input.
func (r *request) add(name string, schema *serving.Schema, read func(f *serving.Field) (*tensor.Tensor, error)) error {
	at := slices.IndexFunc(schema.Inputs, func(f serving.Field) bool { return f.Name == name })
	if at < 0 {
		return unknown("input", name, schema.Inputs)
	}
	if r.inputs[name] != nil {
		return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("two values"), fault.Want("one"))
	}
	t, err := read(&schema.Inputs[at])
	r.inputs[name] = t
	return err
}

// readInput reads one of the inputs.
func (r *request) readInput(s *scanner, schema *serving.Schema) error {
	var name, datatype, lod string
	var shape []int64
	var data scanner
	err := s.object(func(key string) (err error) {
		switch key {
		case "name":
			name, err = s.text()
		case "datatype":
			datatype, err = s.text()
		case "shape":
			shape = []int64{}
			err = s.array(func() error {
				n, err := s.integer()
				if shape = append(shape, n); len(shape) > tensor.MaxRank {
					return s.wrong("a shape of fewer extents")
				}
				return err
			})
		case "parameters":
			err = s.object(func(key string) (err error) {
				if key == lodParameter {
					lod, err = s.text()
				} else {
					_, err = s.skip()
				}
				return err
			})
		case "data":
			s.peek()
			data.at = s.at
			_, err = s.skip()
			data.b = s.b[:s.at]
		default:
			_, err = s.skip()
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.add(name, schema, func(f *serving.Field) (*tensor.Tensor, error) {
		if err := checkType(f, datatype); err != nil {
			return nil, err
		}
		if data.b == nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("no data"), fault.Want(f.String()))
		}
		return readData(&data, f, shape, lod)
	})
}

// readData reads the elements of an input. Where rows form sequences and no offsets are given, the data is an array of sequences: of rows, or, with more levels, of
// sequences again; a row is its numbers in order, in arrays or, if it is one number, without.
func readData(s *scanner, f *serving.Field, shape []int64, offsets string) (*tensor.Tensor, error) {
	e := &elements{scanner: s, field: f}
	if f.LoDLevel > 0 && offsets == "" {
		row, ok := tensor.Count(f.Dims[min(1, len(f.Dims)):])
		if !ok || row == 0 {
			return nil, fault.E(fault.Unsupported, fault.Var(f.Name), fault.Gotf("lists for %s", f), fault.Want("a shape and the parameter "+lodParameter))
		}
		e.lod, e.row, shape = make([][]int64, f.LoDLevel), row, nil // the shape of a list of lists says nothing
		for i := range e.lod {
			e.lod[i] = []int64{0}
		}
	}
	switch f.DType {
	case tensor.Bool:
		return readElements(e, shape, offsets, (*elements).truth, nil)
	case tensor.Int32:
		return readElements(e, shape, offsets, func(e *elements) (int32, error) { v, err := e.whole(32); return int32(v), err }, nil)
	case tensor.Int64:
		if f.Keys {
			return readElements(e, shape, offsets, (*elements).key, nil)
		}
		return readElements(e, shape, offsets, func(e *elements) (int64, error) { return e.whole(64) }, nil)
	case tensor.Float32:
		return readElements(e, shape, offsets, func(e *elements) (float32, error) { v, err := e.float(32); return float32(v), err },
			func(e *elements, all []float32) []float32 { return decimals(e, all, 32) })
	case tensor.Float64:
		return readElements(e, shape, offsets, func(e *elements) (float64, error) { return e.float(64) },
			func(e *elements, all []float64) []float64 { return decimals(e, all, 64) })
	}
	return nil, fault.E(fault.Unsupported, fault.Var(f.Name), fault.Got("numbers of JSON for "+f.String()), fault.Want("a model whose inputs are of other types"))
}

// elements reads the elements of one input, and how they form sequences.
type elements struct {
	*scanner
	field *serving.Field
	lod   [][]int64 // offsets so far; nil: no sequences, or offsets that are given
	row   int       // elements of a row, where there are sequences
}

// readElements reads an array with the elements, and makes them a tensor. one reads an element. many, which may be nil, appends elements as long as it knows their form and a
// comma follows, which it reads, too.
func readElements[T tensor.Element](e *elements, shape []int64, offsets string, one func(*elements) (T, error), many func(e *elements, all []T) []T) (*tensor.Tensor, error) {
	var all []T
	if n, ok := tensor.Count(shape); ok && shape != nil {
		all = make([]T, 0, min(n, (len(e.b)-e.at)/2)) // an element takes two bytes, with what follows it
	}
	var nested func() error
	nested = func() error {
		if e.peek() == '[' {
			return e.array(nested)
		}
		if many != nil && e.lod == nil {
			all = many(e, all)
		}
		v, err := one(e)
		all = append(all, v)
		return err
	}
	var sequence func(level int) error
	sequence = func(level int) error {
		if level == len(e.lod) {
			before := len(all)
			if err := nested(); err != nil {
				return err
			}
			if n := len(all) - before; n != e.row {
				return fault.E(fault.ShapeMismatch, fault.Gotf("a row of %d numbers", n), fault.Wantf("%d", e.row))
			}
			return nil
		}
		if err := e.array(func() error { return sequence(level + 1) }); err != nil {
			return err
		}
		below := int64(len(all) / e.row)
		if level+1 < len(e.lod) {
			below = int64(len(e.lod[level+1]) - 1)
		}
		e.lod[level] = append(e.lod[level], below)
		return nil
	}
	var err error
	if e.lod != nil {
		err = e.array(func() error { return sequence(0) })
	} else {
		err = nested()
	}
	if err != nil {
		return nil, of(e.field, err)
	}
	return made(e.field, all, shape, e.lod, offsets)
}

// made makes a tensor of elements.
func made[T tensor.Element](f *serving.Field, all []T, shape []int64, lod [][]int64, offsets string) (*tensor.Tensor, error) {
	dims, err := dimsOf(f, shape, len(all))
	if err != nil {
		return nil, err
	}
	t, err := tensor.FromSlice(all, dims...)
	if err == nil && offsets != "" {
		lod, err = tensor.ParseLoD(offsets)
	}
	if err != nil {
		return nil, of(f, err)
	}
	if lod != nil {
		t.SetLoD(lod)
	}
	return t, nil
}

// of names the input in an error that names none.
func of(f *serving.Field, err error) error {
	return fault.E(fault.KindOf(err), fault.Var(f.Name), fault.Cause(err))
}

func (e *elements) truth() (bool, error) {
	switch word := e.number(); string(word) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		e.at -= len(word)
		return false, e.wrong("true or false")
	}
}

func (e *elements) whole(bits int) (int64, error) {
	word := e.number()
	v, err := strconv.ParseInt(string(word), 10, bits)
	if err == nil {
		return v, nil
	}
	if v, ok := integer.Parse(string(word), bits); ok {
		return v, nil
	}
	e.at -= len(word)
	return 0, e.wrong("a whole number of " + strconv.Itoa(bits) + " bits")
}

// key reads a whole number, or a text, which stands for its key.
func (e *elements) key() (int64, error) {
	if e.peek() != '"' {
		return e.whole(64)
	}
	text, err := e.text()
	if err != nil {
		return 0, err
	}
	return keyOf(text)
}

// keyOf is the key of a text: a whole number means the same as text and as number.
func keyOf(text string) (int64, error) {
	if convert.IsNoKey(text) {
		return 0, fault.E(fault.InvalidArgument, fault.Got("the text "+fault.Quote(text)), fault.Want("a text, or a whole number but -1, which is no key"),
			fault.Hint("the number -1 stands for a row without a key"))
	}
	return convert.Key(text), nil
}

// decimals reads numbers without white space, but for one space behind a comma.
func decimals[T float32 | float64](e *elements, all []T, bits int) []T {
	for {
		v, n, ok := decimal(e.b[e.at:], bits)
		end := e.at + n
		if !ok || end >= len(e.b) || e.b[end] != ',' {
			return all
		}
		all = append(all, T(v))
		e.at = end + 1
		if e.at < len(e.b) && e.b[e.at] == ' ' {
			e.at++
		}
	}
}

// float reads a number, or one of the texts that stand for numbers which JSON does not have.
func (e *elements) float(bits int) (float64, error) {
	if e.peek() == '"' {
		from := e.at
		text, err := e.text()
		for word, v := range unwritable {
			if text == word {
				return v, err
			}
		}
		e.at = from
		return 0, e.wrong("a number")
	}
	word := e.number()
	v, err := parseFloat(word, bits)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		e.at -= len(word)
		return 0, e.wrong("a number that fits in " + strconv.Itoa(bits) + " bits")
	}
	return v, nil
}

// unwritable are numbers that JSON has no form for, by the texts that stand for them.
var unwritable = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}
