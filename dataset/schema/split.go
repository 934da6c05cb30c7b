package schema

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/edl-go/edl/fault"
)

// A splitter knows which rows are for the test.
type splitter struct {
	split  Split
	cells  []int // places of the columns that are hashed
	limit  uint64
	layout string
	after  float64
	digest *xxhash.Digest
}

// splitterOf resolves a split against the columns of a table. nil: all rows are for training.
func splitterOf(s *Schema, columns []string) (*splitter, error) {
	if s.Split == nil || s.Split.Test == 0 && s.Split.After == "" {
		return nil, nil
	}
	p := &splitter{split: *s.Split, digest: xxhash.New()}
	for i := range s.Columns { // in this order, which all tables share
		if name := s.Columns[i].Name; p.split.By == "" || p.split.By == name {
			if at := slices.Index(columns, name); at >= 0 {
				p.cells, p.layout = append(p.cells, at), s.Columns[i].Layout
			}
		}
	}
	if p.split.By != "" && len(p.cells) == 0 {
		at := slices.Index(columns, p.split.By)
		if at < 0 {
			return nil, noColumn(p.split.By, columns)
		}
		p.cells = []int{at}
	}
	// 2^64 times the share, in steps of 2^-53 of it
	p.limit = uint64(p.split.Test*(1<<53)) << 11
	if p.split.After != "" {
		var f *fault.Fault
		if p.after, f = p.time(p.split.After); f != nil {
			f.Where = "split: after"
			return nil, f
		}
	}
	return p, nil
}

// time reads a date as seconds of Unix time, or else a number.
func (p *splitter) time(text string) (float64, *fault.Fault) {
	if t, f := parseDate(text, p.layout); f == nil {
		return float64(t.Unix()) + float64(t.Nanosecond())/1e9, nil
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(x) {
		return x, nil
	}
	return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a date or a number"))
}

// test reports whether a row is for the test. A row without a value in the column of an After is for training.
func (p *splitter) test(row Row) (bool, error) {
	if p == nil {
		return false, nil
	}
	if p.split.After != "" {
		cell := row.Cells[p.cells[0]]
		if cell.Kind != Text || cell.Text == "" {
			return false, nil
		}
		x, f := p.time(cell.Text)
		if f != nil {
			f.Where, f.Variable = row.Place, p.split.By
			return false, f
		}
		return x >= p.after, nil
	}
	p.digest.Reset()
	p.number(p.split.Seed)
	for _, at := range p.cells {
		p.cell(row.Cells[at])
	}
	return p.digest.Sum64() < p.limit, nil
}

func (p *splitter) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	p.digest.Write(b[:]) // a hash never fails
}

// cell hashes a cell with its kind and lengths, so that no two rows look alike.
func (p *splitter) cell(c Cell) {
	p.number(uint64(c.Kind)<<32 | uint64(len(c.List)))
	for _, text := range append(c.List[:len(c.List):len(c.List)], c.Text) {
		p.number(uint64(len(text)))
		p.digest.WriteString(text)
	}
}

func noColumn(name string, columns []string) *fault.Fault {
	want := fmt.Sprintf("one of the %d columns of the table", len(columns))
	if len(columns) <= maxNamed {
		quoted := make([]string, len(columns))
		for i, c := range columns {
			quoted[i] = fault.Quote(c)
		}
		want = "one of the columns of the table: " + strings.Join(quoted, ", ")
	}
	return fault.E(fault.NotFound, fault.Got("no column "+fault.Quote(name)), fault.Want(want), fault.DidYouMean(name, columns))
}

// maxNamed bounds the columns that an error names.
const maxNamed = 12
