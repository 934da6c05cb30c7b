package convert

import (
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A csvConverter knows which columns go where.
type csvConverter struct {
	samples        *sampleWriter
	names          []string // by column; their index if there is no header
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

// written returns the number of samples, also before the first row.
func (c *csvConverter) written() int {
	if c == nil {
		return 0
	}
	return c.samples.written
}
