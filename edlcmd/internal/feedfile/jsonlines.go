package feedfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bytemark"
	"github.com/edl-go/edl/internal/integer"
	"github.com/edl-go/edl/internal/jsonline"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// maxLine bounds one line of JSON.
const maxLine = 16 << 20

// readField reads the field of a variable out of lines of JSON.
func readField(r io.Reader, declared *program.Var, keys Keys) (*tensor.Tensor, error) {
	all, names, err := readLines(r, func(name string) (*program.Var, bool) { return declared, name == declared.Name }, keys)
	if err == nil && all[declared.Name] == nil {
		err = fault.E(fault.NotFound, fault.Gotf("objects with %s", listed(names)), fault.Want("a field of the variable's name"))
	}
	return all[declared.Name], err
}

// readLines reads lines of which each is a JSON object, and returns a tensor for each field of the first object whose name is declared. Each object is one
// record, and must have these fields. The value of a record of a variable with LoD levels is an array of rows, or for more levels of such arrays; a row is
// numbers in order, in arrays that are nested as one likes, and a single number needs none. names has all fields of the first object.
func readLines(r io.Reader, declared Declared, keys Keys) (all map[string]*tensor.Tensor, names []string, err error) {
	lines := bufio.NewScanner(bytemark.Skip(r))
	lines.Buffer(make([]byte, 64<<10), maxLine)
	fields := map[string]column{}
	number, objects := 0, 0
	wrong := func(name string, err error) error {
		err = named(err, name)
		var f *fault.Fault
		errors.As(err, &f)
		c := *f
		c.Err = fmt.Errorf("line %d", number)
		if f.Err != nil {
			c.Err = fmt.Errorf("line %d: %w", number, f.Err)
		}
		return &c
	}
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(line, &object); err != nil || object == nil {
			return nil, nil, wrong("", jsonline.Wrong(err))
		}
		if objects++; objects == 1 {
			names = slices.Sorted(maps.Keys(object))
			for _, name := range names {
				if v, ok := declared(name); ok {
					if fields[name], err = newColumn(v, keys.has(v)); err != nil {
						return nil, nil, wrong(name, err)
					}
				}
			}
		}
		for name, field := range fields {
			value, ok := object[name]
			if !ok {
				return nil, nil, wrong(name, fault.E(fault.NotFound, fault.Got("an object without it"), fault.Want("the fields of the first object")))
			}
			if err := field.add(value); err != nil {
				return nil, nil, wrong(name, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			number++
			err = wrong("", fault.E(fault.TooLarge, fault.Gotf("more than %d bytes", maxLine), fault.Want("a shorter line")))
		}
		return nil, nil, err
	}
	if objects == 0 {
		return nil, nil, fault.E(fault.Corrupt, fault.Got("no object"), fault.Want("at least one line with an object"))
	}
	all = map[string]*tensor.Tensor{}
	for name, field := range fields {
		if all[name], err = field.tensor(); err != nil {
			return nil, nil, named(err, name)
		}
	}
	return all, names, nil
}

// A column is the values of one field in all objects so far.
type column interface {
	add(value json.RawMessage) error
	tensor() (*tensor.Tensor, error)
}

// newColumn returns an empty column. With keys, a text is a value too: its key.
func newColumn(v *program.Var, keys bool) (column, error) {
	var row []int64
	if len(v.Dims) > 1 {
		row = v.Dims[1:]
	}
	width, ok := tensor.Count(row)
	if !ok {
		return nil, fault.E(fault.Unsupported, fault.Gotf("records of dims %v", row), fault.Want("dims that the program declares; other files have dims of their own"))
	}
	if v.LoDLevel > tensor.MaxLoDLevel {
		return nil, fault.E(fault.TooLarge, fault.Gotf("%d LoD levels", v.LoDLevel), fault.Wantf("at most %d", tensor.MaxLoDLevel))
	}
	s := sequences{row: row, width: width, lod: make([][]int64, v.LoDLevel)}
	for i := range s.lod {
		s.lod[i] = []int64{0}
	}
	switch v.DType {
	case tensor.Bool:
		return &values[bool]{sequences: s, parse: parseTruth}, nil
	case tensor.Int32:
		return &values[int32]{sequences: s, parse: func(v json.Token) (int32, error) {
			n, err := parseInteger(v, 32)
			return int32(n), err
		}}, nil
	case tensor.Int64:
		return &values[int64]{sequences: s, parse: func(v json.Token) (int64, error) {
			if text, ok := v.(string); ok && keys {
				if convert.IsNoKey(text) {
					return -1, nil
				}
				return convert.Key(text), nil
			}
			return parseInteger(v, 64)
		}}, nil
	case tensor.Float32:
		return &values[float32]{sequences: s, parse: func(v json.Token) (float32, error) {
			x, err := parseFloat(v, 32)
			return float32(x), err
		}}, nil
	case tensor.Float64:
		return &values[float64]{sequences: s, parse: func(v json.Token) (float64, error) { return parseFloat(v, 64) }}, nil
	}
	return nil, mismatch("numbers of JSON", v.DType)
}

// sequences is how rows form sequences.
type sequences struct {
	row   []int64 // the dims of a row
	width int     // its elements
	rows  int64
	lod   [][]int64
}

// end ends a sequence of a level.
func (s *sequences) end(level int) {
	below := s.rows
	if level+1 < len(s.lod) {
		below = int64(len(s.lod[level+1]) - 1)
	}
	s.lod[level] = append(s.lod[level], below)
}

// values is the elements of a field.
type values[T tensor.Element] struct {
	sequences
	parse    func(json.Token) (T, error)
	elements []T
}

func (c *values[T]) add(value json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	token, err := d.Token()
	if err != nil {
		return err
	}
	return c.sequence(d, token, 0)
}

// sequence reads one sequence of a level, which begins with token, or one row if there are no more levels.
func (c *values[T]) sequence(d *json.Decoder, token json.Token, level int) error {
	if level == len(c.lod) {
		before := len(c.elements)
		if err := c.numbers(d, token); err != nil {
			return err
		}
		if n := len(c.elements) - before; n != c.width {
			return fault.E(fault.ShapeMismatch, fault.Gotf("a row of %d numbers", n), fault.Wantf("%d, for dims %v", c.width, c.row))
		}
		c.rows++
		return nil
	}
	if token != json.Delim('[') {
		return unwanted(token, fmt.Sprintf("an array: the variable has %d LoD levels", len(c.lod)))
	}
	err := eachMember(d, func(token json.Token) error { return c.sequence(d, token, level+1) })
	c.end(level)
	return err
}

// numbers reads a value, or the values of an array.
func (c *values[T]) numbers(d *json.Decoder, token json.Token) error {
	if token == json.Delim('[') {
		return eachMember(d, func(token json.Token) error { return c.numbers(d, token) })
	}
	v, err := c.parse(token)
	c.elements = append(c.elements, v)
	return err
}

// eachMember calls do with the first token of each member of an array, whose bracket has been read.
func eachMember(d *json.Decoder, do func(json.Token) error) error {
	for {
		token, err := d.Token()
		if err != nil || token == json.Delim(']') {
			return err
		}
		if err := do(token); err != nil {
			return err
		}
	}
}

func (c *values[T]) tensor() (*tensor.Tensor, error) {
	t, err := tensor.FromSlice(c.elements, append([]int64{c.rows}, c.row...)...)
	if err != nil {
		return nil, err
	}
	if len(c.lod) > 0 {
		t.SetLoD(c.lod)
	}
	return t, tensor.CheckLoD(t)
}

func parseTruth(v json.Token) (bool, error) {
	if b, ok := v.(bool); ok {
		return b, nil
	}
	return false, unwanted(v, "true or false")
}

func parseInteger(v json.Token, bits int) (int64, error) {
	if n, ok := v.(json.Number); ok {
		if i, ok := integer.Parse(n.String(), bits); ok {
			return i, nil
		}
	}
	return 0, unwanted(v, fmt.Sprintf("a whole number of %d bits", bits))
}

// parseFloat reads a number, or one of the texts that stand for numbers which JSON does not have.
func parseFloat(v json.Token, bits int) (float64, error) {
	switch v := v.(type) {
	case json.Number:
		if x, err := strconv.ParseFloat(v.String(), bits); err == nil {
			return x, nil
		}
	case string:
		switch v {
		case "NaN":
			return math.NaN(), nil
		case "Infinity":
			return math.Inf(1), nil
		case "-Infinity":
			return math.Inf(-1), nil
		}
	}
	return 0, unwanted(v, fmt.Sprintf("a number that fits in %d bits", bits))
}

func unwanted(v json.Token, want string) error {
	text := fmt.Sprint(v)
	switch v := v.(type) {
	case nil:
		text = "null"
	case string:
		text = fault.Quote(v)
	case json.Delim:
		text = "an object"
		if v == '[' {
			text = "an array"
		}
	}
	return fault.E(fault.TypeMismatch, fault.Got(text), fault.Want(want))
}
