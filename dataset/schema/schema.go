// Package schema says what becomes of the columns of a table: which fields of a training record they make, and how.
//
// A schema is a small file (YAML) that people read and change. Infer proposes one from the rows of a table, with what it has learned from them: the words
// of categories, means and deviations. An Encoder turns rows into tensors by a schema, and by nothing else. So training and serving, which have the same
// file, cannot differ.
//
// # Files in reading order
//
//	schema.go    the schema: columns, their types, the file
//	table.go     rows of CSV, TSV and JSON lines; parquet.go: of Parquet
//	split.go     which rows are for training, and which for the test
//	infer.go     a schema from rows; statistics.go: what is learned of a column
//	encode.go    tensors of a row
//	convert.go   the records of a table, made by several workers in the order of the rows
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/tensor"
)

// Version is that of the schema files that this package writes and reads.
const Version = 1

// Bounds on a schema.
const (
	maxFile    = 64 << 20 // bytes of the file
	maxColumns = 1 << 16
	maxWords   = 1 << 20 // of one vocabulary
	maxText    = 1 << 10 // bytes of a word of a vocabulary
	maxSize    = 1 << 40 // of a hash
)

// A Type says what the values of a column are, and so what they become.
type Type string

// Types of columns. All but Skip may have several values in a row, see Column.Separator; Number, Integer, Bucket and Date may not.
const (
	Number   Type = "number"   // float32: a finite number, scaled as Column.Scale says
	Integer  Type = "integer"  // int64: a whole number, exactly
	Category Type = "category" // int64: the place of a text in Column.Vocabulary, from 1; 0 for other texts. Of a label from 0, and other texts are errors
	Hash     Type = "hash"     // int64: 1 to Column.Size-1, by a hash of the text (XXH64); 0 where there is no value
	Key      Type = "key"      // int64: a key of a table that grows: a whole number itself, the hash of any other text; -1, which is no key, where there is no value
	Bucket   Type = "bucket"   // int64: how many of Column.Boundaries are at most the number, plus 1; 0 where there is no value
	Date     Type = "date"     // float32 for each of Column.Parts
	Skip     Type = "skip"     // nothing
)

var types = []Type{Number, Integer, Category, Hash, Key, Bucket, Date, Skip}

// Roles of columns.
const (
	Label  = "label"  // what is to be predicted: rows that are served do not have it
	Weight = "weight" // how much a row counts in training: rows that are served do not have it
)

// Scales of numbers.
const (
	Standard = "standard" // (x - mean) / deviation
	MinMax   = "minmax"   // (x - min) / (max - min)
	Log      = "log"      // the natural logarithm of 1 + x, for x >= 0
)

// parts are the parts of a date, and how many there are of each.
var parts = []string{"year", "month", "day", "weekday", "hour", "minute", "second", "unix"}

// Words is the separator that takes the words of a text: between spaces and punctuation, in lower case.
const Words = "words"

// noHeader is the Header of tables without names.
const noHeader = "none"

// A Column is what becomes of one column of a table.
type Column struct {
	Name string `yaml:"name"`
	// Field is the field of the record that the values go to. Columns of the same field are joined in their order. By default the name of the column.
	Field string `yaml:"field,omitempty"`
	Type  Type   `yaml:"type"`
	Role  string `yaml:"role,omitempty"`
	// Separator stands between several values of a row, or is Words. The field is then a sequence (1 LoD level), which may be empty. Arrays of JSON and
	// Parquet need it, too, and it does not matter which it is.
	Separator string `yaml:"separator,omitempty"`
	// Missing is what stands for a value that is not there: a number, or "mean". Without it such a row is an error, except for the types that have
	// a number of their own for it.
	Missing string `yaml:"missing,omitempty"`
	Scale   string `yaml:"scale,omitempty"`
	// Clip is the least and the largest number: numbers beyond become these. Before they are scaled.
	Clip       []float64   `yaml:"clip,omitempty,flow"`
	Size       int64       `yaml:"size,omitempty"`
	Boundaries []float64   `yaml:"boundaries,omitempty,flow"`
	Layout     string      `yaml:"layout,omitempty"` // of dates, as package time has it; by default RFC 3339, with or without a time
	Parts      []string    `yaml:"parts,omitempty,flow"`
	Vocabulary []string    `yaml:"vocabulary,omitempty,flow"`
	Statistics *Statistics `yaml:"statistics,omitempty,flow"`
}

// Split says which rows are the test set. The zero value: none.
type Split struct {
	Test  float64 `yaml:"test,omitempty"`  // the share of the rows, 0 to 1, by a hash of the row, so a row is in the same set each time
	By    string  `yaml:"by,omitempty"`    // the column to hash in place of the whole row: rows with the same value stay together
	Seed  uint64  `yaml:"seed,omitempty"`  // another one gives another test set
	After string  `yaml:"after,omitempty"` // in place of Test: rows whose By is this or later, as dates, else as numbers
}

// A Schema is what becomes of a table.
type Schema struct {
	Version int      `yaml:"version"`
	Missing []string `yaml:"missing,flow"` // texts that stand for no value, such as "" and "?"
	// Header is "none" where files of CSV and TSV have no names in their first row: their columns are Columns, in this order. By default their first row has the names.
	Header  string   `yaml:"header,omitempty"`
	Split   *Split   `yaml:"split,omitempty,flow"`
	Columns []Column `yaml:"columns"`
}

// Load reads the schema file at path and checks it. Errors name the file.
func Load(path string) (*Schema, error) {
	file, _, err := regularfile.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s, err := Read(file)
	if err != nil {
		var f *fault.Fault
		if errors.As(err, &f) {
			return nil, f.In(path, ", ")
		}
		return nil, fault.File(fault.Unavailable, path, err)
	}
	return s, nil
}

// Read reads a schema file and checks it. An unknown member is an error, because it is probably misspelt.
func Read(r io.Reader) (*Schema, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "schema", err)
	}
	if len(b) > maxFile {
		return nil, fault.E(fault.TooLarge, fault.Gotf("a schema of more than %d bytes", maxFile), fault.Want("a shorter one"), fault.Hint("take the type hash or key for columns with very many words"))
	}
	var s Schema
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		if unknown := unknownMember.FindStringSubmatch(err.Error()); unknown != nil {
			return nil, fault.E(fault.InvalidArgument, fault.At("line "+unknown[1]), fault.Got("the member "+fault.Quote(unknown[2])+", which a schema does not have"), fault.Want("those of docs/data.md"),
				fault.DidYouMean(unknown[2], members))
		}
		if wrong := new(yaml.TypeError); errors.As(err, &wrong) {
			err = nil // it speaks of types of Go
		}
		return nil, fault.E(fault.InvalidArgument, fault.Got("a file that is no schema"), fault.Want("version, missing and columns, as \"edl data infer\" writes them"), fault.Cause(err))
	}
	return &s, s.Check()
}

// unknownMember is what package yaml says of a member that a type does not have.
var unknownMember = regexp.MustCompile(`line ([0-9]+): field (\S+) not found`)

// members are those of a schema, its columns and its split.
var members = []string{"version", "missing", "header", "split", "columns", "name", "field", "type", "role", "separator", "scale", "clip", "size", "boundaries", "layout", "parts", "vocabulary", "statistics",
	"test", "by", "seed", "after"}

// Write writes a schema file.
func (s *Schema) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return err
	}
	return e.Close()
}

// Check reports every mistake of a schema, each with its column. It does not need statistics or vocabularies: NewEncoder does.
func (s *Schema) Check() error {
	var l fault.List
	if s.Version != Version {
		l.Add(fault.E(fault.InvalidArgument, fault.At("version"), fault.Gotf("%d", s.Version), fault.Wantf("%d", Version)))
	}
	if len(s.Columns) == 0 || len(s.Columns) > maxColumns {
		l.Add(fault.E(fault.InvalidArgument, fault.At("columns"), fault.Gotf("%d columns", len(s.Columns)), fault.Wantf("1 to %d", maxColumns)))
		return l.Err()
	}
	if s.Header != "" && s.Header != noHeader {
		l.Add(fault.E(fault.InvalidArgument, fault.At("header"), fault.Got(fault.Quote(s.Header)), fault.Want(noHeader+", or no member header where tables name their columns")))
	}
	seen := map[string]bool{}
	for i := range s.Columns {
		c := &s.Columns[i]
		if seen[c.Name] {
			l.Add(fault.E(fault.InvalidArgument, fault.Var(c.Name), fault.Got("the column again"), fault.Want("each column once")))
		}
		seen[c.Name] = true
		c.check(&l)
	}
	if split := s.Split; split != nil {
		switch {
		case split.After != "" && (split.Test != 0 || split.By == ""):
			l.Add(fault.E(fault.InvalidArgument, fault.At("split"), fault.Got("after"), fault.Want("by, the column with the time, and no test")))
		case split.Test < 0 || split.Test >= 1 || math.IsNaN(split.Test):
			l.Add(fault.E(fault.InvalidArgument, fault.At("split: test"), fault.Gotf("%v", split.Test), fault.Want("a share from 0 to below 1, such as 0.2")))
		}
	}
	if len(l) == 0 {
		if _, err := s.fields(); err != nil {
			return err
		}
	}
	return l.Err()
}

// check adds the mistakes of a column by itself.
func (c *Column) check(l *fault.List) {
	wrong := func(at, got, want string) {
		l.Add(fault.E(fault.InvalidArgument, fault.Var(c.Name), fault.At(at), fault.Got(got), fault.Want(want)))
	}
	if c.Name == "" {
		wrong("name", "no name", "the name of a column of the table")
	}
	if !slices.Contains(types, c.Type) {
		names := make([]string, len(types))
		for i, t := range types {
			names[i] = string(t)
		}
		l.Add(fault.E(fault.InvalidArgument, fault.Var(c.Name), fault.At("type"), fault.Got(fault.Quote(string(c.Type))), fault.Want("one of "+strings.Join(names, ", ")),
			fault.DidYouMean(string(c.Type), names)))
		return
	}
	if c.Role != "" && c.Role != Label && c.Role != Weight {
		wrong("role", fault.Quote(c.Role), "label, weight, or none")
	}
	// what only some types have; of a column that is skipped nothing counts, so that a person who skips one changes a word
	for _, member := range []struct {
		name  string
		there bool
		types []Type
	}{
		{"scale", c.Scale != "", []Type{Number}}, {"clip", c.Clip != nil, []Type{Number}}, {"size", c.Size != 0, []Type{Hash}},
		{"boundaries", c.Boundaries != nil, []Type{Bucket}}, {"layout", c.Layout != "", []Type{Date}}, {"parts", c.Parts != nil, []Type{Date}},
		{"vocabulary", c.Vocabulary != nil, []Type{Category}}, {"separator", c.Separator != "", []Type{Category, Hash, Key}},
		{"missing", c.Missing != "", []Type{Number, Integer, Date}},
	} {
		if member.there && c.Type != Skip && !slices.Contains(member.types, c.Type) {
			wrong(member.name, "a column of the type "+string(c.Type), fmt.Sprintf("none for this type; it is for %v", member.types))
		}
	}
	switch c.Type {
	case Number:
		c.checkNumber(wrong)
	case Integer:
		if _, f := parseInt(c.Missing); c.Missing != "" && f != nil {
			wrong("missing", fault.Quote(c.Missing), "a whole number")
		}
	case Category:
		c.checkVocabulary(wrong)
	case Hash:
		if c.Size < 2 || c.Size > maxSize {
			wrong("size", fmt.Sprint(c.Size), fmt.Sprintf("2 to %d, the rows of the table of embeddings", int64(maxSize)))
		}
	case Bucket:
		ordered := len(c.Boundaries) > 0
		for i, b := range c.Boundaries {
			ordered = ordered && !math.IsNaN(b) && (i == 0 || c.Boundaries[i-1] < b)
		}
		if !ordered {
			wrong("boundaries", fmt.Sprint(c.Boundaries), "numbers, each larger than the one before")
		}
	case Date:
		if len(c.Parts) == 0 {
			wrong("parts", "none", "some of "+strings.Join(parts, ", "))
		}
		for _, part := range c.Parts {
			if !slices.Contains(parts, part) {
				wrong("parts", fault.Quote(part), "some of "+strings.Join(parts, ", "))
			}
		}
		if _, f := parseFloat(c.Missing); c.Missing != "" && f != nil {
			wrong("missing", fault.Quote(c.Missing), "a number, which each part then has")
		}
	}
}

func (c *Column) checkNumber(wrong func(at, got, want string)) {
	if !slices.Contains([]string{"", Standard, MinMax, Log}, c.Scale) {
		wrong("scale", fault.Quote(c.Scale), "standard, minmax, log, or none")
	}
	if c.Clip != nil && (len(c.Clip) != 2 || !(c.Clip[0] < c.Clip[1])) {
		wrong("clip", fmt.Sprint(c.Clip), "two numbers, the smaller one first")
	}
	if _, f := parseFloat(c.Missing); c.Missing != "" && c.Missing != "mean" && f != nil {
		wrong("missing", fault.Quote(c.Missing), "a number, or mean")
	}
}

func (c *Column) checkVocabulary(wrong func(at, got, want string)) {
	if len(c.Vocabulary) > maxWords {
		wrong("vocabulary", fmt.Sprintf("%d texts", len(c.Vocabulary)), fmt.Sprintf("at most %d; the type hash or key needs none", maxWords))
		return
	}
	seen := make(map[string]bool, len(c.Vocabulary))
	for _, word := range c.Vocabulary {
		if c.Separator != "" && c.Separator != Words && strings.Contains(word, c.Separator) {
			wrong("vocabulary", fmt.Sprintf("%s, which the separator %s divides", fault.Quote(word), fault.Quote(c.Separator)), "the parts; leave the vocabulary out, and \"edl data infer TABLE --schema FILE -o FILE\" learns it anew")
			return
		}
		if len(word) > maxText || seen[word] {
			wrong("vocabulary", fault.Quote(word), fmt.Sprintf("each text once, and at most %d bytes", maxText))
		}
		seen[word] = true
	}
}

// field returns the name of the column's field.
func (c *Column) field() string {
	if c.Field != "" {
		return c.Field
	}
	return c.Name
}

// dtype returns the type of the numbers that the column becomes.
func (c *Column) dtype() tensor.DType {
	if c.Type == Number || c.Type == Date {
		return tensor.Float32
	}
	return tensor.Int64
}

// width returns how many numbers a value becomes.
func (c *Column) width() int64 {
	if c.Type == Date {
		return int64(len(c.Parts))
	}
	return 1
}

// sequence reports whether a row may have several values.
func (c *Column) sequence() bool { return c.Separator != "" }

// Values returns how many different numbers a column of int64 may have, 0 to Values-1: the rows of its table of embeddings, or the classes of a label. It is
// 0 if there is no such bound.
func (c *Column) Values() int64 {
	switch {
	case c.Type == Category && c.Role == Label:
		return int64(len(c.Vocabulary))
	case c.Type == Category:
		return int64(len(c.Vocabulary)) + 1
	case c.Type == Hash:
		return c.Size
	case c.Type == Bucket:
		return int64(len(c.Boundaries)) + 2
	case c.Type == Integer && c.Role == Label && c.Statistics != nil && c.Statistics.Min >= 0 && c.Statistics.Max < maxWords: // classes
		return int64(c.Statistics.Max) + 1
	}
	return 0
}

// InputColumns names the columns that are known where a model is used: all that become fields but labels and weights.
func (s *Schema) InputColumns() (names []string) {
	for i := range s.Columns {
		if c := &s.Columns[i]; c.Role == "" && c.Type != Skip {
			names = append(names, c.Name)
		}
	}
	return names
}

// A Field is one tensor of a record.
type Field struct {
	dataset.Field
	Columns []string // that make it, in order
	Type    Type     // of the first of these
	Values  int64    // see Column.Values; of several columns the largest
	Role    string
}

// Fields returns the fields of a record in their order: that in which the columns name them first.
func (s *Schema) Fields() []Field {
	fields, err := s.fields()
	if err != nil { // which Check has excluded
		return nil
	}
	return fields
}

// Classes returns how many classes the label has. It is an error if there is no label, or one without classes, such as a number.
func (s *Schema) Classes() (int64, error) {
	for _, f := range s.Fields() {
		switch {
		case f.Role != Label:
		case f.DType != tensor.Int64 || f.Values < 1:
			return 0, fault.E(fault.InvalidArgument, fault.At("role: label"), fault.Var(f.Name), fault.Got("a label without a vocabulary of classes"),
				fault.Want("the type category, with the vocabulary that \"edl data infer TABLE --schema FILE -o FILE\" learns; for a label that is a number, a loss such as layers.SquareErrorCost"))
		default:
			return f.Values, nil
		}
	}
	return 0, fault.E(fault.InvalidArgument, fault.At("columns"), fault.Got("none with role: label"), fault.Want("one, which \"edl data infer --label NAME\" marks"))
}

func (s *Schema) fields() ([]Field, error) {
	var fields []Field
	place := map[string]int{}
	for i := range s.Columns {
		c := &s.Columns[i]
		if c.Type == Skip {
			continue
		}
		at, there := place[c.field()]
		if !there {
			place[c.field()] = len(fields)
			f := Field{Field: dataset.Field{Name: c.field(), DType: c.dtype(), Dims: []int64{c.width()}}, Columns: []string{c.Name}, Type: c.Type, Values: c.Values(), Role: c.Role}
			if c.sequence() {
				f.LoDLevel = 1
			}
			fields = append(fields, f)
			continue
		}
		f := &fields[at]
		switch {
		case f.LoDLevel > 0 || c.sequence():
			return nil, fault.E(fault.InvalidArgument, fault.Var(c.Name), fault.At("field "+f.Name), fault.Got("a column with several values in a row, joined with "+f.Columns[0]),
				fault.Want("a field of its own"))
		case f.DType != c.dtype() || f.Role != c.Role:
			return nil, fault.E(fault.InvalidArgument, fault.Var(c.Name), fault.At("field "+f.Name), fault.Gotf("%v, role %q", c.dtype(), c.Role),
				fault.Wantf("%v, role %q, as %s of the same field", f.DType, f.Role, f.Columns[0]))
		}
		f.Dims[0] += c.width()
		f.Columns, f.Values = append(f.Columns, c.Name), max(f.Values, c.Values())
	}
	if len(fields) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("columns"), fault.Got("no column that becomes a field"), fault.Want("at least one that is not skipped"))
	}
	return fields, nil
}
