package schema

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bytemark"
	"github.com/edl-go/edl/internal/jsonline"
)

// maxRow bounds the bytes of a row, and the values of one cell.
const maxRow = 1 << 20

// A Cell is what a row has in a column, as text. Numbers are in decimal, exactly, as the table has them.
type Cell struct {
	Text string
	List []string // of an array
	Kind CellKind
}

// A CellKind says which part of a Cell counts.
type CellKind uint8

// Kinds of cells.
const (
	Nothing CellKind = iota // null, or not there
	Text
	List
)

// A Row is one row of a table.
type Row struct {
	Place string // for messages: "line 7"
	Cells []Cell // in the order of Table.Columns; they stay as they are
	table *Table // for messages; nil: none
}

// A Table gives the rows of a file. One goroutine reads it.
type Table struct {
	columns []string
	next    func() (Row, error)  // io.EOF itself at the end
	more    func(names []string) // adds columns that may come later; nil: there are none
	strict  bool                 // a column that comes later is an error
	close   []io.Closer
	path    string

	unnamed bool     // the first row has no names of columns
	names   []string // of the columns of an unnamed table; nil: they are numbered

	size, read, rows atomic.Int64 // see Progress
}

// Progress returns how many bytes of how many of the file have been read, estimated by rows for Parquet, and how many rows Next has returned. Any goroutine may call it.
func (t *Table) Progress() (read, size, rows int64) {
	return t.read.Load(), t.size.Load(), t.rows.Load()
}

// A countedReader counts what is read of the file of a table.
type countedReader struct {
	r io.Reader
	t *Table
}

func (c countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.t.read.Add(int64(n))
	return n, err
}

// Columns returns the names of the columns. Those of JSON lines are the members of the first objects.
func (t *Table) Columns() []string { return t.columns }

// Next returns the next row, or io.EOF.
func (t *Table) Next() (Row, error) {
	row, err := t.next()
	if err != nil && err != io.EOF { // another error may wrap it, as that of a file that is cut
		return row, t.placed(err)
	}
	if err == nil {
		t.rows.Add(1)
	}
	return row, err
}

// placed names the file in an error.
func (t *Table) placed(err error) error {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.In(t.path, ", ")
	}
	return fault.File(fault.Unavailable, t.path, err)
}

// Close closes the file.
func (t *Table) Close() error {
	var err error
	for _, c := range slices.Backward(t.close) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// formats are the formats of tables by the end of the file's name.
var formats = map[string]func(t *Table, r io.Reader) error{
	".csv":    func(t *Table, r io.Reader) error { return t.openCSV(r, 0) },
	".data":   func(t *Table, r io.Reader) error { return t.openCSV(r, 0) },
	".tsv":    func(t *Table, r io.Reader) error { return t.openCSV(r, '\t') },
	".jsonl":  (*Table).openJSON,
	".ndjson": (*Table).openJSON,
}

// Extensions are the ends of the names of tables, in order. All but .parquet may have .gz behind.
func Extensions() []string {
	return append(slices.Sorted(maps.Keys(formats)), ".parquet")
}

// IsTable reports whether a name ends as that of a table that Open opens.
func IsTable(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, ".parquet") {
		return true
	}
	name = strings.TrimSuffix(name, ".gz")
	for end := range formats {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// Open opens a table: .csv, .tsv and .data (which is CSV) with the names of columns in the first row, .jsonl and .ndjson, all of them also with .gz
// behind, and .parquet. f is closed with the table. size is that of the file.
func Open(f *os.File, size int64) (*Table, error) { return open(f, size, &Table{}) }

// OpenUnnamed opens a table of CSV or TSV whose first row has no names: its columns are c1, c2 and so on.
func OpenUnnamed(f *os.File, size int64) (*Table, error) { return open(f, size, &Table{unnamed: true}) }

// Open opens a table whose columns are those of the schema. Where Header says that they have no names in the file, their order is that of Columns.
func (s *Schema) Open(f *os.File, size int64) (*Table, error) {
	if s.Header != noHeader {
		return Open(f, size)
	}
	return open(f, size, &Table{unnamed: true, names: s.names()})
}

func open(f *os.File, size int64, t *Table) (_ *Table, err error) {
	t.path, t.close = f.Name(), []io.Closer{f}
	t.size.Store(size)
	defer func() {
		if err != nil {
			t.Close()
			err = t.placed(err)
		}
	}()
	name := strings.ToLower(t.path)
	if strings.HasSuffix(name, ".parquet") {
		if t.unnamed {
			return nil, namesThemselves("Parquet")
		}
		return t, t.openParquet(f, size)
	}
	var r io.Reader = bufio.NewReaderSize(countedReader{f, t}, 256<<10)
	if before, packed := strings.CutSuffix(name, ".gz"); packed {
		name = before
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fault.E(fault.Corrupt, fault.Got("a file that is not compressed with gzip"), fault.Want("one that is, or a name without .gz"), fault.Cause(err))
		}
		r, t.close = z, append(t.close, z)
	}
	for end, open := range formats {
		if strings.HasSuffix(name, end) {
			return t, open(t, r)
		}
	}
	return nil, fault.E(fault.InvalidArgument, fault.Got("a table of an unknown format"), fault.Want("a name that ends in .csv, .tsv, .data, .jsonl, .ndjson, these with .gz, or .parquet"))
}

// namesThemselves refuses a format as an unnamed table.
func namesThemselves(format string) error {
	return fault.E(fault.InvalidArgument, fault.Got("a file of "+format+" as a table without names"), fault.Want("CSV or TSV; files of "+format+" name their columns"))
}

// named checks the names of columns.
func (t *Table) named(names []string) error {
	if len(names) > maxColumns {
		return fault.E(fault.TooLarge, fault.Gotf("%d columns", len(names)), fault.Wantf("at most %d", maxColumns))
	}
	seen := map[string]bool{}
	for i, name := range names {
		if name == "" || seen[name] {
			return fault.E(fault.Corrupt, fault.At("line 1"), fault.Gotf("%s as the name of column %d", fault.Quote(name), i+1), fault.Want("a first row that names each column once"))
		}
		seen[name] = true
	}
	t.columns = names
	return nil
}

func (t *Table) openCSV(r io.Reader, comma rune) error {
	if comma == 0 {
		buffered := bufio.NewReaderSize(r, 64<<10)
		r, comma = buffered, commaOf(buffered)
	}
	guard := &rowGuard{r: r}
	rows := csv.NewReader(guard)
	rows.Comma, rows.TrimLeadingSpace, rows.ReuseRecord = comma, comma != '\t', true
	first, err := rows.Read()
	if errors.Is(err, io.EOF) {
		want := "a first row with the names of the columns"
		if t.unnamed {
			want = "at least one row"
		}
		return fault.E(fault.Corrupt, fault.Got("an empty file"), fault.Want(want))
	}
	if err != nil {
		return csvError(err, 0, 0)
	}
	names, err := t.namesOf(first)
	if err != nil {
		return err
	}
	ahead := t.unnamed // first is a row
	if ahead {
		first[0] = strings.TrimPrefix(first[0], bytemark.UTF8)
	}
	line := 1
	t.next = func() (Row, error) {
		guard.read = 0
		record, err := first, error(nil)
		if !ahead {
			record, err = rows.Read()
		}
		ahead = false
		if err != nil {
			err = csvError(err, len(record), len(names))
			if f := (*fault.Fault)(nil); errors.As(err, &f) && f.Where == "" { // of rowGuard
				f.Where = fmt.Sprintf("the row after that of line %d", line)
			}
			return Row{}, err
		}
		line, _ = rows.FieldPos(0)
		if !t.unnamed && len(names) > 1 && slices.EqualFunc(record, names, func(text, name string) bool { return strings.TrimSpace(text) == name }) {
			return Row{}, fault.E(fault.Corrupt, fault.Atf("line %d", line), fault.Got("the names of the columns again"), fault.Want("a row"), fault.Hint("delete the line"))
		}
		row := Row{Place: fmt.Sprintf("line %d", line), Cells: make([]Cell, len(record))}
		for i, text := range record {
			row.Cells[i] = Cell{Text: strings.TrimSpace(text), Kind: Text}
		}
		return row, nil
	}
	return nil
}

// namesOf returns the names of columns: those in the first row, or those that an unnamed table was given.
func (t *Table) namesOf(first []string) ([]string, error) {
	names := make([]string, len(first))
	for i, name := range first {
		if t.unnamed {
			name = fmt.Sprintf("c%d", i+1)
		}
		names[i] = strings.Clone(strings.TrimSpace(strings.TrimPrefix(name, bytemark.UTF8)))
	}
	if t.names != nil {
		if len(t.names) != len(first) {
			return nil, fault.E(fault.Corrupt, fault.At("line 1"), fault.Gotf("%d columns", len(first)), fault.Wantf("%d, as the schema has, which says that there are no names", len(t.names)))
		}
		names = t.names
	}
	if err := t.named(names); err != nil {
		return nil, err
	}
	if !t.unnamed && !slices.ContainsFunc(names, func(name string) bool { _, f := parseFloat(name); return f != nil }) {
		return nil, fault.E(fault.Corrupt, fault.At("line 1"), fault.Got("numbers alone"), fault.Want("a first row with the names of the columns"),
			fault.Hint("\"edl data infer --no-header\" reads tables without names"))
	}
	return names, nil
}

// commaOf is what stands between the columns of the first line: a comma, or that of ; tab and | of which it has the most where it has no comma.
func commaOf(r *bufio.Reader) rune {
	head, _ := r.Peek(r.Size()) // an error comes again
	head, _, _ = bytes.Cut(head, []byte("\n"))
	comma := ','
	for _, other := range ";\t|" {
		if !bytes.ContainsRune(head, ',') && bytes.Count(head, []byte(string(other))) > bytes.Count(head, []byte(string(comma))) {
			comma = other
		}
	}
	return comma
}

func csvError(err error, columns, want int) error {
	var parse *csv.ParseError
	switch {
	case err == io.EOF:
		return io.EOF
	case errors.Is(err, csv.ErrFieldCount) && errors.As(err, &parse):
		return fault.E(fault.Corrupt, fault.Atf("line %d", parse.Line), fault.Gotf("%d columns", columns), fault.Wantf("%d, as in the first row", want))
	case errors.As(err, &parse):
		return fault.E(fault.Corrupt, fault.Atf("line %d, column %d", parse.Line, parse.Column), fault.Cause(parse.Err))
	}
	return err
}

// A rowGuard fails if a row has more than maxRow bytes, before the CSV reader has to keep them. That reader sets read to 0 at each row.
type rowGuard struct {
	r    io.Reader
	read int
}

func (g *rowGuard) Read(b []byte) (int, error) {
	if g.read > maxRow {
		return 0, fault.E(fault.TooLarge, fault.Got("a row of more bytes"), fault.Wantf("at most %d", maxRow))
	}
	n, err := g.r.Read(b)
	g.read += n
	return n, err
}

// firstObjects is how many JSON objects show the names of columns.
const firstObjects = 1000

func (t *Table) openJSON(r io.Reader) error {
	if t.unnamed {
		return namesThemselves("JSON lines")
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxRow)
	number := 0
	type object struct {
		members []member
		place   string
	}
	read := func() (object, error) {
		for lines.Scan() {
			number++
			line := lines.Bytes()
			if len(strings.TrimSpace(string(line))) == 0 {
				continue
			}
			place := fmt.Sprintf("line %d", number)
			members, err := parseObject(line)
			if err != nil {
				var f *fault.Fault
				if errors.As(err, &f) && f.Where == "" {
					f.Where = place
				}
				return object{}, err
			}
			return object{members, place}, nil
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return object{}, fault.E(fault.TooLarge, fault.Atf("line %d", number+1), fault.Got("a longer line"), fault.Wantf("at most %d bytes", maxRow))
		case err != nil:
			return object{}, err
		}
		return object{}, io.EOF
	}
	var ahead []object
	var failed error
	index := map[string]int{}
	var names []string
	for len(ahead) < firstObjects {
		o, err := read()
		if err != nil {
			failed = err
			break
		}
		for _, m := range o.members {
			if _, there := index[m.name]; !there {
				index[m.name] = len(names)
				names = append(names, m.name)
			}
		}
		ahead = append(ahead, o)
	}
	if len(ahead) == 0 {
		if failed != nil && failed != io.EOF {
			return failed
		}
		return fault.E(fault.Corrupt, fault.Got("an empty file"), fault.Want("a JSON object in each line"))
	}
	if err := t.named(names); err != nil {
		return err
	}
	t.more = func(list []string) {
		for _, name := range list {
			if _, there := index[name]; !there {
				index[name] = len(names)
				names = append(names, name)
			}
		}
		t.columns = names
	}
	t.next = func() (Row, error) {
		var o object
		var err error
		switch {
		case len(ahead) > 0:
			o, ahead = ahead[0], ahead[1:]
		case failed != nil:
			err = failed
		default:
			o, err = read()
		}
		if err != nil {
			return Row{}, err
		}
		row := Row{Place: o.place, Cells: make([]Cell, len(names))}
		for _, m := range o.members {
			if i, there := index[m.name]; there {
				row.Cells[i] = m.cell
			} else if t.strict {
				return Row{}, fault.E(fault.Corrupt, fault.At(o.place), fault.Var(m.name), fault.Gotf("a member that none of the first %d objects has", firstObjects),
					fault.Want("each member in one of them"), fault.Hint("move such an object to the front, or write the column into a schema and give that with --schema"))
			}
		}
		return row, nil
	}
	return nil
}

// A member of a JSON object.
type member struct {
	name string
	cell Cell
}

// parseObject reads a JSON object in the order of its members.
func parseObject(line []byte) ([]member, error) {
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, jsonline.Wrong(err)
	}
	var members []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, jsonline.Wrong(err)
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, jsonline.Wrong(err)
		}
		name, _ := key.(string)
		cell, err := CellOf(value)
		if err != nil {
			var f *fault.Fault
			if errors.As(err, &f) {
				f.Variable = name
			}
			return nil, err
		}
		members = append(members, member{name, cell})
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, jsonline.Wrong(err)
	}
	return members, nil
}

// CellOf returns the cell of a JSON value as encoding/json decodes it, with json.Number: null, a text, a number, true or false, or an array of these.
func CellOf(value any) (Cell, error) {
	switch v := value.(type) {
	case nil:
		return Cell{}, nil
	case string:
		return Cell{Text: v, Kind: Text}, nil
	case json.Number:
		return Cell{Text: v.String(), Kind: Text}, nil
	case bool:
		return Cell{Text: fmt.Sprint(v), Kind: Text}, nil
	case []any:
		list := make([]string, len(v))
		for i, one := range v {
			c, err := CellOf(one)
			if err != nil || c.Kind != Text {
				return Cell{}, fault.E(fault.Corrupt, fault.Gotf("an array with null, an array or an object, at %d", i), fault.Want("texts and numbers"))
			}
			list[i] = c.Text
		}
		return Cell{List: list, Kind: List}, nil
	}
	return Cell{}, fault.E(fault.Corrupt, fault.Got("an object"), fault.Want("a text, a number, true, false, null, or an array of these"))
}

// RowOf returns the row of a JSON object with the given columns of a schema. A column that the object lacks has no value. Other columns of the schema are left out: labels, weights, and
// what is skipped. A member that is no column of the schema is an error, because it is probably misspelt.
func (s *Schema) RowOf(columns []string, object map[string]json.RawMessage) (Row, error) {
	row := Row{Cells: make([]Cell, len(columns))}
	known := 0
	for i, name := range columns {
		text, there := object[name]
		if !there {
			continue
		}
		known++
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var value any
		err := d.Decode(&value)
		if err == nil {
			row.Cells[i], err = CellOf(value)
		}
		if err != nil {
			var f *fault.Fault
			if errors.As(err, &f) {
				f.Variable = name
			}
			return row, err
		}
	}
	if known == len(object) {
		return row, nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if s.column(name) == nil {
			return row, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a value that is no column of the schema"), fault.Wantf("some of %d columns", len(s.Columns)), fault.DidYouMean(name, s.names()))
		}
	}
	return row, nil
}
