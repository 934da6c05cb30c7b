package convert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// housing.data has 13 features and the price. Fluid's uci_housing trains on the first 80 % of the rows.
const (
	housingFeatures = 13
	housingColumns  = housingFeatures + 1
	maxHousingRows  = 1 << 20
)

type housingRow [housingColumns]float64

// Housing converts the Boston housing table (14 numbers a line, between blanks) into samples of features float32[13] and price float32[1]. A
// feature becomes (x - mean) / (max - min) over all rows. The first 80 % of the rows (404 of 506) go to train, the others to test. Housing returns
// both numbers.
func Housing(ctx context.Context, r io.Reader, train, test dataset.RecordWriter) (trained, tested int, err error) {
	rows, err := readHousing(ctx, r)
	if err != nil {
		return 0, 0, err
	}
	if err := normalise(rows); err != nil {
		return 0, 0, err
	}
	split := len(rows) * 8 / 10
	if trained, err = writeHousing(ctx, train, rows[:split]); err != nil {
		return trained, 0, err
	}
	tested, err = writeHousing(ctx, test, rows[split:])
	return trained, tested, err
}

func readHousing(ctx context.Context, r io.Reader) (rows []housingRow, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	line := 0
	for lines.Scan() {
		if err := interrupt.Check(ctx, "housing"); err != nil {
			return nil, err
		}
		line++
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if len(fields) != housingColumns {
			return nil, fault.E(fault.Corrupt, fault.At(atLine(line)), fault.Gotf("%d columns", len(fields)),
				fault.Want(fmt.Sprint(housingColumns)))
		}
		if len(rows) == maxHousingRows {
			return nil, fault.E(fault.TooLarge, fault.At(atLine(line)), fault.Got("more rows"), fault.Wantf("at most %d", maxHousingRows))
		}
		var row housingRow
		for i, text := range fields {
			v, f := parseFloat(text, 32)
			if f != nil {
				f.Where, f.Variable = atLine(line), fmt.Sprintf("column %d", i)
				return nil, f
			}
			row[i] = v
		}
		rows = append(rows, row)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, fault.E(fault.TooLarge, fault.At(atLine(line+1)), fault.Got("a line of more bytes"), fault.Wantf("at most %d", maxLine))
	}
	return rows, fault.Wrap(fault.Unavailable, "housing", lines.Err())
}

// normalise scales the features of all rows in place.
func normalise(rows []housingRow) error {
	for column := range housingFeatures {
		if len(rows) == 0 {
			return nil
		}
		low, high, sum := rows[0][column], rows[0][column], 0.0
		for _, row := range rows {
			low, high, sum = min(low, row[column]), max(high, row[column]), sum+row[column]
		}
		if low == high {
			return fault.E(fault.InvalidArgument, fault.Varf("column %d", column), fault.Gotf("%v in every row", low),
				fault.Want("a feature that varies"))
		}
		mean := sum / float64(len(rows))
		for i := range rows {
			rows[i][column] = (rows[i][column] - mean) / (high - low)
		}
	}
	return nil
}

func writeHousing(ctx context.Context, w dataset.RecordWriter, rows []housingRow) (int, error) {
	s, err := newSampleWriter(w, tensor.Float32, housingFeatures)
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		if err := interrupt.Check(ctx, "housing"); err != nil {
			return s.written, err
		}
		for i, v := range row[:housingFeatures] {
			s.features.Float32s()[i] = float32(v)
		}
		s.label.Float32s()[0] = float32(row[housingFeatures])
		if err := s.write(); err != nil {
			return s.written, err
		}
	}
	return s.written, nil
}
