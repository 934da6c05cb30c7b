package schema

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset/internal/interrupt"
)

// A Summary is what tables have in a column.
type Summary struct {
	Column   string
	Values   int64      // rows with a value, each value of an array
	Missing  int64      // rows without one, or with a text that stands for none
	Numbers  Moments    // of the texts that are numbers
	Distinct int64      // texts, of which long ones count by their beginning; -1: more than 100,000, and Frequent is empty
	Frequent []Frequent // the most frequent first, at most 5
}

// A Frequent is a text, and how often it is there.
type Frequent struct {
	Text  string `json:"text"`
	Count int64  `json:"count"`
}

// mostFrequent is how many texts a Summary has.
const mostFrequent = 5

// Summarize reads tables to their end, and returns how many rows they have, and a summary of each column of all of them.
func Summarize(ctx context.Context, tables []*Table) (rows int64, columns []*Summary, err error) {
	missing := map[string]bool{}
	for _, text := range missingTexts {
		missing[text] = true
	}
	counters := map[*Summary]*counter{}
	for _, t := range tables {
		var of []*Summary
		for _, name := range t.Columns() {
			at := slices.IndexFunc(columns, func(s *Summary) bool { return s.Column == name })
			if at < 0 {
				at = len(columns)
				s := &Summary{Column: name, Missing: rows}
				columns, counters[s] = append(columns, s), newCounter(inferDistinct)
			}
			of = append(of, columns[at])
		}
		before := rows
		for {
			if err := interrupt.Check(ctx, "table"); err != nil {
				return rows, nil, err
			}
			row, err := t.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return rows, nil, err
			}
			rows++
			for i, s := range of {
				s.add(row.Cells[i], missing, counters[s])
			}
		}
		for _, s := range columns {
			if !slices.Contains(of, s) {
				s.Missing += rows - before
			}
		}
	}
	for _, s := range columns {
		s.keep(counters[s])
	}
	return rows, columns, nil
}

func (s *Summary) add(c Cell, missing map[string]bool, counts *counter) {
	texts := c.List
	if c.Kind == Text {
		texts = []string{c.Text}
	}
	if c.Kind == Nothing || c.Kind == Text && missing[c.Text] {
		s.Missing++
		return
	}
	for _, text := range texts {
		s.Values++
		if x, f := parseFloat(text); f == nil {
			s.Numbers.Add(x)
		}
		if len(text) > 100 { // a counter keeps each text that it has seen
			text = shortened(text)
		}
		counts.add(strings.Clone(text))
	}
}

// keep takes what was counted.
func (s *Summary) keep(counts *counter) {
	s.Frequent = []Frequent{}
	if counts.over {
		s.Distinct = -1
		return
	}
	s.Distinct = int64(len(counts.counts))
	all := counts.byFrequency()
	for _, text := range all[:min(len(all), mostFrequent)] {
		s.Frequent = append(s.Frequent, Frequent{text, counts.counts[text]})
	}
}
