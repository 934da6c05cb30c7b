// Package convert makes training records from common formats: CSV, MNIST's idx files, and the Boston housing table.
//
// Every converter reads from an io.Reader, so the caller decides where data comes from. It writes to a dataset.RecordWriter, usually a
// dataset.ShardWriter. Sources are not trusted: lines and rows have bounds, and numbers must be finite. Errors name the line or image, but not the
// file, which only the caller knows. Records that were written before an error stay written. A caller that wants all or nothing aborts its
// ShardWriter.
package convert

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// CSVOptions says how the columns of a CSV become samples.
type CSVOptions struct {
	Comma  rune // default ','
	Header bool // the first row names the columns
	// Label is the column to predict: its name if there is a header, else its index from 0. Empty means the last column.
	Label      string
	LabelDType tensor.DType // Int64 for classes, Float32 for regression
	// Features are the columns to predict from, in the order of the sample, given like Label. By default all columns but the label.
	Features []string
}

// Bounds on a CSV.
const (
	maxLine    = 1 << 20 // bytes of a row
	maxColumns = 1 << 16
)

// CSV converts each row into a sample of features float32[columns] and label [1], and returns the number of samples.
func CSV(ctx context.Context, r io.Reader, w dataset.RecordWriter, options CSVOptions) (int, error) {
	if options.LabelDType != tensor.Int64 && options.LabelDType != tensor.Float32 {
		return 0, fault.E(fault.InvalidArgument, fault.Got("a label of "+options.LabelDType.String()), fault.Want("int64 or float32"))
	}
	guard := &lineGuard{r: r}
	rows := csv.NewReader(guard)
	rows.ReuseRecord, rows.TrimLeadingSpace = true, true
	if options.Comma != 0 {
		rows.Comma = options.Comma
	}
	var converter *csvConverter
	for {
		if err := interrupt.Check(ctx, "csv"); err != nil {
			return converter.written(), err
		}
		guard.read = 0
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return converter.written(), nil
		}
		if err != nil {
			return converter.written(), csvError(err, len(row), converter)
		}
		header := converter == nil && options.Header
		if converter == nil {
			if converter, err = newCSVConverter(row, w, options); err != nil {
				return 0, err
			}
		}
		if header {
			continue
		}
		line, _ := rows.FieldPos(0)
		if err := converter.convert(row, line); err != nil {
			return converter.written(), err
		}
	}
}

// csvError gives an error of the CSV reader its kind and line. columns is the length of the row that came with the error.
func csvError(err error, columns int, c *csvConverter) error {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount) && errors.As(err, &parse):
		return fault.E(fault.Corrupt, fault.At(atLine(parse.Line)), fault.Gotf("%d columns", columns),
			fault.Wantf("%d, as in the first row", len(c.names)))
	case errors.As(err, &parse):
		return fault.E(fault.Corrupt, fault.Atf("%s, column %d", atLine(parse.Line), parse.Column), fault.Cause(parse.Err))
	}
	if k := fault.KindOf(err); k != fault.Internal {
		return err
	}
	return fault.Wrap(fault.Unavailable, "csv", err)
}

// A csvConverter knows the columns of features and label.
type csvConverter struct {
	samples        *sampleWriter
	names          []string // by column; the index if there is no header
	labelColumn    int
	featureColumns []int // in the order of the sample
}

// newCSVConverter resolves the columns against the first row.
func newCSVConverter(row []string, w dataset.RecordWriter, options CSVOptions) (c *csvConverter, err error) {
	if len(row) > maxColumns {
		return nil, fault.E(fault.TooLarge, fault.At(atLine(1)), fault.Gotf("%d columns", len(row)), fault.Wantf("at most %d", maxColumns))
	}
	c = &csvConverter{labelColumn: len(row) - 1}
	for i, name := range row {
		if !options.Header {
			name = strconv.Itoa(i)
		}
		c.names = append(c.names, strings.TrimSpace(name))
	}
	if options.Label != "" {
		if c.labelColumn, err = c.column(options.Label); err != nil {
			return nil, err
		}
	}
	for _, name := range options.Features {
		i, err := c.column(name)
		if err != nil {
			return nil, err
		}
		c.featureColumns = append(c.featureColumns, i)
	}
	for i := range row {
		if options.Features == nil && i != c.labelColumn {
			c.featureColumns = append(c.featureColumns, i)
		}
	}
	if len(c.featureColumns) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d columns and no features", len(row)),
			fault.Want("a label and at least one feature"))
	}
	c.samples, err = newSampleWriter(w, options.LabelDType, int64(len(c.featureColumns)))
	return c, err
}

// column finds a column by name, or by index.
func (c *csvConverter) column(name string) (int, error) {
	if i := slices.Index(c.names, name); i >= 0 {
		return i, nil
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(c.names) {
		return i, nil
	}
	return 0, fault.E(fault.NotFound, fault.At(atLine(1)), fault.Got("no column "+fault.Quote(name)),
		fault.Wantf("one of %d columns", len(c.names)))
}

func (c *csvConverter) convert(row []string, line int) error {
	wrong := func(f *fault.Fault, column int) error {
		f.Where, f.Variable = atLine(line), c.names[column]
		return f
	}
	for i, column := range c.featureColumns {
		v, f := parseFloat(row[column], 32)
		if f != nil {
			return wrong(f, column)
		}
		c.samples.features.Float32s()[i] = float32(v)
	}
	label := c.samples.label
	if label.DType() == tensor.Int64 {
		v, f := parseInt(row[c.labelColumn])
		if f != nil {
			return wrong(f, c.labelColumn)
		}
		label.Int64s()[0] = v
	} else {
		v, f := parseFloat(row[c.labelColumn], 32)
		if f != nil {
			return wrong(f, c.labelColumn)
		}
		label.Float32s()[0] = float32(v)
	}
	return c.samples.write()
}

// written returns the number of samples. It works before the first row, too.
func (c *csvConverter) written() int {
	if c == nil {
		return 0
	}
	return c.samples.written
}

// A lineGuard fails if one row of text has more than maxLine bytes, before the CSV reader has to keep them. That reader sets read to 0 at each row.
type lineGuard struct {
	r    io.Reader
	read int
}

func (g *lineGuard) Read(b []byte) (int, error) {
	if g.read > maxLine {
		return 0, fault.E(fault.TooLarge, fault.Got("a row of more bytes"), fault.Wantf("at most %d", maxLine))
	}
	n, err := g.r.Read(b)
	g.read += n
	return n, err
}
