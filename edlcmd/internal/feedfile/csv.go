package feedfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bytemark"
	"github.com/edl-go/edl/internal/integer"
	"github.com/edl-go/edl/tensor"
)

// maxRow bounds one row of a table.
const maxRow = 1 << 20

// readCSV reads a table of numbers without header into [rows, columns]. Integers are read as integers, so that no digit is lost, and floats in their own precision.
// With keys, which are int64, a field that is no whole number is a text, and its value the key of it.
func readCSV(f io.Reader, dtype tensor.DType, keys bool) (*tensor.Tensor, error) {
	if keys {
		return readTable(f, func(field string) (int64, bool) {
			if convert.IsNoKey(field) {
				return -1, true
			}
			return convert.Key(field), true
		})
	}
	switch dtype {
	case tensor.Int32:
		return readTable(f, wholeIn[int32](32))
	case tensor.Int64:
		return readTable(f, wholeIn[int64](64))
	case tensor.Float32:
		return readTable(f, floatIn[float32](32))
	case tensor.Float64:
		return readTable(f, floatIn[float64](64))
	}
	return nil, mismatch("a table of numbers", dtype)
}

// readTable reads each field of a table with parse.
func readTable[D number](f io.Reader, parse func(field string) (D, bool)) (*tensor.Tensor, error) {
	lines := bufio.NewScanner(bytemark.Skip(f))
	lines.Buffer(make([]byte, 64<<10), maxRow)
	var data []D
	rows, columns := 0, 0
	for lines.Scan() {
		fields, err := splitRow(lines.Text())
		if err != nil || len(fields) == 0 {
			if err != nil {
				return nil, rowFault(fault.Corrupt, rows, err.Error(), "numbers between commas")
			}
			continue
		}
		if rows > 0 && len(fields) != columns {
			return nil, rowFault(fault.Corrupt, rows, fmt.Sprintf("%d numbers", len(fields)), fmt.Sprintf("%d, as in the first row", columns))
		}
		for _, field := range fields {
			field = strings.TrimSpace(field)
			v, ok := parse(field)
			if !ok {
				return nil, wrongField(rows, field, tensor.Of[D]())
			}
			data = append(data, v)
		}
		rows, columns = rows+1, len(fields)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, rowFault(fault.Corrupt, rows, fmt.Sprintf("more than %d bytes", maxRow), "a shorter row")
		}
		return nil, err
	}
	if rows == 0 {
		return nil, fault.E(fault.Corrupt, fault.Got("no row"), fault.Want("at least one row of numbers"))
	}
	return tensor.FromSlice(data, int64(rows), int64(columns))
}

func wholeIn[D int32 | int64](bits int) func(string) (D, bool) {
	return func(field string) (D, bool) {
		v, ok := integer.Parse(field, bits)
		return D(v), ok
	}
}

func floatIn[D float32 | float64](bits int) func(string) (D, bool) {
	return func(field string) (D, bool) {
		v, err := strconv.ParseFloat(field, bits)
		return D(v), err == nil
	}
}

// wrongField reports a field that has no value of the dtype: it is no number, or one that does not fit.
func wrongField(row int, field string, dtype tensor.DType) error {
	if _, err := strconv.ParseFloat(field, 64); errors.Is(err, strconv.ErrSyntax) {
		return rowFault(fault.Corrupt, row, fault.Quote(field), "a number")
	}
	want := "a number that fits in "
	if dtype == tensor.Int32 || dtype == tensor.Int64 {
		want = "a whole number that fits in "
	}
	return rowFault(fault.TypeMismatch, row, fault.Quote(field), want+dtype.String())
}

// splitRow returns the fields of one line, none for a blank one.
func splitRow(line string) ([]string, error) {
	fields, err := csv.NewReader(strings.NewReader(line)).Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return fields, err
}

func rowFault(kind fault.Kind, row int, got, want string) error {
	return fault.E(kind, fault.Cause(fmt.Errorf("row %d", row+1)), fault.Got(got), fault.Want(want))
}
