package convert

import (
	"context"
	"encoding/csv"
	"errors"
	"io"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// CSVOptions says how the columns of a CSV become samples.
type CSVOptions struct {
	Comma  rune // default ','
	Header bool // the first row names the columns
	// Label is the column to predict: its name, if there is a header, or else its index from 0. Empty means the last one.
	Label      string
	LabelDType tensor.DType // Int64 for classes, Float32 for regression
	// Features are the columns to predict from, given like Label, in the order of the sample. By default all but the label.
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

// csvError gives an error of the CSV reader, which comes with a row of so many columns, its kind and line.
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
