package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/jsonline"
	"github.com/edl-go/edl/tensor"
)

// A JSONField says what becomes of one member of each object.
type JSONField struct {
	dataset.Field      // its name is the key
	Words         bool // the value is a text, whose words the vocabulary numbers; the field is int64[1] in 1 LoD level
	Keys          bool // the values are texts, of which the field has the keys (Key), or whole numbers; the field is of int64
}

// Key is the key of a text for a table that grows (layers.SparseEmbedding): of a whole number in decimal digits the number itself, so that "7" and 7 have one row, of any
// other text XXH64 of its bytes, with the seed 0. It is never -1, which is no key.
func Key(text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n != noKey {
		return n
	}
	if h := int64(xxhash.Sum64String(text)); h != -1 {
		return h
	}
	return 0
}

// jsonField matches NAME:TYPE, NAME:TYPE[DIMS] and NAME:TYPE[DIMS]/LEVELS.
var jsonField = regexp.MustCompile(`^([^:]+):(bool|int32|int64|float32|float64|key)(?:\[([0-9]+(?:,[0-9]+)*)\])?(?:/([1-8]))?$`)

// ParseJSONField reads a field as people write it: "age:float32[1]" for one number, "pixels:float32[28,28]" for rows of rows, "clicks:int64[1]/1" for a sequence
// of numbers (1 LoD level), "review:words" for a text, and "user:key" or "tags:key[1]/1" for texts or whole numbers that are keys. Without dims it is one number, [1].
func ParseJSONField(text string) (JSONField, error) {
	if name, ok := strings.CutSuffix(text, ":words"); ok && name != "" {
		return JSONField{dataset.Field{Name: name, DType: tensor.Int64, Dims: []int64{1}, LoDLevel: 1}, true, false}, nil
	}
	wrong := fault.E(fault.InvalidArgument, fault.Got("the field "+fault.Quote(text)), fault.Want("NAME:TYPE[DIMS]/LEVELS, such as clicks:int64[1]/1 or user:key, or NAME:words"))
	m := jsonField.FindStringSubmatch(text)
	if m == nil {
		return JSONField{}, wrong
	}
	f := dataset.Field{Name: m[1], Dims: []int64{1}}
	keys := m[2] == "key"
	if f.DType, _ = tensor.ParseDType(m[2]); keys {
		f.DType = tensor.Int64
	}
	if m[3] != "" {
		f.Dims = nil
		for extent := range strings.SplitSeq(m[3], ",") {
			n, err := strconv.ParseInt(extent, 10, 64)
			if err != nil || n < 1 || len(f.Dims) == tensor.MaxRank-1 {
				return JSONField{}, wrong
			}
			f.Dims = append(f.Dims, n)
		}
	}
	if n, ok := tensor.Count(f.Dims); !ok || n > maxLine {
		return JSONField{}, wrong
	}
	if m[4] != "" {
		f.LoDLevel = int(m[4][0] - '0')
	}
	return JSONField{Field: f, Keys: keys}, nil
}

// JSONLinesOptions says what a sample has.
type JSONLinesOptions struct {
	Fields     []JSONField // in the order of the sample
	Vocabulary *Vocabulary // of the words of texts, and of strings where a whole number is wanted
	Lower      bool        // words are made lower case before they are looked up
}

// JSONLines converts each line, which is a JSON object, into a sample of the fields, and returns the number of samples. Other members of an object are ignored,
// and so are empty lines. The value of a field of sequences is an array of rows; with 2 LoD levels it is an array of such arrays, and so on. The value
// of a row, or of a field of one shape, has its numbers in order, in arrays that are nested as one likes; a single number needs none.
func JSONLines(ctx context.Context, r io.Reader, w dataset.RecordWriter, options JSONLinesOptions) (int, error) {
	if len(options.Fields) == 0 {
		return 0, fault.E(fault.InvalidArgument, fault.Got("no fields"), fault.Want("at least one"))
	}
	for _, f := range options.Fields {
		if f.Words && options.Vocabulary == nil {
			return 0, fault.E(fault.InvalidArgument, fault.Var(f.Name), fault.Got("a text and no vocabulary"), fault.Want("a vocabulary"), fault.Hint("--vocabulary FILE; \"edl data vocabulary\" makes one"))
		}
	}
	c := &jsonConverter{JSONLinesOptions: options}
	written := 0
	err := eachLine(ctx, r, func(line string, number int) error {
		if strings.TrimSpace(line) == "" {
			return nil
		}
		sample, err := c.convert(line)
		if err != nil {
			return placed(err, number)
		}
		c.record = dataset.AppendRecord(c.record[:0], sample...)
		if err := w.Write(c.record); err != nil {
			return err
		}
		written++
		return nil
	})
	return written, err
}

type jsonConverter struct {
	JSONLinesOptions
	record []byte
}

func (c *jsonConverter) convert(line string) (sample []*tensor.Tensor, err error) {
	var object map[string]any
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil || object == nil || decoder.More() {
		return nil, jsonline.Wrong(err)
	}
	for _, f := range c.Fields {
		value, ok := object[f.Name]
		if !ok {
			return nil, fault.E(fault.NotFound, fault.Var(f.Name), fault.Got("an object without "+fault.Quote(f.Name)), fault.Want("all fields in each object"))
		}
		t, err := c.tensorOf(f, value)
		if err != nil {
			if wrong, ok := err.(*fault.Fault); ok {
				c := *wrong
				c.Variable = f.Name
				return nil, &c
			}
			return nil, err
		}
		sample = append(sample, t)
	}
	return sample, nil
}

// tensorOf makes the tensor of one field.
func (c *jsonConverter) tensorOf(f JSONField, value any) (*tensor.Tensor, error) {
	if f.Words {
		text, ok := value.(string)
		if !ok {
			return nil, wantedJSON(value, "a text")
		}
		words, err := appendNumbers(nil, text, c.Lower, 0, c.Vocabulary.Number)
		if err != nil {
			return nil, err
		}
		return sequence(words, 1)
	}
	switch f.DType {
	case tensor.Bool:
		return flattened(f, value, func(v any) (bool, error) {
			if b, ok := v.(bool); ok {
				return b, nil
			}
			return false, wantedJSON(v, "true or false")
		})
	case tensor.Int64:
		return flattened(f, value, func(v any) (int64, error) {
			if text, ok := v.(string); ok && f.Keys {
				if IsNoKey(text) {
					return 0, errNoKey(text)
				}
				return Key(text), nil
			}
			n, err := c.integer(v, 64)
			if err == nil && f.Keys && n == noKey {
				return 0, errNoKey(fmt.Sprint(n))
			}
			return n, err
		})
	case tensor.Int32:
		return flattened(f, value, func(v any) (int32, error) {
			n, err := c.integer(v, 32)
			return int32(n), err
		})
	case tensor.Float64:
		return flattened(f, value, func(v any) (float64, error) { return number(v, 64) })
	}
	return flattened(f, value, func(v any) (float32, error) {
		x, err := number(v, 32)
		return float32(x), err
	})
}

// integer reads a whole number of so many bits, or a word of the vocabulary.
func (c *jsonConverter) integer(v any, bits int) (int64, error) {
	if word, ok := v.(string); ok && c.Vocabulary != nil {
		if c.Lower {
			word = strings.ToLower(word)
		}
		return c.Vocabulary.Number(word)
	}
	if n, ok := v.(json.Number); ok {
		if i, err := strconv.ParseInt(n.String(), 10, bits); err == nil {
			return i, nil
		}
	}
	return 0, wantedJSON(v, fmt.Sprintf("a whole number of %d bits", bits))
}

func number(v any, bits int) (float64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, wantedJSON(v, "a number")
	}
	x, f := parseFloat(n.String(), bits)
	if f != nil {
		return 0, f
	}
	return x, nil
}

func wantedJSON(v any, want string) error {
	got, _ := json.Marshal(v)
	if len(got) > 80 {
		got = append(got[:80], "..."...)
	}
	return fault.E(fault.Corrupt, fault.Got(string(got)), fault.Want(want))
}

// flattened makes a tensor of the numbers of a value.
func flattened[T tensor.Element](f JSONField, value any, read func(any) (T, error)) (*tensor.Tensor, error) {
	width, _ := tensor.Count(f.Dims)
	var elements []T
	var row func(v any) error
	row = func(v any) error {
		list, ok := v.([]any)
		if !ok {
			x, err := read(v)
			elements = append(elements, x)
			return err
		}
		for _, v := range list {
			if err := row(v); err != nil {
				return err
			}
		}
		return nil
	}
	rows := 0
	one := func(v any) error {
		before := len(elements)
		if err := row(v); err != nil {
			return err
		}
		if rows++; len(elements)-before != width {
			return fault.E(fault.ShapeMismatch, fault.Gotf("%d numbers in a row", len(elements)-before), fault.Wantf("%d, those of %v%v", width, f.DType, f.Dims))
		}
		return nil
	}
	if f.LoDLevel == 0 {
		if err := one(value); err != nil {
			return nil, err
		}
		return tensor.FromSlice(elements, f.Dims...)
	}
	lod := make([][]int64, f.LoDLevel)
	for i := range lod {
		lod[i] = []int64{0}
	}
	var level func(v any, n int) error
	level = func(v any, n int) error {
		list, ok := v.([]any)
		if !ok {
			return wantedJSON(v, fmt.Sprintf("an array, of LoD level %d of %d", n+1, f.LoDLevel))
		}
		for _, v := range list {
			var err error
			if n+1 < f.LoDLevel {
				err = level(v, n+1)
			} else {
				err = one(v)
			}
			if err != nil {
				return err
			}
		}
		below := int64(rows)
		if n+1 < f.LoDLevel {
			below = int64(len(lod[n+1]) - 1)
		}
		lod[n] = append(lod[n], below)
		return nil
	}
	if err := level(value, 0); err != nil {
		return nil, err
	}
	t, err := tensor.FromSlice(elements, append([]int64{int64(rows)}, f.Dims...)...)
	if err == nil {
		t.SetLoD(lod)
	}
	return t, err
}
