package schema

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/edl-go/edl/fault"
)

// A parquetColumn is a leaf of a Parquet schema.
type parquetColumn struct {
	list bool   // an array of texts and numbers
	most int    // definition level of a value that is there
	name string // of the column of the table
	text func(parquet.Value) string
}

// openParquet opens a Parquet file: its columns of one value a row, and lists of such values. A structure has a column for each member, a.b.
func (t *Table) openParquet(f *os.File, size int64) error {
	var file *parquet.File
	err := guarded(func() (err error) {
		file, err = parquet.OpenFile(f, size)
		return err
	})
	if err != nil {
		return fault.E(fault.Corrupt, fault.Got("a file that is no Parquet"), fault.Want("one that is whole"), fault.Cause(errors.New(err.Error()))) // it may be io.EOF
	}
	s := file.Schema()
	var columns []parquetColumn
	var names []string
	for _, path := range s.Columns() {
		leaf, ok := s.Lookup(path...)
		if !ok {
			return fault.E(fault.Corrupt, fault.Gotf("no column %s", strings.Join(path, ".")), fault.Want("a schema that has it"))
		}
		c := parquetColumn{list: leaf.MaxRepetitionLevel > 0, most: leaf.MaxDefinitionLevel, text: parquetText(leaf.Node.Type()), name: strings.Join(path, ".")}
		if leaf.MaxRepetitionLevel > 1 {
			return fault.E(fault.Unsupported, fault.Var(c.name), fault.Got("lists of lists"), fault.Want("single values, and lists of these"))
		}
		if c.list { // the names between are those of the format: list.element, or array
			c.name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(c.name, ".element"), ".item"), ".list")
		}
		columns, names = append(columns, c), append(names, c.name)
	}
	if err := t.named(names); err != nil {
		return err
	}
	r := &parquetRows{groups: file.RowGroups(), want: file.NumRows(), columns: columns, buffer: make([]parquet.Row, 64)}
	t.close = append(t.close, r)
	t.next = func() (Row, error) {
		row, err := r.next()
		if err == nil && r.want > 0 {
			t.read.Store(int64(float64(size) * min(float64(r.number)/float64(r.want), 1)))
		}
		return row, err
	}
	return nil
}

// guarded runs what a damaged file may let panic.
func guarded(f func() error) (err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fault.E(fault.Corrupt, fault.Got("a damaged Parquet file"), fault.Cause(fmt.Errorf("%v", wrong)))
		}
	}()
	return f()
}

// parquetRows reads the row groups of a file one after another.
type parquetRows struct {
	groups  []parquet.RowGroup
	rows    parquet.Rows // of the group that is read; nil: of none
	columns []parquetColumn
	buffer  []parquet.Row
	ready   []parquet.Row
	number  int
	want    int64 // rows of the file
}

// Close implements io.Closer.
func (r *parquetRows) Close() error {
	if r.rows == nil {
		return nil
	}
	err := guarded(r.rows.Close)
	r.rows = nil
	return err
}

func (r *parquetRows) next() (Row, error) {
	for len(r.ready) == 0 {
		if err := r.fill(); err != nil {
			return Row{}, err
		}
	}
	values := r.ready[0]
	r.ready = r.ready[1:]
	r.number++
	row := Row{Place: fmt.Sprintf("row %d", r.number), Cells: make([]Cell, len(r.columns))}
	for _, v := range values {
		at := v.Column()
		if at < 0 || at >= len(r.columns) {
			return Row{}, fault.E(fault.Corrupt, fault.At(row.Place), fault.Gotf("a value of column %d", at), fault.Wantf("one of %d columns", len(r.columns)))
		}
		c, cell := &r.columns[at], &row.Cells[at]
		there := !v.IsNull() && v.DefinitionLevel() == c.most
		switch {
		case c.list:
			if cell.Kind = List; there {
				cell.List = append(cell.List, c.text(v))
			}
		case there:
			*cell = Cell{Text: c.text(v), Kind: Text}
		}
	}
	return row, nil
}

// fill reads the next rows.
func (r *parquetRows) fill() error {
	if r.rows == nil {
		if len(r.groups) == 0 && int64(r.number) != r.want {
			return fault.E(fault.Corrupt, fault.Gotf("%d rows", r.number), fault.Wantf("%d, as the file says", r.want))
		}
		if len(r.groups) == 0 {
			return io.EOF
		}
		group := r.groups[0]
		r.groups = r.groups[1:]
		if err := guarded(func() error { r.rows = group.Rows(); return nil }); err != nil {
			return err
		}
	}
	n := 0
	err := guarded(func() (err error) {
		n, err = r.rows.ReadRows(r.buffer)
		return err
	})
	r.ready = r.buffer[:n]
	switch {
	case errors.Is(err, io.EOF):
		return r.Close()
	case err != nil && fault.KindOf(err) != fault.Corrupt:
		return fault.E(fault.Corrupt, fault.Atf("after row %d", r.number+n), fault.Got("a damaged Parquet file"), fault.Cause(errors.New(err.Error())))
	}
	return err
}

// parquetText returns how values of a type are written as text: numbers exactly, times in RFC 3339.
func parquetText(t parquet.Type) func(parquet.Value) string {
	if logical := t.LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.DateType:
			return func(v parquet.Value) string { return time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly) }
		case *format.TimestampType:
			if l.Unit.Value != nil {
				unit := l.Unit.Value.Duration()
				return func(v parquet.Value) string {
					perSecond := int64(time.Second / unit)
					n := v.Int64()
					return time.Unix(n/perSecond, n%perSecond*int64(unit)).UTC().Format(time.RFC3339Nano)
				}
			}
		case *format.DecimalType:
			if k := t.Kind(); k == parquet.Int32 || k == parquet.Int64 {
				scale := int(l.Scale)
				return func(v parquet.Value) string {
					n := v.Int64()
					if k == parquet.Int32 {
						n = int64(v.Int32())
					}
					return strconv.FormatInt(n, 10) + "e" + strconv.Itoa(-scale)
				}
			}
		case *format.IntType:
			if !l.IsSigned {
				if t.Kind() == parquet.Int32 {
					return func(v parquet.Value) string { return strconv.FormatUint(uint64(v.Uint32()), 10) }
				}
				return func(v parquet.Value) string { return strconv.FormatUint(v.Uint64(), 10) }
			}
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }
	case parquet.Int32:
		return func(v parquet.Value) string { return strconv.FormatInt(int64(v.Int32()), 10) }
	case parquet.Int64:
		return func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }
	case parquet.Float:
		return func(v parquet.Value) string { return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32) }
	case parquet.Double:
		return func(v parquet.Value) string { return strconv.FormatFloat(v.Double(), 'g', -1, 64) }
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return func(v parquet.Value) string { return string(v.ByteArray()) }
	}
	return parquet.Value.String
}
