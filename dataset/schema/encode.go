package schema

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cespare/xxhash/v2"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// An Encoder makes tensors of the rows of one table. It does not change, so goroutines may share it.
type Encoder struct {
	fields  []Field
	columns []encodedColumn // in the order of the fields, and of the columns within
	missing map[string]bool
}

// An encodedColumn is a column of a table with what is ready for its values.
type encodedColumn struct {
	*Column
	at     int // place in the table; -1: rows lack it
	field  int // place of its field
	number map[string]int64
	shift  float64 // a number x becomes (x-shift)*factor
	factor float64
	absent float64 // what stands for no value
	filled bool    // there is such a number
}

// NewEncoder makes an encoder for rows with the given columns. With serving the fields that only training has, labels and weights, are left out. What a
// column needs to have learned (words, means) must be in the schema. A column that the table lacks is an error.
func NewEncoder(s *Schema, columns []string, serving bool) (*Encoder, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	e := &Encoder{missing: map[string]bool{}}
	for _, text := range s.Missing {
		e.missing[text] = true
	}
	for _, f := range s.Fields() {
		if serving && f.Role != "" {
			continue
		}
		for _, name := range f.Columns {
			c := encodedColumn{field: len(e.fields), at: slices.Index(columns, name)}
			for i := range s.Columns {
				if s.Columns[i].Name == name {
					c.Column = &s.Columns[i]
				}
			}
			if c.at < 0 {
				return nil, noColumn(name, columns)
			}
			if err := c.prepare(); err != nil {
				return nil, err
			}
			e.columns = append(e.columns, c)
		}
		e.fields = append(e.fields, f)
	}
	return e, nil
}

// Fields returns the fields of the tensors, in their order.
func (e *Encoder) Fields() []Field { return e.fields }

// prepare takes what the column has learned.
func (c *encodedColumn) prepare() error {
	unlearned := func(what string) error {
		return fault.E(fault.InvalidArgument, fault.Var(c.Name), fault.Got("no "+what), fault.Want("what the column has learned from data"),
			fault.Hint("\"edl data infer TABLE --schema FILE -o FILE\" learns it"))
	}
	c.factor = 1
	switch {
	case c.Type == Category && len(c.Vocabulary) == 0:
		return unlearned("vocabulary")
	case c.Type == Category:
		first := int64(1)
		if c.Role == Label {
			first = 0
		}
		c.number = make(map[string]int64, len(c.Vocabulary))
		for i, word := range c.Vocabulary {
			c.number[word] = first + int64(i)
		}
	case (c.Scale == Standard || c.Scale == MinMax || c.Missing == "mean") && c.Statistics == nil:
		return unlearned("statistics")
	}
	switch c.Scale {
	case Standard:
		if c.shift = c.Statistics.Mean; c.Statistics.Deviation > 0 {
			c.factor = 1 / c.Statistics.Deviation
		}
	case MinMax:
		if c.shift = c.Statistics.Min; c.Statistics.Max > c.Statistics.Min {
			c.factor = 1 / (c.Statistics.Max - c.Statistics.Min)
		}
	}
	if c.filled = c.Missing != ""; c.Missing == "mean" {
		c.absent = c.Statistics.Mean
	} else if c.filled && c.Type != Integer {
		c.absent, _ = strconv.ParseFloat(c.Missing, 64) // checked
	}
	return nil
}

// A builder collects the numbers of rows.
type builder struct {
	floats  [][]float32 // by field; of a field one of the two
	ints    [][]int64
	offsets [][]int64 // of sequences
}

func (e *Encoder) builder() *builder {
	n := len(e.fields)
	b := &builder{make([][]float32, n), make([][]int64, n), make([][]int64, n)}
	b.reset(e)
	return b
}

func (b *builder) reset(e *Encoder) {
	for i := range e.fields {
		b.floats[i], b.ints[i], b.offsets[i] = b.floats[i][:0], b.ints[i][:0], append(b.offsets[i][:0], 0)
	}
}

// add appends the numbers of a row.
func (b *builder) add(e *Encoder, row Row) error {
	for i := range e.columns {
		c := &e.columns[i]
		if f := c.add(b, row.Cells[c.at], e.missing); f != nil {
			f.Where, f.Variable = row.Place, c.Name
			return f
		}
	}
	for i := range e.fields {
		if e.fields[i].LoDLevel > 0 {
			b.offsets[i] = append(b.offsets[i], int64(len(b.ints[i])))
		}
	}
	return nil
}

// add appends the numbers of a cell.
func (c *encodedColumn) add(b *builder, cell Cell, missing map[string]bool) *fault.Fault {
	if cell.Kind == Text && missing[cell.Text] {
		cell.Kind = Nothing
	}
	if c.sequence() {
		return c.addSequence(b, cell, missing)
	}
	if cell.Kind == List {
		if len(cell.List) != 1 {
			return fault.E(fault.Corrupt, fault.Gotf("an array of %d values", len(cell.List)), fault.Want("one value"), fault.Hint("a column with several values in a row needs a separator in the schema"))
		}
		cell = Cell{Text: cell.List[0], Kind: Text}
	}
	if c.dtype() == tensor.Float32 {
		return c.addFloats(&b.floats[c.field], cell)
	}
	v, f := c.integer(cell)
	if f != nil {
		return f
	}
	b.ints[c.field] = append(b.ints[c.field], v)
	return nil
}

func (c *encodedColumn) addSequence(b *builder, cell Cell, missing map[string]bool) *fault.Fault {
	var texts []string
	switch {
	case cell.Kind == List:
		texts = cell.List
	case cell.Kind == Text && c.Separator == Words:
		texts = wordsOf(cell.Text)
	case cell.Kind == Text:
		texts = strings.Split(cell.Text, c.Separator)
	}
	if len(texts) > maxRow {
		return fault.E(fault.TooLarge, fault.Gotf("%d values", len(texts)), fault.Wantf("at most %d", maxRow))
	}
	for _, text := range texts {
		if cell.Kind == Text && c.Separator != Words {
			text = strings.TrimSpace(text)
		}
		if missing[text] {
			continue
		}
		v, f := c.integer(Cell{Text: text, Kind: Text})
		if f != nil {
			return f
		}
		b.ints[c.field] = append(b.ints[c.field], v)
	}
	return nil
}

// wordsOf returns the words of a text: runs of letters and digits, in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

// noValue is the error of a row without a value where there must be one.
func (c *Column) noValue() *fault.Fault {
	f := fault.E(fault.Corrupt, fault.Got("no value"), fault.Want("one in each row"))
	switch {
	case c.Type == Number:
		f.Hint = "\"missing: mean\" or \"missing: 0\" in the schema says what stands for it"
	case c.Role != Label:
		f.Hint = "\"missing: 0\" in the schema says what stands for it"
	}
	return f
}

// integer returns the whole number of a value.
func (c *encodedColumn) integer(cell Cell) (int64, *fault.Fault) {
	there := cell.Kind == Text
	switch c.Type {
	case Integer:
		switch {
		case there:
			return parseInt(cell.Text)
		case c.Missing != "":
			return parseInt(c.Missing)
		}
		return 0, c.noValue()
	case Category:
		if n, known := c.number[cell.Text]; there && known {
			return n, nil
		}
		if c.Role == Label {
			if !there {
				return 0, c.noValue()
			}
			return 0, fault.E(fault.NotFound, fault.Got(fault.Quote(cell.Text)), fault.Wantf("one of the %d texts of the label's vocabulary", len(c.Vocabulary)), fault.DidYouMean(cell.Text, c.Vocabulary))
		}
		return 0, nil
	case Hash:
		if !there {
			return 0, nil
		}
		return 1 + int64(xxhash.Sum64String(cell.Text)%uint64(c.Size-1)), nil
	case Key:
		if !there {
			return -1, nil
		}
		if convert.IsNoKey(cell.Text) {
			return -1, nil
		}
		return convert.Key(cell.Text), nil
	}
	if !there { // Bucket
		return 0, nil
	}
	x, f := parseFloat(cell.Text)
	if f != nil {
		return 0, f
	}
	n, _ := slices.BinarySearchFunc(c.Boundaries, x, func(b, x float64) int {
		if b <= x {
			return -1
		}
		return 1
	})
	return int64(n) + 1, nil
}

// addFloats appends the number of a value, or those of the parts of a date.
func (c *encodedColumn) addFloats(to *[]float32, cell Cell) *fault.Fault {
	if cell.Kind != Text && !c.filled {
		return c.noValue()
	}
	if c.Type == Date {
		return c.addDate(to, cell)
	}
	x := c.absent
	if cell.Kind == Text {
		var f *fault.Fault
		if x, f = parseFloat(cell.Text); f != nil {
			return f
		}
	}
	if x = c.clipped(x); c.Scale == Log {
		if x < 0 {
			return fault.E(fault.InvalidArgument, fault.Gotf("%v, which has no logarithm of 1+x", x), fault.Want("0 or more"), fault.Hint("\"clip: [0, 1e9]\" in the schema makes it 0"))
		}
		x = math.Log1p(x)
	}
	x = (x - c.shift) * c.factor
	if math.Abs(x) > math.MaxFloat32 {
		return fault.E(fault.NotFinite, fault.Gotf("%v", x), fault.Want("a number that fits into float32"))
	}
	*to = append(*to, float32(x))
	return nil
}

func (c *Column) clipped(x float64) float64 {
	if len(c.Clip) == 2 {
		return min(max(x, c.Clip[0]), c.Clip[1])
	}
	return x
}

func (c *encodedColumn) addDate(to *[]float32, cell Cell) *fault.Fault {
	if cell.Kind != Text {
		for range c.Parts {
			*to = append(*to, float32(c.absent))
		}
		return nil
	}
	t, f := parseDate(cell.Text, c.Layout)
	if f != nil {
		return f
	}
	for _, part := range c.Parts {
		var v int64
		switch part {
		case "year":
			v = int64(t.Year())
		case "month":
			v = int64(t.Month())
		case "day":
			v = int64(t.Day())
		case "weekday":
			v = int64(t.Weekday())
		case "hour":
			v = int64(t.Hour())
		case "minute":
			v = int64(t.Minute())
		case "second":
			v = int64(t.Second())
		case "unix":
			v = t.Unix()
		}
		*to = append(*to, float32(v))
	}
	return nil
}

// layouts are the forms of dates where the schema does not say one.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"}

func parseDate(text, layout string) (time.Time, *fault.Fault) {
	if layout != "" {
		t, err := time.Parse(layout, text)
		if err != nil {
			return t, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Wantf("a date such as %s, the layout of the schema", layout))
		}
		return t, nil
	}
	for _, l := range layouts {
		if t, err := time.Parse(l, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a date such as 2006-01-02, or 2006-01-02T15:04:05Z"),
		fault.Hint("for other forms give the column a layout, as Go's package time has it"))
}

func parseFloat(text string) (float64, *fault.Fault) {
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a number"))
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a finite number"))
	}
	return x, nil
}

func parseInt(text string) (int64, *fault.Fault) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a whole number of 64 bits"))
	}
	return v, nil
}

// tensors returns the tensors of what was collected, of n rows; of a record where n is -1: then a field without LoD has no dim for rows.
func (b *builder) tensors(e *Encoder, n int64) ([]*tensor.Tensor, error) {
	list := make([]*tensor.Tensor, len(e.fields))
	for i, f := range e.fields {
		dims := f.Dims
		switch {
		case f.LoDLevel > 0:
			dims = []int64{int64(len(b.ints[i])), 1}
		case n >= 0:
			dims = append([]int64{n}, f.Dims...)
		}
		var err error
		if f.DType == tensor.Float32 {
			list[i], err = tensor.FromSlice(b.floats[i], dims...)
		} else {
			list[i], err = tensor.FromSlice(b.ints[i], dims...)
		}
		if err != nil {
			return nil, err
		}
		if f.LoDLevel > 0 && n >= 0 {
			list[i].SetLoD([][]int64{b.offsets[i]})
		}
	}
	return list, nil
}

// Batch returns the tensors of rows as a program is fed: for each field a tensor with a row for each row, or with the rows of all sequences and their LoD.
func (e *Encoder) Batch(rows []Row) ([]*tensor.Tensor, error) {
	b := e.builder()
	for _, row := range rows {
		if err := b.add(e, row); err != nil {
			return nil, err
		}
	}
	return b.tensors(e, int64(len(rows)))
}

// record appends the training record of a row to dst.
func (b *builder) record(e *Encoder, dst []byte, row Row) ([]byte, error) {
	b.reset(e)
	if err := b.add(e, row); err != nil {
		return dst, err
	}
	list, err := b.tensors(e, -1)
	if err != nil {
		return dst, err
	}
	return dataset.AppendRecord(dst, list...), nil
}
