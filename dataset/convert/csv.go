// Package convert makes training records from common formats: CSV, logs of clicks, MNIST's idx files, and the Boston housing table.
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
	"github.com/edl-go/edl/internal/bytemark"
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
	// Keys are columns, given like Label, that become keys of tables that grow: a whole number is its own key, and any other text has that of Key. They are
	// no features by default.
	Keys []string
}

// Bounds on a CSV.
const (
	maxLine    = 1 << 20 // bytes of a row
	maxColumns = 1 << 16
)

// CSV converts each row into a sample of features float32[columns] and label [1], and returns the number of samples. With Keys, a sample is features,
// int64[1] for each column of Keys in their order, and label; without features if all other columns are keys.
func CSV(ctx context.Context, r io.Reader, w dataset.RecordWriter, options CSVOptions) (int, error) {
	if options.LabelDType != tensor.Int64 && options.LabelDType != tensor.Float32 {
		return 0, fault.E(fault.InvalidArgument, fault.Got("a label of "+options.LabelDType.String()), fault.Want("int64 or float32"))
	}
	var converter *csvConverter
	err := eachRow(ctx, r, options.Comma, func(row []string, line int) (err error) {
		if converter == nil {
			if converter, err = newCSVConverter(row, w, options); err != nil || options.Header {
				return err
			}
		}
		return converter.convert(row, line)
	})
	return converter.written(), err
}

// eachRow calls f with every row of a table and the line on which it begins. f does not keep the row. All rows have as many columns as the first. comma
// separates columns; 0 stands for ','.
func eachRow(ctx context.Context, r io.Reader, comma rune, f func(row []string, line int) error) error {
	guard := &lineGuard{r: bytemark.Skip(r)}
	rows := csv.NewReader(guard)
	rows.ReuseRecord, rows.TrimLeadingSpace = true, comma != '\t' // a tab that leads is an empty column
	if comma != 0 {
		rows.Comma = comma
	}
	columns := 0
	for {
		if err := interrupt.Check(ctx, "csv"); err != nil {
			return err
		}
		guard.read = 0
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return csvError(err, len(row), columns)
		}
		if columns = len(row); columns > maxColumns {
			return fault.E(fault.TooLarge, fault.At(atLine(1)), fault.Gotf("%d columns", columns), fault.Wantf("at most %d", maxColumns))
		}
		line, _ := rows.FieldPos(0)
		if err := f(row, line); err != nil {
			return err
		}
	}
}

// csvError gives an error of the CSV reader its kind and line. columns is the length of the row that came with the error, want that of the others.
func csvError(err error, columns, want int) error {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount) && errors.As(err, &parse):
		return fault.E(fault.Corrupt, fault.At(atLine(parse.Line)), fault.Gotf("%d columns", columns),
			fault.Wantf("%d, as in the first row", want))
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
	names          columns
	labelColumn    int
	featureColumns []int // in the order of the sample
	keyColumns     []int // likewise
}

// newCSVConverter resolves the columns against the first row.
func newCSVConverter(row []string, w dataset.RecordWriter, options CSVOptions) (c *csvConverter, err error) {
	c = &csvConverter{labelColumn: len(row) - 1, names: columnNames(row, options.Header)}
	if options.Label != "" {
		if c.labelColumn, err = c.names.find(options.Label); err != nil {
			return nil, err
		}
	}
	if c.featureColumns, err = c.names.findAll(options.Features); err != nil {
		return nil, err
	}
	if c.keyColumns, err = c.names.findAll(options.Keys); err != nil {
		return nil, err
	}
	if slices.Contains(slices.Concat(c.featureColumns, c.keyColumns), c.labelColumn) {
		return nil, fault.E(fault.InvalidArgument, fault.Got("the column of the label, "+fault.Quote(c.names[c.labelColumn])+", as a feature or key"),
			fault.Want("columns that are known before the label is"))
	}
	for i := range row {
		if options.Features == nil && i != c.labelColumn && !slices.Contains(c.keyColumns, i) {
			c.featureColumns = append(c.featureColumns, i)
		}
	}
	if len(c.featureColumns)+len(c.keyColumns) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d columns and no features", len(row)),
			fault.Want("a label and at least one feature"))
	}
	if c.samples, err = newSampleWriter(w, options.LabelDType, int64(len(c.featureColumns))); err != nil {
		return nil, err
	}
	return c, c.samples.addKeys(len(c.keyColumns))
}

// columns are the names of columns in their order: the index where there is no header.
type columns []string

// columnNames returns the names that the first row of a table gives.
func columnNames(row []string, header bool) columns {
	names := make(columns, len(row))
	for i, name := range row {
		if !header {
			name = strconv.Itoa(i)
		}
		names[i] = strings.TrimSpace(name)
	}
	return names
}

// find finds a column by name, or by index.
func (c columns) find(name string) (int, error) {
	if i := slices.Index(c, name); i >= 0 {
		return i, nil
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(c) {
		return i, nil
	}
	return 0, fault.E(fault.NotFound, fault.At(atLine(1)), fault.Got("no column "+fault.Quote(name)),
		fault.Wantf("one of %d columns: %s", len(c), c.list()))
}

// list names the first columns, for a message.
func (c columns) list() string {
	const most = 20
	names := make([]string, 0, most+1)
	for i, name := range c {
		if i == most {
			names = append(names, "...")
			break
		}
		names = append(names, fault.Quote(name))
	}
	return strings.Join(names, ", ")
}

// findAll finds several columns.
func (c columns) findAll(names []string) (found []int, err error) {
	for _, name := range names {
		i, err := c.find(name)
		if err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	return found, nil
}

func (c *csvConverter) convert(row []string, line int) error {
	wrong := func(f *fault.Fault, column int) error {
		f.Where, f.Variable = atLine(line), c.names[column]
		return f
	}
	for i, column := range c.featureColumns {
		v, f := parseFloat(row[column], 32)
		if f != nil {
			if f.Kind == fault.Corrupt {
				f.Hint = "a column of texts or ids becomes the keys of a table that grows with --keys " + c.names[column]
			}
			return wrong(f, column)
		}
		c.samples.features.Float32s()[i] = float32(v)
	}
	for i, column := range c.keyColumns {
		key, f := keyOf(row[column])
		if f != nil {
			return wrong(f, column)
		}
		c.samples.keys[i].Int64s()[0] = key
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
