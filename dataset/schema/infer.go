package schema

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/bits"
	"path"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
)

// InferOptions says what a schema is inferred from besides the rows.
type InferOptions struct {
	// Label is the column to predict. Empty: the last one; "none": no column.
	Label string
	// Split becomes that of the schema. What is learned is learned from the rows for training alone.
	Split *Split
	// Types are what columns are, whatever their values look like. Of several for one column the last counts. They do not count for the label.
	Types []ColumnType
	// From is a schema whose columns and split are kept: only statistics and vocabularies that are empty are learned. Label, Split and Types must be empty.
	From *Schema
}

// A ColumnType says what some columns are.
type ColumnType struct {
	Type    Type
	Columns []string // names, or patterns as of path.Match, such as "c*"
	Where   string   // who says so, for errors, such as a flag; empty: "type T"
}

// inferable are the types that need nothing but values to be learned from.
var inferable = []Type{Number, Integer, Category, Hash, Key, Date, Skip}

// What an inferred schema takes for what.
const (
	inferCategory = 1000    // a column of at most so many different texts is a category, of more a hash
	inferClasses  = 1000    // a label of at most so many whole numbers from 0 on is a class
	inferDistinct = 100_000 // texts of a column that are counted
	inferWords    = 3       // a column of more words a row, in the mean, is text
	defaultField  = "numbers"
)

// missingTexts stand for no value in an inferred schema.
var missingTexts = []string{"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL"}

// Infer reads tables to their end and returns a schema for them: numbers are scaled by mean and deviation and joined in the field "numbers", columns of texts become
// categories or hashes, dates their parts. Each column of all tables is there. The result is a proposal, which a person should read.
func Infer(ctx context.Context, tables []*Table, options InferOptions) (*Schema, error) {
	s := options.From
	if s == nil {
		s = &Schema{Version: Version, Missing: missingTexts, Split: options.Split}
		for _, t := range tables {
			if t.unnamed {
				s.Header = noHeader
			}
			for _, name := range t.Columns() {
				if s.column(name) == nil {
					s.Columns = append(s.Columns, Column{Name: name})
				}
			}
		}
		label := options.Label
		if label == "" {
			label = s.Columns[len(s.Columns)-1].Name
		}
		if c := s.column(label); c != nil && len(s.Columns) == 1 {
			return nil, tables[0].placed(fault.E(fault.Corrupt, fault.Got("one column, "+fault.Quote(shortened(label))), fault.Want("a label and at least one column to predict it from"),
				fault.Hint("columns stand between commas, semicolons, tabs or bars")))
		} else if c != nil {
			c.Role = Label
		} else if label != "none" {
			return nil, noColumn(label, s.names())
		}
	}
	missing := map[string]bool{}
	for _, text := range s.Missing {
		missing[text] = true
	}
	learners := make([]*learner, len(s.Columns))
	for i := range s.Columns {
		learners[i] = newLearner(&s.Columns[i])
	}
	if err := choose(learners, options.Types); err != nil {
		return nil, err
	}
	rows := int64(0)
	for _, t := range tables {
		n, err := learnTable(ctx, s, t, learners, missing, options.From != nil)
		if rows += n; err != nil {
			return nil, err
		}
	}
	if rows == 0 {
		return nil, tables[0].placed(fault.E(fault.Corrupt, fault.Got("no row for training"), fault.Want("at least one")))
	}
	for _, l := range learners {
		l.missing = rows - l.values
		if options.From == nil {
			l.decide()
			if err := l.agrees(); err != nil {
				return nil, err
			}
		}
		if err := l.keep(); err != nil {
			return nil, err
		}
	}
	return s, s.Check()
}

// choose gives learners the types of their columns.
func choose(learners []*learner, types []ColumnType) error {
	for _, t := range types {
		where := cmp.Or(t.Where, "type "+string(t.Type))
		if !slices.Contains(inferable, t.Type) {
			names := make([]string, len(inferable))
			for i, known := range inferable {
				names[i] = string(known)
			}
			return fault.E(fault.InvalidArgument, fault.At(where), fault.Got(fault.Quote(string(t.Type))), fault.Want("one of "+strings.Join(names, ", ")), fault.DidYouMean(string(t.Type), names))
		}
		for _, pattern := range t.Columns {
			found := false
			var names []string
			for _, l := range learners {
				names = append(names, l.Name)
				match, err := path.Match(pattern, l.Name)
				if err != nil {
					return fault.E(fault.InvalidArgument, fault.At(where), fault.Got(fault.Quote(pattern)), fault.Want("a name, or a pattern such as c*"), fault.Cause(err))
				}
				if pattern == l.Name && l.Role != "" {
					return fault.E(fault.InvalidArgument, fault.At(where), fault.Got("the "+string(l.Role)+" "+fault.Quote(l.Name)), fault.Want("columns to predict from"),
						fault.Hint("Infer chooses the type of a label; change it in the schema"))
				}
				if match = match || pattern == l.Name; match && l.Role == "" {
					l.chosen = t.Type
				}
				found = found || match
			}
			if !found {
				return noColumn(pattern, names).In(where, ", ")
			}
		}
	}
	return nil
}

// shortened is the beginning of a long text, for a message.
func shortened(text string) string {
	const most = 60
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func (s *Schema) column(name string) *Column {
	for i := range s.Columns {
		if s.Columns[i].Name == name {
			return &s.Columns[i]
		}
	}
	return nil
}

func (s *Schema) names() []string {
	names := make([]string, len(s.Columns))
	for i := range s.Columns {
		names[i] = s.Columns[i].Name
	}
	return names
}

// learnTable shows the rows for training of a table to the learners of its columns, and returns how many there are.
// known says that the schema was given.
func learnTable(ctx context.Context, s *Schema, t *Table, learners []*learner, missing map[string]bool, known bool) (rows int64, err error) {
	if t.more != nil && known {
		t.more(s.names())
	}
	t.strict = !known
	split, err := splitterOf(s, t.Columns())
	if err != nil {
		return 0, t.placed(err)
	}
	places := make([]int, len(learners))
	for i := range learners {
		if places[i] = slices.Index(t.Columns(), s.Columns[i].Name); places[i] < 0 && s.Columns[i].Type != Skip {
			return 0, t.placed(noColumn(s.Columns[i].Name, t.Columns()))
		}
	}
	for {
		if err := interrupt.Check(ctx, "table"); err != nil {
			return rows, err
		}
		row, err := t.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		test, err := split.test(row)
		if err != nil {
			return rows, t.placed(err)
		}
		if test {
			continue
		}
		rows++
		for i, l := range learners {
			if places[i] < 0 {
				continue
			}
			if f := l.add(row.Cells[places[i]], missing); f != nil {
				f.Where, f.Variable = row.Place, l.Name
				return rows, t.placed(f)
			}
		}
	}
}

// A learner sees the values of a column.
type learner struct {
	*Column
	values, missing, lists int64
	texts                  *counter
	numbers                Moments
	words                  int64 // of all values
	chosen                 Type  // what the column is, whatever its values look like; empty: decide
	long                   bool  // a text is too long for a vocabulary
	// what all values are
	integers, floats, dates, times bool
}

func newLearner(c *Column) *learner {
	most := inferDistinct
	if c.Type == Category {
		most = maxWords
	}
	return &learner{Column: c, texts: newCounter(most), integers: true, floats: true, dates: true}
}

// add takes the value of a row.
func (l *learner) add(cell Cell, missing map[string]bool) *fault.Fault {
	switch {
	case l.Type == Skip, cell.Kind == Nothing, cell.Kind == Text && missing[cell.Text]:
		return nil
	case cell.Kind == List:
		l.lists++
		for _, text := range cell.List {
			l.addText(text)
		}
	case l.Separator == Words:
		for _, text := range wordsOf(cell.Text) {
			l.addText(text)
		}
	case l.Separator != "":
		for text := range strings.SplitSeq(cell.Text, l.Separator) {
			if text = strings.TrimSpace(text); !missing[text] {
				l.addText(text)
			}
		}
	case l.Type == Number, l.Type == Integer: // of a schema that is given
		x, f := parseFloat(cell.Text)
		if f != nil {
			return f
		}
		l.numbers.Add(l.clipped(x))
	default:
		l.addText(cell.Text)
	}
	l.values++
	return nil
}

func (l *learner) addText(text string) {
	if l.Type == "" {
		if l.integers {
			_, f := parseInt(text)
			l.integers = f == nil
		}
		if l.floats {
			x, f := parseFloat(text)
			if l.floats = f == nil; l.floats {
				l.numbers.Add(x)
			}
		}
		if l.dates {
			t, f := parseDate(text, "")
			l.dates = f == nil
			l.times = l.times || t.Hour() != 0 || t.Minute() != 0
		}
		if !l.floats && !l.dates {
			l.words += int64(1 + strings.Count(text, " "))
		}
	}
	l.long = l.long || len(text) > maxText
	if l.Type == "" || l.Type == Category {
		l.texts.add(text)
	}
}

// decide chooses a type.
func (l *learner) decide() {
	c, distinct := l.Column, len(l.texts.counts)
	name := strings.ToLower(c.Name)
	identifies := name == "id" || strings.HasSuffix(name, "_id") || strings.HasSuffix(c.Name, "Id") || strings.HasSuffix(c.Name, "ID")
	few := !l.texts.over && distinct <= inferCategory && !l.long
	if l.lists > 0 {
		c.Separator = ","
	}
	switch {
	case l.chosen == Skip:
		c.Type = Skip
	case l.chosen == Number:
		l.becomeNumber()
	case l.chosen == Date:
		l.becomeDate()
	case l.chosen == Hash:
		c.Type, c.Size = Hash, l.tableSize()
	case l.chosen != "":
		c.Type = l.chosen
	case l.values == 0, c.Role == "" && !l.texts.over && distinct == 1: // which says nothing
		c.Type = Skip
	case c.Role == "" && l.unique(identifies): // which says nothing of other rows
		c.Type = Skip
	case c.Role == Label:
		l.decideLabel(few)
	case l.lists > 0 && few:
		c.Type = Category
	case l.lists > 0, l.floats && identifies && !few:
		c.Type, c.Size = Hash, l.tableSize()
	case l.floats && identifies:
		c.Type = Category
	case l.floats:
		l.becomeNumber()
	case l.dates:
		l.becomeDate()
	case few:
		c.Type = Category
	case l.words > inferWords*l.values:
		c.Type, c.Separator, c.Size = Hash, Words, 1<<17
	default:
		c.Type, c.Size = Hash, l.tableSize()
	}
}

func (l *learner) becomeNumber() {
	if l.Type, l.Field, l.Scale = Number, defaultField, Standard; l.missing > 0 {
		l.Missing = "mean"
	}
}

func (l *learner) becomeDate() {
	if l.Type, l.Parts = Date, []string{"month", "weekday"}; l.times {
		l.Parts = append(l.Parts, "hour")
	}
	if l.missing > 0 {
		l.Missing = "0"
	}
}

// agrees checks that the values are of the type that was chosen for them.
func (l *learner) agrees() error {
	of, ok := "", true
	switch l.chosen {
	case Number:
		of, ok = "numbers", l.floats && l.lists == 0
	case Integer:
		of, ok = "whole numbers", l.integers && l.lists == 0
	case Date:
		of, ok = "dates, such as 2006-01-02", l.dates && l.lists == 0
	}
	if l.values == 0 || ok {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Var(l.Name), fault.Got("other values"), fault.Wantf("%s alone, as its type %s asks for", of, l.chosen),
		fault.Hint("write texts that stand for no value into the member missing of the schema"))
}

// unique reports whether nearly each row has a value of its own, in a column that names rows, or of texts that are no sentences.
func (l *learner) unique(identifies bool) bool {
	own := int64(len(l.texts.counts))
	return l.lists == 0 && l.values > 100 && (l.texts.over && l.values < 2*inferDistinct || !l.texts.over && own > l.values-l.values/100) &&
		(identifies || !l.floats && !l.dates && l.words <= inferWords*l.values)
}

func (l *learner) decideLabel(few bool) {
	distinct := len(l.texts.counts)
	switch {
	case l.integers && few && distinct <= inferClasses && l.numbers.Min == 0 && l.numbers.Max == float64(distinct-1):
		l.Type = Integer
	case l.floats:
		l.Type = Number
	default:
		l.Type = Category
	}
}

// tableSize is the size of a hash in which few texts meet: four times as many as there are, as a power of two from 2^12 to 2^20.
func (l *learner) tableSize() int64 {
	n := inferDistinct
	if !l.texts.over {
		n = len(l.texts.counts)
	}
	return 1 << min(max(bits.Len(uint(4*n-1)), 12), 20)
}

// keep writes what was learned into the column.
func (l *learner) keep() error {
	if l.Type == Skip {
		return nil
	}
	s := &Statistics{Values: l.values, Missing: l.missing}
	if !l.texts.over {
		s.Distinct = int64(len(l.texts.counts))
	}
	if (l.Type == Number || l.Type == Integer) && l.numbers.N > 0 {
		s.Min, s.Max, s.Mean, s.Deviation = l.numbers.Min, l.numbers.Max, l.numbers.Mean, l.numbers.Deviation()
	}
	l.Statistics = s
	if l.Type != Category || len(l.Vocabulary) > 0 {
		return nil
	}
	if l.texts.over || l.long || len(l.texts.counts) == 0 {
		got := fmt.Sprintf("more than %d different texts", l.texts.most)
		if !l.texts.over {
			got = "no text, or one that is too long"
		}
		return fault.E(fault.TooLarge, fault.Var(l.Name), fault.Got(got), fault.Wantf("1 to %d of at most %d bytes", l.texts.most, maxText), fault.Hint("give the column the type hash or key"))
	}
	if l.Role == Label {
		l.Vocabulary = l.texts.inOrder()
	} else {
		l.Vocabulary = l.texts.byFrequency()
	}
	return nil
}
