package convert

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// ClicksOptions says how the columns of a log of clicks, or of another table of categories and numbers, become samples. A column is given by its name
// if there is a header, else by its index from 0.
type ClicksOptions struct {
	Comma  rune // default ','
	Header bool // the first row names the columns

	Label    string // the column to predict
	Positive string // its text in a row of label 1; every other text is label 0. Default "1"

	Categories []string // columns of any text, in the order of the sample; at least one
	Numbers    []string // columns of numbers, in the order of the sample
	Vocabulary int64    // number of ids, which is the number of rows of the table that looks them up; 0 for keys of a table that grows
}

// Clicks converts each row into a sample of ids int64[categories, 1], numbers float32[numbers], and label int64[1], and returns the number of
// samples. Without Numbers a sample has no numbers.
//
// The id of a category follows from its place among Categories and its text, by a hash: no file, no order of rows and no machine changes it. Two categories may
// share an id, which becomes rare as Vocabulary grows. With keys the id is the whole hash, of 64 bits, and never -1. An empty category is a category. A number x becomes sign(x) log(1+|x|), because counts
// spread over magnitudes. An empty number is 0.
func Clicks(ctx context.Context, r io.Reader, w dataset.RecordWriter, options ClicksOptions) (int, error) {
	if len(options.Categories) == 0 || options.Vocabulary < 0 {
		return 0, fault.E(fault.InvalidArgument, fault.Gotf("%d columns of categories and %d ids", len(options.Categories), options.Vocabulary),
			fault.Want("at least one of each, or no bound of ids, for keys"))
	}
	if options.Positive == "" {
		options.Positive = "1"
	}
	var c *clicksConverter
	written := 0
	err := eachRow(ctx, r, options.Comma, func(row []string, line int) (err error) {
		if c == nil {
			if c, err = newClicksConverter(row, options); err != nil || options.Header {
				return err
			}
		}
		record, err := c.convert(row, line)
		if err == nil {
			err = w.Write(record)
		}
		if err == nil {
			written++
		}
		return err
	})
	return written, err
}

// A clicksConverter knows the columns, and reuses the memory of one sample.
type clicksConverter struct {
	names               columns
	label               int
	categories, numbers []int
	positive            string
	vocabulary          uint64

	sample     []*tensor.Tensor
	ids, truth []int64   // of sample
	values     []float32 // of sample
	record     []byte
}

func newClicksConverter(row []string, options ClicksOptions) (_ *clicksConverter, err error) {
	c := &clicksConverter{names: columnNames(row, options.Header), positive: options.Positive, vocabulary: uint64(options.Vocabulary)}
	if c.label, err = c.names.find(options.Label); err != nil {
		return nil, err
	}
	if c.categories, err = c.names.findAll(options.Categories); err != nil {
		return nil, err
	}
	if c.numbers, err = c.names.findAll(options.Numbers); err != nil {
		return nil, err
	}
	c.ids, c.values, c.truth = make([]int64, len(c.categories)), make([]float32, len(c.numbers)), make([]int64, 1)
	ids, err := tensor.FromSlice(c.ids, int64(len(c.ids)), 1)
	if err != nil {
		return nil, err
	}
	c.sample = append(c.sample, ids)
	if len(c.values) > 0 {
		numbers, err := tensor.FromSlice(c.values)
		if err != nil {
			return nil, err
		}
		c.sample = append(c.sample, numbers)
	}
	label, err := tensor.FromSlice(c.truth)
	c.sample = append(c.sample, label)
	return c, err
}

// convert returns the record of a row, which is valid until the next one.
func (c *clicksConverter) convert(row []string, line int) ([]byte, error) {
	for i, column := range c.categories {
		hash := categoryHash(i, strings.TrimSpace(row[column]))
		if c.vocabulary > 0 {
			hash %= c.vocabulary
		} else if hash == math.MaxUint64 {
			hash = 0
		}
		c.ids[i] = int64(hash)
	}
	for i, column := range c.numbers {
		c.values[i] = 0
		if strings.TrimSpace(row[column]) == "" {
			continue
		}
		x, f := parseFloat(row[column], 32)
		if f != nil {
			f.Where, f.Variable = atLine(line), c.names[column]
			return nil, f
		}
		c.values[i] = float32(math.Copysign(math.Log1p(math.Abs(x)), x))
	}
	c.truth[0] = 0
	if strings.TrimSpace(row[c.label]) == c.positive {
		c.truth[0] = 1
	}
	c.record = dataset.AppendRecord(c.record[:0], c.sample...)
	return c.record, nil
}

// categoryHash hashes a text of the i-th column of categories: FNV-1a of the number, in 4 bytes, and the text.
func categoryHash(i int, text string) uint64 {
	h := fnv.New64a()
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], uint32(i))
	h.Write(number[:])
	io.WriteString(h, text)
	return h.Sum64()
}
