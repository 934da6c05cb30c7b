package schema_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// people is a table with something of each type.
const people = `age,city,big,tags,born,note,answer
30,Bern,9007199254740993,a|b,1990-05-01,"Good, good day",yes
?,Rome,99999999,,2001-12-31,,no
50,Bern,-1,b,1970-01-01,day,no
`

// peopleSchema is what becomes of it.
const peopleSchema = `version: 1
missing: ["", "?"]
columns:
- {name: age, field: dense, type: number, scale: standard, missing: mean}
- {name: city, type: category}
- {name: big, type: integer}
- {name: tags, type: hash, size: 1000, separator: "|"}
- {name: born, field: dense, type: date, parts: [year, month]}
- {name: note, type: key, separator: words}
- {name: answer, type: category, role: label}
`

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string) *schema.Table {
	t.Helper()
	table, err := tryOpen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

func tryOpen(path string) (*schema.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return schema.Open(f, info.Size())
}

func parse(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// learned is peopleSchema with what it has learned of people.
func learned(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.Infer(t.Context(), []*schema.Table{open(t, write(t, "people.csv", people))}, schema.InferOptions{From: parse(t, peopleSchema)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// records are the records of a table.
func records(t testing.TB, s *schema.Schema, workers int, tables ...*schema.Table) (train, test [][]byte) {
	t.Helper()
	err := schema.Convert(t.Context(), s, tables, workers, collect(&train), collect(&test))
	if err != nil {
		t.Fatal(err)
	}
	return train, test
}

func collect(to *[][]byte) func([]byte) error {
	return func(record []byte) error {
		*to = append(*to, bytes.Clone(record))
		return nil
	}
}

// Each type of column becomes what its contract says.
func TestColumns(t *testing.T) {
	s := learned(t)
	train, _ := records(t, s, 2, open(t, write(t, "people.csv", people)))
	var got []string
	for _, record := range train {
		tensors, err := dataset.DecodeRecord(record)
		if err != nil {
			t.Fatal(err)
		}
		line := ""
		for i, v := range tensors {
			if name := s.Fields()[i].Name; name == "tags" || name == "note" {
				line += fmt.Sprintf("%s%v ", name, v.Dims())
			} else {
				line += fmt.Sprintf("%s %v ", name, values(v))
			}
		}
		got = append(got, line)
	}
	want := []string{
		"dense [-1 1990 5] city [1] big [9007199254740993] tags[2 1] note[3 1] answer [1] ",
		"dense [0 2001 12] city [2] big [99999999] tags[0 1] note[0 1] answer [0] ",
		"dense [1 1970 1] city [1] big [-1] tags[1 1] note[1 1] answer [0] ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func values(v *tensor.Tensor) any {
	if v.DType() == tensor.Float32 {
		return v.Float32s()
	}
	return v.Int64s()
}

// Equal texts have equal numbers, in whatever row and list they are; a batch has the numbers of the records of its rows.
func TestBatchHasTheNumbersOfRecords(t *testing.T) {
	s := learned(t)
	table := open(t, write(t, "people.csv", people))
	e, err := schema.NewEncoder(s, table.Columns(), true)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(e.Fields()); n != len(s.Fields())-1 {
		t.Errorf("%d fields are served of %d with a label", n, len(s.Fields()))
	}
	var rows []schema.Row
	for {
		row, err := table.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	batch, err := e.Batch(rows)
	if err != nil {
		t.Fatal(err)
	}
	train, _ := records(t, s, 1, open(t, write(t, "people.csv", people)))
	var first [][]int64
	for i, f := range e.Fields() {
		var ints []int64
		var floats []float32
		for _, record := range train {
			tensors, err := dataset.DecodeRecord(record)
			if err != nil {
				t.Fatal(err)
			}
			if f.DType == tensor.Float32 {
				floats = append(floats, tensors[i].Float32s()...)
			} else {
				ints = append(ints, tensors[i].Int64s()...)
			}
		}
		if f.DType == tensor.Float32 && !slices.Equal(floats, batch[i].Float32s()) || f.DType == tensor.Int64 && !slices.Equal(ints, batch[i].Int64s()) {
			t.Errorf("%s: the batch has %v, the records %v %v", f.Name, values(batch[i]), floats, ints)
		}
		first = append(first, ints)
	}
	tags, note := first[3], first[4]
	if len(tags) != 3 || tags[1] != tags[2] || tags[0] == tags[1] || len(note) != 4 || note[0] != note[1] || note[2] != note[3] {
		t.Errorf("tags %v, words %v", tags, note)
	}
	if lod := batch[3].LoD(); !reflect.DeepEqual(lod, [][]int64{{0, 2, 2, 3}}) {
		t.Errorf("the LoD of tags is %v", lod)
	}
}

// What does not fit names the file, the row, the column, what was found, and what to do.
func TestWrongRows(t *testing.T) {
	s := learned(t)
	for name, c := range map[string]struct{ row, want string }{
		"number":  {"x,Bern,1,,1990-01-01,,yes", `line 5, variable "age": corrupt data: got "x", want a number`},
		"inf":     {"Inf,Bern,1,,1990-01-01,,yes", "want a finite number"},
		"integer": {"1,Bern,1.5,,1990-01-01,,yes", `variable "big": corrupt data: got "1.5", want a whole number of 64 bits`},
		"date":    {"1,Bern,1,,May 1990,,yes", `variable "born": corrupt data: got "May 1990", want a date`},
		"label":   {"1,Bern,1,,1990-01-01,,yep", `variable "answer": not found: got "yep", want one of the 2 texts`},
		"none":    {"1,Bern,?,,1990-01-01,,yes", `variable "big": corrupt data: got no value`},
		"columns": {"1,Bern", "line 5: corrupt data: got 2 columns, want 7"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "people.csv", people+c.row+"\n")
			var train [][]byte
			err := schema.Convert(t.Context(), s, []*schema.Table{open(t, path)}, 2, collect(&train), collect(&train))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %s with %s", err, c.want, path)
			}
			if len(train) != 3 {
				t.Errorf("%d of the 3 records before it are written", len(train))
			}
		})
	}
}

// The same rows give the same records, whatever the format, the number of workers, and the order of columns.
func TestFormats(t *testing.T) {
	s := learned(t)
	want, _ := records(t, s, 1, open(t, write(t, "people.csv", people)))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, people)
	z.Close()
	objects := `{"answer":"yes","tags":["a","b"],"age":30,"city":"Bern","big":9007199254740993,"born":"1990-05-01","note":"Good, good day"}
{"age":null,"city":"Rome","big":99999999,"tags":[],"born":"2001-12-31","answer":"no"}

{"age":50,"city":"Bern","big":-1,"tags":["b"],"born":"1970-01-01","note":"day","answer":"no","more":true}
`
	type person struct {
		Age    *float64  `parquet:"age"`
		City   string    `parquet:"city"`
		Big    int64     `parquet:"big"`
		Tags   []string  `parquet:"tags,list"`
		Born   time.Time `parquet:"born,timestamp(microsecond)"`
		Note   *string   `parquet:"note"`
		Answer string    `parquet:"answer"`
	}
	of := func(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }
	thirty, fifty, good, day := 30.0, 50.0, "Good, good day", "day"
	var columns bytes.Buffer
	w := parquet.NewGenericWriter[person](&columns, parquet.MaxRowsPerRowGroup(2), parquet.Compression(&parquet.Snappy))
	if _, err := w.Write([]person{{&thirty, "Bern", 9007199254740993, []string{"a", "b"}, of(1990, 5, 1), &good, "yes"},
		{nil, "Rome", 99999999, nil, of(2001, 12, 31), nil, "no"}, {&fifty, "Bern", -1, []string{"b"}, of(1970, 1, 1), &day, "no"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"people.csv": people, "people.tsv": strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(people, "Good, good", "Good good"), ",", "\t"), `"`, ""),
		"people.csv.gz": packed.String(), "people.jsonl": objects, "people.parquet": columns.String(),
	} {
		for _, workers := range []int{1, 3} {
			got, _ := records(t, s, workers, open(t, write(t, name, content)))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %d workers: other records", name, workers)
			}
		}
	}
}

// Damaged files are errors, wherever they are cut, and never a panic.
func TestDamagedParquet(t *testing.T) {
	type row struct {
		A int64    `parquet:"a"`
		B []string `parquet:"b,list"`
	}
	var whole bytes.Buffer
	w := parquet.NewGenericWriter[row](&whole)
	for i := range 100 {
		if _, err := w.Write([]row{{int64(i), []string{"x", fmt.Sprint(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(content []byte) (n int, err error) {
		path := filepath.Join(t.TempDir(), "a.parquet")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := tryOpen(path)
		if err != nil {
			return 0, err
		}
		defer table.Close()
		for ; ; n++ {
			if _, err := table.Next(); err != nil {
				return n, err
			}
		}
	}
	if n, err := read(whole.Bytes()); n != 100 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d rows, %v", n, err)
	}
	for cut := 0; cut < whole.Len(); cut += 1 + whole.Len()/40 {
		if _, err := read(whole.Bytes()[:cut]); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("cut at %d of %d: %v", cut, whole.Len(), err)
		}
		flipped := bytes.Clone(whole.Bytes())
		flipped[cut] ^= 0x55
		if _, err := read(flipped); err == nil { // never nil, since the end is io.EOF
			t.Errorf("flipped at %d: no end", cut)
		}
	}
}

// A schema that is inferred says what the columns look like, and is the same when it is written and read.
func TestInfer(t *testing.T) {
	var table strings.Builder
	table.WriteString("id,price,kind,when,text,same,label\n")
	for i := range 1500 {
		fmt.Fprintf(&table, "%d,%v,%s,2024-01-%02dT10:%02d:00Z,word%d of a longer text,x,%d\n", 5000+i, float64(i)/4, []string{"a", "b", "?"}[i%3], 1+i%28, i%60, i, i%2)
	}
	s, err := schema.Infer(t.Context(), []*schema.Table{open(t, write(t, "t.csv", table.String()))}, schema.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.Columns {
		got = append(got, fmt.Sprintf("%s %s %s%s %d %d %v", c.Name, c.Type, c.Scale, c.Separator, c.Size, len(c.Vocabulary), c.Parts))
	}
	want := []string{"id skip  0 0 []", "price number standard 0 0 []", "kind category  0 2 []", "when date  0 0 [month weekday hour]", "text hash words 131072 0 []",
		"same skip  0 0 []", "label integer  0 0 []"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	price := s.Columns[1].Statistics
	if n := 1500.0; math.Abs(price.Mean-(n-1)/8) > 1e-9 || math.Abs(price.Deviation-math.Sqrt((n*n-1)/12)/4) > 1e-9 || price.Max != (n-1)/4 {
		t.Errorf("prices are %+v", *price)
	}
	if kind := s.Columns[2]; kind.Statistics.Missing != 500 || kind.Vocabulary[0] != "a" || kind.Values() != 3 {
		t.Errorf("kinds are %+v", kind)
	}
	var text bytes.Buffer
	if err := s.Write(&text); err != nil {
		t.Fatal(err)
	}
	again, err := schema.Read(&text)
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("read again: %v\n%+v\n%+v", err, again, s)
	}
}

// A row is in the same set in whatever file and order it comes. By keeps rows together, After divides by time, and what is for the test teaches nothing.
func TestSplit(t *testing.T) {
	var rows []string
	for i := range 2000 {
		rows = append(rows, fmt.Sprintf("%d,%d,2024-%02d-01,%d", i, i%100, 1+i%12, i%2))
	}
	file := func(rows []string) *schema.Table {
		return open(t, write(t, "t.csv", "x,user,day,label\n"+strings.Join(rows, "\n")+"\n"))
	}
	backward := slices.Clone(rows)
	slices.Reverse(backward)
	for name, split := range map[string]schema.Split{
		"rows": {Test: 0.25}, "seed": {Test: 0.25, Seed: 9}, "users": {Test: 0.25, By: "user"}, "days": {By: "day", After: "2024-10-01"},
	} {
		s, err := schema.Infer(t.Context(), []*schema.Table{file(rows)}, schema.InferOptions{Split: &split})
		if err != nil {
			t.Fatal(err)
		}
		train, test := records(t, s, 2, file(rows))
		if n := s.Columns[0].Statistics.Values; n != int64(len(train)) || len(train)+len(test) != 2000 {
			t.Errorf("%s: %d rows taught, %d are for training, %d for the test", name, n, len(train), len(test))
		}
		if share := float64(len(test)) / 2000; share < 0.15 || share > 0.35 {
			t.Errorf("%s: %v of the rows are for the test", name, share)
		}
		_, testBack := records(t, s, 2, file(backward))
		slices.Reverse(testBack)
		if !reflect.DeepEqual(test, testBack) {
			t.Errorf("%s: other rows are for the test when they come in another order", name)
		}
		if name == "users" && len(test)%20 != 0 {
			t.Errorf("%d rows for the test of users with 20 rows each", len(test))
		}
	}
}

// A program for classes asks how many there are. It is told what to do where the label has none, and of a file that is no schema which file that is.
func TestClasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	for columns, want := range map[string]string{
		"[{name: a, type: number}, {name: b, type: category, role: label, vocabulary: [x, y, z]}]": "3 classes",
		"[{name: a, type: number}, {name: b, type: number, role: label}]":                          `variable "b": invalid argument: got a label without a vocabulary of classes, want the type category`,
		"[{name: a, type: number}, {name: b, type: category, role: label}]":                        "got a label without a vocabulary of classes",
		"[{name: a, type: number}]": "got none with role: label",
		"[{name: a, type: numbr}]":  path + ", ",
	} {
		if err := os.WriteFile(path, []byte("{version: 1, missing: [], columns: "+columns+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		s, err := schema.Load(path)
		if err == nil {
			var n int64
			n, err = s.Classes()
			got = fmt.Sprintf("%d classes", n)
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", columns, got, want)
		}
	}
	if _, err := schema.Load(path + "l"); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), path+"l") {
		t.Errorf("a schema that is not there: %v", err)
	}
}

// Mistakes of a schema are told together, each with its column and member.
func TestWrongSchemas(t *testing.T) {
	_, err := schema.Read(strings.NewReader(`version: 2
missing: [""]
split: {test: 1.5}
columns:
- {name: a, type: numbr}
- {name: a, type: number, scale: big, clip: [2, 1]}
- {name: b, type: hash}
- {name: c, type: date, parts: [weak]}
- {name: d, type: number, vocabulary: [x]}
- {name: e, type: bucket, boundaries: [2, 1]}
- {name: f, type: integer, missing: mean}
`))
	for _, want := range []string{"version: invalid argument: got 2, want 1", "split: test", `got "numbr"`, `"number"?`, "got the column again", "scale", "clip", "size", `"weak"`, "vocabulary", "boundaries", `missing`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	for text, want := range map[string]string{
		"":        "the file is empty",
		"columns": "no schema",
		"- a":     "invalid argument: got a file that is no schema, want version",
		"version: 1\nmissing: []\ncolumns: [{name: a, typ: number}]\n":                                                     `line 3: invalid argument: got the member "typ", which a schema does not have, want those of docs/data.md; did you mean "type"?`,
		"version: 1\nmissing: []\ncolumns: [{name: a, type: skip, field: f, scale: standard, missing: mean}]\n":            "no column that becomes a field",
		"version: 1\nmissing: []\ncolumns: [{name: a, type: number, field: f}, {name: b, type: integer, field: f}]\n":      "field f",
		"version: 1\nmissing: []\ncolumns: [{name: a, type: key, field: f, separator: x}, {name: b, type: key, field: f}]": "a field of its own",
	} {
		if _, err := schema.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	unlearned := parse(t, peopleSchema)
	if _, err := schema.NewEncoder(unlearned, strings.Split("age,city,big,tags,born,note,answer", ","), false); err == nil || !strings.Contains(err.Error(), "edl data infer") {
		t.Errorf("a schema that has learned nothing: %v", err)
	}
	if _, err := schema.NewEncoder(learned(t), []string{"age", "born", "cty"}, false); err == nil || !strings.Contains(err.Error(), `"city"`) || !strings.Contains(err.Error(), `did you mean "cty"`) {
		t.Errorf("a table without a column: %v", err)
	}
}

// A table without names has numbered columns, which the schema names anew; each row counts. A chosen type is kept where values are of it.
func TestTablesWithoutNames(t *testing.T) {
	path := write(t, "clicks.tsv", "\ufeff1\t7\tu5\n0\t8\tu6\n1\t7\t\n")
	s, err := schema.Infer(t.Context(), []*schema.Table{openAs(t, path, schema.OpenUnnamed)},
		schema.InferOptions{Label: "c1", Types: []schema.ColumnType{{Type: schema.Key, Columns: []string{"c*"}}, {Type: schema.Category, Columns: []string{"c2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.Columns {
		got = append(got, fmt.Sprint(c.Name, " ", c.Type, c.Role, c.Vocabulary, c.Statistics.Values))
	}
	if want := []string{"c1 integerlabel[] 3", "c2 category[7 8] 3", "c3 key[] 2"}; !slices.Equal(got, want) || s.Header != "none" {
		t.Errorf("got %q, header %q", got, s.Header)
	}
	s.Columns[1].Name = "film"
	var records [][]byte
	keep := func(record []byte) error { records = append(records, slices.Clone(record)); return nil }
	if err := schema.Convert(t.Context(), s, []*schema.Table{openAs(t, path, s.Open)}, 1, keep, keep); err != nil || len(records) != 3 {
		t.Errorf("%d records, %v; want one of each row", len(records), err)
	}
	for content, want := range map[string]string{"1\t2\n": "3, as the schema has", "": "empty file"} {
		if err := tryOpenAs(write(t, "other.tsv", content), s.Open); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
	if err := tryOpenAs(write(t, "empty.csv", ""), schema.OpenUnnamed); err == nil || !strings.Contains(err.Error(), "want at least one row") {
		t.Errorf("an empty file without names: %v", err)
	}
	if err := tryOpenAs(write(t, "rows.jsonl", "{}"), s.Open); err == nil || !strings.Contains(err.Error(), "name their columns") {
		t.Errorf("JSON lines without names: %v", err)
	}
	for _, c := range []struct {
		columns schema.ColumnType
		want    string
	}{{schema.ColumnType{Type: schema.Date, Columns: []string{"c2"}}, `variable "c2"`}, {schema.ColumnType{Type: schema.Number, Columns: []string{"c3"}}, "numbers alone"},
		{schema.ColumnType{Type: "kay", Columns: []string{"c3"}}, `did you mean "key"`}, {schema.ColumnType{Type: schema.Key, Columns: []string{"d"}}, `no column "d"`},
		{schema.ColumnType{Type: schema.Key, Columns: []string{"c1"}}, `got the label "c1"`}, {schema.ColumnType{Type: schema.Bucket, Columns: []string{"c2"}}, "one of number"}, {schema.ColumnType{Type: schema.Key, Columns: []string{"[c"}}, "a pattern"}} {
		_, err := schema.Infer(t.Context(), []*schema.Table{openAs(t, path, schema.OpenUnnamed)}, schema.InferOptions{Label: "c1", Types: []schema.ColumnType{c.columns}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.columns, err, c.want)
		}
	}
	if _, err := schema.Read(strings.NewReader("version: 1\nmissing: []\nheader: no\ncolumns: [{name: a, type: number}]\n")); err == nil || !strings.Contains(err.Error(), "want none") {
		t.Errorf("another header: %v", err)
	}
}

func openAs(t testing.TB, path string, as func(*os.File, int64) (*schema.Table, error)) *schema.Table {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	table, err := as(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

// tryOpenAs returns why a table cannot be opened.
func tryOpenAs(path string, as func(*os.File, int64) (*schema.Table, error)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	table, err := as(f, 0)
	if err == nil {
		err = table.Close()
	}
	return err
}

// A file that is broken or cut is an error wherever it is, and never a shorter table.
func TestBrokenTables(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 1000 {
		fmt.Fprintf(z, "{\"a\": %d, \"b\": \"text %d\", \"y\": %d}\n", i, i*i, i%2)
	}
	z.Close()
	cut := map[string]string{
		"broken.jsonl": "{\"a\":1,\"y\":0}\n{\"a\":2,\"y\"\n{\"a\":3,\"y\":1}\n{\"a\":4,\"y\":1}\n", "last.jsonl": "{\"a\":1,\"y\":0}\n{\"a\":2,\"y\"",
		"one.csv": "1 2 3\n4 5 6\n", "rows.csv": "a,y\n", "quote.csv": "a,y\n1,0\n\"2,1\n", "short.csv": "a,y\n1,0\n2", "numbers.csv": "1,2\n3,4\n", "twice.csv": "a,a\n1,2\n", "again.csv": "a,y\na,y\n1,0\n", "empty.csv": "",
		"late.jsonl": strings.Repeat("{\"a\":1,\"y\":0}\n", 1200) + "{\"a\":1,\"y\":1,\"late\":2}\n",
	}
	for at := 0; at < packed.Len()-1; at += packed.Len() / 20 {
		cut[fmt.Sprintf("cut%d.jsonl.gz", at)] = packed.String()[:at]
	}
	for name, content := range cut {
		path := write(t, name, content)
		table, err := tryOpen(path)
		if err == nil {
			_, err = schema.Infer(t.Context(), []*schema.Table{table}, schema.InferOptions{})
			table.Close()
		}
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
}

// A column of JSON lines may come in any row where a schema has it. Columns of CSV are divided by the sign of the first line.
func TestLateColumnsAndOtherCommas(t *testing.T) {
	s := parse(t, "version: 1\nmissing: [\"\"]\ncolumns: [{name: a, type: integer}, {name: late, type: hash, size: 9}]\n")
	rows, _ := records(t, s, 1, open(t, write(t, "t.jsonl", strings.Repeat("{\"a\":1}\n", 1200)+"{\"a\":1,\"late\":2}\n")))
	if len(rows) != 1201 || bytes.Equal(rows[0], rows[1200]) {
		t.Errorf("%d records, the last one like the first: %v", len(rows), bytes.Equal(rows[0], rows[len(rows)-1]))
	}
	for _, comma := range []string{",", ";", "\t", "|"} {
		other, _ := records(t, s, 1, open(t, write(t, "t.csv", strings.ReplaceAll("a,late\n1,\n1,2\n", ",", comma))))
		if len(other) != 2 || !bytes.Equal(other[0], rows[0]) || !bytes.Equal(other[1], rows[1200]) {
			t.Errorf("columns between %q: %d records, or others", comma, len(other))
		}
	}
	_, err := schema.Read(strings.NewReader("version: 1\nmissing: []\ncolumns: [{name: a, type: category, separator: \"|\", vocabulary: [x, x|y]}]\n"))
	if err == nil || !strings.Contains(err.Error(), `"x|y", which the separator "|" divides`) {
		t.Errorf("a vocabulary of before the separator: %v", err)
	}
}

// A conversion ends with its context.
func TestConvertEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	table := open(t, write(t, "t.csv", "x,label\n"+strings.Repeat("1,0\n", 5000)))
	s, err := schema.Infer(t.Context(), []*schema.Table{open(t, write(t, "t.csv", "x,label\n1,0\n2,1\n"))}, schema.InferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = schema.Convert(ctx, s, []*schema.Table{table}, 2, func([]byte) error {
		if n++; n == 10 {
			cancel()
		}
		return nil
	}, nil)
	if !errors.Is(err, fault.Canceled) || n == 5000 {
		t.Errorf("%d records, %v", n, err)
	}
}

// What strangers may hand in: a schema with a row.
func FuzzEncode(f *testing.F) {
	f.Add(peopleSchema, `{"age":30,"city":"Bern","big":1,"tags":["a"],"born":"1990-05-01","note":"x","answer":"yes"}`)
	f.Add("version: 1\nmissing: [\"\"]\ncolumns: [{name: a, type: bucket, boundaries: [1, 2]}, {name: b, type: hash, size: 2, separator: words}]\n", `{"a":1.5,"b":"x y"}`)
	f.Add("version: 1\nmissing: []\nsplit: {by: a, after: 2020-01-01}\ncolumns: [{name: a, type: date, parts: [unix]}]\n", `{"a":"2021-01-01"}`)
	f.Fuzz(func(t *testing.T, text, line string) {
		s, err := schema.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		table, err := tryOpen(write(t, "a.jsonl", line))
		if err != nil {
			return
		}
		defer table.Close()
		var train [][]byte
		if err := schema.Convert(t.Context(), s, []*schema.Table{table}, 1, collect(&train), collect(&train)); err != nil {
			return
		}
		for _, record := range train {
			if tensors, err := dataset.DecodeRecord(record); err != nil || len(tensors) != len(s.Fields()) {
				t.Errorf("a record of %d tensors, %v, want %d", len(tensors), err, len(s.Fields()))
			}
		}
	})
}
