package feedfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// maxRow bounds one row of a table.
const maxRow = 1 << 20

// readCSV reads a table of numbers without header into [rows, columns].
func readCSV(f io.Reader, dtype tensor.DType) (*tensor.Tensor, error) {
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxRow)
	var data []float64
	rows, columns := 0, 0
	for lines.Scan() {
		fields, err := splitRow(lines.Text())
		if err != nil || len(fields) == 0 {
			if err != nil {
				return nil, rowFault(rows, err.Error(), "numbers between commas")
			}
			continue
		}
		if rows > 0 && len(fields) != columns {
			return nil, rowFault(rows, fmt.Sprintf("%d numbers", len(fields)), fmt.Sprintf("%d, as in the first row", columns))
		}
		for _, field := range fields {
			v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
			if err != nil {
				return nil, rowFault(rows, fault.Quote(field), "a number")
			}
			data = append(data, v)
		}
		rows, columns = rows+1, len(fields)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, rowFault(rows, fmt.Sprintf("more than %d bytes", maxRow), "a shorter row")
		}
		return nil, err
	}
	if rows == 0 {
		return nil, fault.E(fault.Corrupt, fault.Got("no row"), fault.Want("at least one row of numbers"))
	}
	return convert(data, dtype, int64(rows), int64(columns))
}

// splitRow returns the fields of one line, none for a blank one.
func splitRow(line string) ([]string, error) {
	fields, err := csv.NewReader(strings.NewReader(line)).Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return fields, err
}

func rowFault(row int, got, want string) error {
	return fault.E(fault.Corrupt, fault.Cause(fmt.Errorf("row %d", row+1)), fault.Got(got), fault.Want(want))
}
